# The command is built with fmt, which is found on the system, else fetched and checked against a pinned hash.
#
# Sets SAFETENSORS_CLI_POSSIBLE. If true, link safetensors_cli_dependencies (headers only). If not, one line says why,
# and the build goes on without the command.
set(SAFETENSORS_CLI_POSSIBLE FALSE)

include(${CMAKE_CURRENT_LIST_DIR}/fetch.cmake)
add_library(safetensors_cli_dependencies INTERFACE)

find_package(fmt 8 QUIET)
if(fmt_FOUND)
  # Without FMT_HEADER_ONLY, which would compile fmt in every file: cli/formatted.cpp compiles it once.
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
