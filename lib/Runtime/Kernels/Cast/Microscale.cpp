//===- Microscale.cpp - plans of mx and nv values -------------------------===//
//
// Sizes are whole blocks, so at launch only the pointers decide between the
// fast kernel and the one for any alignment.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/Microscale.h"

#include "Core/Stack.h"
#include "Cuda/CudaBackend.h"
#include "Kernels/Cast/cast_args.h"
#include "Kernels/Cast/microscale_args.h"
#include "Kernels/LaunchPlan.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace te::rt::cuda {
namespace {

/// The fast and the general version of a kernel, with the same grid.
struct Forms {
  LaunchConfig fast, general;

  Status find(const CudaDevice &device, const std::string &name) {
    fast.block = general.block = kTileThreads;
    TE_RT_RETURN_IF_FAILED(fast.find(device, name));
    return general.find(device, name + "_general");
  }
  Status setGrid(int64_t blocks, int64_t matrices = 1) {
    if (blocks > std::numeric_limits<int32_t>::max())
      return {TE_RT_UNSUPPORTED,
              "expected at most 2147483647 blocks of threads, but got " +
                  std::to_string(blocks)};
    fast.gridX = general.gridX = static_cast<unsigned>(blocks);
    fast.gridY = general.gridY = static_cast<unsigned>(matrices);
    return Status::ok();
  }
};

bool areAligned(std::initializer_list<const void *> pointers, uintptr_t bytes) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [=](const void *p) { return isAligned(p, bytes); });
}

int64_t tiles(int64_t size) { return ceilDiv(size, kTile); }

} // namespace

Status plan_quantize_mx(const CudaDevice &device,
                        const quantize_mx_params &params,
                        std::unique_ptr<Plan> *plan) {
  Forms forms;
  TE_RT_RETURN_IF_FAILED(forms.find(
      device, std::string("te_quantize_mx_") +
                  (params.scheme == TE_RT_MX_1X32 ? "1x32_" : "32x32_") +
                  inputTypeName(params.type) + "_" +
                  fp8TypeName(params.fp8_type)));
  TE_RT_RETURN_IF_FAILED(
      forms.setGrid(tiles(params.rows) * tiles(params.cols), params.matrices));
  *plan = makePlan(device, [forms, params, strides = stackStrides(params)](
                               const Launcher &launch, void *const *buffers) {
    namespace index = quantize_mx_buffers;
    const QuantizeMxArgs args{
        .x = buffers[index::x],
        .row = static_cast<uint8_t *>(buffers[index::row]),
        .rowScale = static_cast<uint8_t *>(buffers[index::row_scale]),
        .col = static_cast<uint8_t *>(buffers[index::col]),
        .colScale = static_cast<uint8_t *>(buffers[index::col_scale]),
        .skip = static_cast<const float *>(buffers[index::skip]),
        .strides = {.x = strides[index::x],
                    .data = strides[index::row],
                    .rowScale = strides[index::row_scale],
                    .colScale = strides[index::col_scale]},
        .rows = params.rows,
        .cols = params.cols,
        .xRows = params.x_rows,
        .xCols = params.x_cols,
        .colTiles = static_cast<uint32_t>(tiles(params.cols))};
    const bool isFast = isAligned(args.x, 16) && args.xCols % 8 == 0 &&
                        isAligned(args.rowScale, 4) &&
                        areAligned({args.row, args.col, args.colScale}, 8);
    return launch(isFast ? forms.fast : forms.general, args);
  });
  return Status::ok();
}

