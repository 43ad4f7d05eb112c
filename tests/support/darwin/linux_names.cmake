# Names of Linux that tests use, for all targets of the folder that includes this file.
add_compile_options("SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/linux_names.h")
include_directories(SYSTEM ${CMAKE_CURRENT_LIST_DIR}/include)
add_compile_definitions(_DARWIN_C_SOURCE)  # the tests in C ask for POSIX only, where mkdtemp() is missing
