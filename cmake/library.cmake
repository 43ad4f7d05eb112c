# safetensors::safetensors, from the layers of src/. BUILD_SHARED_LIBS chooses static or shared.
file(GLOB_RECURSE safetensors_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
list(FILTER safetensors_sources EXCLUDE REGEX "/src/hash/")  # a component: hash.cmake
list(FILTER safetensors_sources EXCLUDE REGEX "/src/os/command/")  # for the command only
# The folders of src/os that this system needs. "none" is for a system that we do not know: the library then reads from
# memory and from Sources of the program, and every call on files is an error.
set(SAFETENSORS_OS "" CACHE STRING "\"none\": build without an operating system. Empty: for the system of the build")
if(NOT SAFETENSORS_OS MATCHES "^(none)?$")
  message(FATAL_ERROR "SAFETENSORS_OS is \"${SAFETENSORS_OS}\", expected \"none\" or nothing")
endif()
set(safetensors_command_system posix)
if(SAFETENSORS_OS STREQUAL "none")
  set(safetensors_systems absent none)
elseif(WIN32)
  set(safetensors_systems absent windows threads)
  set(safetensors_command_system windows)
elseif(APPLE)
  set(safetensors_systems absent darwin posix threads)
else()
  set(safetensors_systems linux posix threads)
endif()
file(GLOB safetensors_folders RELATIVE ${PROJECT_SOURCE_DIR}/src/os ${PROJECT_SOURCE_DIR}/src/os/*)
foreach(folder IN LISTS safetensors_folders)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/src/os/${folder} AND NOT folder IN_LIST safetensors_systems)
    list(FILTER safetensors_sources EXCLUDE REGEX "/src/os/${folder}/")
  endif()
endforeach()
if(SAFETENSORS_OS STREQUAL "none")
  find_package(Threads)  # such a system may have none
  if(NOT TARGET Threads::Threads)
    add_library(Threads::Threads INTERFACE IMPORTED)
  endif()
else()
  find_package(Threads REQUIRED)
endif()
include(GNUInstallDirs)

# While the major version is 0, every minor version may break programs that are already linked.
set(safetensors_soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  string(APPEND safetensors_soversion .${PROJECT_VERSION_MINOR})
endif()

add_library(safetensors ${safetensors_sources})
add_library(safetensors::safetensors ALIAS safetensors)
safetensors_own_target(safetensors)
target_compile_features(safetensors PUBLIC cxx_std_20)
target_include_directories(safetensors PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                       PRIVATE ${PROJECT_SOURCE_DIR}/src)
set(safetensors_system_libraries "")
if(WIN32)
  set(safetensors_system_libraries bcrypt)
endif()
target_link_libraries(safetensors PRIVATE Threads::Threads ${CMAKE_DL_LIBS} ${safetensors_system_libraries})
if(SAFETENSORS_OS STREQUAL "none")
  target_compile_definitions(safetensors PRIVATE SAFETENSORS_NO_SYSTEM)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS ${CMAKE_CXX20_STANDARD_COMPILE_OPTION})
  check_cxx_source_compiles("#include <mutex>\n#include <thread>\nstd::mutex m;\nstd::thread t;\nint main() {}"
    SAFETENSORS_HAVE_STD_THREAD)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT SAFETENSORS_HAVE_STD_THREAD)
    target_compile_options(safetensors PRIVATE -include ${PROJECT_SOURCE_DIR}/src/os/none/missing_std.h)
  endif()
elseif(WIN32)
  target_compile_definitions(safetensors PRIVATE _WIN32_WINNT=0x0A00)  # Windows 10
endif()
set_target_properties(safetensors PROPERTIES
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  POSITION_INDEPENDENT_CODE ON
  VERSION ${PROJECT_VERSION}
  SOVERSION ${safetensors_soversion})
if(BUILD_SHARED_LIBS)
  target_compile_definitions(safetensors PUBLIC SAFETENSORS_SHARED)  # export.h hides all functions of a static library
endif()
if(BUILD_SHARED_LIBS AND CMAKE_EXECUTABLE_FORMAT STREQUAL "ELF")
  # Visibility alone is not enough: templates of namespace std are always visible.
  set(safetensors_exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  target_link_options(safetensors PRIVATE LINKER:--version-script=${safetensors_exports})
  set_target_properties(safetensors PROPERTIES LINK_DEPENDS ${safetensors_exports})
endif()

# For our own command, tests, fuzz targets and benchmarks: always static, and may include from src/.
if(BUILD_SHARED_LIBS)
  add_library(safetensors_internal STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:safetensors>)
  set_target_properties(safetensors_internal PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(safetensors_internal INTERFACE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(safetensors_internal INTERFACE Threads::Threads ${CMAKE_DL_LIBS} ${safetensors_system_libraries})
else()
  add_library(safetensors_internal INTERFACE)
  target_link_libraries(safetensors_internal INTERFACE safetensors)
endif()
target_include_directories(safetensors_internal INTERFACE ${PROJECT_SOURCE_DIR}/src)
