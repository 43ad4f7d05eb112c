# A compiler in C++14 mode gets one error, which says what to do, instead of the errors of every header.
cmake_minimum_required(VERSION 3.22)
set(command ${COMPILER} -fsyntax-only -x c++ -I${INCLUDE} ${INCLUDE}/safetensors/safetensors.h
            -Wno-pragma-once-outside-header)

execute_process(COMMAND ${command} -std=c++17 RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "must compile in C++17:\n${output}")
endif()
execute_process(COMMAND ${command} -std=c++14 RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "compiles in C++14, and must not")
endif()
string(REGEX MATCHALL "error:" errors "${output}")
list(LENGTH errors count)
if(NOT count EQUAL 1 OR NOT output MATCHES "error: [^\n]*safetensors needs C\\+\\+17: compile with -std=c\\+\\+17")
  message(FATAL_ERROR "must be one error that says what to do:\n${output}")
endif()
