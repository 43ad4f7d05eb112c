# Runs the steps of scripts/demo and scripts/test, one line per step. Both scripts use one build tree and one Python
# environment, so the second script compiles only what the first one did not. Sourced by both, in the root of the project.
# shellcheck shell=bash

tree=$PWD/build/try
environment=$PWD/build/try-python
log=$(mktemp)
# A watcher that ends as soon as it starts may still have the trap of this shell.
trap 'if ((BASHPID == $$)); then rm -f "$log" "$log.python"; fi' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONPYCACHEPREFIX=$PWD/build/try-pycache

# expect YARDSTICKS: prints how long the rest of the script will take on this machine, if nothing is built yet. It parses a
# header for about a second, the yardstick. With two processors the rest takes YARDSTICKS times as long.
expect() {
  local start seconds
  start=$(date +%s%N)
  # shellcheck disable=SC2086  # CXX may have options
  ${CXX:-c++} -std=c++20 -x c++ -fsyntax-only - <<<'#include <regex>' || return 0
  seconds=$((($(date +%s%N) - start) * $1 * 2 / $(nproc) / 1000000000))
  echo "about $seconds s on this machine, less if a part is built"
}

# step TEXT COMMAND...: runs the command, and prints its seconds. Shows the output of the command only if it fails.
# `set -e` has no effect inside of the command, so the commands of a function must be chained.
step() {
  local start=$SECONDS watcher code=0
  : >"$log"
  watch "$1" &
  watcher=$!
  "${@:2}" >"$log" 2>&1 </dev/null || code=$?
  { kill "$watcher" && wait "$watcher"; } 2>/dev/null || true
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
  if ((code)); then
    printf '%-48s FAILED\n' "$1"
    tail -n 60 "$log" >&2
    exit 1
  fi
  printf '%-48s %4d s\n' "$1" $((SECONDS - start))
}

# watch TEXT: shows the progress of a step, on a terminal every second in one line, else every 10 seconds in a new line.
watch() {
  local start=$SECONDS pause=10 before='  ' after='\n'
  if [[ -t 1 ]]; then pause=1 before='\r\033[K' after=; fi
  while sleep "$pause" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    printf '%b%-48s %4d s%s%b' "$before" "$1" $((SECONDS - start)) "$(progress)" "$after"
  done
}

# Prints the last progress in the log: "[12/80]" of ninja and of the Python tests, or "12/80 Test" of ctest.
progress() {
  tail -n 200 "$log" 2>/dev/null | grep -aoE '\[ *[0-9]+/[0-9]+\]|^ *[0-9]+/[0-9]+ Test' | tail -n 1 | tr -d ' []Test' | sed 's/^/, /' || true
}

# install_all GROUP PACKAGES...: installs the Debian packages of a group, and makes an environment with Python packages and
# the tools that build our package. Each of the two keeps one processor busy, so they run at the same time. A user who
# may not install Debian packages gets one message that names them all.
install_all() {
  if ((${install:-1})) && { ((EUID == 0)) || command -v sudo >/dev/null; }; then scripts/install-dependencies python; fi
  install_python "${@:2}" >"$log.python" 2>&1 </dev/null &
  if ((${install:-1})); then scripts/install-dependencies "$1"; fi
  step "Python packages" finish_python $!
}
install_python() {
  python3 -m venv "$environment" &&
    "$environment/bin/pip" install --quiet --no-compile scikit-build-core nanobind "$@"
}
finish_python() {
  wait "$1" && return
  cat "$log.python"
  return 1
}

# build_package: builds and installs all. -O0 takes as long as -Og, -O2 half as long again. GCC's larger heap saves a twelfth.
build_package() {
  "$environment/bin/pip" install -v --no-compile --no-build-isolation --no-deps --force-reinstall \
    --config-settings=cmake.build-type=RelWithDebInfo --config-settings=cmake.define.CMAKE_UNITY_BUILD_BATCH_SIZE=32 \
    "--config-settings=cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=-Og -DNDEBUG --param ggc-min-heapsize=500000" \
    --config-settings=build-dir="$tree" "--config-settings=build.targets=safetensors_native;safetensors_cli" .
}
