//===- KernelRows.h - facts and sizes of the kernels, for both sides ------===//
//
// What Kernels.td says of each kernel beside its parameters and buffers: the
// hash of its row, which buffers may be one, what a launch takes in scratch
// memory, and how large each buffer is. Parameters are given as integers in the
// order of the row, floating-point ones as 0. No MLIR and no LLVM, so that the
// runtime can ask too.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_SUPPORT_KERNELROWS_H
#define TEDIALECT_SUPPORT_KERNELROWS_H

#include "TEDialect/Runtime/te_runtime_types.h"
#include "TEDialect/Support/SupportTable.h"

#include <algorithm>

namespace te_table {

/// Elements of a buffer and their te_rt_dtype; FP4 is counted in values.
struct BufferSize {
  int64_t count, type;

  constexpr int64_t bytes() const {
    switch (type) {
    case TE_RT_F32:
    case TE_RT_I32:
      return count * 4;
    case TE_RT_BF16:
    case TE_RT_F16:
      return count * 2;
    case TE_RT_F4E2M1FN:
      return count / 2;
    default:
      return count;
    }
  }
};

/// Buffer `output` may be the memory of buffer `input`, of the same size.
struct KernelReuse {
  int output, input;
};

/// What decides the bits of a launch; the fields are those of the records in
/// KernelSchema.td.
struct Determinism {
  const char *name;
  bool eachRun, eachProcess, needsChoice, isLibrary;
  const char *why, *remedy;
};

/// One kernel; its place is that in te_runtime_kernels.inc.
struct KernelRow {
  const char *name;
  /// Of the row's name, parameters, buffers and meaning.
  uint64_t hash;
  bool isCollective;
  const KernelReuse *reuses;
  int numReuses;
  /// Of all buffers, in order.
  void (*sizes)(const int64_t *parameters, BufferSize *buffers);
  /// Most bytes of scratch memory of a launch on cuda; null where it takes
  /// none.
  int64_t (*workspace)(const int64_t *parameters);
  const Determinism *(*bits)(const int64_t *parameters, Target target);

  int64_t workspaceBytes(const int64_t *parameters) const {
    return workspace ? workspace(parameters) : 0;
  }
};

/// What the rows of KernelRows.inc are written with.
namespace kernel_rows {

/// Elements whose type does not matter.
inline constexpr int64_t byte = TE_RT_F8E4M3FN;

constexpr int64_t ceilDiv(int64_t a, int64_t b) {
  return b > 0 ? (a + b - 1) / b : 0;
}
constexpr int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }

/// Gated activations read two matrices side by side.
constexpr int64_t inputs(int64_t kind) { return kind >= TE_RT_SWIGLU ? 2 : 1; }

/// Multiple of both sizes of a value.
inline int64_t sizeMultiple(int64_t scheme) {
  return isScheme(scheme) ? schemeRow(scheme).multiple : 1;
}
inline int64_t scaleType(int64_t scheme) {
  return isScheme(scheme) ? schemeRow(scheme).scaleType : TE_RT_F32;
}
constexpr int64_t dataType(int64_t scheme) {
  return scheme >= TE_RT_NV_1X16 ? TE_RT_F4E2M1FN : TE_RT_F8E4M3FN;
}

/// Scales of a value [rows, cols] made for contraction along `axis`, padding
/// included.
inline int64_t scales(int64_t scheme, int64_t rows, int64_t cols,
                      int64_t axis) {
  const int64_t outer = axis == 1 ? rows : cols,
                contraction = axis == 1 ? cols : rows;
  switch (scheme) {
  case TE_RT_PER_TENSOR:
    return 1;
  case TE_RT_BLOCK_1X128:
    return ceilDiv(contraction, 128) * roundUp(outer, 4);
  case TE_RT_BLOCK_128X128:
    return ceilDiv(outer, 128) * roundUp(ceilDiv(contraction, 128), 4);
  default:
    return roundUp(outer, 128) *
           roundUp(ceilDiv(contraction, sizeMultiple(scheme)), 4);
  }
}
/// Of a value in group layout: one for each group where a tensor has one.
inline int64_t scalesOfGroups(int64_t scheme, int64_t rows, int64_t cols,
                              int64_t axis, int64_t groups) {
  return scheme == TE_RT_PER_TENSOR ? groups : scales(scheme, rows, cols, axis);
}
/// Blocks of a value, without padding.
inline int64_t blocks(int64_t scheme, int64_t rows, int64_t cols,
                      int64_t axis) {
  const bool isSquare = scheme == TE_RT_BLOCK_128X128 ||
                        scheme == TE_RT_MX_32X32 || scheme == TE_RT_NV_16X16;
  const int64_t side =
      scheme <= TE_RT_BLOCK_128X128 ? 128 : sizeMultiple(scheme);
  return ceilDiv(rows, isSquare || axis == 0 ? side : 1) *
         ceilDiv(cols, isSquare || axis == 1 ? side : 1);
}

/// Bytes from the first to the last of rows that lie apart.
constexpr int64_t strideExtent(int64_t parts, int64_t rows, int64_t bytes,
                               int64_t part, int64_t row) {
  return parts > 0 && rows > 0 ? (parts - 1) * part + (rows - 1) * row + bytes
                               : 0;
}

/// Rows whose sums of columns are kept for the next step of a chunk or strip
/// sum, as f32.
inline constexpr int64_t kChunkSumRows = 128, kStripSumRows = 32;
constexpr int64_t columnSumBytes(int64_t rows, int64_t cols, int64_t runRows) {
  return ceilDiv(rows, runRows) * cols * 4;
}

/// Elements of one run of sum_of_squares.
inline constexpr int64_t kSquaresRun = 4096;

/// Elements of AdamW's 8-bit moments that share a scale.
inline constexpr int64_t kMomentBlock = 128;

/// The most blocks of a GPU that route tokens: each of them reads the counts of
/// all.
inline constexpr int64_t kMostRouteBlocks = 64;

/// 13 f64 for each run of elements.
inline constexpr int64_t kStatsRun = 32768, kStatsRowBytes = 104;

/// What cuBLASLt may take for one product.
inline constexpr int64_t kProductWorkspaceBytes = int64_t(32) << 20;

template <const Determinism &bits>
constexpr const Determinism *always(const int64_t *, Target) {
  return &bits;
}

#include "TEDialect/Support/KernelRows.inc"

} // namespace kernel_rows

using kernel_rows::kKernelRows;

/// What decides the bits of a launch of `row` on `target`.
inline const Determinism &
determinismOf(const KernelRow &row, const int64_t *parameters, Target target) {
  const Determinism &bits = *row.bits(parameters, target);
  return bits.isLibrary && target == Target::Reference ? kernel_rows::FixedOrder
                                                       : bits;
}

/// The row called `name`, or null.
inline const KernelRow *findKernelRow(std::string_view name) {
  const KernelRow *row = std::lower_bound(
      std::begin(kKernelRows), std::end(kKernelRows), name,
      [](const KernelRow &a, std::string_view b) { return a.name < b; });
  return row != std::end(kKernelRows) && row->name == name ? row : nullptr;
}

} // namespace te_table

#endif // TEDIALECT_SUPPORT_KERNELROWS_H
