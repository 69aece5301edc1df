//===- Pointwise.cpp - plans of elementwise kernels -----------------------===//
//
// Every plan launches a kernel, except for copy, which is a copy of the driver.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Types.h"
#include "Kernels/Pointwise/KernelLookup.h"
#include "Kernels/Pointwise/pointwise_args.h"

namespace te::rt::cuda {

namespace {

/// `value` as an element of `type`, repeated to four bytes.
uint32_t repeatedWord(float value, int32_t type) {
  uint32_t word = 0;
  store(&word, 0, value, type);
  if (byteSize(type) == 1)
    word |= word << 8;
  if (byteSize(type) <= 2)
    word |= word << 16;
  return word;
}

} // namespace

Status plan_fill(const CudaDevice &device, const fill_params &params,
                 std::unique_ptr<Plan> *plan) {
  namespace b = fill_buffers;
  const int64_t bytes = byteSize(params.type);
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, bytes == 4   ? "te_fill_4"
                                             : bytes == 2 ? "te_fill_2"
                                                          : "te_fill_1"));
  config.block = kPointwiseBlock;
  TE_RT_RETURN_IF_FAILED(
      setGrid(ceilDiv(params.count * bytes, kPointwiseBlock * kFillRuns * 16),
              &config));
  const uint32_t word = repeatedWord(params.value, params.type);
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    FillArgs args{};
    args.y = buffers[b::y];
    args.skip = static_cast<const float *>(buffers[b::skip]);
    args.count = params.count;
    if (areAligned({args.y}))
      args.runs = params.count * bytes / 16;
    args.word = word;
    return launch(config, args);
  });
  return Status::ok();
}

Status plan_bias_add(const CudaDevice &device, const bias_add_params &params,
                     std::unique_ptr<Plan> *plan) {
  namespace b = bias_add_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_bias_add", {params.type}, &config));
  config.block = kPointwiseBlock;
  const int64_t count = params.rows * params.cols;
  const int64_t length = runLength({params.type});
  TE_RT_RETURN_IF_FAILED(
      setGrid(ceilDiv(count, kPointwiseBlock * kPointwiseElements), &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    BiasAddArgs args{buffers[b::x], buffers[b::bias], buffers[b::y],
                     count,         params.cols,      /*runs=*/0};
    if (params.cols % length == 0 && areAligned({args.x, args.bias, args.y}))
      args.runs = count / length;
    return launch(config, args);
  });
  return Status::ok();
}

Status plan_copy_strided(const CudaDevice &device,
                         const copy_strided_params &params,
                         std::unique_ptr<Plan> *plan) {
  namespace b = copy_strided_buffers;
  // Buffers start at multiples of 256 bytes unless they are slices, which only
  // a launch sees. So there is a plan for either case.
  auto widest = [&](int64_t width) {
    for (int64_t size : {params.bytes, params.x_part, params.x_row,
                         params.y_part, params.y_row})
      while (size % width != 0)
        width = width == 16 ? 4 : 1;
    return width;
  };
  LaunchConfig wide, bytewise;
  const int64_t width = widest(16);
  const int64_t moved = params.parts * params.rows * params.bytes;
  auto configure = [&](int64_t unit, LaunchConfig *config) -> Status {
    TE_RT_RETURN_IF_FAILED(
        config->find(device, unit == 16  ? "te_copy_strided_16"
                             : unit == 4 ? "te_copy_strided_4"
                                         : "te_copy_strided_1"));
    config->block = kPointwiseBlock;
    return setGrid(ceilDiv(moved / unit, kPointwiseBlock * kPointwiseElements),
                   config);
  };
  TE_RT_RETURN_IF_FAILED(configure(width, &wide));
  TE_RT_RETURN_IF_FAILED(configure(1, &bytewise));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    const bool aligned = areAligned({buffers[b::x], buffers[b::y]});
    const int64_t unit = aligned ? width : 1;
    return launch(aligned ? wide : bytewise,
                  CopyStridedArgs{buffers[b::x], buffers[b::y], moved / unit,
                                  params.rows, params.bytes / unit,
                                  params.x_part / unit, params.x_row / unit,
                                  params.y_part / unit, params.y_row / unit});
  });
  return Status::ok();
}

Status plan_copy(const CudaDevice &device, const copy_params &params,
                 std::unique_ptr<Plan> *plan) {
  namespace b = copy_buffers;
  *plan = makePlan(device, [=, &device](Launcher launch, void *const *buffers) {
    if (params.bytes == 0 || buffers[b::x] == buffers[b::y])
      return Status::ok();
    return device.check(device.driver->cuMemcpyDtoDAsync(
                            reinterpret_cast<CUdeviceptr>(buffers[b::y]),
                            reinterpret_cast<CUdeviceptr>(buffers[b::x]),
                            static_cast<size_t>(params.bytes),
                            launch.rawStream()),
                        "cuMemcpyDtoDAsync");
  });
  return Status::ok();
}

} // namespace te::rt::cuda
