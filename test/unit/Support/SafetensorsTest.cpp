//===- SafetensorsTest.cpp - safetensors files, well-formed and hostile ---===//

#include "Support/Safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace te::support;

namespace {

using Bytes = std::vector<uint8_t>;

/// A file with the given header and `dataBytes` bytes of data.
Bytes withHeader(const std::string &header, size_t dataBytes) {
  Bytes file;
  for (size_t i = 0; i < 8; ++i)
    file.push_back(static_cast<uint8_t>(uint64_t(header.size()) >> (8 * i)));
  file.insert(file.end(), header.begin(), header.end());
  for (size_t i = 0; i < dataBytes; ++i)
    file.push_back(static_cast<uint8_t>(i));
  return file;
}

/// The error of reading `file`, or "".
std::string errorOf(const Bytes &file) {
  Safetensors read;
  std::string error;
  const bool ok = parseSafetensors(file, read, error);
  EXPECT_EQ(ok, error.empty());
  return error;
}

std::string headerError(const std::string &header, size_t dataBytes) {
  return errorOf(withHeader(header, dataBytes));
}

Bytes write(const Safetensors &file) {
  Bytes bytes;
  std::string error;
  const ByteSink sink = [&](const void *from, size_t size) {
    const auto *first = static_cast<const uint8_t *>(from);
    bytes.insert(bytes.end(), first, first + size);
    return true;
  };
  EXPECT_TRUE(writeSafetensors(sink, file, error)) << error;
  return bytes;
}

/// A tensor of each type that a step supports, an empty one and a scalar.
Safetensors sample(const Bytes &data) {
  auto view = [&](const char *dtype, std::vector<int64_t> shape,
                  size_t bytes) -> SafetensorsView {
    return {dtype, std::move(shape), std::span(data).first(bytes)};
  };
  Safetensors file;
  file.tensors["f32"] = view("F32", {2, 3}, 24);
  file.tensors["bf16"] = view("BF16", {3}, 6);
  file.tensors["f16"] = view("F16", {1}, 2);
  file.tensors["e4m3"] = view("F8_E4M3", {5}, 5);
  file.tensors["e5m2"] = view("F8_E5M2", {1, 1}, 1);
  file.tensors["e8m0"] = view("F8_E8M0", {3}, 3);
  file.tensors["f4"] = view("F4", {3, 2}, 3);
  file.tensors["i32"] = view("I32", {1}, 4);
  file.tensors["i64"] = view("I64", {1}, 8);
  file.tensors["u8"] = view("U8", {2}, 2);
  file.tensors["scalar"] = view("F32", {}, 4);
  file.tensors["empty"] = view("F32", {4, 0}, 0);
  file.tensors["a \"name\" \xc3\xa9"] = view("U8", {1}, 1);
  file.metadata = {{"version", "1"}, {"recipe", "\"x\"\n"}};
  return file;
}

Bytes countingBytes(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<uint8_t>(i * 37);
  return bytes;
}

} // namespace

TEST(Safetensors, RoundTrip) {
  const Bytes data = countingBytes(64);
  const Safetensors file = sample(data);
  const Bytes bytes = write(file);
  Safetensors read;
  std::string error;
  ASSERT_TRUE(parseSafetensors(bytes, read, error)) << error;
  EXPECT_EQ(read.metadata, file.metadata);
  ASSERT_EQ(read.tensors.size(), file.tensors.size());
  for (const auto &[name, tensor] : file.tensors) {
    const SafetensorsView &other = read.tensors[name];
    EXPECT_EQ(other.dtype, tensor.dtype) << name;
    EXPECT_EQ(other.shape, tensor.shape) << name;
    EXPECT_TRUE(std::ranges::equal(other.data, tensor.data)) << name;
    // The prefix and the header have multiples of eight bytes, so the tensor is
    // aligned in the file, too.
    const int64_t size =
        std::max<int64_t>(safetensorsBits(tensor.dtype) / 8, 1);
    EXPECT_EQ((other.data.data() - bytes.data()) % size, 0) << name;
  }
}

