# What our own targets are compiled with; private to them, nothing of it reaches a consumer.
function(safetensors_own_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 CXX_EXTENSIONS OFF C_EXTENSIONS OFF)
  # Several files are compiled as one, because headers take half of the time. Files of one target have no names in common.
  # A release build combines more files than a build in which somebody changes one file and compiles again.
  if(NOT DEFINED CMAKE_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  endif()
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT DEFINED CMAKE_UNITY_BUILD_BATCH_SIZE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 32)
  endif()
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                                           $<$<BOOL:${SAFETENSORS_WERROR}>:-Werror>)
  # What tests count fits into 32 bits; in the library and the command a conversion is looked at.
  string(FIND "${CMAKE_CURRENT_SOURCE_DIR}/" "${PROJECT_SOURCE_DIR}/tests/" in_tests)
  string(FIND "${CMAKE_CURRENT_SOURCE_DIR}/" "${PROJECT_SOURCE_DIR}/fuzz/" in_fuzz)
  string(FIND "${CMAKE_CURRENT_SOURCE_DIR}/" "${safetensors_SOURCE_DIR}/examples/" in_examples)
  if(CMAKE_SIZEOF_VOID_P EQUAL 4 AND (in_tests EQUAL 0 OR in_fuzz EQUAL 0 OR in_examples EQUAL 0))
    target_compile_options(${target} PRIVATE -Wno-conversion)
  endif()
  # Files over 2 GiB where long has 32 bits; our code swaps bytes on big-endian machines (export.h).
  target_compile_definitions(${target} PRIVATE _FILE_OFFSET_BITS=64 SAFETENSORS_LITTLE_ENDIAN_BYTES)
  # GCC 12 sees overlaps in inlined std::string that are not there (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(SAFETENSORS_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${SAFETENSORS_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer -UNDEBUG)
    # The check of vptr opens a pipe to look at memory. Where tests leave no descriptor free, it reports good objects.
    if(SAFETENSORS_SANITIZE MATCHES "undefined")
      target_compile_options(${target} PRIVATE -fno-sanitize=vptr)
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${SAFETENSORS_SANITIZE})
  endif()
  # So that libFuzzer sees which branches of the library an input reaches.
  if(SAFETENSORS_BUILD_FUZZERS AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# For targets that move no bytes of tensors themselves: -O1 instead of CMake's -O3 compiles a third faster.
function(safetensors_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()
