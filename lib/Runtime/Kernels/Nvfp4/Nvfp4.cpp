//===- Nvfp4.cpp - plans of the 4-bit kernels -----------------------------===//
//
// A plan of a quantisation is one kernel, chosen by scheme, rounding and input
// type. Whether it may use vectors is a flag that is set at launch, where the
// pointers are known.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Nvfp4/nvfp4_args.h"

#include "Core/Stack.h"
#include "Cuda/CudaBackend.h"
#include "Kernels/Cast/Cast.h"
#include "Kernels/Cast/cast_args.h"
#include "Kernels/LaunchPlan.h"

#include <algorithm>
#include <limits>

namespace te::rt::cuda {
namespace {

/// Sets a one-dimensional grid.
Status setGrid(LaunchConfig &config, int64_t blocks) {
  if (blocks > std::numeric_limits<int32_t>::max())
    return {TE_RT_UNSUPPORTED, "expected at most 2147483647 blocks, but got " +
                                   std::to_string(blocks)};
  config.gridX = static_cast<unsigned>(blocks);
  return Status::ok();
}

const char *modeName(const quantize_nvfp4_params &params) {
  if (params.stochastic)
    return "stochastic";
  return params.four_over_six ? "4over6" : "nearest";
}

} // namespace

Status plan_quantize_nvfp4(const CudaDevice &device,
                           const quantize_nvfp4_params &params,
                           std::unique_ptr<Plan> *plan) {
  LaunchConfig config;
  const char *scheme = params.scheme == TE_RT_NV_16X16 ? "16x16" : "1x16";
  TE_RT_RETURN_IF_FAILED(config.find(
      device, std::string("te_quantize_nvfp4_") + scheme + "_" +
                  modeName(params) + "_" + inputTypeName(params.type)));
  config.block = kTileThreads;
  // An empty value has an amax too, which one block copies.
  const int64_t rowTiles = std::max<int64_t>(ceilDiv(params.rows, kTile), 1);
  const int64_t colTiles = std::max<int64_t>(ceilDiv(params.cols, kTile), 1);
  TE_RT_RETURN_IF_FAILED(setGrid(config, rowTiles * colTiles));
  config.gridY = static_cast<unsigned>(params.matrices);
  *plan = makePlan(
      device, [config, params, colTiles, strides = stackStrides(params)](
                  const Launcher &launch, void *const *buffers) {
        namespace b = quantize_nvfp4_buffers;
        // The tile of an empty value has no element and no scale to write.
        const bool isEmpty = params.rows == 0 || params.cols == 0;
        auto bytes = [&](int index) {
          return isEmpty ? nullptr : static_cast<uint8_t *>(buffers[index]);
        };
        QuantizeNvfp4Args args{
            .x = buffers[b::x],
            .amax = static_cast<const float *>(buffers[b::amax]),
            .rng = static_cast<const uint32_t *>(buffers[b::rng]),
            .row = bytes(b::row),
            .rowScale = bytes(b::row_scale),
            .rowAmax = static_cast<float *>(buffers[b::row_amax]),
            .col = params.row_scaled ? nullptr : bytes(b::col),
            .colScale = params.row_scaled ? nullptr : bytes(b::col_scale),
            .colAmax = static_cast<float *>(buffers[b::col_amax]),
            .skip = static_cast<const float *>(buffers[b::skip]),
            .strides = {.x = strides[b::x],
                        .amax = strides[b::amax],
                        .data = strides[b::row],
                        .rowScale = strides[b::row_scale],
                        .colScale = strides[b::col_scale]},
            .rows = params.rows,
            .cols = params.cols,
            .xRows = params.x_rows,
            .xCols = params.x_cols,
            .colTiles = static_cast<uint32_t>(colTiles),
            .rowScaled = params.row_scaled,
            .scaleMax = params.scale_max,
            .measure = params.four_over_six,
            .stream = static_cast<uint32_t>(params.stream),
            .aligned = 0};
        args.aligned = isAligned(args.x, 16) && args.xCols % 8 == 0 &&
                       isAligned(args.row, 4) && isAligned(args.rowScale, 4) &&
                       isAligned(args.col, 8) && isAligned(args.colScale, 4);
        return launch(config, args);
      });
  return Status::ok();
}

Status plan_amax_rows(const CudaDevice &device, const amax_rows_params &params,
                      std::unique_ptr<Plan> *plan) {
  if (hasLongRows(params))
    return planAmaxOfLongRows(device, params, plan);
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, std::string("te_amax_rows_") +
                                                 inputTypeName(params.type)));
  config.block = kNvThreads;
  TE_RT_RETURN_IF_FAILED(
      setGrid(config, ceilDiv(params.rows, kNvThreads / 32)));
  *plan = makePlan(
      device, [config, params](const Launcher &launch, void *const *buffers) {
        namespace b = amax_rows_buffers;
        return launch(
            config,
            AmaxRowsArgs{.x = buffers[b::x],
                         .amax = static_cast<float *>(buffers[b::amax]),
                         .skip = static_cast<const float *>(buffers[b::skip]),
                         .rows = params.rows,
                         .cols = params.cols});
      });
  return Status::ok();
}

