# Builds for other systems: Windows, macOS, musl, an older libc++, and no exceptions. Sourced by
# scripts/check for its step `ports`. Zig comes from PyPI, as a package of Python.
# shellcheck shell=bash
# shellcheck disable=SC2154  # trees, jobs, root, fast, and with_googletest, come from scripts/check

ports() {
  local tools=$trees/ports/tools
  if [[ ! -x $tools/bin/python ]]; then python3 -m venv "$tools"; fi
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check ziglang
  # shellcheck source=scripts/zig.sh
  . scripts/zig.sh
  fmt_package "$trees/ports/packages"
  port macos_arm port_linked aarch64-macos
  port macos_x86 port_linked x86_64-macos
  port macos_tests zig_tests aarch64-macos all
  port musl port_musl x86_64-linux-musl
  port musl_arm port_musl_arm
  port windows port_windows
  port windows_zig port_windows_zig
  port libcxx port_libcxx 16
  port small port_small
}

port() { # NAME COMMAND...: runs a part
  echo "== $1"
  "${@:2}"
}

# for_zig TARGET: sets `machine`, the options of CMake for a target of zig.
for_zig() {
  machine=(-DCMAKE_TOOLCHAIN_FILE="$root/cmake/zig.cmake" -DSAFETENSORS_ZIG_TARGET="$1"
    "-DSAFETENSORS_ZIG=$trees/ports/tools/bin/python;-m;ziglang")
}

# The library and the command compile and link.
port_linked() {
  local machine
  for_zig "$1"
  cmake -S . -B "$trees/ports/$1" -G Ninja "${machine[@]}" -DSAFETENSORS_USE_OPENSSL=OFF -DSAFETENSORS_WERROR=ON \
    -Dfmt_DIR="$trees/ports/packages"
  cmake --build "$trees/ports/$1" -j "$jobs"
}

# zig_tests TARGET TARGETS...: builds GoogleTest, and targets of the tests.
zig_tests() {
  local machine
  for_zig "$1"
  with_googletest "$trees/ports/$1" "${machine[@]}" -DSAFETENSORS_BUILD_EXAMPLES=OFF -DSAFETENSORS_WERROR=OFF
  cmake --build "$trees/ports/$1/build" -j "$jobs" --target "${@:2}"
}
port_musl() {
  local program
  zig_tests "$1" base_test json_test format_test format_conformance_test os_test io_test
  for program in base json format format_conformance os io; do
    "$trees/ports/$1/build/tests/${program}_test"
  done
}
port_musl_arm() {
  zig_tests aarch64-linux-musl format_conformance_test
  qemu-aarch64-static "$trees/ports/aarch64-linux-musl/build/tests/format_conformance_test"
}

# Library, command and tests, built with mingw-w64. The tests run under Wine. tests/support/windows/left_out.cmake lists
# those that do not.
port_windows() {
  local directory=$trees/ports/windows
  with_googletest "$directory" -DCMAKE_TOOLCHAIN_FILE="$root/cmake/mingw-w64.cmake" -DSAFETENSORS_BUILD_EXAMPLES=OFF \
    "-DCMAKE_CXX_FLAGS=$fast"
  cmake --build "$directory/build" -j "$jobs" -- -k 0
  WINEPREFIX=$directory/wine WINEDEBUG=-all ctest --test-dir "$directory/build" --no-tests=error -LE misuse
}

# Library and command, built by clang with libc++. The command for x86-64 runs under Wine.
port_windows_zig() {
  local wine
  wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
  port_linked x86_64-windows-gnu
  port_linked aarch64-windows-gnu
  WINEPREFIX=$trees/ports/windows/wine WINEDEBUG=-all "$wine" "$trees/ports/x86_64-windows-gnu/safetensors.exe" \
    verify tests/data/conformance/cases/all_whitespace_kinds_trailing.safetensors
}

# port_libcxx VERSION: the library compiles with libc++. Its package excludes others, so it is unpacked.
port_libcxx() {
  local directory=$trees/ports/libcxx-$1
  mkdir -p "$directory/packages"
  (cd "$directory/packages" && apt-get -qq download "libc++-$1-dev" && dpkg -x libc++-"$1"-dev_*.deb "$directory")
  cmake -S . -B "$directory/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug "${with_clang[@]}" \
    -DSAFETENSORS_BUILD_CLI=OFF -DSAFETENSORS_WERROR=ON \
    "-DCMAKE_CXX_FLAGS=-nostdinc++ -isystem $directory/usr/lib/llvm-$1/include/c++/v1"
  cmake --build "$directory/build" -j "$jobs" --target safetensors
}
# The library compiles without exceptions and RTTI, and as C++23.
port_small() {
  local common=(-G Ninja -DCMAKE_BUILD_TYPE=Debug -DSAFETENSORS_BUILD_CLI=OFF
    -DSAFETENSORS_WERROR=ON)
  cmake -S . -B "$trees/ports/no_exceptions" "${common[@]}" "-DCMAKE_CXX_FLAGS=-fno-exceptions -fno-rtti"
  cmake --build "$trees/ports/no_exceptions" -j "$jobs" --target safetensors
  cmake -S . -B "$trees/ports/cpp23" "${common[@]}" -DCMAKE_CXX_STANDARD=23
  cmake --build "$trees/ports/cpp23" -j "$jobs" --target safetensors
}
