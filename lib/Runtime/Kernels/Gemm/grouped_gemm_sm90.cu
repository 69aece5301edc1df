//===- grouped_gemm_sm90.cu - grouped FP8 GEMM on Hopper ------------------===//
//
// One launch computes the GEMMs of all groups: scaled_gemm_sm90.cuh over the
// tiles that group_tiles.h finds. The device reads the sizes of the groups, so
// a captured launch remains valid when they change.
//
// Groups are either runs of rows of the result, each with its own B (forward
// and data gradient), or runs of the contracted axis K, each with its own
// result (weight gradient).
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Gemm/grouped_tiles_sm90.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <Scales kScales, typename Out, Wgmma wgmma>
__device__ __forceinline__ void groupedRowGemm(const GroupedGemmArgs &args) {
  withRowGroups<kScales>(args, [&](uint8_t *raw, auto prepare, auto makeTiles) {
    runScaledGemm<kScales, Out, wgmma>(args.gemm, raw, prepare, makeTiles);
  });
}

template <Scales kScales, typename Out, Wgmma wgmma>
__device__ __forceinline__ void groupedKGemm(const GroupedGemmArgs &args) {
  withKGroups<kScales>(args, [&](uint8_t *raw, auto prepare, auto makeTiles) {
    runScaledGemm<kScales, Out, wgmma>(args.gemm, raw, prepare, makeTiles);
  });
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TE_BODY(function, scales, Out, wgmma)                                  \
  te::rt::cuda::function<te::rt::cuda::Scales::scales, Out,                    \
                         te::rt::cuda::ptx::wgmma>(args)
#else
#define TE_BODY(function, scales, Out, wgmma) __trap()
#endif

#define TE_GROUPED_GEMM(name, function, scales, Out, wgmma)                    \
  extern "C" __global__ void __cluster_dims__(te::rt::cuda::kBlockGemmCluster) \
      __launch_bounds__(te::rt::cuda::kBlockGemmThreads, 1)                    \
          name(const __grid_constant__ te::rt::cuda::GroupedGemmArgs args) {   \
    te::rt::cuda::ptx::beginPersistentKernel();                                \
    TE_BODY(function, scales, Out, wgmma);                                     \
  }

// te_grouped_gemm_<scales of b>_<a><b>_<result> and te_grouped_wgrad_...
#define TE_GROUPED_ROWS(name, scales, types, wgmma)                            \
  TE_GROUPED_GEMM(te_grouped_gemm_##name##_##types##_bf16, groupedRowGemm,     \
                  scales, __nv_bfloat16, wgmma)                                \
  TE_GROUPED_GEMM(te_grouped_gemm_##name##_##types##_f32, groupedRowGemm,      \
                  scales, float, wgmma)
#define TE_GROUPED_WGRAD(name, scales, types, wgmma)                           \
  TE_GROUPED_GEMM(te_grouped_wgrad_##name##_##types##_bf16, groupedKGemm,      \
                  scales, __nv_bfloat16, wgmma)                                \
  TE_GROUPED_GEMM(te_grouped_wgrad_##name##_##types##_f32, groupedKGemm,       \
                  scales, float, wgmma)
#define TE_GROUPED_GEMMS(types, wgmma)                                         \
  TE_GROUPED_ROWS(tensor, None, types, wgmma)                                  \
  TE_GROUPED_ROWS(1x128, Block1x128, types, wgmma)                             \
  TE_GROUPED_ROWS(128x128, Block1x128By128x128, types, wgmma)                  \
  TE_GROUPED_WGRAD(tensor, None, types, wgmma)                                 \
  TE_GROUPED_WGRAD(1x128, Block1x128, types, wgmma)

TE_GROUPED_GEMMS(e4m3_e4m3, wgmmaE4M3E4M3)
TE_GROUPED_GEMMS(e5m2_e4m3, wgmmaE5M2E4M3)
TE_GROUPED_GEMMS(e4m3_e5m2, wgmmaE4M3E5M2)
