//===- NpzTest.cpp - npz files, well-formed and hostile -------------------===//

#include "Support/Npz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace te::support;

namespace {

class Npz : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    path = (std::filesystem::temp_directory_path() /
            ("te-npz-test-" + std::to_string(getpid()) + ".npz"))
               .string();
    archive["x"] = {"<f4", {3, 1000}, std::vector<uint8_t>(12000, 7)};
    archive["scalar"] = {"<i4", {}, {1, 2, 3, 4}};
    archive["empty"] = {"|u1", {0, 5}, {}};
    archive["w"] = {"|V2", {3}, {1, 2, 3, 4, 5, 6}};
    for (size_t i = 0; i < archive["x"].data.size(); ++i)
      archive["x"].data[i] = static_cast<uint8_t>(i / 100);
    ASSERT_TRUE(writeNpz(path, archive, GetParam(), error)) << error;
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  void TearDown() override { std::filesystem::remove(path); }

  std::string path, error;
  NpzArchive archive;
  std::vector<uint8_t> bytes;
};

TEST_P(Npz, RoundTrip) {
  NpzArchive read;
  ASSERT_TRUE(readNpz(path, read, error)) << error;
  ASSERT_EQ(read.size(), archive.size());
  for (const auto &[name, array] : archive) {
    EXPECT_EQ(read[name].dtype, array.dtype);
    EXPECT_EQ(read[name].shape, array.shape);
    EXPECT_EQ(read[name].data, array.data);
  }
}

TEST_P(Npz, SinkGetsTheSameBytes) {
  std::vector<uint8_t> got;
  ASSERT_TRUE(writeNpz(
      [&](const void *from, size_t size) {
        const auto *begin = static_cast<const uint8_t *>(from);
        got.insert(got.end(), begin, begin + size);
        return true;
      },
      archive, GetParam(), error));
  EXPECT_EQ(got, bytes);
  EXPECT_FALSE(writeNpz([](const void *, size_t) { return false; }, archive,
                        GetParam(), error));
  EXPECT_EQ(error, "");
}

// There are more members than the 16 bits of the plain end record can count.
TEST_P(Npz, ManyMembers) {
  for (int i = 0; i < 66000; ++i)
    archive["m" + std::to_string(i)] = {
        "|u1", {1}, {static_cast<uint8_t>(i % 251)}};
  ASSERT_TRUE(writeNpz(path, archive, GetParam(), error)) << error;
  NpzArchive read;
  ASSERT_TRUE(readNpz(path, read, error)) << error;
  ASSERT_EQ(read.size(), archive.size());
  EXPECT_EQ(read["m65999"].data, archive["m65999"].data);
  EXPECT_EQ(read["x"].data, archive["x"].data);
}

// What is not asked for is not even decompressed: it may be damaged.
TEST_P(Npz, ReadsOnlyWhatIsSelected) {
  const std::string name = "x.npy";
  const auto at =
      std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
  ASSERT_NE(at, bytes.end());
  // Inside the data of "x".
  at[200] ^= 0xff;
  NpzArchive read;
  EXPECT_FALSE(parseNpz(bytes.data(), bytes.size(), read, error));
  NpzSelection selection = {{"scalar", "w", "absent"}, {"old"}};
  ASSERT_TRUE(parseNpz(bytes.data(), bytes.size(), read, error, &selection))
      << error;
  EXPECT_EQ(read.size(), 2u);
  EXPECT_EQ(read["w"].data, archive["w"].data);
  EXPECT_EQ(selection.others, (std::vector<std::string>{"empty", "x"}));
}

// With every truncation and every changed byte, the file is read or an error
// explains it.
TEST_P(Npz, DamageIsReported) {
  NpzArchive read;
  for (size_t size = 0; size < bytes.size(); size += 7) {
    error.clear();
    EXPECT_FALSE(parseNpz(bytes.data(), size, read, error));
    EXPECT_FALSE(error.empty());
  }
  for (size_t i = 0; i < bytes.size(); i += i < 400 ? 1 : 13)
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      std::vector<uint8_t> damaged = bytes;
      damaged[i] ^= flip;
      error.clear();
      EXPECT_TRUE(parseNpz(damaged.data(), damaged.size(), read, error) ||
                  !error.empty());
    }
}

INSTANTIATE_TEST_SUITE_P(, Npz, testing::Bool(), [](const auto &info) {
  return info.param ? "deflated" : "stored";
});

// A member, and the offset of the next one, exceed 32 bits. The test runs only
// on demand, because it needs 9 GiB of memory.
TEST(NpzHuge, Zip64) {
  if (!std::getenv("TE_TEST_HUGE"))
    GTEST_SKIP() << "set TE_TEST_HUGE to allocate 9 GiB";
  NpzArchive archive;
  archive["a"] = {"|u1", {(1ll << 32) + 5}, {}};
  ASSERT_TRUE(tryResize(archive["a"].data, (1ull << 32) + 5));
  archive["a"].data.back() = 3;
  archive["b"] = {"|u1", {2}, {1, 2}};
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("te-npz-huge-" + std::to_string(getpid()) + ".npz"))
          .string();
  std::string error;
  ASSERT_TRUE(writeNpz(path, archive, /*deflate=*/true, error)) << error;
  archive.clear();
  EXPECT_TRUE(readNpz(path, archive, error)) << error;
  ASSERT_EQ(archive["a"].data.size(), (1ull << 32) + 5);
  EXPECT_EQ(archive["a"].data.back(), 3);
  EXPECT_EQ(archive["b"].data, (std::vector<uint8_t>{1, 2}));
  std::filesystem::remove(path);
}

