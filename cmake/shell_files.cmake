# The completions of shells, which the command prints.
#
# safetensors_make_shell_files() runs the command after it is linked. safetensors_install_shell_files(SHARE RULES...)
# installs the files below the folder SHARE. As a script (cmake -P), this file makes them:
# PROGRAM is the command, DIRECTORY the folder for the files.
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  function(print_to variable)
    execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE code)
    if(NOT code EQUAL 0)
      list(JOIN ARGN " " arguments)
      message(FATAL_ERROR "safetensors ${arguments}: exit code ${code}\n${errors}")
    endif()
    set(${variable} "${output}" PARENT_SCOPE)
  endfunction()

  file(REMOVE_RECURSE ${DIRECTORY})
  foreach(file IN ITEMS bash/safetensors zsh/_safetensors fish/safetensors.fish)
    get_filename_component(shell ${file} DIRECTORY)
    print_to(script completions ${shell})
    file(WRITE ${DIRECTORY}/${file} "${script}")
  endforeach()
  return()
endif()

function(safetensors_make_shell_files)
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    message(STATUS "The completions are left out: the command cannot run on this machine. "
                   "Set CMAKE_CROSSCOMPILING_EMULATOR, or use those of another machine")
    return()
  endif()
  set(directory ${PROJECT_BINARY_DIR}/shell)
  set_property(TARGET safetensors_cli PROPERTY safetensors_shell_files ${directory})
  set_property(TARGET safetensors_cli APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/shell_files.cmake)
  add_custom_command(TARGET safetensors_cli POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:safetensors_cli>"
      "-DDIRECTORY=${directory}" -P ${PROJECT_SOURCE_DIR}/cmake/shell_files.cmake)
endfunction()

function(safetensors_install_shell_files share)
  get_property(directory TARGET safetensors_cli PROPERTY safetensors_shell_files)
  if(directory)
    install(FILES ${directory}/bash/safetensors DESTINATION ${share}/bash-completion/completions ${ARGN})
    install(FILES ${directory}/zsh/_safetensors DESTINATION ${share}/zsh/site-functions ${ARGN})
    install(FILES ${directory}/fish/safetensors.fish DESTINATION ${share}/fish/vendor_completions.d ${ARGN})
  endif()
endfunction()
