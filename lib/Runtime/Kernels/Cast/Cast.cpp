//===- Cast.cpp - plans of the quantisation kernels -----------------------===//
//
// A plan has the fast version of its kernel and the general one. The launch
// decides which of them runs, because only it knows the pointers: the fast
// kernel needs rows and columns that divide into whole vectors, and aligned
// pointers.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/Cast.h"

#include "Core/Capabilities.h"
#include "Core/Formulas.h"
#include "Core/KernelGroups.h"
#include "Core/Stack.h"
#include "Cuda/CudaBackend.h"
#include "Kernels/Cast/Microscale.h"
#include "Kernels/Cast/TileKernels.h"

#include <algorithm>
#include <atomic>

namespace te::rt::cuda {
namespace {

/// Finds kernels that read `xType` and round to `type` first.
Status findQuantize(const CudaDevice &device, const std::string &scheme,
                    int32_t xType, int32_t type, int32_t fp8Type,
                    TileKernels &kernels) {
  std::string name = "te_quantize_" + scheme + "_";
  if (xType != type)
    name += std::string(inputTypeName(xType)) + "_";
  name += std::string(inputTypeName(type)) + "_" + fp8TypeName(fp8Type);
  return kernels.find(device, name, kTileSharedBytes, name + "_general",
                      generalSharedBytes(static_cast<int>(byteSize(type))));
}

/// Whether rows of x are whole vectors.
bool loadsVectors(const QuantizeArgs &args) {
  return isAligned(args.x, 16) && args.xCols % 8 == 0;
}

/// The bytes from one matrix to the next of x and of the four outputs from
/// `row` on. Scales and amaxes are consecutive.
template <typename Strides>
QuantizeStrides quantizeStrides(const Strides &strides, int x, int row) {
  return {.x = strides[x],
          .scale = sizeof(float),
          .row = strides[row],
          .rowScale = strides[row + 1],
          .col = strides[row + 2],
          .colScale = strides[row + 3],
          .amax = sizeof(float)};
}

/// The arguments of a launch of quantize_tensor with these buffers.
template <typename Params>
QuantizeArgs quantizeArgs(const Params &params, uint32_t slot,
                          void *const *buffers) {
  namespace b = quantize_tensor_buffers;
  QuantizeArgs args{};
  args.x = buffers[b::x];
  args.scale = static_cast<const float *>(buffers[b::scale]);
  args.amax = static_cast<float *>(buffers[b::amax]);
  args.amaxSlot = slot;
  args.out = quantizeOutputs(buffers + b::row, params.rows);
  args.skip = static_cast<const float *>(buffers[b::skip]);
  args.rows = params.rows;
  args.cols = params.cols;
  args.xRows = params.x_rows;
  args.xCols = params.x_cols;
  args.fromAmax = params.from_amax;
  args.pow2 = params.pow2_scales;
  args.epsilon = params.amax_epsilon;
  return args;
}
bool takesVectors(const QuantizeArgs &args) {
  return loadsVectors(args) && storesVectors(args.out, args.rows, args.cols);
}

/// Kernels of quantize_tensor that measure the amax, and those that do not.
struct TensorKernels {
  TileKernels plain, measuring;

  template <typename Params>
  Status find(const CudaDevice &device, const Params &params,
              int64_t matrices) {
    TE_RT_RETURN_IF_FAILED(findQuantize(device, "tensor", params.x_type,
                                        params.type, params.fp8_type, plain));
    TE_RT_RETURN_IF_FAILED(findQuantize(device, "tensor_amax", params.x_type,
                                        params.type, params.fp8_type,
                                        measuring));
    // An empty value has a scale and an amax too, which one block writes.
    const int64_t rows = std::max<int64_t>(params.rows, 1);
    const int64_t cols = std::max<int64_t>(params.cols, 1);
    for (TileKernels *kernels : {&plain, &measuring}) {
      TE_RT_RETURN_IF_FAILED(kernels->setGrid(rows, cols, cols));
      kernels->setStack(matrices);
    }
    return Status::ok();
  }

