//===- grouped_gemm_args.h - argument of the grouped GEMM kernels ---------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GROUPED_GEMM_ARGS_H
#define TE_RUNTIME_KERNELS_GEMM_GROUPED_GEMM_ARGS_H

#include "Kernels/Gemm/block_gemm_args.h"
#include "Kernels/Gemm/group_tiles.h"

namespace te::rt::cuda {

/// The shapes in `gemm` if groups are runs of rows of a and out:
///   a [rows, k], b [groups * n, k], out [rows, n], bias [groups, n], m = rows.
/// The shapes if groups are runs of the contracted axis:
///   a [m, rows], b [n, rows], out and c [groups, m, n], k = rows.
/// Scales belong to these matrices; those of each [n, k] of b follow one
/// another. Without block scales there is one scale for each group.
struct GroupedGemmArgs {
  BlockGemmArgs gemm;
  GroupShape shape;
  const int32_t *sizes; // [groups]
};

/// The stages of the pipeline, then the table of groups, twice.
constexpr int groupedGemmSharedBytes(int64_t groups) {
  return kBlockGemmSharedBytes +
         static_cast<int>(2 * groups + 2) * static_cast<int>(sizeof(GroupSlot));
}

/// The largest number of groups whose tables fit in the 227 KiB of a CTA.
inline constexpr int64_t kMaxGroups =
    (227 * 1024 - kBlockGemmSharedBytes) / sizeof(GroupSlot) / 2 - 1;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GROUPED_GEMM_ARGS_H
