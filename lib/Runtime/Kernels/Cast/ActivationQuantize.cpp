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

/// Finds the kernels of a direction, which `prefix` names. Only bf16 has fast
/// kernels.
template <typename Params>
Status findActivationQuantize(const CudaDevice &device,
                              const std::string &prefix, const Params &params,
                              int64_t outCols, TileKernels &kernels) {
  const char *scaling =
      params.scheme == TE_RT_PER_TENSOR ? "tensor_" : "block_1x128_";
  const std::string suffix = std::string("_") + fp8TypeName(params.fp8_type);
  TE_RT_RETURN_IF_FAILED(kernels.find(
      device,
      params.type == TE_RT_BF16
          ? prefix + scaling + activationName(params.kind) + suffix
          : "",
      activationSharedBytes(isGated(params.kind) ? 2 : 1),
      prefix + inputTypeName(params.type) + suffix + "_general",
      generalSharedBytes(static_cast<int>(byteSize(params.type)))));
  // An empty value has a scale and an amax too, which one block writes.
  const int64_t least = params.scheme == TE_RT_PER_TENSOR ? 1 : 0;
  return kernels.setGrid(std::max(params.rows, least),
                         std::max(params.cols, least),
                         std::max(outCols, least));
}

/// The arguments of a launch whose only or first cast has these buffers.
template <typename Params>
ActivationQuantizeArgs castArgs(const Params &params, uint32_t amaxSlot,
                                void *const *buffers) {
  ActivationQuantizeArgs args{};
  placeCast(params, params.rows, amaxSlot, buffers, args);
  args.act = {params.kind, params.limit, params.alpha, params.offset};
  return args;
}