  Status launch(const Launcher &launch, bool isFast, QuantizeArgs &args) const {
    return (args.amax ? measuring : plain).launch(launch, isFast, args);
  }
};

/// The bytes from `from` to `to`, which kernels add to it.
int64_t distance(const void *from, const void *to) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) -
                              reinterpret_cast<uintptr_t>(from));
}

} // namespace

uint32_t takeAmaxSlots(int64_t count) {
  static std::atomic<uint32_t> next = 0;
  return next.fetch_add(static_cast<uint32_t>(count)) % kAmaxSlots;
}

Status plan_amax(const CudaDevice &device, const amax_params &params,
                 std::unique_ptr<Plan> *plan) {
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, std::string("te_amax_") +
                                                 inputTypeName(params.x_type)));
  config.block = kTileThreads;
  // All blocks are resident at once. There are fewer if a thread would
  // otherwise get fewer than 8 chunks.
  config.gridX = static_cast<unsigned>(std::clamp<int64_t>(
      ceilDiv(params.count, kTileThreads * 64), 1, device.multiprocessors * 8));
  *plan = makePlan(device, [config, params, slot = takeAmaxSlots(1)](
                               const Launcher &launch, void *const *buffers) {
    return launch(
        config,
        AmaxArgs{.x = buffers[amax_buffers::x],
                 .amax = static_cast<float *>(buffers[amax_buffers::amax]),
                 .skip =
                     static_cast<const float *>(buffers[amax_buffers::skip]),
                 .count = params.count,
                 .stride = 0,
                 .slot = slot,
                 .rounds = params.x_type != params.type});
  });
  return Status::ok();
}

bool hasLongRows(const amax_rows_params &params) {
  return params.cols >= kTileThreads * 64 && params.rows <= kAmaxSlots;
}

Status planAmaxOfLongRows(const CudaDevice &device,
                          const amax_rows_params &params,
                          std::unique_ptr<Plan> *plan) {
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, std::string("te_amax_") +
                                                 inputTypeName(params.type)));
  config.block = kTileThreads;
  config.gridY = static_cast<unsigned>(params.rows);
  config.gridX = static_cast<unsigned>(std::clamp<int64_t>(
      ceilDiv(params.cols, kTileThreads * 64), 1,
      ceilDiv(device.multiprocessors * 8, std::max<int64_t>(params.rows, 1))));
  *plan = makePlan(device, [config, params, slot = takeAmaxSlots(params.rows)](
                               const Launcher &launch, void *const *buffers) {
    namespace index = amax_rows_buffers;
    return launch(
        config,
        AmaxArgs{.x = buffers[index::x],
                 .amax = static_cast<float *>(buffers[index::amax]),
                 .skip = static_cast<const float *>(buffers[index::skip]),
                 .count = params.cols,
                 .stride = params.cols * byteSize(params.type),
                 .slot = slot,
                 .rounds = false});
  });
  return Status::ok();
}

Status plan_compute_scale(const CudaDevice &device,
                          const compute_scale_params &params,
                          std::unique_ptr<Plan> *plan) {
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_compute_scale"));
  config.block = 1;
  config.gridX = static_cast<unsigned>(params.count);
  *plan = makePlan(device, [config, params](const Launcher &launch,
                                            void *const *buffers) {
    namespace index = compute_scale_buffers;
    return launch(config,
                  ComputeScaleArgs{
                      .amax = static_cast<const float *>(buffers[index::amax]),
                      .scale = static_cast<float *>(buffers[index::scale]),
                      .fp8Max = math::maxFinite(params.fp8_type),
                      .epsilon = params.amax_epsilon,
                      .pow2 = params.pow2_scales});
  });
  return Status::ok();
}

Status plan_quantize_tensor(const CudaDevice &device,
                            const quantize_tensor_params &params,
                            std::unique_ptr<Plan> *plan) {
  TensorKernels kernels;
  TE_RT_RETURN_IF_FAILED(kernels.find(device, params, params.matrices));
  *plan =
      makePlan(device, [kernels, params, slot = takeAmaxSlots(params.matrices),
                        strides = stackStrides(params)](const Launcher &launch,
                                                        void *const *buffers) {
        namespace b = quantize_tensor_buffers;
        QuantizeArgs args = quantizeArgs(params, slot, buffers);
        args.strides = quantizeStrides(strides, b::x, b::row);
        return kernels.launch(launch, takesVectors(args), args);
      });
  return Status::ok();
}

