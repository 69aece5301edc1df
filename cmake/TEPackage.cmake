# What CPack runs on the files of an archive before it packs them: it looks for the
# notices, adds the bill of materials, and sets the time of all files.
set(share ${CPACK_TEMPORARY_DIRECTORY}/${CPACK_TE_SHARE})
foreach(notice IN LISTS CPACK_TE_NOTICES)
  if(NOT EXISTS ${share}/${notice})
    message(FATAL_ERROR "expected the notice '${notice}' in ${share}, without which an archive must not be given away")
  endif()
endforeach()
find_program(python3 NAMES python3 REQUIRED)
execute_process(COMMAND ${python3} ${CPACK_TE_SBOM} OUTPUT_FILE ${share}/sbom.cdx.json COMMAND_ERROR_IS_FATAL ANY)
if(CPACK_TE_TIME)
  set(ENV{SOURCE_DATE_EPOCH} ${CPACK_TE_TIME})
endif()
