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

#include <vector>

namespace te::rt::cuda {

namespace {

/// A kernel and its arguments that do not change.
struct RopeForm {
  LaunchConfig config;
  int32_t itemsPerHead = 0;
  std::vector<int32_t> tokensPerBlock; // of each tensor

  Status find(const CudaDevice &device, const char *family, int32_t type,
              int64_t tokens, const std::vector<int64_t> &heads,
              int64_t items) {
    TE_RT_RETURN_IF_FAILED(findTyped(device, family, {type}, &config));
    config.block = kRopeBlock;
    config.gridY = static_cast<unsigned>(heads.size());
    itemsPerHead = static_cast<int32_t>(items);
    int64_t blocks = 0;
    for (int64_t each : heads) {
      tokensPerBlock.push_back(static_cast<int32_t>(
          std::max<int64_t>(1, kRopeBlock / (each * items))));
      blocks = std::max(blocks, ceilDiv(tokens, tokensPerBlock.back()));
    }
    return setGrid(blocks, &config);
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

/// Tensors with these numbers of heads. `buffersOf(buffers, i)` are those of
/// rope for tensor i.
template <typename Params, typename BuffersOf>
Status planTensors(const CudaDevice &device, const Params &params,
                   const std::vector<int64_t> &heads, BuffersOf buffersOf,
                   std::unique_ptr<Plan> *plan) {
  TE_RT_RETURN_IF_FAILED(checkSize("'tokens'", params.tokens));
  for (int64_t each : heads)
    TE_RT_RETURN_IF_FAILED(
        checkSize("'heads' * 'head_dim'", each * params.head_dim));
  TE_RT_RETURN_IF_FAILED(checkSize("'sequence'", params.sequence));
  const int64_t length = runLength({params.type});
  const int64_t pairs = params.rotary_dim / 2;
  const int64_t rest = params.head_dim - params.rotary_dim;
  const bool interleaved = params.interleaved != 0;

  RopeForm any, vectors;
  TE_RT_RETURN_IF_FAILED(any.find(
      device, interleaved ? "te_rope_any_interleaved" : "te_rope_any_half",
      params.type, params.tokens, heads, pairs + rest));
  const bool hasVectors =
      rest % length == 0 &&
      (interleaved ? params.rotary_dim : pairs) % length == 0;
  if (hasVectors)
    TE_RT_RETURN_IF_FAILED(vectors.find(
        device, interleaved ? "te_rope_interleaved" : "te_rope_half",
        params.type, params.tokens, heads,
        ((interleaved ? params.rotary_dim : pairs) + rest) / length));

  *plan =
      makePlan(device, [=](Launcher launch, void *const *buffers) -> Status {
        namespace b = rope_buffers;
        TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
        RopeArgs args{};
        bool isAligned = true;
        for (size_t i = 0; i < heads.size(); ++i) {
          const auto own = buffersOf(buffers, i);
          args.tensors[i] = {own[b::x], own[b::y],
                             static_cast<float *>(own[b::amax]),
                             static_cast<int32_t>(heads[i]), 0};
          args.cos = static_cast<const float *>(own[b::cos]);
          args.sin = static_cast<const float *>(own[b::sin]);
          if (params.has_positions)
            args.positions = static_cast<const int32_t *>(own[b::positions]);
          isAligned &= areAligned({own[b::x], args.cos, args.sin, own[b::y]});
        }
        const RopeForm &form = hasVectors && isAligned ? vectors : any;
        for (size_t i = 0; i < heads.size(); ++i) {
          args.tensors[i].tokensPerBlock = form.tokensPerBlock[i];
          if (float *amax = args.tensors[i].amax)
            TE_RT_RETURN_IF_FAILED(launch.zero(amax, sizeof(float)));
        }
        args.tokens = params.tokens;
        args.sequence = params.sequence;
        args.headDim = static_cast<int32_t>(params.head_dim);
        args.pairs = static_cast<int32_t>(pairs);
        args.itemsPerHead = form.itemsPerHead;
        args.inverse = params.inverse != 0;
        return launch(form.config, args);
      });
  return Status::ok();
}

} // namespace

Status plan_rope(const CudaDevice &device, const rope_params &params,
                 std::unique_ptr<Plan> *plan) {
  return planTensors(
      device, params, {params.heads},
      [](void *const *buffers, size_t) { return buffers; }, plan);
}

Status plan_rope_group(const CudaDevice &device,
                       const rope_group_params &params,
                       std::unique_ptr<Plan> *plan) {
  std::vector<int64_t> heads;
  std::vector<int> members;
  for (int i = 0; i < kRopeGroup; ++i)
    if (const int64_t own = memberOf(params, i).heads; own != 0) {
      heads.push_back(own);
      members.push_back(i);
    }
  return planTensors(
      device, params, heads,
      [=](void *const *buffers, size_t i) {
        return ropeBuffersOf(buffers, members[i]);
      },
      plan);
}

} // namespace te::rt::cuda
