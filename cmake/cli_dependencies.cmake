# The command is built with fmt, which is found on the system, else fetched and checked against a pinned hash. It is
# also built with RE2 and with libcrypto of OpenSSL if the system has them.
#
# Sets SAFETENSORS_CLI_POSSIBLE. If true, link safetensors_cli_dependencies. If not, one line says why, and the build
# goes on without the command. Without RE2, another line says so, and `rename` takes only --map.
set(SAFETENSORS_CLI_POSSIBLE FALSE)

include(${CMAKE_CURRENT_LIST_DIR}/fetch.cmake)
add_library(safetensors_cli_dependencies INTERFACE)

find_package(fmt 8 QUIET)
if(fmt_FOUND)
  # Without FMT_HEADER_ONLY, which would compile fmt in every file: cli/text/formatted.cpp compiles it once.
  target_include_directories(safetensors_cli_dependencies SYSTEM INTERFACE
    $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
else()
  safetensors_fetch(fmt https://github.com/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz
    5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2 fmt-9.1.0/include)
  target_include_directories(safetensors_cli_dependencies SYSTEM INTERFACE ${fmt_folder})
endif()

if(fmt_FOUND OR fmt_folder)
  set(SAFETENSORS_CLI_POSSIBLE TRUE)
else()
  message(STATUS "The safetensors command is left out: fmt 8+ is neither installed nor could it be fetched (Debian: "
                 "apt-get install libfmt-dev)")
endif()

# Sets `result` to whether a program with RE2 and these libraries can be linked.
function(safetensors_try_re2 result)
  set(CMAKE_REQUIRED_LIBRARIES ${ARGN} Threads::Threads)
  check_cxx_source_compiles("#include <re2/re2.h>\nint main() { return re2::RE2(\"a\").ok() ? 0 : 1; }" ${result})
endfunction()

# A static RE2 before 2023-07 needs no other library, as the wheel wants it. A newer one needs Abseil, which only its
# CMake package names. A wheel does not use that, because the libraries may be shared.
include(CheckCXXSourceCompiles)
find_path(SAFETENSORS_RE2_INCLUDE re2/re2.h)
find_library(SAFETENSORS_RE2_LIBRARY NAMES libre2.a)
mark_as_advanced(SAFETENSORS_RE2_INCLUDE SAFETENSORS_RE2_LIBRARY)
set(safetensors_re2 "")
if(SAFETENSORS_RE2_INCLUDE AND SAFETENSORS_RE2_LIBRARY)
  set(CMAKE_REQUIRED_INCLUDES ${SAFETENSORS_RE2_INCLUDE})
  safetensors_try_re2(SAFETENSORS_RE2_STATIC ${SAFETENSORS_RE2_LIBRARY})
  if(SAFETENSORS_RE2_STATIC)
    set(safetensors_re2 ${SAFETENSORS_RE2_LIBRARY})
    target_include_directories(safetensors_cli_dependencies SYSTEM INTERFACE ${SAFETENSORS_RE2_INCLUDE})
  endif()
  unset(CMAKE_REQUIRED_INCLUDES)
endif()
if(NOT safetensors_re2 AND NOT SAFETENSORS_BUILD_PYTHON)
  find_package(re2 CONFIG QUIET)
  if(TARGET re2::re2)
    safetensors_try_re2(SAFETENSORS_RE2_PACKAGE re2::re2)
    if(SAFETENSORS_RE2_PACKAGE)
      set(safetensors_re2 re2::re2)
    endif()
  endif()
endif()
if(safetensors_re2)
  target_link_libraries(safetensors_cli_dependencies INTERFACE ${safetensors_re2} Threads::Threads)
  target_compile_definitions(safetensors_cli_dependencies INTERFACE SAFETENSORS_HAVE_RE2)
else()
  message(STATUS "`safetensors rename` takes no expressions: RE2 is not installed (Debian: apt-get install libre2-dev)")
endif()

# `hash` and `verify --cache` compute SHA-256 with libcrypto. A wheel and a static command link a static one.
option(SAFETENSORS_USE_OPENSSL "Compute SHA-256 with libcrypto of OpenSSL 3" ON)
if(SAFETENSORS_USE_OPENSSL)
  find_package(OpenSSL 3.0 QUIET COMPONENTS Crypto)
endif()
if(OpenSSL_FOUND)
  target_link_libraries(safetensors_cli_dependencies INTERFACE OpenSSL::Crypto)
  target_compile_definitions(safetensors_cli_dependencies INTERFACE SAFETENSORS_HAVE_LIBCRYPTO)
  if(OPENSSL_CRYPTO_LIBRARY MATCHES "[.]a$" AND NOT OPENSSL_CRYPTO_LIBRARY MATCHES "[.]dll[.]a$")
    target_compile_definitions(safetensors_cli_dependencies INTERFACE SAFETENSORS_STATIC_LIBCRYPTO)
  endif()
else()
  message(STATUS "`safetensors hash` computes no digests: OpenSSL 3 is not installed (Debian: apt-get install libssl-dev)")
endif()
