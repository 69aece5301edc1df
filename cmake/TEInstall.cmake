# Install tree and the portable archive (`ninja package`).

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/TEDialect/Runtime
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/TEDialect COMPONENT runtime)
set(TE_SHARE ${CMAKE_INSTALL_DATAROOTDIR}/te-mlir)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${TE_SHARE} COMPONENT tools)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/test/bench DESTINATION ${TE_SHARE} COMPONENT tools)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/gpu_check.sh DESTINATION ${TE_SHARE} COMPONENT tools)
# The frontend of cuDNN is compiled into the runtime.
install(FILES ${PROJECT_SOURCE_DIR}/.deps/cudnn/LICENSE.txt DESTINATION ${TE_SHARE}
        RENAME cudnn-frontend.LICENSE.txt COMPONENT tools OPTIONAL)

set(CPACK_GENERATOR TXZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_ARCHIVE_THREADS 0)
set(CPACK_PACKAGE_FILE_NAME "te-mlir-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
include(CPack)
