# safetensors::safetensors, from the layers of src/. BUILD_SHARED_LIBS chooses static or shared.
file(GLOB_RECURSE safetensors_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
find_package(Threads REQUIRED)

add_library(safetensors ${safetensors_sources})
add_library(safetensors::safetensors ALIAS safetensors)
safetensors_own_target(safetensors)
target_compile_features(safetensors PUBLIC cxx_std_20)
target_include_directories(safetensors PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:include>
                                       PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(safetensors PRIVATE Threads::Threads)
target_compile_definitions(safetensors PRIVATE SAFETENSORS_BUILDING)
set_target_properties(safetensors PROPERTIES
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  POSITION_INDEPENDENT_CODE ON
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  EXPORT_NAME safetensors)
if(BUILD_SHARED_LIBS)
  target_compile_definitions(safetensors PUBLIC SAFETENSORS_SHARED)
endif()
