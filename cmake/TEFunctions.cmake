# The few CMake functions of this project. Warnings are errors for our own
# targets only; vendor headers are SYSTEM.

set(TE_WARNINGS -Wall -Wextra -Werror -Wno-unused-parameter)

function(te_use_ccache_and_lld)
  find_program(CCACHE ccache)
  if(CCACHE)
    # Objects do not depend on the folder, so that another clone finds them.
    set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
        CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${launcher} PARENT_SCOPE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher} PARENT_SCOPE)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options(-fuse-ld=lld)
  endif()
endfunction()

# What is linked resolves its symbols at the start, and writes no more to the
# table of them. A release also has stack protectors and checked string functions,
# and no path of the machine that built it.
function(te_harden)
  add_link_options(-Wl,-z,relro -Wl,-z,now)
  foreach(option -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
          -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
    add_compile_options($<$<CONFIG:Release>:${option}>)
  endforeach()
endfunction()

# The two link modes, never mixed in one binary: dylibs for development, raw
# archives for the release (the packaged CMake targets would drag in the dylib).
# Defines TE_LLVM_LIBRARIES, and adds where the dylibs are to the rpath of what is
# installed (TE_LLVM_RPATH).
function(te_configure_llvm_linking)
  if(NOT TE_STATIC)
    set(TE_LLVM_LIBRARIES MLIR LLVM PARENT_SCOPE)
    set(TE_LLVM_RPATH ${LLVM_LIBRARY_DIRS} PARENT_SCOPE)
    set(CMAKE_INSTALL_RPATH ${CMAKE_INSTALL_RPATH} ${LLVM_LIBRARY_DIRS} PARENT_SCOPE)
    return()
  endif()
  file(GLOB mlir_archives ${LLVM_LIBRARY_DIRS}/libMLIR*.a)
  list(FILTER mlir_archives EXCLUDE REGEX "libMLIRCAPI|Test|OptMain")
  file(GLOB llvm_archives ${LLVM_LIBRARY_DIRS}/libLLVM*.a)
  find_library(ZSTD NAMES libzstd.a zstd REQUIRED)
  set(TE_LLVM_LIBRARIES -Wl,--start-group ${mlir_archives} ${llvm_archives}
      -Wl,--end-group -Wl,--gc-sections ${ZSTD} ZLIB::ZLIB dl pthread m
      PARENT_SCOPE)
endfunction()

# te_precompile(name headers...): parses headers once for the files of a target
# with more than four, unless TE_PRECOMPILED_HEADERS is OFF. ccache takes objects
# made with a precompiled header only when configured to leave times and macros
# to the compiler.
function(te_precompile name)
  get_target_property(sources ${name} SOURCES)
  list(LENGTH sources count)
  if(TE_PRECOMPILED_HEADERS AND count GREATER 4)
    target_compile_options(${name} PRIVATE
                           $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
    target_precompile_headers(${name} PRIVATE ${ARGN})
  endif()
endfunction()

# Precompiles the headers of MLIR for te_reuse_mlir_headers.
function(te_precompile_mlir_headers)
  if(NOT TE_PRECOMPILED_HEADERS)
    return()
  endif()
  te_add_compiler_library(TEMLIRHeaders ${PROJECT_SOURCE_DIR}/lib/MLIRHeaders.cpp)
  target_precompile_headers(TEMLIRHeaders PRIVATE ${PROJECT_SOURCE_DIR}/lib/MLIRHeaders.h)
endfunction()

# Compiles a target with the precompiled headers of MLIR, which fix these flags.
function(te_reuse_mlir_headers name)
  target_compile_options(${name} PRIVATE -fno-rtti -fno-exceptions -fPIC)
  if(TE_PRECOMPILED_HEADERS)
    target_compile_options(${name} PRIVATE
                           $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
    if(NOT name STREQUAL TEMLIRHeaders)
      target_precompile_headers(${name} REUSE_FROM TEMLIRHeaders)
    endif()
  endif()
endfunction()

# te_add_compiler_library(name sources... [DEPENDS tablegen-targets...]
#                         [LINK libraries...]): a static library of the
# compiler. Link MLIR in the executables, through te_add_tool.
function(te_add_compiler_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(${name} PRIVATE ${TE_WARNINGS} -ffunction-sections -fdata-sections)
  te_reuse_mlir_headers(${name})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# te_add_tool(name sources... LINK libraries... [DEFINITIONS ...]): an installed
# executable that links LLVM in this build's mode. The static one has LLVM once: the
# code is part of libte_compiler, and the executable calls its main function there, so
# that the component tools needs the component compiler.
function(te_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK;DEFINITIONS" ${ARGN})
  set(code ${name})
  if(TE_STATIC)
    set(code ${name}-code)
    add_library(${code} OBJECT ${ARG_UNPARSED_ARGUMENTS})
    target_link_libraries(te_compiler PRIVATE ${code})
    add_executable(${name} ${PROJECT_SOURCE_DIR}/tools/ToolLauncher.cpp)
    target_link_libraries(${name} PRIVATE te_compiler)
    string(MAKE_C_IDENTIFIER ${name}_main main)
    foreach(target ${code} ${name})
      target_compile_definitions(${target} PRIVATE TE_TOOL_MAIN=${main})
    endforeach()
  else()
    add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
    list(APPEND ARG_LINK ${TE_LLVM_LIBRARIES})
  endif()
  target_compile_options(${code} PRIVATE ${TE_WARNINGS})
  target_compile_definitions(${code} PRIVATE TE_VERSION="${PROJECT_VERSION}" ${ARG_DEFINITIONS})
  target_include_directories(${code} PRIVATE ${PROJECT_SOURCE_DIR}/tools)
  target_link_libraries(${code} PRIVATE ${ARG_LINK})
  te_reuse_mlir_headers(${code})
  install(TARGETS ${name} EXPORT TEToolsTargets
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endfunction()

# te_add_runtime_library(name SHARED|STATIC|OBJECT sources...): code below the
# ABI; sees no LLVM or MLIR header.
function(te_add_runtime_library name kind)
  add_library(${name} ${kind} ${ARGN})
  target_compile_options(${name} PRIVATE ${TE_WARNINGS} -fvisibility=hidden
                         $<$<CONFIG:Release>:-ffunction-sections -fdata-sections>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/lib/Runtime)
endfunction()

# te_add_unit_test(name sources... LABELS areas... LINK libraries... [MLIR]): one gtest
# binary, registered with ctest under the labels of its areas. MLIR: it includes headers of MLIR.
function(te_add_unit_test name)
  cmake_parse_arguments(ARG "MLIR" "" "LABELS;LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(${name} PRIVATE ${TE_WARNINGS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/lib/Runtime
                             ${PROJECT_SOURCE_DIR}/test/unit)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  if(ARG_MLIR)
    target_link_libraries(${name} PRIVATE ${TE_LLVM_LIBRARIES})
    te_reuse_mlir_headers(${name})
  else()
    te_precompile(${name} <gtest/gtest.h> <cmath> <functional> <map> <random> <set> <string> <vector>)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
endfunction()

# te_skip_test(name reason LABELS areas...): an entry in the place of a test that this build cannot
# have. ctest lists it as skipped, and scripts/skipped.py prints the reason.
function(te_skip_test name reason)
  cmake_parse_arguments(ARG "" "" "LABELS" ${ARGN})
  message(STATUS "without the test ${name}: ${reason}")
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped: " LABELS "${ARG_LABELS}")
endfunction()

# te_label(label tests...): adds a label to those of the tests that this build has.
function(te_label label)
  foreach(test IN LISTS ARGN)
    if(TEST ${test})
      set_property(TEST ${test} APPEND PROPERTY LABELS ${label})
    endif()
  endforeach()
endfunction()
