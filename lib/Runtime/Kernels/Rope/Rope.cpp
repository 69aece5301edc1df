//===- Rope.cpp - plans of the rotary embedding ---------------------------===//
//
// Shapes decide whether there is a kernel with vector accesses; the alignment
// of the buffers of a launch decides whether it runs.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Capabilities.h"
#include "Kernels/Pointwise/KernelLookup.h"
#include "Kernels/Rope/rope_args.h"

namespace te::rt::cuda {

namespace {

/// A kernel and its arguments that do not change.
struct RopeForm {
  LaunchConfig config;
  int32_t itemsPerHead = 0, tokensPerBlock = 0;

  Status find(const CudaDevice &device, const char *family,
              const rope_params &params, int64_t items) {
    TE_RT_RETURN_IF_FAILED(findTyped(device, family, {params.type}, &config));
    config.block = kRopeBlock;
    itemsPerHead = static_cast<int32_t>(items);
    tokensPerBlock = static_cast<int32_t>(
        std::max<int64_t>(1, kRopeBlock / (params.heads * items)));
    return setGrid(ceilDiv(params.tokens, tokensPerBlock), &config);
  }
};

/// Kernels count tokens and columns in 32 bits.
Status checkSize(const char *name, int64_t size) {
  constexpr int64_t limit = int64_t{1} << 30;
  if (size <= limit)
    return Status::ok();
  return {TE_RT_UNSUPPORTED, std::string("te_rope: expected ") + name +
                                 " to be at most " + std::to_string(limit) +
                                 ", but got " + std::to_string(size)};
}

} // namespace

Status plan_rope(const CudaDevice &device, const rope_params &params,
                 std::unique_ptr<Plan> *plan) {
  namespace b = rope_buffers;
  TE_RT_RETURN_IF_FAILED(checkSize("'tokens'", params.tokens));
  TE_RT_RETURN_IF_FAILED(
      checkSize("'heads' * 'head_dim'", params.heads * params.head_dim));
  TE_RT_RETURN_IF_FAILED(checkSize("'sequence'", params.sequence));
  const int64_t length = runLength({params.type});
  const int64_t pairs = params.rotary_dim / 2;
  const int64_t rest = params.head_dim - params.rotary_dim;
  const bool interleaved = params.interleaved != 0;

  RopeForm any, vectors;
  TE_RT_RETURN_IF_FAILED(any.find(
      device, interleaved ? "te_rope_any_interleaved" : "te_rope_any_half",
      params, pairs + rest));
  const bool hasVectors =
      rest % length == 0 &&
      (interleaved ? params.rotary_dim : pairs) % length == 0;
  if (hasVectors)
    TE_RT_RETURN_IF_FAILED(vectors.find(
        device, interleaved ? "te_rope_interleaved" : "te_rope_half", params,
        ((interleaved ? params.rotary_dim : pairs) + rest) / length));

  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
    RopeArgs args{};
    args.x = buffers[b::x];
    args.cos = static_cast<const float *>(buffers[b::cos]);
    args.sin = static_cast<const float *>(buffers[b::sin]);
    if (params.has_positions)
      args.positions = static_cast<const int32_t *>(buffers[b::positions]);
    args.y = buffers[b::y];
    args.amax = static_cast<float *>(buffers[b::amax]);
    args.tokens = params.tokens;
    args.sequence = params.sequence;
    args.heads = static_cast<int32_t>(params.heads);
    args.headDim = static_cast<int32_t>(params.head_dim);
    args.pairs = static_cast<int32_t>(pairs);
    args.inverse = params.inverse != 0;
    const RopeForm &form =
        hasVectors && areAligned({args.x, args.cos, args.sin, args.y}) ? vectors
                                                                       : any;
    args.itemsPerHead = form.itemsPerHead;
    args.tokensPerBlock = form.tokensPerBlock;
    if (args.amax)
      TE_RT_RETURN_IF_FAILED(launch.zero(args.amax, sizeof(float)));
    return launch(form.config, args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
