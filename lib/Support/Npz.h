//===- Npz.h - reading and writing numpy's .npy and .npz files ------------===//
//
// Tensors cross the command line as .npz. The type string of an array is kept
// as it was written ('<f4', '|u1', '<V2', 'bfloat16', ...): what the bytes mean
// is the caller's business, only their size is checked here. Files come from
// outside, so every length is checked before it is used; nothing throws.
//
// Supported: .npy versions 1, 2 and 3, little-endian, both memory orders (the
// result is always row-major); .npz with stored or deflated members, zip64
// included. Not supported: structured types, Python objects, encryption.
//
//===----------------------------------------------------------------------===//

#ifndef TE_SUPPORT_NPZ_H
#define TE_SUPPORT_NPZ_H

#include "Support/Files.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace te::support {

/// A dense row-major array.
struct NpyArray {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<uint8_t> data;

  int64_t numElements() const;
};

/// Arrays by name, without the '.npy' of their member files.
using NpzArchive = std::map<std::string, NpyArray>;

/// Which arrays of an archive to read.
struct NpzSelection {
  std::set<std::string, std::less<>> names;
  /// Set to the names of the others, in the order of the archive.
  std::vector<std::string> others;
};

/// More dimensions than any array of numpy has.
constexpr size_t kMaxNpyRank = 64;

/// Bytes of one element of `dtype`, or 0 where the string is not known. Known
/// are numpy's codes of kinds b, i, u, f, c and V (with an optional '<', '|' or
/// '='), and the names of ml_dtypes' types of one and two bytes.
int64_t dtypeByteSize(std::string_view dtype);

/// The bytes of an array; false where that is more than can be addressed.
bool checkedByteSize(const std::vector<int64_t> &shape, int64_t elementSize,
                     int64_t &bytes);

// All of the following return true on success; otherwise they return false,
// and `error` is a sentence that names the file or member and what is wrong
// with it. Outputs are unspecified after an error.

bool parseNpy(const uint8_t *bytes, size_t size, NpyArray &array,
              std::string &error);
/// With a `selection`, arrays that are not in it are neither checked nor
/// decompressed.
bool parseNpz(const uint8_t *bytes, size_t size, NpzArchive &archive,
              std::string &error, NpzSelection *selection = nullptr);

bool readNpy(const std::string &path, NpyArray &array, std::string &error);
bool readNpz(const std::string &path, NpzArchive &archive, std::string &error,
             NpzSelection *selection = nullptr);

/// Writes version 1. A `dtype` numpy has no code for is written as raw bytes
/// ('|V<size>').
bool writeNpy(const std::string &path, const NpyArray &array,
              std::string &error);
/// Members are sorted by name and carry no date, so equal archives give equal
/// files of any size. `deflate` compresses them.
bool writeNpz(const std::string &path, const NpzArchive &archive, bool deflate,
              std::string &error);

/// The same to `sink`, front to back, the arrays straight from their memory.
/// Where the sink fails `error` stays empty: only the sink knows why.
bool writeNpz(const ByteSink &sink, const NpzArchive &archive, bool deflate,
              std::string &error);

} // namespace te::support

#endif // TE_SUPPORT_NPZ_H
