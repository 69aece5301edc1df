//===- Attention.cpp - plans of what is beside attention ------------------===//
//
// cuDNN computes attention itself (Attention/AttentionPlans.cpp). It sums the
// gradient of the sinks in an unspecified order; this kernel uses the order of
// the reference backend.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Capabilities.h"
#include "Core/Formulas.h"
#include "Core/Workspaces.h"
#include "Kernels/Attention/attention_args.h"
#include "Kernels/Norm/norm_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

Status plan_attention_sink_grad(const CudaDevice &device,
                                const attention_sink_grad_params &params,
                                std::unique_ptr<Plan> *plan) {
  namespace b = attention_sink_grad_buffers;
  const int64_t chunks = ceilDiv(params.tokens, kChunkRows);
  LaunchConfig terms, sum;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_attention_sink_grad", {params.type}, &terms));
  terms.block = kSinkGradBlock;
  TE_RT_RETURN_IF_FAILED(setGrid(chunks * params.heads, &terms));
  TE_RT_RETURN_IF_FAILED(findTyped(device, "te_chunk_sum", {TE_RT_F32}, &sum));
  sum.block = kNormBlock;
  TE_RT_RETURN_IF_FAILED(setGrid(ceilDiv(params.heads, kNormBlock), &sum));
  static_assert(kChunkRows == te_table::kernel_rows::kChunkSumRows);
  *plan = makeWorkspacePlan(
      device, workspaceBytes(params),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
        AttentionSinkGradArgs args{};
        args.dout = buffers[b::dout];
        args.o = buffers[b::o];
        args.lse = static_cast<const float *>(buffers[b::lse]);
        args.sinks = static_cast<const float *>(buffers[b::sinks]);
        if (params.boundaries != 0)
          args.documents = static_cast<const int32_t *>(buffers[b::documents]);
        args.partial = static_cast<float *>(workspace);
        args.tokens = params.tokens;
        args.sequence = params.sequence;
        args.headDim = params.head_dim;
        args.boundaries = params.boundaries;
        args.heads = static_cast<uint32_t>(params.heads);
        TE_RT_RETURN_IF_FAILED(launch(terms, args));
        return launch(sum,
                      ChunkSumArgs{args.partial, buffers[b::dsinks], chunks,
                                   static_cast<int32_t>(params.heads)});
      });
  return Status::ok();
}

Status plan_used_rows(const CudaDevice &device, const used_rows_params &params,
                      std::unique_ptr<Plan> *plan) {
  namespace b = used_rows_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_used_rows"));
  config.block = kUsedRowsBlock;
  TE_RT_RETURN_IF_FAILED(
      setGrid(ceilDiv(params.tokens, kUsedRowsBlock), &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    UsedRowsArgs args{};
    args.documents = static_cast<const int32_t *>(buffers[b::documents]);
    args.used = static_cast<float *>(buffers[b::used]);
    args.tokens = params.tokens;
    args.boundaries = params.boundaries;
    return launch(config, args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
