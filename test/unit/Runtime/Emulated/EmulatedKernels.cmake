# Writes OUTPUT, a source that includes KERNELS, a .cu file, and registers every
# kernel of it. Their names, which macros build, are those in the output of the
# preprocessor, COMMAND. The other arguments come from the caller, see
# CMakeLists.txt.
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "te_[a-z0-9_]+\\([ \n]*const " names "${text}")
if(NOT names)
  message(FATAL_ERROR "expected ${KERNELS} to have kernels, but found none")
endif()
list(TRANSFORM names REPLACE "\\(.*" "")
list(TRANSFORM names REPLACE "(.+)" "TE_EMULATED(\\1)")
list(JOIN names "\n" rows)
file(WRITE ${OUTPUT}
"#include \"Runtime/Emulated/Emulator.h\"
#include \"${KERNELS}\"

namespace te::rt::cuda {
${rows}
}
")
