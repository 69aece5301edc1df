//===- Grouped.cpp - plans of the casts and sums of row groups ------------===//
//
// Grids are for all rows that the groups may have, because only kernels read
// the sizes of the groups, from device memory.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"
#include "Kernels/Cast/cast_args.h"
#include "Kernels/Grouped/grouped_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

#include <limits>

namespace te::rt::cuda {

namespace {

template <typename Params>
GroupedRows layoutOf(const Params &p, const void *sizes) {
  return {static_cast<const int32_t *>(sizes),
          {static_cast<uint32_t>(p.rows), static_cast<uint32_t>(p.groups),
           static_cast<uint32_t>(p.alignment)},
          p.cols};
}

/// Checks that the number of rows fits in 32 bits.
template <typename Params>
Status checkRows(const char *kernel, const Params &p) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (p.rows <= kMost && p.groups <= kMost)
    return Status::ok();
  return {TE_RT_UNSUPPORTED,
          std::string(kernel) +
              ": expected at most 2147483647 'rows' and 'groups', but got " +
              std::to_string(p.rows) + " and " + std::to_string(p.groups)};
}

/// Sets a grid of `blocks` blocks for each group.
template <typename Params>
Status setGroupGrid(const Params &p, int64_t blocks, LaunchConfig *config) {
  config->block = kGroupedBlock;
  constexpr int64_t kMostGroups = 65535;
  if (p.groups > kMostGroups)
    return {TE_RT_UNSUPPORTED,
            config->name + ": expected at most 65535 'groups', but got " +
                std::to_string(p.groups)};
  config->gridY = static_cast<unsigned>(p.groups);
  return setGrid(blocks, config);
}

/// Sets a grid with one warp for each `span` elements.
template <typename Params>
Status setSpanGrid(const Params &p, int64_t span, LaunchConfig *config) {
  config->block = kGroupedBlock;
  return setGrid(ceilDiv(p.rows * p.cols, span * (kGroupedBlock / 32)), config);
}

template <typename T> T *as(void *buffer) { return static_cast<T *>(buffer); }

} // namespace

Status plan_grouped_amax(const CudaDevice &device,
                         const grouped_amax_params &params,
                         std::unique_ptr<Plan> *plan) {
  namespace b = grouped_amax_buffers;
  TE_RT_RETURN_IF_FAILED(checkRows("grouped_amax", params));
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_grouped_amax", {params.type}, &config));
  TE_RT_RETURN_IF_FAILED(setSpanGrid(params, kGroupedAmaxSpan, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    TE_RT_RETURN_IF_FAILED(
        launch.zero(buffers[b::amax], params.groups * int64_t{sizeof(float)}));
    return launch(config,
                  GroupedAmaxArgs{layoutOf(params, buffers[b::group_sizes]),
                                  buffers[b::x], as<float>(buffers[b::amax])});
  });
  return Status::ok();
}

Status plan_grouped_round_sizes(const CudaDevice &device,
                                const grouped_round_sizes_params &params,
                                std::unique_ptr<Plan> *plan) {
  namespace b = grouped_round_sizes_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_grouped_round_sizes"));
  config.block = kGroupedBlock;
  TE_RT_RETURN_IF_FAILED(
      setGrid(ceilDiv(params.groups, kGroupedBlock), &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(config,
                  GroupedRoundArgs{as<const int32_t>(buffers[b::group_sizes]),
                                   as<int32_t>(buffers[b::rounded]),
                                   params.groups, params.multiple});
  });
  return Status::ok();
}

Status plan_grouped_zero_padding(const CudaDevice &device,
                                 const grouped_zero_padding_params &params,
                                 std::unique_ptr<Plan> *plan) {
  namespace b = grouped_zero_padding_buffers;
  TE_RT_RETURN_IF_FAILED(checkRows("grouped_zero_padding", params));
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_grouped_zero_padding", {params.type}, &config));
  TE_RT_RETURN_IF_FAILED(setSpanGrid(params, kGroupedSpan, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(config, GroupedZeroPaddingArgs{
                              layoutOf(params, buffers[b::group_sizes]),
                              buffers[b::x], buffers[b::y]});
  });
  return Status::ok();
}

Status plan_grouped_bias_grad(const CudaDevice &device,
                              const grouped_bias_grad_params &params,
                              std::unique_ptr<Plan> *plan) {
  namespace b = grouped_bias_grad_buffers;
  TE_RT_RETURN_IF_FAILED(checkRows("grouped_bias_grad", params));
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_grouped_bias_grad", {params.type}, &config));
  TE_RT_RETURN_IF_FAILED(
      setGroupGrid(params, ceilDiv(params.cols, kGroupedBlock), &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(config, GroupedBiasGradArgs{
                              layoutOf(params, buffers[b::group_sizes]),
                              buffers[b::dy], buffers[b::db], params.out_type});
  });
  return Status::ok();
}