Status plan_hadamard(const CudaDevice &device, const hadamard_params &params,
                     std::unique_ptr<Plan> *plan) {
  LaunchConfig pairs, general;
  TE_RT_RETURN_IF_FAILED(pairs.find(device, "te_hadamard"));
  TE_RT_RETURN_IF_FAILED(general.find(device, "te_hadamard_general"));
  pairs.block = general.block = kNvThreads;
  const int64_t runs = params.rows / 16;
  const int64_t pairBlocks = ceilDiv(params.cols, 2 * kNvThreads);
  const int64_t generalBlocks = ceilDiv(params.cols, kNvThreads);
  TE_RT_RETURN_IF_FAILED(setGrid(pairs, runs * pairBlocks));
  TE_RT_RETURN_IF_FAILED(setGrid(general, runs * generalBlocks));
  *plan = makePlan(device, [pairs, general, params, pairBlocks, generalBlocks](
                               const Launcher &launch, void *const *buffers) {
    namespace b = hadamard_buffers;
    const bool isPaired = params.cols % 2 == 0 && isAligned(buffers[b::x], 4) &&
                          isAligned(buffers[b::y], 4);
    return launch(isPaired ? pairs : general,
                  HadamardArgs{.x = buffers[b::x],
                               .y = buffers[b::y],
                               .cols = params.cols,
                               .colBlocks = static_cast<uint32_t>(
                                   isPaired ? pairBlocks : generalBlocks)});
  });
  return Status::ok();
}

Status plan_nvfp4_alpha(const CudaDevice &device,
                        const nvfp4_alpha_params &params,
                        std::unique_ptr<Plan> *plan) {
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_nvfp4_alpha"));
  config.block = kNvThreads;
  TE_RT_RETURN_IF_FAILED(
      setGrid(config, ceilDiv(params.matrices * params.rows, kNvThreads)));
  *plan = makePlan(device, [config, params](const Launcher &launch,
                                            void *const *buffers) {
    namespace b = nvfp4_alpha_buffers;
    return launch(
        config,
        Nvfp4AlphaArgs{.aAmax = static_cast<const float *>(buffers[b::a_amax]),
                       .bAmax = static_cast<const float *>(buffers[b::b_amax]),
                       .alpha = static_cast<float *>(buffers[b::alpha]),
                       .matrices = params.matrices,
                       .rows = params.rows,
                       .aScaleMax = params.a_scale_max,
                       .bScaleMax = params.b_scale_max});
  });
  return Status::ok();
}

Status plan_rng_advance(const CudaDevice &device,
                        const rng_advance_params &params,
                        std::unique_ptr<Plan> *plan) {
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_rng_advance"));
  config.block = 1;
  *plan = makePlan(device, [config,
                            count = static_cast<uint32_t>(params.count)](
                               const Launcher &launch, void *const *buffers) {
    namespace b = rng_advance_buffers;
    return launch(
        config, RngAdvanceArgs{
                    .state = static_cast<const uint32_t *>(buffers[b::state]),
                    .newState = static_cast<uint32_t *>(buffers[b::new_state]),
                    .count = count});
  });
  return Status::ok();
}

} // namespace te::rt::cuda
