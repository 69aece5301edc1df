//===- StepFile.cpp - the checksum of a step of te-compile ----------------===//

#include "Support/StepFile.h"

#include "Support/Files.h"
#include "Support/Sha256.h"

#include <cstring>

namespace te::support {

static constexpr char kMagic[] = "te-step sha256\n"; // 16 bytes with its zero

std::string stepChecksum(std::span<const uint8_t> object) {
  const Digest digest = sha256(object.data(), object.size());
  return std::string(kMagic, sizeof(kMagic)) +
         std::string(digest.begin(), digest.end());
}

bool checkStep(std::span<const uint8_t> file, std::string &error) {
  return guarded(error, [&] {
    constexpr size_t kSize = sizeof(kMagic) + sizeof(Digest);
    const size_t objectSize = file.size() < kSize ? 0 : file.size() - kSize;
    if (file.size() < kSize ||
        std::memcmp(&file[objectSize], kMagic, sizeof(kMagic)) != 0)
      return fail(error, "expected a step with the checksum of te-compile at "
                         "its end, but got a file that is cut off, or that "
                         "another program wrote; compile it again");
    Digest stored;
    std::memcpy(stored.data(), &file[objectSize + sizeof(kMagic)],
                stored.size());
    return sameDigest(stored, sha256(file.data(), objectSize)) ||
           fail(error, "expected the bytes of the step to have the checksum at "
                       "its end, but the file is damaged; compile it again");
  });
}

bool checkStepFile(const std::string &path, std::string &error) {
  return guarded(error, [&] {
    std::vector<uint8_t> contents;
    if (!readFile(path, contents, error))
      return false;
    if (checkStep(contents, error))
      return true;
    error = inQuotes(path) + ": " + error;
    return false;
  });
}

} // namespace te::support
