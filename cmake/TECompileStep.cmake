# te_compile_step(name [SHARED] SOURCE file ENTRY function [VJP]
#                 [PIPELINE "options"] [SYMBOL symbol])
#
# Compiles a training step of an MLIR file when the file changes.
#
# With SHARED, `name` is a target that writes <name>.so into the current binary
# folder, for dlopen; its property TE_FILE is the file. Otherwise `name` is a
# library to link with, of an object; its header is <name>.h, and the
# te_rt_module in it is called SYMBOL (default: `name`).
function(te_compile_step name)
  cmake_parse_arguments(ARG "SHARED;VJP" "SOURCE;ENTRY;PIPELINE;SYMBOL" "" ${ARGN})
  if(NOT ARG_SOURCE OR NOT ARG_ENTRY OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "te_compile_step(${name}): expected SOURCE and ENTRY, but got '${ARGN}'")
  endif()
  if(NOT TARGET TE::te-compile)
    message(FATAL_ERROR "te_compile_step(${name}): this installation of TE has no te-compile")
  endif()
  get_filename_component(source "${ARG_SOURCE}" ABSOLUTE)
  set(base ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(command TE::te-compile ${source} --entry=${ARG_ENTRY} "--pipeline=${ARG_PIPELINE}")
  if(ARG_VJP)
    list(APPEND command --vjp)
  endif()
  if(ARG_SHARED)
    set(file ${base}.so)
    set(outputs ${file})
    set(symbol te_module)
  else()
    set(file ${base}.o)
    set(outputs ${file} ${base}.h)
    string(MAKE_C_IDENTIFIER ${name} symbol)
  endif()
  if(ARG_SYMBOL)
    set(symbol ${ARG_SYMBOL})
  endif()
  add_custom_command(OUTPUT ${outputs}
    COMMAND ${command} --symbol=${symbol} -o ${file}
    DEPENDS ${source} TE::te-compile VERBATIM
    COMMENT "Compiling the step ${ARG_ENTRY} of ${ARG_SOURCE}")
  if(ARG_SHARED)
    add_custom_target(${name} ALL DEPENDS ${outputs})
    set_target_properties(${name} PROPERTIES TE_FILE ${file})
  else()
    add_custom_target(${name}-file DEPENDS ${outputs})
    add_library(${name} INTERFACE)
    add_dependencies(${name} ${name}-file)
    target_include_directories(${name} INTERFACE ${CMAKE_CURRENT_BINARY_DIR})
    target_link_libraries(${name} INTERFACE ${file} TE::runtime)
  endif()
endfunction()
