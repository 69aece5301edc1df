//===- row_sum_args.h - arguments of row_sum ------------------------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_ROWSUM_ROW_SUM_ARGS_H
#define TE_RUNTIME_KERNELS_ROWSUM_ROW_SUM_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

struct RowSumArgs {
  const void *x; // [rows, cols]
  void *y;       // [rows]
  int64_t rows;
  int32_t cols;
  bool vectors; // 16-byte accesses are aligned
};

/// A warp sums a row.
inline constexpr int kRowSumBlock = 256;
inline constexpr int kRowSumRowsPerBlock = kRowSumBlock / 32;
/// 16-byte runs that one thread loads before it adds the first.
inline constexpr int kRowSumRuns = 8;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_ROWSUM_ROW_SUM_ARGS_H
