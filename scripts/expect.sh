# Tells what the checks of packages find. Sourced by scripts/check-packages, check-packaging and check-wheels.
# shellcheck shell=bash

fail() {
  echo "$*" >&2
  exit 1
}
ok() { echo "ok: $*"; }
# expect TEXT COMMAND...: the command must print the text, on stdout or stderr.
expect() {
  local output
  output=$("${@:2}" 2>&1 || true)
  if [[ $output != *"$1"* ]]; then fail "$(printf 'expected %s from %s, found:\n%s' "$1" "${*:2}" "$output")"; fi
}
