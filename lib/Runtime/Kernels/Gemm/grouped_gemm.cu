//===- grouped_gemm.cu - FP8 products of many groups on Hopper ------------===//
//
// One launch for the products of all groups: scaled_product.cuh over the tiles
// that group_tiles.h finds. The sizes of the groups are read on the device, so
// a captured launch serves whatever they become.
//
// Groups are either runs of rows of the result, each with its own b (forward
// and data gradient), or runs of the contracted axis, each with its own result
// (weight gradient).
//
//===----------------------------------------------------------------------===//

#include "Kernels/Gemm/grouped_tiles.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <Scales kScales, typename Out, Product product>
__device__ __forceinline__ void groupedRows(const GroupedGemmArgs &args) {
  overRows<kScales>(args, [&](uint8_t *raw, auto prepare, auto makeTiles) {
    runProduct<kScales, Out, product>(args.product, raw, prepare, makeTiles);
  });
}

template <Scales kScales, typename Out, Product product>
__device__ __forceinline__ void groupedDepth(const GroupedGemmArgs &args) {
  overDepth<kScales>(args, [&](uint8_t *raw, auto prepare, auto makeTiles) {
    runProduct<kScales, Out, product>(args.product, raw, prepare, makeTiles);
  });
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TE_BODY(function, scales, Out, product)                                \
  te::rt::cuda::function<te::rt::cuda::Scales::scales, Out,                    \
                         te::rt::cuda::ptx::product>(args)
#else
#define TE_BODY(function, scales, Out, product) __trap()
#endif

#define TE_GROUPED_GEMM(name, function, scales, Out, product)                  \
  extern "C" __global__ void __cluster_dims__(te::rt::cuda::kBlockGemmCluster) \
      __launch_bounds__(te::rt::cuda::kBlockGemmThreads, 1)                    \
          name(const __grid_constant__ te::rt::cuda::GroupedGemmArgs args) {   \
    TE_BODY(function, scales, Out, product);                                   \
  }

// te_grouped_gemm_<scales of b>_<a><b>_<result> and te_grouped_wgrad_...
#define TE_GROUPED_ROWS(name, scales, types, product)                          \
  TE_GROUPED_GEMM(te_grouped_gemm_##name##_##types##_bf16, groupedRows,        \
                  scales, __nv_bfloat16, product)                              \
  TE_GROUPED_GEMM(te_grouped_gemm_##name##_##types##_f32, groupedRows, scales, \
                  float, product)
#define TE_GROUPED_DEPTH(name, scales, types, product)                         \
  TE_GROUPED_GEMM(te_grouped_wgrad_##name##_##types##_bf16, groupedDepth,      \
                  scales, __nv_bfloat16, product)                              \
  TE_GROUPED_GEMM(te_grouped_wgrad_##name##_##types##_f32, groupedDepth,       \
                  scales, float, product)
#define TE_GROUPED_GEMMS(types, product)                                       \
  TE_GROUPED_ROWS(tensor, None, types, product)                                \
  TE_GROUPED_ROWS(1x128, LinesByLines, types, product)                         \
  TE_GROUPED_ROWS(128x128, LinesBySquares, types, product)                     \
  TE_GROUPED_DEPTH(tensor, None, types, product)                               \
  TE_GROUPED_DEPTH(1x128, LinesByLines, types, product)

TE_GROUPED_GEMMS(e4m3_e4m3, wgmmaE4M3E4M3)
TE_GROUPED_GEMMS(e5m2_e4m3, wgmmaE5M2E4M3)
TE_GROUPED_GEMMS(e4m3_e5m2, wgmmaE4M3E5M2)
