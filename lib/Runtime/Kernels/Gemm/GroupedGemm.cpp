//===- GroupedGemm.cpp - plans of the grouped GEMMs for Hopper ------------===//
//
// One persistent kernel computes the GEMMs of all groups. It reads the sizes of
// the groups from device memory, so the grid is for the largest number of tiles
// that the shapes allow.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"
#include "Kernels/Gemm/BlockGemm.h"
#include "Kernels/Gemm/grouped_gemm_args.h"
#include "Kernels/LaunchPlan.h"
#include "TEDialect/Support/SupportTable.h"

#include <algorithm>
#include <optional>

namespace te::rt::cuda {

namespace support = te_table;
namespace {

/// The buffer indices of one of the kernels, or -1 if it has no such buffer. A
/// kernel without scales has its factor `alpha` in the place of `aScale`.
struct Buffers {
  int a, aScale, b, bScale, sizes, bias, c, out, keep;
};

/// What the tensor maps of a kernel describe. Only an f32 c has one.
struct Views {
  TensorView a, b;
  std::optional<TensorView> c;
  std::optional<TensorView> aScale, bScale; // of 1x128 scales
};

/// Kernels load and store 16 bytes at a time, so a launch checks the alignment
/// of its buffers, except for the sizes and for scales that are one number a
/// group.
class GroupedGemmPlan final : public Plan {
public:
  GroupedGemmPlan(const CudaDevice &device, LaunchConfig config,
                  GroupedGemmArgs args, Views views, Buffers index, bool blocks)
      : device(device), config(std::move(config)), args(args), views(views),
        index(index), blocks(blocks) {}

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
    BlockGemmArgs &gemm = args.gemm;
    TE_RT_RETURN_IF_FAILED(
        mapA.encode(device, views.a, given(index.a), &gemm.a));
    TE_RT_RETURN_IF_FAILED(
        mapB.encode(device, views.b, given(index.b), &gemm.b));
    if (views.c && given(index.c))
      TE_RT_RETURN_IF_FAILED(
          mapC.encode(device, *views.c, given(index.c), &gemm.cMap));
    if (views.aScale)
      TE_RT_RETURN_IF_FAILED(mapAScale.encode(
          device, *views.aScale, given(index.aScale), &gemm.aScale));
    if (views.bScale)
      TE_RT_RETURN_IF_FAILED(mapBScale.encode(
          device, *views.bScale, given(index.bScale), &gemm.bScale));
    gemm.a_scale = static_cast<const float *>(given(index.aScale));
    gemm.b_scale = static_cast<const float *>(given(index.bScale));
    gemm.bias = given(index.bias);
    gemm.c = given(index.c);
    gemm.keep = static_cast<const float *>(given(index.keep));
    gemm.out = given(index.out);
    args.sizes = static_cast<const int32_t *>(given(index.sizes));
    return Launcher(device, stream)(config, args);
  }

private:
  const CudaDevice &device; // outlives every plan of its backend
  LaunchConfig config;
  GroupedGemmArgs args;
  Views views;
  Buffers index;
  bool blocks;
  OperandMap mapA, mapB, mapC, mapAScale, mapBScale;
};

/// Plans a matmul with an empty axis: the result is zeros, or c if it is kept.
Status planEmpty(const CudaDevice &device, int64_t bytes, Buffers index,
                 std::unique_ptr<Plan> *plan) {
  std::shared_ptr<Plan> fill;
  if (bytes != 0 && index.keep >= 0) {
    std::unique_ptr<Plan> zeros;
    TE_RT_RETURN_IF_FAILED(
        plan_fill(device, {bytes / 2, TE_RT_BF16, 0.0f}, &zeros));
    fill = std::move(zeros);
  }
  *plan = makePlan(device, [=](const Launcher &launch, void *const *buffers) {
    const auto [bias, c, out, keep] =
        std::tuple(index.bias, index.c, index.out, index.keep);
    if (bytes != 0 && bias >= 0 && buffers[bias])
      return Status(TE_RT_UNSUPPORTED,
                    "expected 'k' to be at least 1 in a matmul with a bias, "
                    "but got 0");
    if (c < 0 || !buffers[c])
      return launch.zero(buffers[out], bytes);
    if (buffers[c] != buffers[out])
      TE_RT_RETURN_IF_FAILED(launch.copy(buffers[out], buffers[c], bytes));
    if (!fill || !buffers[keep])
      return Status::ok();
    void *filled[fill_buffers::count_] = {};
    filled[fill_buffers::y] = buffers[out];
    filled[fill_buffers::skip] = buffers[keep];
    return fill->launch(launch.rawStream(), filled);
  });
  return Status::ok();
}

/// Checks the requirements of every kernel here on the device and the groups.
template <typename Params>
Status checkGroups(const char *kernel, const CudaDevice &device,
                   const Params &params,
                   std::initializer_list<std::pair<bool, std::string>> others) {
  std::string wanted;
  if (device.computeMajor != 9 || device.computeMinor != 0)
    wanted = "a GPU of compute capability 9.0, but got " +
             std::to_string(device.computeMajor) + "." +
             std::to_string(device.computeMinor);
  for (const auto &[holds, what] : others)
    if (!holds && wanted.empty())
      wanted = what;
  if (params.groups > kMaxGroups && wanted.empty())
    wanted = "at most " + std::to_string(kMaxGroups) + " 'groups', but got " +
             std::to_string(params.groups);
  if (wanted.empty())
    return Status::ok();
  return {TE_RT_UNSUPPORTED, std::string(kernel) + ": expected " + wanted +
                                 "; the nearest supported is the 'reference' "
                                 "backend"};
}

template <typename Params>
std::pair<bool, std::string> outTypeRule(const Params &params) {
  return {params.out_type == TE_RT_BF16 || params.out_type == TE_RT_F32,
          "'out_type' to be 'bf16' or 'f32', but got '" +
              support::typeName(params.out_type) + "'"};
}

/// Checks that there is a kernel for these scaled operands. `squares` says
/// whether b may have 128x128 blocks.
template <typename Params>
Status checkScaled(const char *kernel, const CudaDevice &device,
                   const Params &params, bool squares) {
  const auto isPair = [&](int32_t a, int32_t b) {
    return params.a_scheme == a && params.b_scheme == b;
  };
  return checkGroups(
      kernel, device, params,
      {{isPair(TE_RT_PER_TENSOR, TE_RT_PER_TENSOR) ||
            isPair(TE_RT_BLOCK_1X128, TE_RT_BLOCK_1X128) ||
            (squares && isPair(TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128)),
        std::string("both schemes to be 'per_tensor' or 'block_1x128'") +
            (squares ? ", or 'b_scheme' 'block_128x128'" : "") + ", but got '" +
            support::schemeName(params.a_scheme) + "' and '" +
            support::schemeName(params.b_scheme) + "'"},
       outTypeRule(params)});
}

/// Checks that there is a kernel for these bf16 operands. Their rows have `x`
/// and `y` elements, and kernels load and store 16 bytes at a time.
template <typename Params>
Status checkPlain(const char *kernel, const CudaDevice &device,
                  const Params &params, const char *xName, int64_t x,
                  const char *yName, int64_t y) {
  auto eights = [](const char *name, int64_t size) {
    return std::pair(size % 8 == 0, std::string("'") + name +
                                        "' to be a multiple of 8, but got " +
                                        std::to_string(size));
  };
  return checkGroups(
      kernel, device, params,
      {{params.type == TE_RT_BF16, "'type' to be 'bf16', but got '" +
                                       support::typeName(params.type) + "'"},
       outTypeRule(params),
       eights(xName, x),
       eights(yName, y)});
}

/// A grouped GEMM as one GEMM: [m, k] by [n, k], with at most `tiles` tiles.
struct Extent {
  int64_t m, n, k, tiles;
};

template <typename Params> Extent groupsOfRowsExtent(const Params &params) {
  // Each group may end with a partial tile, and so may the rows of no group.
  return {params.rows, params.n, params.k,
          (ceilDiv(params.rows, kClusterTileM) + params.groups + 1) *
              ceilDiv(params.n, kClusterTileN)};
}
template <typename Params> Extent groupsOfKExtent(const Params &params) {
  return {params.m, params.n, params.rows,
          ceilDiv(params.m, kClusterTileM) * ceilDiv(params.n, kClusterTileN) *
              params.groups};
}

/// Plans kernel `name`: sets the arguments that all kernels have in common.
template <typename Params>
Status plan(const CudaDevice &device, const Params &params,
            const std::string &name, const Extent &extent, const Views &views,
            GroupedGemmArgs args, bool blocks, Buffers index,
            std::unique_ptr<Plan> *plan) {
  args.gemm.m = static_cast<uint32_t>(extent.m);
  args.gemm.n = static_cast<uint32_t>(extent.n);
  args.gemm.k = static_cast<uint32_t>(extent.k);
  args.shape = {static_cast<uint32_t>(params.rows),
                static_cast<uint32_t>(params.groups),
                static_cast<uint32_t>(params.alignment)};
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(
      device, name + (params.out_type == TE_RT_BF16 ? "_bf16" : "_f32"),
      groupedGemmSharedBytes(params.groups)));
  config.block = kBlockGemmThreads;
  const uint32_t clusters = clustersFor(device, extent.tiles);
  args.gemm.whole_tiles =
      wholeTiles(static_cast<uint32_t>(extent.tiles), clusters);
  config.gridX = kBlockGemmCluster * clusters;
  *plan = std::make_unique<GroupedGemmPlan>(device, std::move(config), args,
                                            views, index, blocks);
  return Status::ok();
}

