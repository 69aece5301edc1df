//===- attention_args.h - arguments of kernels beside cuDNN's attention ---===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_ATTENTION_ATTENTION_ARGS_H
#define TE_RUNTIME_KERNELS_ATTENTION_ATTENTION_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

struct AttentionSinkGradArgs {
  const void *dout;         // [tokens, heads * headDim]
  const void *o;            // [tokens, heads * headDim]
  const float *lse;         // as in the row of attention
  const float *sinks;       // [heads]
  const int32_t *documents; // [boundaries], or null
  float *partial;           // [ceil(tokens / 128), heads]
  int64_t tokens, sequence, headDim, boundaries;
  uint32_t heads;
};

struct AttentionSeedArgs {
  const uint32_t *state; // [2], seed and offset
  int64_t *seed;         // [2], those of cuDNN
  uint32_t stream;
};

/// What cuDNN and te_attention_padding read of documents.
struct AttentionDocuments {
  /// Rows from `begin` to `end` are in documents. If the boundaries are
  /// malformed, none is.
  int64_t begin, end;
  bool malformed;
};

/// The matrices whose rows have distances of their own.
enum { kQueries, kKeys, kValues, kOutputs, kSums, kDistances };

struct AttentionDocumentsArgs {
  const int32_t *documents;      // [boundaries]
  AttentionDocuments *all;       // [1]
  int32_t *lengths;              // [boundaries - 1], rows
  int64_t *offsets;              // [kDistances, boundaries], elements
  int64_t distances[kDistances]; // elements from row to row
  int64_t tokens, sequence, boundaries;
  // In host memory: 0 without an error, and the value of the boundary.
  volatile uint64_t *error; // [2]
  uint64_t firstError;      // for boundary 0, one more for each next
};

struct AttentionPaddingArgs {
  const AttentionDocuments *all; // [1]
  uint16_t *matrices[3];         // [tokens, halves]
  int64_t halves[3];             // of a row, 2 bytes each
  int64_t tokens;
};

struct UsedRowsArgs {
  const int32_t *documents; // [boundaries]
  float *used;              // [tokens]
  int64_t tokens, boundaries;
};

inline constexpr int kSinkGradBlock = 256, kDocumentsBlock = 256,
                     kPaddingBlock = 256, kUsedRowsBlock = 256;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_ATTENTION_ATTENTION_ARGS_H
