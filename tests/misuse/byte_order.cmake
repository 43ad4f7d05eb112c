# A big-endian machine is refused until the program says that it swaps bytes. The machine is made up: its macro is set.
cmake_minimum_required(VERSION 3.22)
set(command ${COMPILER} -std=c++20 -fsyntax-only -x c++ -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__
            ${INCLUDE}/safetensors/export.h -Wno-pragma-once-outside-header)

execute_process(COMMAND ${command} -DSAFETENSORS_LITTLE_ENDIAN_BYTES RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "must compile with SAFETENSORS_LITTLE_ENDIAN_BYTES:\n${output}")
endif()
execute_process(COMMAND ${command} RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "compiles on a big-endian machine, and must not")
endif()
if(NOT output MATCHES " error: [^\n]*tensors are little-endian")
  message(FATAL_ERROR "the error does not say why:\n${output}")
endif()
