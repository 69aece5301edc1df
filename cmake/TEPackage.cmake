# What CPack runs to make an archive of the files that it installed: looks for the
# notices, adds the bill of materials, and packs. CPack would take the order of the
# files from the file system, and their modes; here the same files are the same bytes,
# in whatever folder, by whatever user and on however many processors.
set(share ${CPACK_TEMPORARY_DIRECTORY}/${CPACK_TE_SHARE})
foreach(notice IN LISTS CPACK_TE_NOTICES)
  if(NOT EXISTS ${share}/${notice})
    message(FATAL_ERROR "expected the notice '${notice}' in ${share}, without which an archive must not be given away")
  endif()
endforeach()
find_program(python3 NAMES python3 REQUIRED)
execute_process(COMMAND ${python3} ${CPACK_TE_SBOM} OUTPUT_FILE ${share}/sbom.cdx.json COMMAND_ERROR_IS_FATAL ANY)

find_program(tar NAMES tar REQUIRED)
find_program(xz NAMES xz REQUIRED)
foreach(options TAR_OPTIONS XZ_DEFAULTS XZ_OPT)
  unset(ENV{${options}})
endforeach()
get_filename_component(folder ${CPACK_TEMPORARY_DIRECTORY} NAME)
set(archive ${CPACK_TEMPORARY_DIRECTORY}.tar.xz)
execute_process(
  COMMAND ${tar} --create --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX
          --mtime=@${CPACK_TE_TIME} --directory=${CPACK_TEMPORARY_DIRECTORY}/.. ${folder}
  COMMAND ${xz} -9 --threads=1
  OUTPUT_FILE ${archive} COMMAND_ERROR_IS_FATAL ANY)
set(CPACK_EXTERNAL_BUILT_PACKAGES ${archive})
