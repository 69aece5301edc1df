//===- GroupedGemm.cpp - plans of products of groups of rows --------------===//
//
// One persistent kernel makes the products of all groups; what the groups are,
// it reads from device memory. The grid is for the most tiles that the shapes
// allow.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"
#include "Kernels/Gemm/BlockGemm.h"
#include "Kernels/Gemm/grouped_gemm_args.h"
#include "Kernels/LaunchPlan.h"
#include "TEDialect/Support/SupportTable.h"

#include <algorithm>

namespace te::rt::cuda {

namespace support = te_table;
namespace {

/// Buffer indices of one of the two kernels; -1 where it has none.
struct Buffers {
  int a, aScale, b, bScale, sizes, bias, c, out;
};

/// What may be aligned less than the 16 bytes a kernel copies or stores at a
/// time: the sizes, and scales that are one number for a group.
class GroupedGemmPlan final : public Plan {
public:
  GroupedGemmPlan(const CudaDevice &device, LaunchConfig config,
                  GroupedGemmArgs args, Buffers index, bool blocks)
      : device(device), config(std::move(config)), args(args), index(index),
        blocks(blocks) {}

  Status launch(void *stream, void *const *buffers) override {
    auto given = [&](int i) { return i < 0 ? nullptr : buffers[i]; };
    for (auto [i, name, needed] :
         {std::tuple<int, const char *, bool>{index.a, "a", true},
          {index.aScale, "a_scale", blocks},
          {index.b, "b", true},
          {index.bScale, "b_scale", blocks},
          {index.bias, "bias", true},
          {index.c, "c", true},
          {index.out, "out", true}})
      if (needed && !isAligned(given(i), 16))
        return {TE_RT_INVALID_ARGUMENT, std::string("expected '") + name +
                                            "' to be aligned to 16 bytes"};
    BlockGemmArgs &p = args.product;
    TE_RT_RETURN_IF_FAILED(mapA.encode(device, given(index.a), p.m, p.k, &p.a));
    TE_RT_RETURN_IF_FAILED(
        mapB.encode(device, given(index.b), bRows(), p.k, &p.b));
    p.a_scale = static_cast<const float *>(given(index.aScale));
    p.b_scale = static_cast<const float *>(given(index.bScale));
    p.bias = given(index.bias);
    p.c = given(index.c);
    p.out = given(index.out);
    args.sizes = static_cast<const int32_t *>(given(index.sizes));
    return Launcher(device, stream)(config, args);
  }

private:
  /// Lines of b: groups in rows have one each.
  uint64_t bRows() const {
    return uint64_t{args.product.n} * (index.c < 0 ? args.shape.groups : 1);
  }