/// Checks that tiles, and rows of any operand or result, fit in 32 bits.
template <typename Params>
Status checkCounts(const char *kernel, const Params &params,
                   const Extent &extent) {
  const int64_t largest =
      std::max({extent.m, extent.k, extent.tiles, params.groups * extent.m,
                params.groups * extent.n, params.rows});
  if (largest < int64_t(1) << 31)
    return Status::ok();
  return {TE_RT_UNSUPPORTED,
          std::string(kernel) +
              ": expected at most 2147483647 rows and tiles, but got " +
              std::to_string(largest)};
}

/// The tensor map of the c of a weight gradient.
template <typename Params>
std::optional<TensorView> gradientC(const Params &params) {
  if (params.out_type != TE_RT_F32)
    return std::nullopt;
  return TensorView::cOperand(params.groups * params.m, params.n);
}

/// Plans a kernel for scaled operands.
template <typename Params>
Status planScaled(const CudaDevice &device, const Params &params,
                  const std::string &family, const Extent &extent, Views views,
                  int64_t bScaleSlices, Buffers index,
                  std::unique_ptr<Plan> *result) {
  const bool blocks = params.a_scheme != TE_RT_PER_TENSOR;
  const bool squares = params.b_scheme == TE_RT_BLOCK_128X128;
  GroupedGemmArgs args = {};
  const int64_t slices = ceilDiv(extent.k, kBlockGemmTileK);
  args.gemm.b_scale_stride = static_cast<uint32_t>(roundUp(slices, 4));
  if (blocks)
    views.aScale = TensorView::scales(slices, extent.m, kBlockGemmTileM);
  if (blocks && !squares)
    views.bScale = TensorView::scales(bScaleSlices, extent.n, kBlockGemmTileN);
  return plan(device, params,
              family +
                  (!blocks   ? "_tensor_"
                   : squares ? "_128x128_"
                             : "_1x128_") +
                  fp8TypeName(params.a_type) + "_" + fp8TypeName(params.b_type),
              extent, views, args, blocks, index, result);
}

