# Builds for other systems: Windows, macOS, musl, an older libc++, and no exceptions. Sourced by
# scripts/check for its step `ports`. Zig comes from PyPI, as a package of Python.
# shellcheck shell=bash
# shellcheck disable=SC2154  # trees, jobs and root come from scripts/check

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

# for_zig TARGET DIRECTORY OPTIONS...: configures a tree for a target of zig.
for_zig() {
  cmake -S "${source:-.}" -B "$trees/ports/$2" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/cmake/zig.cmake" \
    -DSAFETENSORS_ZIG_TARGET="$1" "-DSAFETENSORS_ZIG=$trees/ports/tools/bin/python;-m;ziglang" "${@:3}"
}

# The library and the command compile and link.
port_linked() {
  for_zig "$1" "$1" -DSAFETENSORS_USE_OPENSSL=OFF -DSAFETENSORS_WERROR=ON -Dfmt_DIR="$trees/ports/packages"
  cmake --build "$trees/ports/$1" -j "$jobs"
}

# zig_tests TARGET TARGETS...: builds GoogleTest, and targets of the tests.
zig_tests() {
  local flags=(-DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O1 -DCMAKE_CXX_FLAGS=-O1)
  source=/usr/src/googletest for_zig "$1" "$1/googletest" "${flags[@]}" -DBUILD_GMOCK=OFF \
    -DCMAKE_INSTALL_PREFIX="$trees/ports/$1/installed" -DCMAKE_INSTALL_LIBDIR=lib
  cmake --build "$trees/ports/$1/googletest" -j "$jobs" --target install
  for_zig "$1" "$1/build" "${flags[@]}" -DSAFETENSORS_BUILD_TESTS=ON -DSAFETENSORS_BUILD_EXAMPLES=OFF \
    -DSAFETENSORS_WERROR=OFF -DSAFETENSORS_USE_OPENSSL=OFF -DCMAKE_DISABLE_FIND_PACKAGE_simdjson=ON \
    -DGTest_DIR="$trees/ports/$1/installed/lib/cmake/GTest" -Dfmt_DIR="$trees/ports/packages"
  cmake --build "$trees/ports/$1/build" -j "$jobs" --target "${@:2}"
}
port_musl() {
  local program
  zig_tests "$1" base_test json_test format_test format_conformance_test os_test io_test
  # A static program of musl cannot load libraries.
  for program in base json format format_conformance os io; do
    "$trees/ports/$1/build/tests/${program}_test" --gtest_filter=-DynamicLibrary.*
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
  local machine=(-G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O1 -DCMAKE_CXX_FLAGS=-O1
    -DCMAKE_TOOLCHAIN_FILE="$root/cmake/mingw-w64.cmake")
  cmake -S /usr/src/googletest -B "$directory/googletest" "${machine[@]}" -DBUILD_GMOCK=OFF \
    -DCMAKE_INSTALL_PREFIX="$directory/installed" -DCMAKE_INSTALL_LIBDIR=lib
  cmake --build "$directory/googletest" -j "$jobs" --target install
  cmake -S . -B "$directory/build" "${machine[@]}" -DSAFETENSORS_BUILD_TESTS=ON -DSAFETENSORS_BUILD_EXAMPLES=OFF \
    -DSAFETENSORS_USE_OPENSSL=OFF -DCMAKE_DISABLE_FIND_PACKAGE_simdjson=ON \
    -DGTest_DIR="$directory/installed/lib/cmake/GTest" -Dfmt_DIR="$trees/ports/packages"
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
