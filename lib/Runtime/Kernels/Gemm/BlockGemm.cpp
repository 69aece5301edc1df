//===- BlockGemm.cpp - plans of own dense FP8 GEMMs for Hopper ------------===//
//
// Everything except the tensor maps is fixed while planning. A tensor map
// contains the address of an operand, so it is encoded at the first launch and
// again only when that address changes. In a planned step it never does.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Gemm/BlockGemm.h"

#include "Kernels/Gemm/block_gemm_args.h"
#include "Kernels/Gemm/group_tiles.h"
#include "Kernels/LaunchPlan.h"
#include "TEDialect/Support/SupportTable.h"

#include <algorithm>

namespace te::rt::cuda {

namespace support = te_table;
namespace {

/// The grid has up to four times the clusters that run at a time, and each
/// computes a quarter of the waves. A collective that runs beside the GEMM
/// takes multiprocessors from it; a cluster that has to wait for one then has
/// only a quarter of the work. Without a collective that costs nothing
/// (eight times the clusters cost 0.5 %).
constexpr int64_t kClusterGenerations = 4;

/// A per-tensor GEMM runs here, and not in cuBLASLt, if k is at least this and
/// its tiles keep at least this part of the multiprocessors busy until its end.
/// Both give the same bits. On an H200, sustained, this is 2 to 9 % faster
/// (from 1 % slower at 14336x4096x8192); with k = 1024 and 2048 it was up to
/// 8 % slower, with 2.2 waves of tiles 15 %.
constexpr int64_t kLeastTensorK = 4096;
constexpr double kLeastBusy = 0.9;

class BlockGemmPlan final : public Plan {
public:
  BlockGemmPlan(const CudaDevice &device, LaunchConfig config,
                BlockGemmArgs args, const scaled_matmul_params &params)
      : device(device), config(std::move(config)), args(args),
        isF32(params.out_type == TE_RT_F32),
        blocksA(params.a_scheme == TE_RT_BLOCK_1X128),
        blocksB(params.b_scheme == TE_RT_BLOCK_1X128) {}