/// Plans both kernels of the forward. `place` sets the pointers of the halves.
template <typename Params, typename Place>
Status planActivationQuantize(const CudaDevice &device, const Params &params,
                              int scale, Place place,
                              std::unique_ptr<Plan> *plan) {
  TileKernels kernels;
  TE_RT_RETURN_IF_FAILED(findActivationQuantize(
      device, "te_activation_quantize_", params, params.cols, kernels));
  *plan =
      makePlan(device, [kernels, params, scale, place, slot = takeAmaxSlots(1)](
                           const Launcher &launch, void *const *buffers) {
        ActivationQuantizeArgs args = castArgs(params, slot, buffers + scale);
        place(buffers, args);
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

/// The cast of columns from `params.cols` on of the matrix that `args` casts.
template <typename Params>
QuantizeArgs secondHalf(const Params &params, const QuantizeArgs &args) {
  QuantizeArgs half = args;
  const auto advance = [](auto *&pointer, int64_t count) {
    if (pointer)
      pointer += count;
  };
  advance(half.out.row, params.cols);
  advance(half.out.col, params.cols * params.rows);
  if (params.scheme != TE_RT_PER_TENSOR) {
    // One line of scales for each 128 columns, and for each 128 rows.
    advance(half.out.rowScale,
            params.cols / kTile * roundUp(params.rows, int64_t{4}));
    advance(half.out.colScale, params.cols);
  }
  return half;
}

/// Plans the kernels of the backward. `place` sets the pointers of the inputs
/// and the second cast of gated kinds. The gradients are columns of a matrix
/// with rows of `outCols`, or apart.
template <typename Params, typename Place>
Status planActivationBackwardQuantize(const CudaDevice &device,
                                      const Params &params, int64_t outCols,
                                      int scale, Place place,
                                      std::unique_ptr<Plan> *plan) {
  const bool gated = isGated(params.kind);
  TileKernels kernels;
  TE_RT_RETURN_IF_FAILED(findActivationQuantize(
      device, "te_activation_backward_quantize_", params, outCols, kernels));
  // A block of the fast kernel of a gated kind computes both gradients.
  kernels.hasFast &= outCols == params.cols || params.cols % kTile == 0;
  // There is a separate kernel for whole tiles and both usages in blocks.
  const bool isWhole = kernels.hasFast && params.scheme != TE_RT_PER_TENSOR &&
                       params.rows % kTile == 0 && params.cols % kTile == 0;
  LaunchConfig whole = kernels.fast;
  if (isWhole)
    TE_RT_RETURN_IF_FAILED(whole.find(device, kernels.fast.name + "_whole",
                                      slotSharedBytes(gated ? 2 : 1)));
  *plan = makePlan(device, [kernels, whole, isWhole, gated, params, outCols,
                            scale, place, slot = takeAmaxSlots(2)](
                               const Launcher &launch, void *const *buffers) {
    ActivationQuantizeArgs args = castArgs(params, slot, buffers + scale);
    args.outPitch = outCols;
    place(buffers, slot + 1, args);
    const bool isFast =
        isAligned(args.dy, 16) && isAligned(args.x, 16) &&
        storesVectors(args.out, args.rows, outCols) &&
        (!gated || (isAligned(args.second, 16) &&
                    storesVectors(args.other.out, args.rows, outCols)));
    if (isFast && isWhole && isComplete(args.out) &&
        (!gated || isComplete(args.other.out))) {
      args.colTiles = kernels.fastColTiles;
      return launch(whole, args);
    }
    return kernels.launch(launch, isFast, args);
  });
  return Status::ok();
}
} // namespace

Status plan_activation_quantize(const CudaDevice &device,
                                const activation_quantize_params &params,
                                std::unique_ptr<Plan> *plan) {
  namespace index = activation_quantize_buffers;
  const auto place = [params](void *const *buffers,
                              ActivationQuantizeArgs &args) {
    args.x = buffers[index::x];
    args.second =
        static_cast<const char *>(args.x) + params.cols * byteSize(params.type);
    args.pitch = isGated(params.kind) ? 2 * params.cols : params.cols;
  };
  return planActivationQuantize(device, params, index::scale, place, plan);
}

Status
plan_gated_activation_quantize(const CudaDevice &device,
                               const gated_activation_quantize_params &params,
                               std::unique_ptr<Plan> *plan) {
  namespace index = gated_activation_quantize_buffers;
  const auto place = [params](void *const *buffers,
                              ActivationQuantizeArgs &args) {
    args.x = buffers[index::a];
    args.second = buffers[index::b];
    args.pitch = params.cols;
  };
  return planActivationQuantize(device, params, index::scale, place, plan);
}

Status plan_activation_backward_quantize(
    const CudaDevice &device, const activation_backward_quantize_params &params,
    std::unique_ptr<Plan> *plan) {
  namespace index = activation_backward_quantize_buffers;
  const bool gated = isGated(params.kind);
  const int64_t outCols = gated ? 2 * params.cols : params.cols;
  const auto place = [params, gated, outCols](void *const *buffers, uint32_t,
                                              ActivationQuantizeArgs &args) {
    args.dy = buffers[index::dy];
    args.x = buffers[index::x];
    args.second =
        static_cast<const char *>(args.x) + params.cols * byteSize(params.type);
    args.pitch = outCols;
    if (gated)
      args.other = secondHalf(params, args);
  };
  return planActivationBackwardQuantize(device, params, outCols, index::scale,
                                        place, plan);
}

Status plan_gated_activation_backward_quantize(
    const CudaDevice &device,
    const gated_activation_backward_quantize_params &params,
    std::unique_ptr<Plan> *plan) {
  namespace index = gated_activation_backward_quantize_buffers;
  const auto place = [params](void *const *buffers, uint32_t amaxSlot,
                              ActivationQuantizeArgs &args) {
    args.dy = buffers[index::dy];
    args.x = buffers[index::a];
    args.second = buffers[index::b];
    args.pitch = params.cols;
    placeCast(params, params.rows, amaxSlot, buffers + index::gate_scale,
              args.other);
  };
  return planActivationBackwardQuantize(device, params, params.cols,
                                        index::scale, place, plan);
}

} // namespace te::rt::cuda
