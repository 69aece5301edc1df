//===- pointwise_args.h - arguments of the pointwise kernels --------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_POINTWISE_POINTWISE_ARGS_H
#define TE_RUNTIME_KERNELS_POINTWISE_POINTWISE_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

struct FillArgs {
  void *y;           // [count]
  const float *skip; // null, or 1 if nothing is written
  int64_t count;
  int64_t runs;  // leading runs with vector accesses; 0 if not aligned
  uint32_t word; // the value, repeated to four bytes
};

struct BiasAddArgs {
  const void *x;    // [rows, cols]
  const void *bias; // [cols]
  void *y;          // [rows, cols]
  int64_t count;    // rows * cols
  int64_t cols;
  int64_t runs; // leading runs with vector accesses; 0 if not aligned
};

/// All sizes are in units of one access.
struct CopyStridedArgs {
  const void *x;
  void *y;
  int64_t count; // parts * rows * length
  int64_t rows, length;
  int64_t xPart, xRow, yPart, yRow;
};

inline constexpr int kPointwiseBlock = 256;
/// Elements that one thread computes.
inline constexpr int kPointwiseElements = 16;
/// Runs of 16 bytes that one thread of a fill writes.
inline constexpr int kFillRuns = 2;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_POINTWISE_POINTWISE_ARGS_H