Status
plan_grouped_quantize_tensor(const CudaDevice &device,
                             const grouped_quantize_tensor_params &params,
                             std::unique_ptr<Plan> *plan) {
  namespace b = grouped_quantize_tensor_buffers;
  TE_RT_RETURN_IF_FAILED(checkRows("grouped_quantize_tensor", params));
  const std::string name = std::string("te_grouped_quantize_") +
                           inputTypeName(params.type) + "_" +
                           fp8TypeName(params.fp8_type);
  const int64_t colTiles = ceilDiv(params.cols, kTile);
  LaunchConfig fast, general;
  TE_RT_RETURN_IF_FAILED(fast.find(device, name, kTileSharedBytes));
  TE_RT_RETURN_IF_FAILED(general.find(
      device, name + "_general",
      generalSharedBytes(static_cast<int>(byteSize(params.type)))));
  // At least one block, because scales are written for any shape.
  for (LaunchConfig *config : {&fast, &general}) {
    config->block = kTileThreads;
    TE_RT_RETURN_IF_FAILED(setGrid(
        std::max<int64_t>(ceilDiv(params.rows, kTile) * colTiles, 1), config));
  }
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    GroupedQuantizeArgs args{};
    args.layout = layoutOf(params, buffers[b::group_sizes]);
    args.x = buffers[b::x];
    args.scale = as<const float>(buffers[b::scale]);
    args.row = as<uint8_t>(buffers[b::row]);
    args.rowScale = as<float>(buffers[b::row_scale]);
    args.col = as<uint8_t>(buffers[b::col]);
    args.colScale = as<float>(buffers[b::col_scale]);
    args.colTiles = static_cast<uint32_t>(std::max<int64_t>(colTiles, 1));
    // The alignment that the loads and stores of tile.cuh need.
    const bool isFast =
        params.cols % 8 == 0 && isAligned(args.x, 16) &&
        isAligned(args.row, 8) &&
        (!args.col || (params.rows % 16 == 0 && isAligned(args.col, 16)));
    return launch(isFast ? fast : general, args);
  });
  return Status::ok();
}

Status plan_grouped_quantize_nvfp4(const CudaDevice &device,
                                   const grouped_quantize_nvfp4_params &params,
                                   std::unique_ptr<Plan> *plan) {
  namespace b = grouped_quantize_nvfp4_buffers;
  TE_RT_RETURN_IF_FAILED(checkRows("grouped_quantize_nvfp4", params));
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_grouped_quantize_nvfp4", {params.type}, &config));
  config.block = kGroupedBlock;
  const int64_t threads =
      std::max(params.rows * params.cols / 16, params.groups);
  TE_RT_RETURN_IF_FAILED(setGrid(ceilDiv(threads, kGroupedBlock), &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    GroupedQuantizeNvfp4Args args{};
    args.layout = layoutOf(params, buffers[b::group_sizes]);
    args.x = buffers[b::x];
    args.amax = as<const float>(buffers[b::amax]);
    args.rng = as<const uint32_t>(buffers[b::rng]);
    args.scaleMax = params.scale_max;
    args.fourOverSix = params.four_over_six;
    args.stochastic = params.stochastic;
    args.stream = static_cast<uint32_t>(params.stream);
    for (auto [axis, data, scale, amax] :
         {std::tuple(1, +b::row, +b::row_scale, +b::row_amax),
          {0, +b::col, +b::col_scale, +b::col_amax}}) {
      if (!buffers[data] && !buffers[scale] && !buffers[amax])
        continue;
      const MicroscaleLayout scales(TE_RT_NV_1X16, axis, params.rows,
                                    params.cols);
      args.axis = axis;
      args.pitch = scales.pitch;
      args.data = as<uint8_t>(buffers[data]);
      args.scale = as<uint8_t>(buffers[scale]);
      args.amaxOut = as<float>(buffers[amax]);
      if (args.scale)
        TE_RT_RETURN_IF_FAILED(launch.zero(args.scale, scales.size()));
      TE_RT_RETURN_IF_FAILED(launch(config, args));
    }
    return Status::ok();
  });
  return Status::ok();
}

Status plan_grouped_dequantize(const CudaDevice &device,
                               const grouped_dequantize_params &params,
                               std::unique_ptr<Plan> *plan) {
  namespace b = grouped_dequantize_buffers;
  TE_RT_RETURN_IF_FAILED(checkRows("grouped_dequantize", params));
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_grouped_dequantize"));
  config.block = kGroupedBlock;
  const int64_t rowBlocks = ceilDiv(params.cols, kGroupedBlock);
  TE_RT_RETURN_IF_FAILED(setGrid(params.rows * rowBlocks, &config));
  const bool hasRuns = params.scheme == TE_RT_PER_TENSOR && params.axis == 1 &&
                       params.cols % 8 == 0;
  LaunchConfig runs;
  TE_RT_RETURN_IF_FAILED(runs.find(device, "te_grouped_dequantize_rows"));
  TE_RT_RETURN_IF_FAILED(setSpanGrid(params, kGroupedSpan, &runs));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    GroupedDequantizeArgs args{};
    args.layout = layoutOf(params, buffers[b::group_sizes]);
    args.data = as<const uint8_t>(buffers[b::data]);
    args.scale = buffers[b::scale];
    args.amax = as<const float>(buffers[b::amax]);
    args.out = buffers[b::out];
    args.rowBlocks = static_cast<uint32_t>(rowBlocks);
    args.pitch = isNv(params.scheme)
                     ? MicroscaleLayout(params.scheme, params.axis, params.rows,
                                        params.cols)
                           .pitch
                     : 0;
    args.fp8Type = params.fp8_type;
    args.axis = params.axis;
    args.rowScaled = params.row_scaled;
    args.scaleMax = params.scale_max;
    args.outType = params.out_type;
    const bool aligned = isAligned(args.data, 8) && isAligned(args.out, 16);
    return launch(hasRuns && aligned ? runs : config, args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
