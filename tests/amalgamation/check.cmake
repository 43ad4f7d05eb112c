# Makes the two amalgamations in the folder BUILD with scripts/amalgamate, compiles each alone, and uses it:
# - the whole library: from C++20;
# - the reader: from C++20, from C++17 without exceptions and RTTI, whose verdicts are the same, and from C.
set(here ${CMAKE_CURRENT_LIST_DIR})
set(tests ${here}/..)
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(code)
    message(FATAL_ERROR "${ARGN}: ${code}\n${output}")
  endif()
endfunction()

run(${PYTHON} -B ${tests}/../scripts/amalgamate ${BUILD})
run(${PYTHON} -B ${tests}/../scripts/amalgamate --all ${BUILD})
file(WRITE ${BUILD}/all/safetensors/safetensors.h "#include \"safetensors_all.h\"\n")
foreach(header IN ITEMS checkpoint file header read_plan save source writer)
  file(WRITE ${BUILD}/all/safetensors/${header}.h "#include \"safetensors_all.h\"\n")
  file(WRITE ${BUILD}/reader/safetensors/${header}.h "#include \"safetensors.h\"\n")
endforeach()
file(WRITE ${BUILD}/c_program.c "#include \"safetensors.h\"
int main(void) {
  safetensors_model* model = 0;
  safetensors_error error;
  return safetensors_model_open(\"no such file\", 0, &model, &error) == SAFETENSORS_ERROR_OPEN_FAILED ? 0 : 1;
}
")

set(flags -O0 -I${BUILD})
run(${COMPILER} -std=c++20 ${flags} -Wall -Wextra -Werror -c ${BUILD}/safetensors_all.cpp -o ${BUILD}/all.o)
run(${COMPILER} -std=c++20 ${flags} -I${BUILD}/all ${tests}/package/consumer.cpp ${BUILD}/all.o -pthread -ldl -o ${BUILD}/consumer_all)
run(${BUILD}/consumer_all ${BUILD}/consumer_all.safetensors)

run(${COMPILER} -std=c++20 ${flags} -Wall -Wextra -Werror -c ${BUILD}/safetensors.cpp -o ${BUILD}/reader.o)
run(${COMPILER} -std=c++20 ${flags} -I${BUILD}/reader ${tests}/package/consumer_reader.cpp ${BUILD}/reader.o -pthread
  -o ${BUILD}/consumer)
run(${BUILD}/consumer ${BUILD}/consumer.safetensors)
run(${COMPILER} -std=c++17 -fno-exceptions -fno-rtti -Wall -Wextra -Wconversion -Werror ${flags} -I${BUILD}/reader
  ${tests}/cpp17/verdicts.cpp ${BUILD}/reader.o -pthread -o ${BUILD}/cpp17_verdicts)
run(${CMAKE_COMMAND} -DWRITE_CASES=${WRITE_CASES} -DVERDICTS=${BUILD}/cpp17_verdicts -DBUILD=${BUILD}
  -P ${tests}/cpp17/verdicts.cmake)
run(${C_COMPILER} -std=c11 ${flags} -c ${BUILD}/c_program.c -o ${BUILD}/c_program.o)
run(${COMPILER} ${BUILD}/c_program.o ${BUILD}/reader.o -pthread -o ${BUILD}/c_program)
run(${BUILD}/c_program)
