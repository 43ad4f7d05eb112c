# safetensors::hash, from src/hash: digests and manifests. A component of its own, because it needs OpenSSL (SHA-256)
# and, for BLAKE3, the BLAKE3 C library. The library safetensors needs neither.
#
# BLAKE3 is found on the system, else in the folder SAFETENSORS_BLAKE3_SOURCE, else fetched and checked against a pinned
# hash. Without it, SHA-256 remains. Sets SAFETENSORS_HASH_POSSIBLE. If not, one line says why.
set(SAFETENSORS_HASH_POSSIBLE FALSE)
set(SAFETENSORS_BLAKE3_SOURCE "$ENV{SAFETENSORS_BLAKE3_SOURCE}" CACHE PATH "Folder with the C sources of BLAKE3: blake3.h, blake3.c and others")

find_package(OpenSSL 3.0 QUIET COMPONENTS Crypto)
if(NOT OpenSSL_FOUND)
  message(STATUS "The component hash is left out: OpenSSL 3 is not installed (Debian: apt-get install libssl-dev)")
  return()
endif()
set(SAFETENSORS_HASH_POSSIBLE TRUE)

# Hides the functions of an assembly source of BLAKE3, because -fvisibility does not. A shared library that contains them
# would export them, and use those of another library that was loaded earlier.
function(safetensors_hide_blake3 source)
  if(NOT CMAKE_EXECUTABLE_FORMAT STREQUAL "ELF")
    return()
  endif()
  file(STRINGS ${source} functions REGEX "^[.]global ")
  list(TRANSFORM functions REPLACE "^[.]global" ".hidden")
  list(JOIN functions "\n" text)
  get_filename_component(name ${source} NAME_WE)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/hidden_${name}.h CONTENT "${text}\n" @ONLY)
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-include;${PROJECT_BINARY_DIR}/hidden_${name}.h")
endfunction()

# Builds the C sources of BLAKE3 in a folder. On x86-64 the code picks the widest vectors of the processor at run time.
function(safetensors_build_blake3 source)
  add_library(safetensors_blake3 STATIC EXCLUDE_FROM_ALL
    ${source}/blake3.c ${source}/blake3_dispatch.c ${source}/blake3_portable.c)
  set_target_properties(safetensors_blake3 PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF
    C_VISIBILITY_PRESET hidden)
  target_include_directories(safetensors_blake3 SYSTEM PUBLIC $<BUILD_INTERFACE:${source}>)
  set(sse2_flags -msse2)
  set(sse41_flags -msse4.1)
  set(avx2_flags -mavx2)
  set(avx512_flags -mavx512f -mavx512vl)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
    # The assembly is faster than what compilers make of the C sources with intrinsics.
    foreach(set IN ITEMS sse2 sse41 avx2 avx512)
      if(UNIX AND EXISTS ${source}/blake3_${set}_x86-64_unix.S)
        target_sources(safetensors_blake3 PRIVATE ${source}/blake3_${set}_x86-64_unix.S)
        safetensors_hide_blake3(${source}/blake3_${set}_x86-64_unix.S)
      else()
        target_sources(safetensors_blake3 PRIVATE ${source}/blake3_${set}.c)
        set_source_files_properties(${source}/blake3_${set}.c PROPERTIES COMPILE_OPTIONS "${${set}_flags}")
      endif()
    endforeach()
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    target_sources(safetensors_blake3 PRIVATE ${source}/blake3_neon.c)
    target_compile_definitions(safetensors_blake3 PRIVATE BLAKE3_USE_NEON=1)
  else()
    target_compile_definitions(safetensors_blake3 PRIVATE BLAKE3_USE_NEON=0 BLAKE3_NO_SSE2 BLAKE3_NO_SSE41
      BLAKE3_NO_AVX2 BLAKE3_NO_AVX512)
  endif()
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/fetch.cmake)
find_package(blake3 QUIET CONFIG)
if(TARGET BLAKE3::blake3)
  set(safetensors_blake3_target BLAKE3::blake3)
else()
  set(source ${SAFETENSORS_BLAKE3_SOURCE})
  # A download that failed is not tried again in this build tree.
  if(NOT source AND NOT SAFETENSORS_BLAKE3_MISSING)
    safetensors_fetch(blake3 https://github.com/BLAKE3-team/BLAKE3/archive/refs/tags/1.8.2.tar.gz
      6b51aefe515969785da02e87befafc7fdc7a065cd3458cf1141f29267749e81f BLAKE3-1.8.2/c)
    set(source ${blake3_folder})
  endif()
  if(source AND EXISTS ${source}/blake3.h)
    enable_language(ASM)
    safetensors_build_blake3(${source})
    set(safetensors_blake3_target safetensors_blake3)
  else()
    set(safetensors_blake3_target "")
    set(SAFETENSORS_BLAKE3_MISSING TRUE CACHE INTERNAL "The download of BLAKE3 failed")
    message(STATUS "Hashes are built without BLAKE3: its C library is neither installed nor could it be fetched")
  endif()
endif()

file(GLOB safetensors_hash_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/hash/*.cpp)
add_library(safetensors_hash STATIC ${safetensors_hash_sources})
add_library(safetensors::hash ALIAS safetensors_hash)
safetensors_own_target(safetensors_hash)
set_target_properties(safetensors_hash PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON EXPORT_NAME hash)
# It uses internal functions of the library, so it is linked with the static one. Only then can it be installed.
set(SAFETENSORS_HASH_INSTALLABLE FALSE)
if(BUILD_SHARED_LIBS)
  target_compile_features(safetensors_hash PUBLIC cxx_std_20)
  target_include_directories(safetensors_hash PUBLIC ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(safetensors_hash PRIVATE safetensors_internal OpenSSL::Crypto)
else()
  target_link_libraries(safetensors_hash PUBLIC safetensors PRIVATE OpenSSL::Crypto)
  target_include_directories(safetensors_hash PRIVATE ${PROJECT_SOURCE_DIR}/src)
  set(SAFETENSORS_HASH_INSTALLABLE TRUE)
endif()
if(safetensors_blake3_target)
  target_compile_definitions(safetensors_hash PRIVATE SAFETENSORS_HAVE_BLAKE3)
  target_link_libraries(safetensors_hash PRIVATE ${safetensors_blake3_target})
endif()
