//===- FilesTest.cpp - files when host memory runs out --------------------===//

#include "Memory/FailingMemory.h"
#include "Support/Npz.h"
#include "Support/Safetensors.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <unistd.h>

using namespace te::support;
using te::memory::Attempt;

namespace {

/// `read(error)` as an Attempt wants it.
template <typename Read> auto checked(Read read) {
  return [=](bool &outOfMemory) {
    std::string error;
    const bool works = read(error);
    outOfMemory = error.find("memory") != std::string::npos;
    return works;
  };
}

const NpzArchive &arrays() {
  static const NpzArchive archive = {
      {"an array with a name that needs memory",
       {"<f4", {3, 1000}, std::vector<uint8_t>(12000, 7)}},
      {"w", {"|V2", {3}, {1, 2, 3, 4, 5, 6}}},
      {"empty", {"bfloat16", {0, 5}, {}}}};
  return archive;
}

TEST(OutOfMemory, OfNpz) {
  for (bool deflate : {false, true}) {
    std::vector<uint8_t> bytes;
    std::string error;
    const ByteSink sink = [&](const void *from, size_t size) {
      const auto *begin = static_cast<const uint8_t *>(from);
      bytes.insert(bytes.end(), begin, begin + size);
      return true;
    };
    ASSERT_TRUE(writeNpz(sink, arrays(), deflate, error)) << error;
    te::memory::sweep([&](Attempt &attempt) {
      NpzArchive read;
      if (attempt(checked([&](std::string &error) {
            return parseNpz(bytes.data(), bytes.size(), read, error);
          })))
        attempt.expect(read.size() == 3 && read["w"].data.back() == 6);
    });
    size_t written = 0;
    const ByteSink counts = [&](const void *, size_t size) {
      written += size;
      return true;
    };
    te::memory::sweep([&](Attempt &attempt) {
      if (attempt(checked([&](std::string &error) {
            written = 0;
            return writeNpz(counts, arrays(), deflate, error);
          })))
        attempt.expect(written == bytes.size());
    });
    // A file that is no archive, whose message has a name in it.
    bytes.resize(bytes.size() / 2);
    te::memory::sweep([&](Attempt &attempt) {
      NpzArchive read;
      std::string error;
      attempt.expect(!parseNpz(bytes.data(), bytes.size(), read, error) &&
                     !error.empty());
    });
  }
}

TEST(OutOfMemory, OfSafetensors) {
  const std::vector<uint8_t> data(4000, 3);
  Safetensors file;
  file.metadata = {{"a key that needs memory", "and a value that does, too"}};
  file.tensors["a tensor with a name that needs memory"] = {
      "F32", {10, 100}, data};
  std::vector<uint8_t> bytes;
  std::string error;
  ASSERT_TRUE(writeSafetensors(
      [&](const void *from, size_t size) {
        const auto *begin = static_cast<const uint8_t *>(from);
        bytes.insert(bytes.end(), begin, begin + size);
        return true;
      },
      file, error))
      << error;
  te::memory::sweep([&](Attempt &attempt) {
    Safetensors read;
    if (attempt(checked([&](std::string &error) {
          return parseSafetensors(bytes, read, error);
        })))
      attempt.expect(read.tensors.begin()->second.data.size() == data.size() &&
                     read.metadata == file.metadata);
  });
  te::memory::sweep([&](Attempt &attempt) {
    attempt(checked([&](std::string &error) {
      return writeSafetensors([](const void *, size_t) { return true; }, file,
                              error);
    }));
  });
}

TEST(OutOfMemory, OfFiles) {
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("te-memory-test-" + std::to_string(getpid()) + ".npy"))
          .string();
  std::string error;
  ASSERT_TRUE(writeNpy(path, arrays().begin()->second, error)) << error;
  te::memory::sweep([&](Attempt &attempt) {
    NpyArray read;
    if (attempt(checked(
            [&](std::string &error) { return readNpy(path, read, error); })))
      attempt.expect(read.shape.size() == 2 && read.shape[1] == 1000);
  });
  std::filesystem::remove(path);
}

} // namespace
