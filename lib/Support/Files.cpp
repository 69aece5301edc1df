//===- Files.cpp - bytes of files and sentences about them ----------------===//

#include "Support/Files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace te::support {

static bool canAllocate(uint64_t bytes) {
  // Not operator new, whose handler may end the process; volatile, because
  // the compiler may remove an allocation that is not used.
  void *volatile memory = std::malloc(bytes);
  std::free(memory);
  return memory;
}

bool fail(std::string &error, std::string message) {
  error = std::move(message);
  return false;
}

std::string inQuotes(std::string_view text) {
  std::string result = "'";
  for (char c : text.substr(0, 200))
    result += c >= 0x20 && c < 0x7f ? c : '?';
  return result + "'";
}

std::string shapeText(const std::vector<int64_t> &shape) {
  constexpr size_t kMost = 16;
  std::string text = "[";
  for (size_t i = 0; i < shape.size() && i < kMost; ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  if (shape.size() > kMost)
    text += ", ... (" + std::to_string(shape.size()) + " dimensions)";
  return text + "]";
}

std::string noMemory(uint64_t bytes) {
  return "no memory for " + std::to_string(bytes) + " bytes";
}

bool tryResize(std::vector<uint8_t> &bytes, uint64_t size) {
  if (size > bytes.max_size() ||
      (size > bytes.capacity() && !canAllocate(size)))
    return false;
  std::string ignored;
  return guarded(ignored, [&] {
    bytes.resize(size);
    return true;
  });
}

static bool readWhole(const std::string &path, std::vector<uint8_t> &contents,
                      std::string &error) {
  std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "rb"),
                                              std::fclose);
  if (!file)
    return fail(error,
                "cannot open " + inQuotes(path) + ": " + std::strerror(errno));
  // Reading one may never end.
  struct stat status = {};
  if (::fstat(::fileno(file.get()), &status) == 0 &&
      (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)))
    return fail(error, "cannot read " + inQuotes(path) +
                           ": expected a file, but got a device");
  contents.clear();
  constexpr size_t kChunk = 1 << 20;
  for (size_t got = kChunk; got == kChunk;) {
    const size_t old = contents.size();
    // The vector doubles; it cannot say that it could not.
    if (old + kChunk > contents.capacity() && !canAllocate(2 * old + kChunk))
      return fail(error, "cannot read " + inQuotes(path) + ": " +
                             noMemory(2 * old + kChunk));
    contents.resize(old + kChunk);
    got = std::fread(contents.data() + old, 1, kChunk, file.get());
    contents.resize(old + got);
  }
  if (std::ferror(file.get()))
    return fail(error,
                "cannot read " + inQuotes(path) + ": " + std::strerror(errno));
  return true;
}

bool readFile(const std::string &path, std::vector<uint8_t> &contents,
              std::string &error) {
  return guarded(error, [&] { return readWhole(path, contents, error); });
}

} // namespace te::support