// The second matrix is at any distance from the first one.
Status plan_quantize_tensor_group(const CudaDevice &device,
                                  const quantize_tensor_group_params &params,
                                  std::unique_ptr<Plan> *plan) {
  TensorKernels kernels;
  TE_RT_RETURN_IF_FAILED(kernels.find(device, params, 2));
  *plan = makePlan(
      device,
      [kernels, params, slot = takeAmaxSlots(2)](
          const Launcher &launch, void *const *buffers) -> Status {
        TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
        QuantizeArgs args =
            quantizeArgs(params, slot, quantizeBuffersOf(buffers, 0).data());
        const QuantizeArgs second =
            quantizeArgs(params, slot, quantizeBuffersOf(buffers, 1).data());
        args.strides = {
            .x = distance(args.x, second.x),
            .scale = distance(args.scale, second.scale),
            .row = distance(args.out.row, second.out.row),
            .rowScale = distance(args.out.rowScale, second.out.rowScale),
            .col = distance(args.out.col, second.out.col),
            .colScale = distance(args.out.colScale, second.out.colScale),
            .amax = distance(args.amax, second.amax)};
        return kernels.launch(launch,
                              takesVectors(args) && takesVectors(second), args);
      });
  return Status::ok();
}

Status plan_quantize_block(const CudaDevice &device,
                           const quantize_block_params &params,
                           std::unique_ptr<Plan> *plan) {
  TileKernels kernels;
  const char *scheme =
      params.scheme == TE_RT_BLOCK_1X128 ? "block_1x128" : "block_128x128";
  TE_RT_RETURN_IF_FAILED(findQuantize(device, scheme, params.x_type,
                                      params.type, params.fp8_type, kernels));
  TE_RT_RETURN_IF_FAILED(
      kernels.setGrid(params.rows, params.cols, params.cols));
  kernels.setStack(params.matrices);
  *plan = makePlan(device, [kernels, params, strides = stackStrides(params)](
                               const Launcher &launch, void *const *buffers) {
    namespace index = quantize_block_buffers;
    QuantizeArgs args{};
    args.strides = quantizeStrides(strides, index::x, index::row);
    args.x = buffers[index::x];
    args.out = quantizeOutputs(buffers + index::row, params.rows);
    args.skip = static_cast<const float *>(buffers[index::skip]);
    args.rows = params.rows;
    args.cols = params.cols;
    args.xRows = params.x_rows;
    args.xCols = params.x_cols;
    args.pow2 = params.pow2_scales;
    args.epsilon = params.amax_epsilon;
    return kernels.launch(launch, takesVectors(args), args);
  });
  return Status::ok();
}

Status plan_quantize_rows(const CudaDevice &device,
                          const quantize_rows_params &params,
                          std::unique_ptr<Plan> *plan) {
  const bool perTensor = params.scheme == TE_RT_PER_TENSOR;
  TileKernels plain, measuring;
  TE_RT_RETURN_IF_FAILED(
      findQuantize(device, perTensor ? "tensor" : "block_1x128", params.type,
                   params.type, params.fp8_type, plain));
  TE_RT_RETURN_IF_FAILED(findQuantize(device, "tensor_amax", params.type,
                                      params.type, params.fp8_type, measuring));
  // An empty value has a scale and an amax too, which one block writes.
  const int64_t least = perTensor ? 1 : 0;
  const int64_t rows = std::max(params.rows, least);
  const int64_t cols = std::max(params.cols, least);
  TE_RT_RETURN_IF_FAILED(plain.setGrid(rows, cols, cols));
  TE_RT_RETURN_IF_FAILED(measuring.setGrid(rows, cols, cols));
  *plan = makePlan(device, [plain, measuring, params, perTensor,
                            slot = takeAmaxSlots(1)](const Launcher &launch,
                                                     void *const *buffers) {
    namespace index = quantize_rows_buffers;
    QuantizeArgs args{};
    args.x = buffers[index::x];
    args.xRows = params.rows;
    args.xCols = params.cols;
    placeRows(params, slot, buffers + index::scale, args);
    const bool isFast =
        isAligned(args.x, 16) && storesVectors(args.out, args.rows, args.cols);
    return (perTensor && args.amax ? measuring : plain)
        .launch(launch, isFast, args);
  });
  return Status::ok();
}