/// A bf16 operand [rows, cols], loaded in boxes of `boxRows` rows. `matrices`
/// is 0 for a tensor map of two axes.
TensorView plainView(int64_t matrices, int64_t rows, int64_t cols,
                     uint32_t boxRows) {
  return {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
          2,
          static_cast<uint64_t>(rows),
          static_cast<uint64_t>(cols),
          static_cast<uint64_t>(matrices),
          boxRows,
          kPlainGemmTileK};
}

} // namespace

Status plan_grouped_scaled_matmul(const CudaDevice &device,
                                  const grouped_scaled_matmul_params &params,
                                  std::unique_ptr<Plan> *result) {
  namespace b = grouped_scaled_matmul_buffers;
  const Buffers index{b::a,    b::a_scale, b::b,   b::b_scale, b::group_sizes,
                      b::bias, -1,         b::out, -1};
  const char *kernel = "grouped_scaled_matmul";
  TE_RT_RETURN_IF_FAILED(checkScaled(kernel, device, params, true));
  const int64_t outBytes = params.rows * params.n * byteSize(params.out_type);
  if (outBytes == 0 || params.k == 0)
    return planEmpty(device, outBytes, index, result);
  const Extent extent = groupsOfRowsExtent(params);
  TE_RT_RETURN_IF_FAILED(checkCounts(kernel, params, extent));
  return planScaled(device, params, "te_grouped_gemm", extent,
                    {TensorView::bytes(params.rows, params.k),
                     TensorView::bytes(params.groups * params.n, params.k),
                     {},
                     {},
                     {}},
                    params.groups * ceilDiv(params.k, kBlockGemmTileK), index,
                    result);
}

