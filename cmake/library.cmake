# safetensors::safetensors, from the layers of src/, and safetensors::reader, the part of it that reads.
# BUILD_SHARED_LIBS chooses static or shared.
set(safetensors_command_system posix)
if(WIN32)
  set(safetensors_system windows)
  set(safetensors_command_system windows)
elseif(APPLE)
  set(safetensors_system darwin)
else()
  set(safetensors_system linux)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/sources.cmake)
safetensors_list_sources(${PROJECT_SOURCE_DIR} ${safetensors_system})
list(TRANSFORM safetensors_reader_sources PREPEND ${PROJECT_SOURCE_DIR}/)
list(TRANSFORM safetensors_writer_sources PREPEND ${PROJECT_SOURCE_DIR}/)
find_package(Threads REQUIRED)
include(GNUInstallDirs)

# While the major version is 0, every minor version may break programs that are already linked.
set(safetensors_soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  string(APPEND safetensors_soversion .${PROJECT_VERSION_MINOR})
endif()

# -O2 compiles faster than CMake's -O3, and makes smaller code that is as fast. Loops over elements are an exception: with
# -O3 the compiler turns more of them into vectors. The files that write wait for the system: -Os takes a fifth of the time
# and a third of the code away. Flags that the user gave stay as they are.
set(safetensors_optimization "")
set(safetensors_writer_optimization "")
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(safetensors_optimization $<$<CONFIG:Release>:-O2>)
  set(safetensors_writer_optimization $<$<CONFIG:Release>:-Os>)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/format/dtype/cast_kernels.cpp
                              ${PROJECT_SOURCE_DIR}/src/format/dtype/cast_integers.cpp
                              PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
endif()

# How each of the libraries compiles, and what its users get.
function(safetensors_library target)
  safetensors_own_target(${target})
  target_compile_options(${target} PRIVATE ${safetensors_optimization})
  target_compile_features(${target} PUBLIC cxx_std_17 PRIVATE cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                       PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE Threads::Threads)
  if(WIN32)
    target_compile_definitions(${target} PRIVATE _WIN32_WINNT=0x0a00)  # Windows 10
  endif()
  if(NOT MSVC AND NOT APPLE)
    # A program that links with --gc-sections keeps only the functions that it calls. On macOS -dead_strip needs no flag.
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
  endif()
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${safetensors_soversion})
  if(BUILD_SHARED_LIBS)
    target_compile_definitions(${target} PUBLIC SAFETENSORS_SHARED)  # export.h hides all functions of a static library
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY" AND CMAKE_EXECUTABLE_FORMAT STREQUAL "ELF")
    # Visibility alone is not enough: templates of namespace std are always visible.
    set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    target_link_options(${target} PRIVATE LINKER:--version-script=${exports})
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${exports})
  endif()
endfunction()

# safetensors::reader opens, checks, slices, casts and reads, in C++ and C. It does not write or move files, and it
# opens no driver. Its files compile once, for both libraries.
add_library(safetensors_reader_objects OBJECT ${safetensors_reader_sources})
safetensors_library(safetensors_reader_objects)
target_compile_definitions(safetensors_reader_objects PRIVATE safetensors_EXPORTS)  # part of a DLL

add_library(safetensors ${safetensors_writer_sources} $<TARGET_OBJECTS:safetensors_reader_objects>)
add_library(safetensors::safetensors ALIAS safetensors)
safetensors_library(safetensors)
target_compile_options(safetensors PRIVATE ${safetensors_writer_optimization})
target_link_libraries(safetensors PRIVATE ${CMAKE_DL_LIBS})

add_library(safetensors_reader ${PROJECT_SOURCE_DIR}/src/device/absent/cuda_library.cpp
                               $<TARGET_OBJECTS:safetensors_reader_objects>)
add_library(safetensors::reader ALIAS safetensors_reader)
safetensors_library(safetensors_reader)
set_target_properties(safetensors_reader PROPERTIES EXPORT_NAME reader DEFINE_SYMBOL safetensors_EXPORTS)
set(safetensors_reader_link_options "")
if(NOT BUILD_SHARED_LIBS AND APPLE)
  set(safetensors_reader_link_options LINKER:-dead_strip)
elseif(NOT BUILD_SHARED_LIBS AND NOT MSVC)
  set(safetensors_reader_link_options LINKER:--gc-sections)
endif()
target_link_options(safetensors_reader INTERFACE ${safetensors_reader_link_options})

# A program that links both would have one of two drivers, by the order of the libraries. CMake refuses it.
set_target_properties(safetensors PROPERTIES INTERFACE_safetensors_part whole COMPATIBLE_INTERFACE_STRING safetensors_part)
set_target_properties(safetensors_reader PROPERTIES INTERFACE_safetensors_part reader
  COMPATIBLE_INTERFACE_STRING safetensors_part)

# For our own command, tests, fuzz targets and benchmarks: always static, and may include from src/.
if(BUILD_SHARED_LIBS)
  add_library(safetensors_internal STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:safetensors>
                                                           $<TARGET_OBJECTS:safetensors_reader_objects>)
  set_target_properties(safetensors_internal PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(safetensors_internal INTERFACE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(safetensors_internal INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
else()
  add_library(safetensors_internal INTERFACE)
  target_link_libraries(safetensors_internal INTERFACE safetensors)
endif()
target_include_directories(safetensors_internal INTERFACE ${PROJECT_SOURCE_DIR}/src)