  const CudaDevice &device; // outlives every plan of its backend
  LaunchConfig config;
  GroupedGemmArgs args;
  Buffers index;
  bool blocks;
  OperandMap mapA, mapB;
};

/// Products with an empty axis: zeros, or c.
Status planEmpty(const CudaDevice &device, int64_t bytes, int bias, int c,
                 int out, std::unique_ptr<Plan> *plan) {
  *plan = makePlan(device, [=](const Launcher &launch, void *const *buffers) {
    if (bytes != 0 && bias >= 0 && buffers[bias])
      return Status(TE_RT_UNSUPPORTED,
                    "expected 'k' to be at least 1 in a product with a bias, "
                    "but got 0");
    if (c < 0 || !buffers[c])
      return launch.zero(buffers[out], bytes);
    return buffers[c] == buffers[out]
               ? Status::ok()
               : launch.copy(buffers[out], buffers[c], bytes);
  });
  return Status::ok();
}

/// Whether there is a kernel; `squares`: also for 128x128 blocks of b.
template <typename Params>
Status checkKernel(const char *kernel, const CudaDevice &device,
                   const Params &params, bool squares) {
  auto refuse = [&](const std::string &what) {
    return Status(TE_RT_UNSUPPORTED, std::string(kernel) + ": expected " +
                                         what +
                                         "; the nearest supported is the "
                                         "'reference' backend");
  };
  if (device.computeMajor != 9 || device.computeMinor != 0)
    return refuse("a GPU of compute capability 9.0, but got " +
                  std::to_string(device.computeMajor) + "." +
                  std::to_string(device.computeMinor));
  const auto isPair = [&](int32_t a, int32_t b) {
    return params.a_scheme == a && params.b_scheme == b;
  };
  if (!isPair(TE_RT_PER_TENSOR, TE_RT_PER_TENSOR) &&
      !isPair(TE_RT_BLOCK_1X128, TE_RT_BLOCK_1X128) &&
      !(squares && isPair(TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128)))
    return refuse(std::string("both schemes to be 'per_tensor' or "
                              "'block_1x128'") +
                  (squares ? ", or 'b_scheme' 'block_128x128'" : "") +
                  ", but got '" + support::schemeName(params.a_scheme) +
                  "' and '" + support::schemeName(params.b_scheme) + "'");
  if (params.out_type != TE_RT_BF16 && params.out_type != TE_RT_F32)
    return refuse("'out_type' to be 'bf16' or 'f32', but got '" +
                  support::typeName(params.out_type) + "'");
  if (params.groups > kMaxGroups)
    return refuse("at most " + std::to_string(kMaxGroups) +
                  " 'groups', but got " + std::to_string(params.groups));
  return Status::ok();
}

/// Sets what both kernels have in common. `tiles` is the most there can be.
template <typename Params>
Status plan(const CudaDevice &device, const Params &params,
            const std::string &family, int64_t m, int64_t k, int64_t tiles,
            Buffers index, std::unique_ptr<Plan> *plan) {
  // Tiles and rows are counted in 32 bits.
  const int64_t largest =
      std::max({m, k, tiles, params.groups * params.n, params.rows});
  if (largest >= int64_t(1) << 31)
    return {TE_RT_UNSUPPORTED,
            family + ": expected at most 2147483647 rows and tiles, but got " +
                std::to_string(largest)};
  const bool blocks = params.a_scheme != TE_RT_PER_TENSOR;
  const bool squares = params.b_scheme == TE_RT_BLOCK_128X128;
  GroupedGemmArgs args = {};
  args.product.m = static_cast<uint32_t>(m);
  args.product.n = static_cast<uint32_t>(params.n);
  args.product.k = static_cast<uint32_t>(k);
  args.product.a_scale_stride = static_cast<uint32_t>(roundUp(m, 4));
  args.product.b_scale_stride = static_cast<uint32_t>(
      roundUp(squares ? ceilDiv(k, kBlockGemmDepth) : params.n, 4));
  args.shape = {static_cast<uint32_t>(params.rows),
                static_cast<uint32_t>(params.groups),
                static_cast<uint32_t>(params.alignment)};
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(
      device,
      family +
          (!blocks   ? "_tensor_"
           : squares ? "_128x128_"
                     : "_1x128_") +
          fp8TypeName(params.a_type) + "_" + fp8TypeName(params.b_type) +
          (params.out_type == TE_RT_BF16 ? "_bf16" : "_f32"),
      groupedGemmSharedBytes(params.groups)));
  config.block = kBlockGemmThreads;
  config.gridX = kBlockGemmCluster *
                 static_cast<unsigned>(std::min<int64_t>(
                     device.multiprocessors / kBlockGemmCluster, tiles));
  *plan = std::make_unique<GroupedGemmPlan>(device, std::move(config), args,
                                            index, blocks);
  return Status::ok();
}

} // namespace

Status plan_grouped_scaled_matmul(const CudaDevice &device,
                                  const grouped_scaled_matmul_params &params,
                                  std::unique_ptr<Plan> *result) {
  namespace b = grouped_scaled_matmul_buffers;
  TE_RT_RETURN_IF_FAILED(
      checkKernel("grouped_scaled_matmul", device, params, true));
  const int64_t outBytes = params.rows * params.n * byteSize(params.out_type);
  if (outBytes == 0 || params.k == 0)
    return planEmpty(device, outBytes, b::bias, -1, b::out, result);
  // Each group, and the rows of none, may end with part of a tile.
  const int64_t tiles = (ceilDiv(params.rows, kTileRows) + params.groups + 1) *
                        ceilDiv(params.n, kTileCols);
  return plan(
      device, params, "te_grouped_gemm", params.rows, params.k, tiles,
      {b::a, b::a_scale, b::b, b::b_scale, b::group_sizes, b::bias, -1, b::out},
      result);
}

Status plan_grouped_scaled_wgrad(const CudaDevice &device,
                                 const grouped_scaled_wgrad_params &params,
                                 std::unique_ptr<Plan> *result) {
  namespace b = grouped_scaled_wgrad_buffers;
  TE_RT_RETURN_IF_FAILED(
      checkKernel("grouped_scaled_wgrad", device, params, false));
  const int64_t outBytes =
      params.groups * params.m * params.n * byteSize(params.out_type);
  if (outBytes == 0 || params.rows == 0)
    return planEmpty(device, outBytes, -1, b::c, b::out, result);
  const int64_t tiles = ceilDiv(params.m, kTileRows) *
                        ceilDiv(params.n, kTileCols) * params.groups;
  return plan(
      device, params, "te_grouped_wgrad", params.m, params.rows, tiles,
      {b::a, b::a_scale, b::b, b::b_scale, b::group_sizes, -1, b::c, b::out},
      result);
}

} // namespace te::rt::cuda