  Status launch(void *stream, void *const *buffers) override {
    using namespace scaled_matmul_buffers;
    // The kernel loads and stores 16 bytes at a time.
    for (auto [index, name, needed] :
         {std::tuple<int, const char *, bool>{a, "a", true},
          {a_scale, "a_scale", blocksA},
          {b, "b", true},
          {b_scale, "b_scale", blocksB},
          {bias, "bias", true},
          {c, "c", true},
          {out, "out", true}})
      if (needed && !isAligned(buffers[index], 16))
        return {TE_RT_INVALID_ARGUMENT, std::string("expected '") + name +
                                            "' to be aligned to 16 bytes"};
    TE_RT_RETURN_IF_FAILED(mapA.encode(
        device, TensorView::bytes(args.m, args.k), buffers[a], &args.a));
    TE_RT_RETURN_IF_FAILED(mapB.encode(
        device, TensorView::bytes(args.n, args.k), buffers[b], &args.b));
    if (isF32 && buffers[c])
      TE_RT_RETURN_IF_FAILED(mapC.encode(device,
                                         TensorView::cOperand(args.m, args.n),
                                         buffers[c], &args.cMap));
    const uint64_t slices = ceilDiv(args.k, kBlockGemmTileK);
    if (blocksA)
      TE_RT_RETURN_IF_FAILED(mapAScale.encode(
          device, TensorView::scales(slices, args.m, kBlockGemmTileM),
          buffers[a_scale], &args.aScale));
    if (blocksB)
      TE_RT_RETURN_IF_FAILED(mapBScale.encode(
          device, TensorView::scales(slices, args.n, kBlockGemmTileN),
          buffers[b_scale], &args.bScale));
    args.a_scale = static_cast<const float *>(buffers[a_scale]);
    args.b_scale = static_cast<const float *>(buffers[b_scale]);
    args.bias = buffers[bias];
    args.c = buffers[c];
    args.out = buffers[out];
    return Launcher(device, stream)(config, args);
  }

private:
  const CudaDevice &device; // outlives every plan of its backend
  LaunchConfig config;
  BlockGemmArgs args;
  bool isF32;            // the type of the result and of c
  bool blocksA, blocksB; // whether a and b have 1x128 scales
  OperandMap mapA, mapB, mapC, mapAScale, mapBScale;
};

/// The rows of a box that TMA stores in the 128-byte swizzle.
constexpr uint64_t kSwizzledBytes = 128;

} // namespace

TensorView TensorView::bytes(uint64_t rows, uint64_t k) {
  return {CU_TENSOR_MAP_DATA_TYPE_UINT8,
          1,
          rows,
          k,
          0,
          kBlockGemmTileN,
          kBlockGemmTileK};
}
TensorView TensorView::cOperand(uint64_t rows, uint64_t n) {
  return {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, rows, n, 0, kCBoxRows, kCBoxCols};
}

TensorView TensorView::scales(uint64_t slices, uint64_t outer,
                              uint32_t boxCols) {
  return {CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
          4,
          slices,
          static_cast<uint64_t>(roundUp(static_cast<int64_t>(outer), 4)),
          0,
          1,
          boxCols};
}

Status OperandMap::encode(const CudaDevice &device, const TensorView &view,
                          void *data, CUtensorMap *map) {
  if (data == encoded)
    return Status::ok();
  const cuuint64_t line = view.cols * view.elementBytes;
  const cuuint64_t sizes[] = {view.cols, view.rows, view.matrices};
  const cuuint64_t strides[] = {line, line * view.rows};
  const cuuint32_t box[] = {view.boxCols, view.boxRows, 1};
  const cuuint32_t steps[] = {1, 1, 1};
  TE_RT_RETURN_IF_FAILED(
      device.check(device.driver->cuTensorMapEncodeTiled(
                       map, view.type, view.matrices == 0 ? 2 : 3, data, sizes,
                       strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                       view.boxCols * view.elementBytes == kSwizzledBytes
                           ? CU_TENSOR_MAP_SWIZZLE_128B
                           : CU_TENSOR_MAP_SWIZZLE_NONE,
                       CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                   "cuTensorMapEncodeTiled"));
  encoded = data;
  return Status::ok();
}

uint32_t clustersFor(const CudaDevice &device, int64_t tiles) {
  return static_cast<uint32_t>(
      std::min<int64_t>(device.multiprocessors / kBlockGemmCluster, 2 * tiles));
}

/// The tiles of a GEMM, each computed by a cluster.
static int64_t tilesOf(const scaled_matmul_params &params) {
  return ceilDiv(params.m, kClusterTileM) * ceilDiv(params.n, kClusterTileN);
}

static bool isFasterPerTensor(const CudaDevice &device,
                              const scaled_matmul_params &params) {
  const int64_t tiles = tilesOf(params),
                clusters = device.multiprocessors / kBlockGemmCluster;
  return params.k >= kLeastTensorK &&
         static_cast<double>(tiles) >=
             kLeastBusy *
                 static_cast<double>(ceilDiv(tiles, clusters) * clusters);
}

bool runsOwnGemm(const CudaDevice &device, const scaled_matmul_params &params) {
  if (device.computeMajor != 9 || device.computeMinor != 0 || params.m <= 0 ||
      params.n <= 0 || params.k <= 0 ||
      std::max({params.m, params.n, params.k}) >= int64_t(1) << 31)
    return false;
  if (params.a_scheme != TE_RT_PER_TENSOR ||
      params.b_scheme != TE_RT_PER_TENSOR)
    return support::productPath(params.a_scheme, params.b_scheme,
                                support::Target::Sm90,
                                params.out_type) == support::Path::OwnKernel;
  return !params.fast_accumulation && params.a_axis == 1 &&
         params.b_axis == 1 && params.k % 16 == 0 && params.n % 8 == 0 &&
         (params.out_type == TE_RT_BF16 || params.out_type == TE_RT_F32) &&
         (params.a_type == TE_RT_F8E4M3FN || params.b_type == TE_RT_F8E4M3FN) &&
         isFasterPerTensor(device, params);
}

Status planOwnGemm(const CudaDevice &device, const scaled_matmul_params &params,
                   std::unique_ptr<Plan> *plan) {
  const bool perTensor = params.a_scheme == TE_RT_PER_TENSOR,
             squareB = params.b_scheme == TE_RT_BLOCK_128X128;
  BlockGemmArgs args = {};
  args.m = static_cast<uint32_t>(params.m);
  args.n = static_cast<uint32_t>(params.n);
  args.k = static_cast<uint32_t>(params.k);
  args.b_scale_stride =
      static_cast<uint32_t>(roundUp(ceilDiv(params.k, kBlockGemmTileK), 4));

  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(
      device,
      std::string(perTensor ? "te_tensor_gemm_"
                  : squareB ? "te_block_gemm_128x128_"
                            : "te_block_gemm_1x128_") +
          fp8TypeName(params.a_type) + "_" + fp8TypeName(params.b_type) +
          (params.out_type == TE_RT_BF16 ? "_bf16" : "_f32"),
      kBlockGemmSharedBytes));
  config.block = kBlockGemmThreads;
  const int64_t tiles = tilesOf(params);
  args.clusters = clustersFor(device, tiles);
  args.whole_tiles = wholeTiles(static_cast<uint32_t>(tiles), args.clusters);
  const int64_t waves = ceilDiv(2 * tiles - args.whole_tiles, args.clusters);
  args.iterations = static_cast<uint32_t>(ceilDiv(waves, kClusterGenerations));
  config.gridX = static_cast<uint32_t>(kBlockGemmCluster * args.clusters *
                                       ceilDiv(waves, args.iterations));
  *plan =
      std::make_unique<BlockGemmPlan>(device, std::move(config), args, params);
  return Status::ok();
}

} // namespace te::rt::cuda
