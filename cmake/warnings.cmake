# What our own targets are compiled with; private to them, nothing of it reaches a consumer.
function(safetensors_own_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 CXX_EXTENSIONS OFF C_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                                           $<$<BOOL:${SAFETENSORS_WERROR}>:-Werror>)
  # GCC 12 sees overlaps in inlined std::string that are not there (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(SAFETENSORS_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${SAFETENSORS_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${SAFETENSORS_SANITIZE})
  endif()
  # So that libFuzzer sees which branches of the library an input reaches.
  if(SAFETENSORS_BUILD_FUZZERS AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
