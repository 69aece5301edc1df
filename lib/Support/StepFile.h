//===- StepFile.h - the checksum of a step of te-compile ------------------===//
//
// te-compile appends a checksum to the shared object of a step, where no loader
// looks. A program compares it before it loads the file: the dynamic linker
// trusts its input, and a file that is cut off or damaged ends the process.
//
// The checksum finds damage. It does not say who made the file: a step is code,
// so load only those that you trust.
//
//===----------------------------------------------------------------------===//

#ifndef TE_SUPPORT_STEPFILE_H
#define TE_SUPPORT_STEPFILE_H

#include <cstdint>
#include <span>
#include <string>

namespace te::support {

/// What is appended to a shared object with these bytes.
std::string stepChecksum(std::span<const uint8_t> object);

/// Whether `file` ends with the checksum of what is before it.
bool checkStep(std::span<const uint8_t> file, std::string &error);

/// The same of a file; `error` names it.
bool checkStepFile(const std::string &path, std::string &error);

} // namespace te::support

#endif // TE_SUPPORT_STEPFILE_H
