//===- ActivationQuantize.cpp - plans of activations that are cast --------===//

#include "Kernels/Cast/TileKernels.h"

namespace te::rt::cuda {
namespace {

/// Whether both usages are computed, with their scales.
bool isComplete(const QuantizeOutputs &out) {
  return out.row && out.rowScale && out.col && out.colScale;
}

const char *activationName(int32_t kind) {
  switch (kind) {
  case TE_RT_GELU:
    return "gelu";
  case TE_RT_SILU:
    return "silu";
  case TE_RT_RELU:
    return "relu";
  case TE_RT_SWIGLU:
    return "swiglu";
  default:
    return isGated(kind) ? "gated" : "plain";
  }
}

/// `prefix` names the direction. Only bf16 has fast kernels.
Status findActivationQuantize(const CudaDevice &device,
                              const std::string &prefix, int32_t kind,
                              int32_t type, int32_t fp8Type, int fastShared,
                              TileKernels &kernels) {
  const std::string suffix = std::string("_") + fp8TypeName(fp8Type);
  return kernels.find(
      device, type == TE_RT_BF16 ? prefix + activationName(kind) + suffix : "",
      fastShared, prefix + inputTypeName(type) + suffix + "_general",
      generalSharedBytes(static_cast<int>(byteSize(type))));
}

/// Plans both kernels of the forward. `place` sets the pointers of the halves
/// and the outputs.
template <typename Params, typename Place>
Status planActivationQuantize(const CudaDevice &device, const Params &params,
                              Place place, std::unique_ptr<Plan> *plan) {
  TileKernels kernels;
  TE_RT_RETURN_IF_FAILED(findActivationQuantize(
      device, "te_activation_quantize_", params.kind, params.type,
      params.fp8_type, activationSharedBytes(isGated(params.kind) ? 2 : 1),
      kernels));
  TE_RT_RETURN_IF_FAILED(
      kernels.setGrid(params.rows, params.cols, params.cols));
  *plan = makePlan(device, [kernels, params, place](const Launcher &launch,
                                                    void *const *buffers) {
    ActivationQuantizeArgs args{};
    place(buffers, args);
    args.rows = params.rows;
    args.cols = params.cols;
    args.pow2 = params.pow2_scales;
    args.epsilon = params.amax_epsilon;
    args.act = {params.kind, params.limit, params.alpha, params.offset};
    // Packed second halves are aligned if cols is a multiple of eight.
    return kernels.launch(
        launch,
        isAligned(args.x, 16) &&
            (args.pitch != args.cols || isAligned(args.second, 16)) &&
            storesVectors(args.out, args.rows, args.cols),
        args);
  });
  return Status::ok();
}
} // namespace

Status
plan_activation_quantize_block(const CudaDevice &device,
                               const activation_quantize_block_params &params,
                               std::unique_ptr<Plan> *plan) {
  const auto place = [params](void *const *buffers,
                              ActivationQuantizeArgs &args) {
    namespace index = activation_quantize_block_buffers;
    args.x = buffers[index::x];
    args.second =
        static_cast<const char *>(args.x) + params.cols * byteSize(params.type);
    args.pitch = isGated(params.kind) ? 2 * params.cols : params.cols;
    args.out = quantizeOutputs(buffers + index::row, params.rows);
  };
  return planActivationQuantize(device, params, place, plan);
}

Status plan_gated_activation_quantize_block(
    const CudaDevice &device,
    const gated_activation_quantize_block_params &params,
    std::unique_ptr<Plan> *plan) {
  const auto place = [params](void *const *buffers,
                              ActivationQuantizeArgs &args) {
    namespace index = gated_activation_quantize_block_buffers;
    args.x = buffers[index::a];
    args.second = buffers[index::b];
    args.pitch = params.cols;
    args.out = quantizeOutputs(buffers + index::row, params.rows);
  };
  return planActivationQuantize(device, params, place, plan);
}

Status plan_activation_backward_quantize_block(
    const CudaDevice &device,
    const activation_backward_quantize_block_params &params,
    std::unique_ptr<Plan> *plan) {
  const bool gated = isGated(params.kind);
  TileKernels kernels;
  TE_RT_RETURN_IF_FAILED(findActivationQuantize(
      device, "te_activation_backward_quantize_", params.kind, params.type,
      params.fp8_type, activationSharedBytes(gated ? 2 : 1), kernels));
  // A block of the fast kernel of a gated kind computes both halves of dx.
  const int64_t outCols = gated ? 2 * params.cols : params.cols;
  TE_RT_RETURN_IF_FAILED(kernels.setGrid(params.rows, params.cols, outCols));
  kernels.hasFast &= !gated || params.cols % kTile == 0;
  // There is a separate kernel for whole tiles and both usages.
  const bool isWhole =
      kernels.hasFast && params.rows % kTile == 0 && params.cols % kTile == 0;
  LaunchConfig whole = kernels.fast;
  if (isWhole)
    TE_RT_RETURN_IF_FAILED(whole.find(device, kernels.fast.name + "_whole",
                                      slotSharedBytes(gated ? 2 : 1)));
  *plan = makePlan(device, [kernels, whole, isWhole, params, outCols](
                               const Launcher &launch, void *const *buffers) {
    namespace index = activation_backward_quantize_block_buffers;
    ActivationQuantizeArgs args{};
    args.dy = buffers[index::dy];
    args.x = buffers[index::x];
    args.out = quantizeOutputs(buffers + index::row, params.rows);
    args.rows = params.rows;
    args.cols = params.cols;
    args.pow2 = params.pow2_scales;
    args.epsilon = params.amax_epsilon;
    args.act = {params.kind, params.limit, params.alpha, params.offset};
    const bool isFast = isAligned(args.dy, 16) && isAligned(args.x, 16) &&
                        storesVectors(args.out, args.rows, outCols);
    if (isFast && isWhole && isComplete(args.out)) {
      args.colTiles = kernels.fastColTiles;
      return launch(whole, args);
    }
    return kernels.launch(launch, isFast, args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
