//===- softmax_args.h - arguments of the softmax kernels ------------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_SOFTMAX_SOFTMAX_ARGS_H
#define TE_RUNTIME_KERNELS_SOFTMAX_SOFTMAX_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

struct SoftmaxArgs {
  const void *x; // [rows, cols]; dy for the backward
  const void *y; // [rows, cols], backward only
  void *out;     // [rows, cols]
  int64_t rows;
  int32_t cols;
  float scale;
  bool vectors; // 16-byte accesses are aligned
};

/// A warp computes a row.
inline constexpr int kSoftmaxBlock = 128;
inline constexpr int kSoftmaxRowsPerBlock = kSoftmaxBlock / 32;
/// 16-byte runs of a row that one thread can keep in registers. One run for
/// each lane of a warp is 512 bytes of a row.
inline constexpr int kSoftmaxRuns = 16;
inline constexpr int kSoftmaxRunBytes = 512;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_SOFTMAX_SOFTMAX_ARGS_H
