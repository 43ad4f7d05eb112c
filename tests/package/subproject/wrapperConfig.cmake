include(CMakeFindDependencyMacro)
find_dependency(safetensors CONFIG)
include(${CMAKE_CURRENT_LIST_DIR}/wrapperTargets.cmake)
