//===- FakeImages.h - the kernels of a module, for the fake libcuda -------===//

#ifndef TE_UNITTEST_RUNTIME_CUDA_FAKEIMAGES_H
#define TE_UNITTEST_RUNTIME_CUDA_FAKEIMAGES_H

#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace te::fake {

/// The names of kernels: those in the symbol tables of a fatbin's images that
/// start like ours, in plain text after a zero byte; and all kernels of PTX.
inline const std::set<std::string> &kernelsIn(const void *image) {
  static std::map<const void *, std::set<std::string>> known;
  const auto found = known.find(image);
  if (found != known.end())
    return found->second;
  struct {
    uint32_t magic;
    uint16_t version, headerBytes;
    uint64_t bytes;
  } header;
  std::memcpy(&header, image, sizeof(header));
  std::set<std::string> names;
  if (header.magic == 0xba55ed50u) {
    const std::string_view text(static_cast<const char *>(image),
                                header.headerBytes + header.bytes);
    const std::string_view start("\0te_", 4);
    for (size_t at = text.find(start); at != text.npos;
         at = text.find(start, at + 1))
      names.insert(text.data() + at + 1);
  } else {
    // In PTX, names follow ".entry".
    const std::string_view text(static_cast<const char *>(image));
    const std::string_view start(".entry ");
    for (size_t at = text.find(start); at != text.npos;
         at = text.find(start, at + 1)) {
      const std::string_view rest = text.substr(at + start.size());
      names.emplace(rest.substr(0, rest.find('(')));
    }
  }
  return known[image] = std::move(names);
}

} // namespace te::fake

#endif // TE_UNITTEST_RUNTIME_CUDA_FAKEIMAGES_H
