//===- Safetensors.h - reading and writing .safetensors files -------------===//
//
// Checkpoints are safetensors files: eight bytes with the size of a header, the
// header in JSON, and the tensors' bytes one after the other. The format leaves
// nothing open, so neither does the reader: each byte of the data belongs to
// one tensor, a name is there once, and a size says what its shape and type
// say. Nothing throws.
//
// A type of less than eight bits is packed; its shape counts elements.
//
//===----------------------------------------------------------------------===//

#ifndef TE_SUPPORT_SAFETENSORS_H
#define TE_SUPPORT_SAFETENSORS_H

#include "Support/Files.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace te::support {

/// A dense row-major tensor; its bytes are somebody else's.
struct SafetensorsView {
  /// As the format calls it: 'F32', 'BF16', 'F8_E4M3', ...
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const uint8_t> data;
};

struct Safetensors {
  std::map<std::string, SafetensorsView> tensors;
  std::map<std::string, std::string> metadata;
};

/// Bits of one element of `dtype`, or 0 where the format has no such type.
int64_t safetensorsBits(std::string_view dtype);

// These return true on success; otherwise they return false, and `error` is a
// sentence that names the tensor and what is wrong with it.

/// The tensors are views of `bytes`.
bool parseSafetensors(std::span<const uint8_t> bytes, Safetensors &file,
                      std::string &error);

/// Tensors are written by falling size of their elements, so that each begins
/// at a multiple of it, then by name; equal contents give equal files. Where
/// the sink fails `error` stays empty: only the sink knows why.
bool writeSafetensors(const ByteSink &sink, const Safetensors &file,
                      std::string &error);

} // namespace te::support

#endif // TE_SUPPORT_SAFETENSORS_H
