//===- RowSum.cpp - plans of row_sum --------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Kernels/Pointwise/KernelLookup.h"
#include "Kernels/RowSum/row_sum_args.h"

namespace te::rt::cuda {

Status plan_row_sum(const CudaDevice &device, const row_sum_params &params,
                    std::unique_ptr<Plan> *plan) {
  namespace b = row_sum_buffers;
  TE_RT_RETURN_IF_FAILED(checkCols("te_row_sum", params.cols));
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_row_sum", {params.type, params.out_type}, &config));
  config.block = kRowSumBlock;
  TE_RT_RETURN_IF_FAILED(
      setGrid(ceilDiv(params.rows, kRowSumRowsPerBlock), &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    RowSumArgs args{};
    args.x = buffers[b::x];
    args.y = buffers[b::y];
    args.rows = params.rows;
    args.cols = static_cast<int32_t>(params.cols);
    args.vectors =
        params.cols * byteSize(params.type) % 16 == 0 && areAligned({args.x});
    return launch(config, args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
