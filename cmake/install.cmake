# Install rules: library, headers, CMake package, pkg-config file, command with its completions,
# license and documents.
#
# All are of component `safetensors`. Without SAFETENSORS_INSTALL `cmake --install` leaves them out unless the component
# is asked for. They exist all the same: CMake lets a library that links ours export itself only if ours is exported, too.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(safetensors_component COMPONENT safetensors)
if(NOT SAFETENSORS_INSTALL)
  list(APPEND safetensors_component EXCLUDE_FROM_ALL)
endif()
set(safetensors_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/safetensors)
install(TARGETS safetensors EXPORT safetensorsTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${safetensors_component}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${safetensors_component}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} ${safetensors_component})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/safetensors DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  ${safetensors_component})
# find_package(safetensors COMPONENTS reader) gives safetensors::reader, if it was built.
install(TARGETS safetensors_reader EXPORT safetensorsReaderTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${safetensors_component} OPTIONAL
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${safetensors_component} OPTIONAL
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} ${safetensors_component} OPTIONAL)
install(EXPORT safetensorsReaderTargets NAMESPACE safetensors:: DESTINATION ${safetensors_config_dir}
  ${safetensors_component})
install(EXPORT safetensorsTargets NAMESPACE safetensors:: DESTINATION ${safetensors_config_dir}
  ${safetensors_component})

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
  DESTINATION ${safetensors_config_dir} ${safetensors_component})

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
list(APPEND safetensors_pc_private ${CMAKE_THREAD_LIBS_INIT} ${safetensors_pc_dl})
list(JOIN safetensors_pc_private " " safetensors_pc_private)
# A static library alone needs them always, so that `pkg-config --libs` is enough without --static.
set(safetensors_pc_public "")
set(safetensors_pc_cflags " -DSAFETENSORS_SHARED")
get_target_property(safetensors_type safetensors TYPE)
if(safetensors_type STREQUAL "STATIC_LIBRARY")
  set(safetensors_pc_public " ${safetensors_pc_private}")
  set(safetensors_pc_private "")
  set(safetensors_pc_cflags "")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/safetensors.pc.in ${PROJECT_BINARY_DIR}/safetensors.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/safetensors.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  ${safetensors_component})
# The reader alone needs no dynamic linker.
set(safetensors_pc_reader_public "${safetensors_pc_public}")
if(safetensors_type STREQUAL "STATIC_LIBRARY")
  foreach(library IN LISTS safetensors_pc_dl)
    string(REPLACE " ${library}" "" safetensors_pc_reader_public "${safetensors_pc_reader_public}")
  endforeach()
endif()
string(REPLACE "LINKER:" "-Wl," safetensors_pc_reader_options "${safetensors_reader_link_options}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/safetensors-reader.pc.in ${PROJECT_BINARY_DIR}/safetensors-reader.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/safetensors-reader.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  ${safetensors_component})
if(TARGET safetensors_cli)
  install(TARGETS safetensors_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} ${safetensors_component})
  safetensors_install_shell_files(${CMAKE_INSTALL_DATAROOTDIR} ${safetensors_component})
endif()

# CMAKE_INSTALL_DOCDIR has the name of the project at the top.
set(safetensors_doc_dir ${CMAKE_INSTALL_DATAROOTDIR}/doc/safetensors)
if(PROJECT_IS_TOP_LEVEL)
  set(safetensors_doc_dir ${CMAKE_INSTALL_DOCDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${safetensors_doc_dir}
  ${safetensors_component})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${safetensors_doc_dir} ${safetensors_component}
  PATTERN site EXCLUDE PATTERN pictures/make.py EXCLUDE)
