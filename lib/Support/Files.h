//===- Files.h - bytes of files and sentences about them ------------------===//
//
// Shared by the readers and writers of file formats. Contents come from
// outside: whether there is memory for them is checked first, and names are
// escaped before they are printed. Nothing throws.
//
//===----------------------------------------------------------------------===//

#ifndef TE_SUPPORT_FILES_H
#define TE_SUPPORT_FILES_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace te::support {

/// Takes the next bytes of a file; false where it cannot.
using ByteSink = std::function<bool(const void *bytes, size_t size)>;

/// Sets `error`; returns false.
bool fail(std::string &error, std::string message);

/// `text` between single quotes, at most 200 characters of it, what is not
/// printable ASCII as '?'.
std::string inQuotes(std::string_view text);

/// "[256, 512]"; of more than 16 extents, only the first and their number.
std::string shapeText(const std::vector<int64_t> &shape);

/// Runs `body`, which returns false and says why in `error` if it fails. Memory
/// that runs out, also that for a message, is a failure like others.
template <typename Body> bool guarded(std::string &error, Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    // Short enough for a string to take it without an allocation.
    error = "out of memory";
    return false;
  }
}

/// "no memory for N bytes".
std::string noMemory(uint64_t bytes);

/// Gives `bytes` the size `size`, new bytes being 0. Returns false, `bytes`
/// unchanged, if there is no memory for it.
bool tryResize(std::vector<uint8_t> &bytes, uint64_t size);

/// Reads a file, which may be a pipe. Else false, and `error` names it.
bool readFile(const std::string &path, std::vector<uint8_t> &contents,
              std::string &error);

} // namespace te::support

#endif // TE_SUPPORT_FILES_H