Status plan_dequantize(const CudaDevice &device,
                       const dequantize_params &params,
                       std::unique_ptr<Plan> *plan) {
  if (isMx(params.scheme) || isNv(params.scheme))
    return planMicroscaledDequantize(device, params, plan);
  const std::string suffix = std::string("_") + fp8TypeName(params.fp8_type) +
                             "_" + inputTypeName(params.out_type);
  TileKernels kernels;
  TE_RT_RETURN_IF_FAILED(kernels.find(
      device, "te_dequantize_axis" + std::to_string(params.axis) + suffix,
      kTileSharedBytes, "te_dequantize_general" + suffix, 0));
  TE_RT_RETURN_IF_FAILED(
      kernels.setGrid(params.rows, params.cols, params.cols));
  kernels.setStack(params.matrices);
  *plan = makePlan(device, [kernels, params, strides = stackStrides(params)](
                               const Launcher &launch, void *const *buffers) {
    namespace index = dequantize_buffers;
    DequantizeArgs args{
        .data = static_cast<const uint8_t *>(buffers[index::data]),
        .scale = static_cast<const float *>(buffers[index::scale]),
        .out = buffers[index::out],
        .strides = {.data = strides[index::data],
                    .scale = strides[index::scale],
                    .out = strides[index::out]},
        .rows = params.rows,
        .cols = params.cols,
        .colTiles = 0,
        .scheme = params.scheme,
        .axis = params.axis};
    return kernels.launch(launch,
                          params.rows % 8 == 0 && params.cols % 8 == 0 &&
                              isAligned(args.data, 8) &&
                              isAligned(args.out, 16),
                          args);
  });
  return Status::ok();
}

Status plan_transpose_scaled(const CudaDevice &device,
                             const transpose_scaled_params &params,
                             std::unique_ptr<Plan> *plan) {
  if (isMx(params.scheme) || isNv(params.scheme))
    return planMicroscaledTranspose(device, params, plan);
  TileKernels kernels;
  TE_RT_RETURN_IF_FAILED(
      kernels.find(device, "te_transpose_scaled", kTileSharedBytes,
                   "te_transpose_scaled_general", kTileSharedBytes));
  // An empty per-tensor value has a scale too, which one block copies.
  const int64_t least = params.scheme == TE_RT_PER_TENSOR ? 1 : 0;
  const int64_t cols = std::max(params.cols, least);
  TE_RT_RETURN_IF_FAILED(
      kernels.setGrid(std::max(params.rows, least), cols, cols));
  kernels.setStack(params.matrices);
  *plan = makePlan(device, [kernels, params, strides = stackStrides(params)](
                               const Launcher &launch, void *const *buffers) {
    namespace index = transpose_scaled_buffers;
    TransposeArgs args{
        .data = static_cast<const uint8_t *>(buffers[index::data]),
        .scale = static_cast<const float *>(buffers[index::scale]),
        .outData = static_cast<uint8_t *>(buffers[index::out_data]),
        .outScale = static_cast<float *>(buffers[index::out_scale]),
        .skip = static_cast<const float *>(buffers[index::skip]),
        .strides = {.data = strides[index::data],
                    .scale = strides[index::scale],
                    .outScale = strides[index::out_scale]},
        .rows = params.rows,
        .cols = params.cols,
        .colTiles = 0,
        .scheme = params.scheme};
    return kernels.launch(launch,
                          params.rows % 16 == 0 && params.cols % 16 == 0 &&
                              isAligned(args.data, 16) &&
                              isAligned(args.outData, 16),
                          args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
