# Which files of src/ make the library on a system. CMake builds from these lists, and scripts/amalgamate prints them with
# cmake -DROOT=DIR -DSYSTEM=linux -P cmake/sources.cmake

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.22)
endif()

# safetensors_list_sources(ROOT SYSTEM): sets safetensors_reader_sources, the part that reads, and
# safetensors_writer_sources, the rest of the library, in the scope of the caller. The paths begin with "src/".
# SYSTEM is linux, darwin or windows.
function(safetensors_list_sources root system)
  set(folders_linux linux posix)
  set(folders_darwin absent darwin posix)
  set(folders_windows absent windows)
  set(again CONFIGURE_DEPENDS)  # a script cannot ask for it
  if(CMAKE_SCRIPT_MODE_FILE)
    set(again "")
  endif()
  file(GLOB_RECURSE sources RELATIVE ${root} ${again} ${root}/src/*.cpp)
  list(FILTER sources EXCLUDE REGEX "^src/os/command/")  # for the command only
  list(FILTER sources EXCLUDE REGEX "^src/device/absent/")
  file(GLOB folders RELATIVE ${root}/src/os ${root}/src/os/*)
  foreach(folder IN LISTS folders)
    if(IS_DIRECTORY ${root}/src/os/${folder} AND NOT folder IN_LIST folders_${system})
      list(FILTER sources EXCLUDE REGEX "^src/os/${folder}/")
    endif()
  endforeach()

  set(reader ${sources})
  list(FILTER reader EXCLUDE REGEX "^src/(io|write)/|^src/format/checkpoint/")
  list(FILTER reader EXCLUDE REGEX "^src/c/write[.]cpp|/(cuda|dynamic)_library[.]cpp")
  list(FILTER reader EXCLUDE REGEX "/(byte_size|cast_losses|change|header_writer|new_header|rename)[.]cpp")
  list(APPEND reader src/io/source_reader.cpp src/format/checkpoint/model_names.cpp
       src/format/checkpoint/shard_index.cpp)
  list(REMOVE_ITEM sources ${reader})
  set(safetensors_reader_sources ${reader} PARENT_SCOPE)
  set(safetensors_writer_sources ${sources} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  safetensors_list_sources(${ROOT} ${SYSTEM})
  foreach(part IN ITEMS reader writer)
    foreach(source IN LISTS safetensors_${part}_sources)
      message(STATUS "${part} ${source}")
    endforeach()
  endforeach()
endif()