// Compares bytes, so that writer and reader cannot have the same error.
TEST(Safetensors, WritesTheFormat) {
  const Bytes data = {1, 2, 3, 4, 5, 6};
  Safetensors file;
  file.tensors["b"] = {"U8", {2}, std::span(data).first(2)};
  file.tensors["w"] = {"BF16", {1, 2}, std::span(data).subspan(2)};
  file.metadata["k"] = "v";
  std::string header =
      R"({"__metadata__":{"k":"v"},)"
      R"("w":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  Bytes expected = withHeader(header, 0);
  expected.insert(expected.end(), {3, 4, 5, 6, 1, 2});
  EXPECT_EQ(write(file), expected);
}

TEST(Safetensors, ReadsWhatOthersWrite) {
  const Bytes file = withHeader(
      "{ \"b\" : {\"data_offsets\":[2,4],\"shape\":[2],\"dtype\":\"I8\"},\n"
      "\"\\u0061\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[0,2]}}   ",
      4);
  Safetensors read;
  std::string error;
  ASSERT_TRUE(parseSafetensors(file, read, error)) << error;
  EXPECT_EQ(read.tensors.at("a").data[1], 1);
  EXPECT_EQ(read.tensors.at("b").data[0], 2);
  EXPECT_TRUE(read.tensors.at("a").shape.empty());
  EXPECT_EQ(headerError("{}", 0), "");
}

TEST(Safetensors, SizesOfTheFile) {
  EXPECT_EQ(errorOf({1, 2, 3}),
            "not a safetensors file: expected at least 8 bytes, but got 3");
  EXPECT_EQ(errorOf({2, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'}),
            "not a safetensors file: expected a header of at most 100000000 "
            "bytes, but its first bytes say 9223372036854775810");
  EXPECT_EQ(errorOf({3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}),
            "the file ends inside its header: expected 3 bytes, but got 2");
  EXPECT_EQ(headerError("", 0), "not a safetensors file: expected the header "
                                "to begin with '{'");
  EXPECT_EQ(headerError(" {}", 0), "not a safetensors file: expected the "
                                   "header to begin with '{'");
}

TEST(Safetensors, HeadersAreChecked) {
  const struct {
    std::string header;
    size_t bytes;
    const char *error;
  } cases[] = {
      // Invalid JSON.
      {"{", 0, "JSON in UTF-8, but it is not at byte"},
      {"{} x", 0, "JSON in UTF-8"},
      {"{\"a\":1e999}", 0, "JSON in UTF-8"},
      {"{\"\xff\":{}}", 0, "JSON in UTF-8"},
      {"{\"\xed\xa0\x80\":{}}", 0, "JSON in UTF-8"},
      {"{\"a\":" + std::string(100000, '['), 0, "'a' to be an object"},
      // Invalid structure of the header.
      {R"({"a":true})", 0, "but got a boolean"},
      {R"({"a":3})", 0, "expected 'a' to be an object, but got a number"},
      {R"({"a":null})", 0, "but got null"},
      {R"({"a":{}})", 0, "'a' to have 'dtype', 'shape' and 'data_offsets'"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", 1, "'a' to have 'dtype'"},
      {R"({"a":{"dtype":"U8","shape":[1],"offsets":[0,1]}})", 1,
       "but got 'offsets'"},
      {R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1,
       "expected 'dtype' of tensor 'a' to be a string, but got a number"},
      {R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1,
       "expected 'shape' of tensor 'a' to be an array of sizes, but got"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1,
       "but got a negative number"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1,
       "not an integer of 64 bits"},
      {R"({"a":{"dtype":"U8","shape":[18446744073709551616],)"
       R"("data_offsets":[0,1]}})",
       1, "not an integer of 64 bits"},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1,
       "but got an array"},
      {R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", 1,
       "but got a string"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1,
       "two numbers, but got 1"},
      {R"({"__metadata__":3})", 0, "'__metadata__' to be an object"},
      {R"({"__metadata__":{"k":3}})", 0,
       "'k' of '__metadata__' to be a string, but got a number"},
      {R"({"__metadata__":{"k":{}}})", 0, "but got an object"},
      // Duplicate entries.
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "expected each name once, but got 'a' again"},
      {R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
       1, "'dtype' of tensor 'a' once, but got it again"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", 0, "once, but got 'k' again"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0,
       "expected each name once, but got '__metadata__' again"},
      // Invalid types and sizes.
      {R"({"a":{"dtype":"F12","shape":[1],"data_offsets":[0,1]}})", 1,
       "unknown type 'F12' of tensor 'a'"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}})", 1,
       "expected tensor 'a' to have 4 bytes, but it has bytes 0 to 1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1,
       "to have 1 bytes, but it has bytes 1 to 0"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2,
       "tensor 'a' has elements that end inside a byte"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],)"
       R"("data_offsets":[0,0]}})",
       0, "tensor 'a' has more elements than can be addressed"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775808],)"
       R"("data_offsets":[0,0]}})",
       0, "more elements than can be addressed"},
      // Invalid data.
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3,
       "expected tensor 'b' to begin at byte 2, where the one before it ends, "
       "but it has bytes 1 to 3"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5, "expected tensor 'b' to begin at byte 2"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3,
       "expected tensor 'a' to begin at byte 0"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1,
       "the file ends inside tensor 'a': expected bytes 0 to 2, but there are "
       "1"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3,
       "expected the last tensor to end the file, at byte 3 of the data, but "
       "it "
       "ends at 2"},
      {"{}", 1, "but it ends at 0"},
  };
  for (const auto &c : cases)
    EXPECT_NE(headerError(c.header, c.bytes).find(c.error), std::string::npos)
        << c.header.substr(0, 80) << ": " << headerError(c.header, c.bytes);
}

