//===- ColumnSums.cpp - plans of sums over rows ---------------------------===//
//
// The first stage sums chunks of rows, the second one adds the chunks in order.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Norm/Norm.h"

#include "Core/Formulas.h"
#include "Core/Workspaces.h"

namespace te::rt::cuda {

namespace {

/// The first stage of a chunk sum of `rows` rows.
struct ChunkKernels {
  LaunchConfig scalars, vectors;
  int64_t rows;
  int32_t cols;

  int64_t count() const { return ceilDiv(rows, kChunkRows); }
  Status launch(Launcher launch, const void *dy, void *sums) const {
    ColumnSumArgs args{};
    args.dy = dy;
    args.partial = static_cast<float *>(sums);
    args.rows = rows;
    args.cols = cols;
    args.vectors = cols % kColumnsPerThread == 0 && areAligned({dy, sums});
    args.columnBlocks = columnBlocks(cols, args.vectors);
    return launch(args.vectors ? vectors : scalars, args);
  }
};

Status findChunks(const CudaDevice &device, int64_t rows, int64_t cols,
                  int32_t type, ChunkKernels *kernels) {
  static_assert(kChunkRows == te_table::kernel_rows::kChunkSumRows);
  TE_RT_RETURN_IF_FAILED(checkCols("te_bias_grad", cols));
  kernels->rows = rows;
  kernels->cols = static_cast<int32_t>(cols);
  TE_RT_RETURN_IF_FAILED(findNorm(device, "te_bias_grad", type,
                                  kernels->count() * columnBlocks(cols, false),
                                  &kernels->scalars));
  kernels->vectors = kernels->scalars;
  return setGrid(kernels->count() * columnBlocks(cols, true),
                 &kernels->vectors);
}

/// The second stage.
Status findChunkSum(const CudaDevice &device, int64_t cols, int32_t type,
                    LaunchConfig *sum) {
  TE_RT_RETURN_IF_FAILED(checkCols("te_chunk_sum", cols));
  return findNorm(device, "te_chunk_sum", type, ceilDiv(cols, kNormBlock), sum);
}

} // namespace

Status plan_bias_grad(const CudaDevice &device, const bias_grad_params &params,
                      std::unique_ptr<Plan> *plan) {
  namespace b = bias_grad_buffers;
  ChunkKernels chunks;
  LaunchConfig sum;
  TE_RT_RETURN_IF_FAILED(
      findChunks(device, params.rows, params.cols, params.type, &chunks));
  TE_RT_RETURN_IF_FAILED(
      findChunkSum(device, params.cols, params.out_type, &sum));
  *plan = makeWorkspacePlan(
      device, workspaceBytes(params),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        TE_RT_RETURN_IF_FAILED(
            chunks.launch(launch, buffers[b::dy], workspace));
        return launch(sum, ChunkSumArgs{static_cast<float *>(workspace),
                                        buffers[b::db], chunks.count(),
                                        chunks.cols});
      });
  return Status::ok();
}

Status plan_chunk_sums(const CudaDevice &device,
                       const chunk_sums_params &params,
                       std::unique_ptr<Plan> *plan) {
  namespace b = chunk_sums_buffers;
  ChunkKernels chunks;
  TE_RT_RETURN_IF_FAILED(
      findChunks(device, params.rows, params.cols, params.type, &chunks));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return chunks.launch(launch, buffers[b::dy], buffers[b::sums]);
  });
  return Status::ok();
}

Status plan_sum_of_chunks(const CudaDevice &device,
                          const sum_of_chunks_params &params,
                          std::unique_ptr<Plan> *plan) {
  namespace b = sum_of_chunks_buffers;
  LaunchConfig sum;
  TE_RT_RETURN_IF_FAILED(
      findChunkSum(device, params.cols, params.out_type, &sum));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(sum,
                  ChunkSumArgs{static_cast<const float *>(buffers[b::sums]),
                               buffers[b::db], params.chunks,
                               static_cast<int32_t>(params.cols)});
  });
  return Status::ok();
}

} // namespace te::rt::cuda
