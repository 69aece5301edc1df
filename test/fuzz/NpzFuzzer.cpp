//===- NpzFuzzer.cpp - any bytes as .npz and .npy -------------------------===//
//
// What is read can be written, and is read again as it was.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "Support/Npz.h"

using namespace te::support;
using te::fuzz::require;

static bool isSame(const NpyArray &a, const NpyArray &b) {
  return a.shape == b.shape && a.data == b.data;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  std::string error;
  NpyArray array;
  require(parseNpy(bytes, size, array, error) || !error.empty(),
          "an error has a sentence");
  error.clear();
  NpzArchive archive;
  if (!parseNpz(bytes, size, archive, error)) {
    require(!error.empty(), "an error has a sentence");
    return 0;
  }
  std::vector<uint8_t> written;
  const auto sink = [&](const void *part, size_t partSize) {
    const auto *first = static_cast<const uint8_t *>(part);
    written.insert(written.end(), first, first + partSize);
    return true;
  };
  if (!writeNpz(sink, archive, size % 2 == 0, error))
    return 0;
  NpzArchive again;
  require(parseNpz(written.data(), written.size(), again, error),
          "what was written is read");
  require(again.size() == archive.size(), "no array is lost");
  for (const auto &[name, value] : archive)
    require(again.count(name) && isSame(again[name], value),
            "an array stays as it was");
  return 0;
}