// Every truncation is an error. A changed byte gives an error with a text, or a
// file whose tensors are within its bytes.
TEST(Safetensors, DamageIsReported) {
  const Bytes data = countingBytes(64);
  const Bytes bytes = write(sample(data));
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(errorOf({bytes.begin(), bytes.begin() + size}), "");
  for (size_t i = 0; i < bytes.size(); ++i)
    for (uint8_t flip : {0x01, 0x02, 0x10, 0x80, 0xff}) {
      Bytes damaged = bytes;
      damaged[i] ^= flip;
      Safetensors read;
      std::string error;
      const bool ok = parseSafetensors(damaged, read, error);
      ASSERT_EQ(ok, error.empty());
      for (const auto &[name, tensor] : read.tensors) {
        ASSERT_GE(tensor.data.data(), damaged.data());
        ASSERT_LE(tensor.data.data() + tensor.data.size(),
                  damaged.data() + damaged.size());
      }
    }
}

TEST(Safetensors, WriterRefusesWhatNobodyCouldRead) {
  const Bytes data(8);
  const ByteSink sink = [](const void *, size_t) { return true; };
  auto refusal = [&](const char *name, SafetensorsView tensor) {
    Safetensors file;
    file.tensors[name] = std::move(tensor);
    std::string error;
    EXPECT_FALSE(writeSafetensors(sink, file, error));
    return error;
  };
  const std::span<const uint8_t> four = std::span(data).first(4);
  EXPECT_EQ(refusal("a", {"f32", {1}, four}),
            "unknown type 'f32' of tensor 'a'");
  EXPECT_EQ(refusal("a", {"F32", {2}, four}),
            "expected tensor 'a' to have 8 bytes, but it has bytes 0 to 4");
  EXPECT_EQ(refusal("__metadata__", {"F32", {1}, four}),
            "expected no tensor to be called '__metadata__'");
  EXPECT_EQ(refusal("\xff", {"F32", {1}, four}),
            "expected names and metadata to be UTF-8");
}

TEST(Safetensors, SinkThatFails) {
  const Bytes data = countingBytes(64);
  const Safetensors file = sample(data);
  for (int good = 0; good < 4; ++good) {
    int calls = 0;
    std::string error;
    EXPECT_FALSE(writeSafetensors(
        [&](const void *, size_t) { return calls++ < good; }, file, error));
    EXPECT_EQ(error, "");
  }
}
