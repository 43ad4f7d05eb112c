# Builds for other systems with zig, which brings their headers and libraries:
# cmake -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DSAFETENSORS_ZIG_TARGET=aarch64-macos
#
# Zig is a program, or the package `ziglang` of Python: SAFETENSORS_ZIG is "zig" or "/path/to/python;-m;ziglang".
set(SAFETENSORS_ZIG_TARGET "" CACHE STRING "A target of zig, such as aarch64-macos or x86_64-linux-musl")
if(NOT SAFETENSORS_ZIG)
  find_program(safetensors_zig_program zig)
  if(safetensors_zig_program)
    set(SAFETENSORS_ZIG ${safetensors_zig_program})
  else()
    set(SAFETENSORS_ZIG "python3;-m;ziglang")
  endif()
endif()
set(SAFETENSORS_ZIG "${SAFETENSORS_ZIG}" CACHE STRING "The command of zig")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SAFETENSORS_ZIG_TARGET SAFETENSORS_ZIG)

if(NOT SAFETENSORS_ZIG_TARGET MATCHES "^([a-z0-9_]+)-([a-z]+)")
  message(FATAL_ERROR "SAFETENSORS_ZIG_TARGET is \"${SAFETENSORS_ZIG_TARGET}\", expected a target such as aarch64-macos")
endif()
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
set(safetensors_zig_macos Darwin)
set(safetensors_zig_linux Linux)
set(safetensors_zig_windows Windows)
set(safetensors_zig_wasi WASI)
set(CMAKE_SYSTEM_NAME ${safetensors_zig_${CMAKE_MATCH_2}})
if(NOT CMAKE_SYSTEM_NAME)
  message(FATAL_ERROR "SAFETENSORS_ZIG_TARGET is \"${SAFETENSORS_ZIG_TARGET}\", expected macos, linux, windows or wasi")
endif()

# CMake wants one program per tool, and a compiler that is found by its path. So each tool is a script.
set(safetensors_zig_tools ${CMAKE_BINARY_DIR}/zig)
if(CMAKE_BINARY_DIR MATCHES "CMakeScratch|CMakeTmp|TryCompile")  # a try_compile() of the build, which has them
  set(safetensors_zig_tools ${SAFETENSORS_ZIG_TOOLS})
endif()
set(SAFETENSORS_ZIG_TOOLS ${safetensors_zig_tools} CACHE INTERNAL "The scripts that start zig")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SAFETENSORS_ZIG_TOOLS)
list(JOIN SAFETENSORS_ZIG "' '" safetensors_zig_command)
foreach(safetensors_zig_tool IN ITEMS cc c++ ar ranlib)
  set(safetensors_zig_options "")
  if(safetensors_zig_tool MATCHES "^c")
    set(safetensors_zig_options " -target ${SAFETENSORS_ZIG_TARGET} -fno-sanitize=undefined")  # zig turns it on without -O2
  endif()
  file(CONFIGURE OUTPUT ${safetensors_zig_tools}/${safetensors_zig_tool} @ONLY
    CONTENT "#!/bin/sh\nexec '${safetensors_zig_command}' ${safetensors_zig_tool}${safetensors_zig_options} \"$@\"\n")
  file(CHMOD ${safetensors_zig_tools}/${safetensors_zig_tool}
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
set(CMAKE_C_COMPILER ${safetensors_zig_tools}/cc)
set(CMAKE_CXX_COMPILER ${safetensors_zig_tools}/c++)
set(CMAKE_AR ${safetensors_zig_tools}/ar)
set(CMAKE_RANLIB ${safetensors_zig_tools}/ranlib)

# Zig's C++ library for WASI has no exceptions.
if(CMAKE_SYSTEM_NAME STREQUAL "WASI")
  set(CMAKE_CXX_FLAGS_INIT "-fno-exceptions -fno-rtti")
endif()

# Libraries and headers of this machine do not fit.
set(CMAKE_FIND_ROOT_PATH /nonexistent)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