Status planMicroscaledDequantize(const CudaDevice &device,
                                 const dequantize_params &params,
                                 std::unique_ptr<Plan> *plan) {
  const bool nv = isNv(params.scheme);
  std::string name = nv ? "te_dequantize_nv_axis" : "te_dequantize_mx_axis";
  name += std::to_string(params.axis);
  if (!nv)
    name += std::string("_") + fp8TypeName(params.fp8_type);
  name += std::string("_") + inputTypeName(params.out_type);
  Forms forms;
  TE_RT_RETURN_IF_FAILED(forms.find(device, name));
  TE_RT_RETURN_IF_FAILED(
      forms.setGrid(tiles(params.rows) * tiles(params.cols), params.matrices));
  const MicroscaleLayout layout(params.scheme, params.axis, params.rows,
                                params.cols);
  *plan = makePlan(device, [forms, params, pitch = layout.pitch,
                            strides = stackStrides(params)](
                               const Launcher &launch, void *const *buffers) {
    namespace index = dequantize_buffers;
    const MicroscaleDequantizeArgs args{
        .data = static_cast<const uint8_t *>(buffers[index::data]),
        .scale = static_cast<const uint8_t *>(buffers[index::scale]),
        .amax = static_cast<const float *>(buffers[index::amax]),
        .out = buffers[index::out],
        .strides = {.data = strides[index::data],
                    .scale = strides[index::scale],
                    .amax = strides[index::amax],
                    .out = strides[index::out]},
        .rows = params.rows,
        .cols = params.cols,
        .pitch = pitch,
        .colTiles = static_cast<uint32_t>(tiles(params.cols)),
        .rowScaled = params.row_scaled,
        .scaleMax = params.scale_max};
    const bool isFast =
        areAligned({args.data, args.scale}, 8) && isAligned(args.out, 16);
    return launch(isFast ? forms.fast : forms.general, args);
  });
  return Status::ok();
}

Status planMicroscaledTranspose(const CudaDevice &device,
                                const transpose_scaled_params &params,
                                std::unique_ptr<Plan> *plan) {
  Forms forms;
  TE_RT_RETURN_IF_FAILED(forms.find(
      device, isNv(params.scheme) ? "te_transpose_nv" : "te_transpose_mx"));
  // An empty nv value has an amax too, which one block copies.
  const int64_t least = isNv(params.scheme) ? 1 : 0;
  const int64_t colTiles = std::max(tiles(params.cols), least);
  TE_RT_RETURN_IF_FAILED(forms.setGrid(
      std::max(tiles(params.rows), least) * colTiles, params.matrices));
  const auto strides = stackStrides(params);
  const MicroscaleLayout from(params.scheme, 1, params.rows, params.cols);
  const MicroscaleLayout to(params.scheme, 0, params.rows, params.cols);
  *plan = makePlan(device, [=](const Launcher &launch, void *const *buffers) {
    namespace index = transpose_scaled_buffers;
    const MicroscaleTransposeArgs args{
        .data = static_cast<const uint8_t *>(buffers[index::data]),
        .scale = static_cast<const uint8_t *>(buffers[index::scale]),
        .amax = static_cast<const float *>(buffers[index::amax]),
        .outData = static_cast<uint8_t *>(buffers[index::out_data]),
        .outScale = static_cast<uint8_t *>(buffers[index::out_scale]),
        .outAmax = static_cast<float *>(buffers[index::out_amax]),
        .skip = static_cast<const float *>(buffers[index::skip]),
        .strides = {.data = strides[index::data],
                    .scale = strides[index::scale],
                    .outScale = strides[index::out_scale]},
        .rows = params.rows,
        .cols = params.cols,
        .pitch = from.pitch,
        .outPitch = to.pitch,
        .colTiles = static_cast<uint32_t>(colTiles)};
    const bool isFast =
        areAligned({args.data, args.outData}, 8) && isAligned(args.outScale, 4);
    return launch(isFast ? forms.fast : forms.general, args);
  });
  return Status::ok();
}

Status plan_swizzle_scales(const CudaDevice &device,
                           const swizzle_scales_params &params,
                           std::unique_ptr<Plan> *plan) {
  const MicroscaleLayout layout(params.scheme, params.axis, params.rows,
                                params.cols);
  const bool isTransposed = !layout.outerIsLine;
  Forms forms;
  TE_RT_RETURN_IF_FAILED(forms.find(device, "te_swizzle_scales"));
  TE_RT_RETURN_IF_FAILED(
      forms.setGrid(ceilDiv(layout.size(), 4 * kTileThreads)));
  *plan = makePlan(device, [=](const Launcher &launch, void *const *buffers) {
    namespace index = swizzle_scales_buffers;
    const SwizzleArgs args{
        .scale = static_cast<const uint8_t *>(buffers[index::scale]),
        .swizzled = static_cast<uint8_t *>(buffers[index::swizzled]),
        .outer = isTransposed ? layout.pitch : layout.lines,
        .blocks = isTransposed ? layout.lines : layout.pitch,
        .isTransposed = isTransposed};
    return launch(areAligned({args.scale, args.swizzled}, 4) ? forms.fast
                                                             : forms.general,
                  args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
