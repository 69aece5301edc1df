//===- grouped_gemm_args.h - argument of the grouped GEMM kernels ---------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GROUPED_GEMM_ARGS_H
#define TE_RUNTIME_KERNELS_GEMM_GROUPED_GEMM_ARGS_H

#include "Kernels/Gemm/block_gemm_args.h"
#include "Kernels/Gemm/group_tiles.h"

namespace te::rt::cuda {

/// Of a product whose groups are runs of rows of a and out, `product` has:
///   a [rows, k], b [groups * n, k], out [rows, n], bias [groups, n], m = rows.
/// Of one whose groups are runs of the contracted axis:
///   a [m, rows], b [n, rows], out and c [groups, m, n], k = rows.
/// Scales are those of these matrices; b's of each [n, k] come one after
/// another. Without block scales there is one for each group.
struct GroupedGemmArgs {
  BlockGemmArgs product;
  GroupShape shape;
  const int32_t *sizes; // [groups]
};

/// The stages of a product, then the table of groups, twice.
constexpr int groupedGemmSharedBytes(int64_t groups) {
  return kBlockGemmSharedBytes +
         static_cast<int>(2 * groups + 2) * static_cast<int>(sizeof(GroupSlot));
}

/// What fits in the 227 KiB a CTA may have.
inline constexpr int64_t kMaxGroups =
    (227 * 1024 - kBlockGemmSharedBytes) / sizeof(GroupSlot) / 2 - 1;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GROUPED_GEMM_ARGS_H
