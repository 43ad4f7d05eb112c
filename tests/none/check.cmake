# Builds the library with SAFETENSORS_OS=none in the folder BUILD, where each header of a system is an error (traps). Then
# compares the verdicts of the program `verdicts` with those of tests/data. WRITE_CASES: the program that writes these.
set(here ${CMAKE_CURRENT_LIST_DIR})
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(code)
    message(FATAL_ERROR "${ARGN}: ${code}\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} -S ${here}/../.. -B ${BUILD} -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Debug -DSAFETENSORS_OS=none
  -DCMAKE_CXX_COMPILER=${COMPILER} -DSAFETENSORS_BUILD_CLI=OFF -DSAFETENSORS_BUILD_HASH=OFF -DCMAKE_UNITY_BUILD_BATCH_SIZE=32
  "-DCMAKE_CXX_FLAGS=-O0 -g0 -isystem ${here}/traps -include ${here}/standard_headers.h")
run(${CMAKE_COMMAND} --build ${BUILD} --parallel 2 --target verdicts)
run(${WRITE_CASES} ${BUILD}/cases ${BUILD}/expected)
execute_process(COMMAND ${BUILD}/tests/none/verdicts INPUT_FILE ${BUILD}/cases OUTPUT_FILE ${BUILD}/found RESULT_VARIABLE code)
if(code)
  message(FATAL_ERROR "verdicts: ${code}")
endif()
run(${CMAKE_COMMAND} -E compare_files ${BUILD}/expected ${BUILD}/found)

# The traps close: a file that includes a header of POSIX does not compile.
file(WRITE ${BUILD}/planted.cpp "#include <fcntl.h>\n")
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -isystem ${here}/traps -include ${here}/standard_headers.h
  ${BUILD}/planted.cpp RESULT_VARIABLE code ERROR_VARIABLE output)
if(NOT code OR NOT output MATCHES "<fcntl.h> belongs to a system")
  message(FATAL_ERROR "a planted #include <fcntl.h> compiles: ${output}")
endif()
