# What `cmake --install` puts in place: library, headers, CMake package, pkg-config file, command.
include(CMakePackageConfigHelpers)

set(safetensors_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/safetensors)
install(TARGETS safetensors EXPORT safetensorsTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/safetensors DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT safetensorsTargets NAMESPACE safetensors:: DESTINATION ${safetensors_config_dir})

# While the major version is 0, a minor version may break.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
else()
  set(compatibility SameMajorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/safetensorsConfigVersion.cmake COMPATIBILITY ${compatibility})

# What a linker for C must add for a static library of C++: the compiler's own C++ run-time library, such as stdc++.
set(safetensors_cxx_runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_ITEM safetensors_cxx_runtime ${CMAKE_C_IMPLICIT_LINK_LIBRARIES} m)
list(FILTER safetensors_cxx_runtime INCLUDE REGEX "^[a-zA-Z0-9_+]+$")

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/safetensorsConfig.cmake.in
  ${PROJECT_BINARY_DIR}/safetensorsConfig.cmake INSTALL_DESTINATION ${safetensors_config_dir})
install(FILES ${PROJECT_BINARY_DIR}/safetensorsConfig.cmake ${PROJECT_BINARY_DIR}/safetensorsConfigVersion.cmake
  DESTINATION ${safetensors_config_dir})

# pkg-config: paths relative to the file, so that the tree may be moved, unless the user gave absolute ones.
foreach(dir IN ITEMS LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(safetensors_pc_${dir} ${CMAKE_INSTALL_${dir}})
  else()
    set(safetensors_pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
file(RELATIVE_PATH safetensors_pc_up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" safetensors_pc_up "${safetensors_pc_up}")
list(TRANSFORM safetensors_cxx_runtime PREPEND -l OUTPUT_VARIABLE safetensors_pc_private)
list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE safetensors_pc_dl)
list(APPEND safetensors_pc_private ${safetensors_pc_dl})
list(JOIN safetensors_pc_private " " safetensors_pc_private)
configure_file(${PROJECT_SOURCE_DIR}/cmake/safetensors.pc.in ${PROJECT_BINARY_DIR}/safetensors.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/safetensors.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET safetensors_cli)
  install(TARGETS safetensors_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
