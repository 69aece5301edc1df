# Install tree, find_package(TE), and the portable archive (`ninja package`). The
# targets of a component are in a file of their own, so that each can be
# installed without the others.

include(CMakePackageConfigHelpers)
set(TE_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/TE)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/TEConfig.cmake.in
  ${PROJECT_BINARY_DIR}/TEConfig.cmake INSTALL_DESTINATION ${TE_CMAKE})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TEConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TEConfig.cmake ${PROJECT_BINARY_DIR}/TEConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/TECompileStep.cmake
        DESTINATION ${TE_CMAKE} COMPONENT runtime)
install(EXPORT TERuntimeTargets NAMESPACE TE:: DESTINATION ${TE_CMAKE} COMPONENT runtime)
if(TARGET te_mpi)
  install(EXPORT TEMpiTargets NAMESPACE TE:: DESTINATION ${TE_CMAKE} COMPONENT mpi)
endif()
if(TARGET te_xla)
  install(EXPORT TEXlaTargets NAMESPACE TE:: DESTINATION ${TE_CMAKE} COMPONENT xla)
endif()
if(NOT TE_RUNTIME_ONLY)
  install(EXPORT TEToolsTargets NAMESPACE TE:: DESTINATION ${TE_CMAKE} COMPONENT tools)
  install(EXPORT TECompilerTargets NAMESPACE TE:: DESTINATION ${TE_CMAKE} COMPONENT compiler)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/TEDialect/Runtime
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/TEDialect COMPONENT runtime)
set(TE_SHARE ${CMAKE_INSTALL_DATAROOTDIR}/te-mlir)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${TE_SHARE} COMPONENT tools)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/test/bench DESTINATION ${TE_SHARE} COMPONENT tools)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/gpu_check.sh
                 ${PROJECT_SOURCE_DIR}/scripts/parallel_check.sh DESTINATION ${TE_SHARE} COMPONENT tools)
# What parallel_check.sh runs.
install(FILES ${PROJECT_SOURCE_DIR}/test/lit/Numerics/Inputs/harness.py
              ${PROJECT_SOURCE_DIR}/test/lit/Numerics/Inputs/amax_groups.py
              ${PROJECT_SOURCE_DIR}/test/lit/Numerics/Inputs/exchanged_casts.py
              ${PROJECT_SOURCE_DIR}/test/lit/Numerics/Inputs/expert_parallel.py
              ${PROJECT_SOURCE_DIR}/test/lit/Numerics/Inputs/ranks.py
              ${PROJECT_SOURCE_DIR}/test/lit/Numerics/Inputs/sharded_weights.py
              ${PROJECT_SOURCE_DIR}/test/lit/Numerics/Inputs/overlap.py
              ${PROJECT_SOURCE_DIR}/test/lit/Numerics/Inputs/tensor_parallel.py
              ${PROJECT_SOURCE_DIR}/test/unit/Runtime/Mpi/launch.py
              ${PROJECT_SOURCE_DIR}/test/unit/Runtime/Mpi/run_faults.py
              ${PROJECT_SOURCE_DIR}/docs/examples/tensor_parallel.mlir
        DESTINATION ${TE_SHARE}/checks COMPONENT tools)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${TE_SHARE} COMPONENT tools)
# What the libraries and tools of a release have in them, where Debian keeps the
# notices; and the frontend of cuDNN, which is compiled into the runtime. An
# archive without one of them is an error (TEPackage.cmake).
set(CPACK_TE_NOTICES "LICENSE")
foreach(package libmlir-22 libzstd1 nlohmann-json3-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${TE_SHARE}
          RENAME ${package}.LICENSE.txt COMPONENT tools OPTIONAL)
  list(APPEND CPACK_TE_NOTICES ${package}.LICENSE.txt)
endforeach()
if(TARGET te_runtime_cudnn AND TE_CUDNN_FRONTEND_INCLUDE_DIR)
  install(FILES ${PROJECT_SOURCE_DIR}/.deps/cudnn/LICENSE.txt DESTINATION ${TE_SHARE}
          RENAME cudnn-frontend.LICENSE.txt COMPONENT tools OPTIONAL)
  list(APPEND CPACK_TE_NOTICES cudnn-frontend.LICENSE.txt)
endif()

# CPack installs into a folder and TEPackage.cmake packs it.
set(CPACK_GENERATOR External)
set(CPACK_EXTERNAL_ENABLE_STAGING ON)
set(CPACK_EXTERNAL_PACKAGE_SCRIPT ${PROJECT_SOURCE_DIR}/cmake/TEPackage.cmake)
set(CPACK_MONOLITHIC_INSTALL ON)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
# The time of all files of an archive.
set(CPACK_TE_TIME "$ENV{SOURCE_DATE_EPOCH}")
if(NOT CPACK_TE_TIME)
  execute_process(COMMAND git log -1 --format=%ct WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE CPACK_TE_TIME OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT CPACK_TE_TIME)
  string(TIMESTAMP CPACK_TE_TIME "%s")
endif()
set(CPACK_PACKAGE_FILE_NAME "te-mlir-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_TE_SHARE ${TE_SHARE})
set(CPACK_TE_SBOM ${PROJECT_SOURCE_DIR}/scripts/sbom.py)
include(CPack)