Status plan_grouped_scaled_wgrad(const CudaDevice &device,
                                 const grouped_scaled_wgrad_params &params,
                                 std::unique_ptr<Plan> *result) {
  namespace b = grouped_scaled_wgrad_buffers;
  const Buffers index{b::a, b::a_scale, b::b,   b::b_scale, b::group_sizes,
                      -1,   b::c,       b::out, b::keep};
  const char *kernel = "grouped_scaled_wgrad";
  TE_RT_RETURN_IF_FAILED(checkScaled(kernel, device, params, false));
  const int64_t outBytes =
      params.groups * params.m * params.n * byteSize(params.out_type);
  if (outBytes == 0 || params.rows == 0)
    return planEmpty(device, outBytes, index, result);
  const Extent extent = groupsOfKExtent(params);
  TE_RT_RETURN_IF_FAILED(checkCounts(kernel, params, extent));
  return planScaled(device, params, "te_grouped_wgrad", extent,
                    {TensorView::bytes(params.m, params.rows),
                     TensorView::bytes(params.n, params.rows),
                     gradientC(params),
                     {},
                     {}},
                    ceilDiv(params.rows, kBlockGemmTileK), index, result);
}

Status plan_grouped_matmul(const CudaDevice &device,
                           const grouped_matmul_params &params,
                           std::unique_ptr<Plan> *result) {
  namespace b = grouped_matmul_buffers;
  const Buffers index{b::a,    b::alpha, b::b,   -1, b::group_sizes,
                      b::bias, -1,       b::out, -1};
  const char *kernel = "grouped_matmul";
  TE_RT_RETURN_IF_FAILED(
      checkPlain(kernel, device, params, "n", params.n, "k", params.k));
  const int64_t outBytes = params.rows * params.n * byteSize(params.out_type);
  if (outBytes == 0 || params.k == 0)
    return planEmpty(device, outBytes, index, result);
  const Extent extent = groupsOfRowsExtent(params);
  TE_RT_RETURN_IF_FAILED(checkCounts(kernel, params, extent));
  return plan(
      device, params,
      params.trans_b ? "te_grouped_plain_gemm_transposed"
                     : "te_grouped_plain_gemm",
      extent,
      {plainView(0, params.rows, params.k, kBlockGemmTileM / 2),
       params.trans_b
           ? plainView(params.groups, params.k, params.n, kPlainGemmTileK)
           : plainView(0, params.groups * params.n, params.k, kBlockGemmTileN),
       {},
       {},
       {}},
      GroupedGemmArgs{}, /*blocks=*/false, index, result);
}

Status plan_grouped_wgrad(const CudaDevice &device,
                          const grouped_wgrad_params &params,
                          std::unique_ptr<Plan> *result) {
  namespace b = grouped_wgrad_buffers;
  const Buffers index{b::a, b::alpha, b::b,   -1,     b::group_sizes,
                      -1,   b::c,     b::out, b::keep};
  const char *kernel = "grouped_wgrad";
  TE_RT_RETURN_IF_FAILED(
      checkPlain(kernel, device, params, "m", params.m, "n", params.n));
  const int64_t outBytes =
      params.groups * params.m * params.n * byteSize(params.out_type);
  if (outBytes == 0 || params.rows == 0)
    return planEmpty(device, outBytes, index, result);
  const Extent extent = groupsOfKExtent(params);
  TE_RT_RETURN_IF_FAILED(checkCounts(kernel, params, extent));
  return plan(device, params, "te_grouped_plain_wgrad", extent,
              {plainView(0, params.rows, params.m, kPlainGemmTileK),
               plainView(1, params.rows, params.n, kPlainGemmTileK),
               gradientC(params),
               {},
               {}},
              GroupedGemmArgs{}, /*blocks=*/false, index, result);
}

} // namespace te::rt::cuda
