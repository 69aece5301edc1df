# Install tree and the portable archive (`ninja package`).

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/TEDialect/Runtime
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/TEDialect COMPONENT runtime)

set(CPACK_GENERATOR TXZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_ARCHIVE_THREADS 0)
set(CPACK_PACKAGE_FILE_NAME "te-mlir-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
include(CPack)