TEST(Npy, WriterRefusesWhatNobodyCouldRead) {
  const struct {
    NpyArray array;
    const char *error;
  } cases[] = {
      {{"<q4", {1}, {1, 2, 3, 4}}, "unknown type '<q4'"},
      {{"<f4", {2}, {1, 2, 3, 4}},
       "expected 8 bytes of data for the shape, but got 4"},
  };
  for (const auto &c : cases) {
    std::string error;
    EXPECT_FALSE(writeNpz([](const void *, size_t) { return true; },
                          {{"a", c.array}}, false, error));
    EXPECT_NE(error.find(c.error), std::string::npos) << error;
  }
}

TEST(Npy, ResizeSaysWhenThereIsNoMemory) {
  std::vector<uint8_t> bytes = {1, 2};
  EXPECT_FALSE(tryResize(bytes, 1ull << 62));
  EXPECT_FALSE(tryResize(bytes, ~0ull));
  EXPECT_EQ(bytes, (std::vector<uint8_t>{1, 2}));
  EXPECT_TRUE(tryResize(bytes, 3));
  EXPECT_EQ(bytes, (std::vector<uint8_t>{1, 2, 0}));
}

std::vector<uint8_t> npy(const std::string &header, size_t dataBytes) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size());
  file += static_cast<char>(header.size() >> 8);
  file += header + std::string(dataBytes, '\0');
  return {file.begin(), file.end()};
}

TEST(Npy, HeadersAreChecked) {
  const struct {
    const char *header;
    size_t bytes;
    const char *error;
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, ""},
      {"{'descr': 'bfloat16', 'fortran_order': False, 'shape': (2,)}", 4, ""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7,
       "expected 8 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9,
       "longer"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8,
       "unknown type '>f4'"},
      {"{'descr': '|O8', 'fortran_order': False, 'shape': (2,), }", 16,
       "unknown type '|O8'"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8,
       "structured"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,"
       " 4), }",
       8, "more elements"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775808,"
       "), }",
       8, "'shape'"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", 8,
       "'shape'"},
      {"{'descr': '<f8', 'fortran_order': False}", 8, "to have"},
      {"{'descr': '<f8'", 8, "header"},
      {"('descr', '<f8')", 8, "expected the header to be a dictionary"},
      {"{'descr': '<f8', 'fortran_order': 1, 'shape': (1,), }", 8,
       "expected 'fortran_order' to be True or False"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': 1}", 8, "'shape'"},
      {"{'descr': '<f8', 'order': False, 'shape': (1,), }", 8,
       "unknown header key 'order'"},
      {"{'descr: '<f8'}", 8, "expected \"'key': value\" in the header"},
  };
  for (const auto &c : cases) {
    NpyArray array;
    std::string error;
    const std::vector<uint8_t> file = npy(c.header, c.bytes);
    const bool ok = parseNpy(file.data(), file.size(), array, error);
    EXPECT_EQ(ok, *c.error == '\0') << c.header << ": " << error;
    EXPECT_NE(error.find(c.error), std::string::npos) << error;
  }
}

// A header is small, whatever it says.
TEST(Npy, HeadersAreBounded) {
  std::string sizes;
  for (int i = 0; i < 65; ++i)
    sizes += "1,";
  NpyArray array;
  std::string error;
  std::vector<uint8_t> file = npy("{'descr': '<f4', 'fortran_order': True, "
                                  "'shape': (" +
                                      sizes + "), }",
                                  4);
  EXPECT_FALSE(parseNpy(file.data(), file.size(), array, error));
  EXPECT_EQ(error, "expected 'shape' to be a tuple of at most 64 sizes");
  array = {"|u1", std::vector<int64_t>(65, 1), {1}};
  EXPECT_FALSE(writeNpz([](const void *, size_t) { return true; },
                        {{"a", array}}, false, error));
  EXPECT_EQ(error, "array 'a': expected at most 64 dimensions, but got 65");
  const auto errorOf = [&](const std::string &bytes) {
    EXPECT_FALSE(parseNpy(reinterpret_cast<const uint8_t *>(bytes.data()),
                          bytes.size(), array, error));
    return error;
  };
  EXPECT_EQ(errorOf("\x93NUMPI"),
            "not an .npy file (its first bytes are not numpy's)");
  EXPECT_EQ(errorOf(std::string("\x93NUMPY\x04\x00\x01\x00{", 11)),
            "expected .npy version 1, 2 or 3, but got 4");
  EXPECT_EQ(errorOf(std::string("\x93NUMPY\x01\x00\x02\x00{", 11)),
            "the file ends inside its header");
  // Version 2 has 32 bits for the size of a header.
  const std::string wide = std::string("\x93NUMPY\x02\x00", 8) +
                           std::string("\x00\x00\x01\x00", 4) +
                           std::string(70000, ' ');
  EXPECT_FALSE(parseNpy(reinterpret_cast<const uint8_t *>(wide.data()),
                        wide.size(), array, error));
  EXPECT_EQ(error, "expected a header of at most 65535 bytes, but got 65536");
}

TEST(Npy, FortranOrderBecomesRowMajor) {
  std::vector<uint8_t> file =
      npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", 6);
  for (int i = 0; i < 6; ++i)
    file[file.size() - 6 + i] = static_cast<uint8_t>(i);
  NpyArray array;
  std::string error;
  ASSERT_TRUE(parseNpy(file.data(), file.size(), array, error)) << error;
  EXPECT_EQ(array.data, (std::vector<uint8_t>{0, 2, 4, 1, 3, 5}));
}

} // namespace
