//===- rope.cu - rotary position embedding --------------------------------===//
//
// te_rope_<form>_<type>. A head is divided into items: first items that rotate
// pairs, then items that copy the elements after the rotary part. An item of
// the forms `half` and `interleaved` is one run of N pairs or elements. An item
// of the form `any`, which serves both styles without alignment, is one pair or
// element. A block has whole tokens, so that its heads share the tables in the
// cache. A row of blocks rotates one tensor.
//
// An item reads all that it needs before it writes, and nothing else is read,
// so y may be x.
//
//===----------------------------------------------------------------------===//

#include "Core/Rotation.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Rope/rope_args.h"

namespace te::rt::cuda {
namespace {

/// What a block reads of its arguments.
struct Rope : RopeArgs {
  RopeTensor tensor; // of this row of blocks
  __device__ __forceinline__ explicit Rope(const RopeArgs &args)
      : RopeArgs(args), tensor(args.tensors[blockIdx.y]) {}
};

/// The row of the tables for `token`, or -1 if its position is none of them.
__device__ __forceinline__ int64_t positionOf(const Rope &args, int64_t token) {
  if (!args.positions)
    return static_cast<uint32_t>(token) % static_cast<uint32_t>(args.sequence);
  const int32_t position = args.positions[token];
  return position < args.sequence ? position : -1;
}

/// N entries of `table` from the pair `i` on, or NaN if there is no such row.
template <int N>
__device__ __forceinline__ void loadAngles(const Rope &args, const float *table,
                                           int64_t position, int i,
                                           float (&angles)[N]) {
  if (position >= 0)
    return Run<float, N>::load(table + position * args.pairs + i)
        .unpack(angles);
#pragma unroll
  for (int n = 0; n < N; ++n)
    angles[n] = __uint_as_float(0x7fc00000u);
}

/// Calls body(first element, position, item of the head).
template <typename Body>
__device__ __forceinline__ void forEachItem(const Rope &args, Body body) {
  const RopeTensor &tensor = args.tensor;
  const int perToken = tensor.heads * args.itemsPerHead;
  const int slot = static_cast<int>(threadIdx.x) / perToken;
  const int64_t token =
      static_cast<int64_t>(blockIdx.x) * tensor.tokensPerBlock + slot;
  if (slot >= tensor.tokensPerBlock || token >= args.tokens)
    return;
  const int64_t position = positionOf(args, token);
  const int step = tensor.tokensPerBlock == 1 ? kRopeBlock : perToken;
  for (int item = static_cast<int>(threadIdx.x) - slot * perToken;
       item < perToken; item += step) {
    const int64_t head = item / args.itemsPerHead;
    body((token * tensor.heads + head) * args.headDim, position,
         item % args.itemsPerHead);
  }
}

__device__ __forceinline__ float sineOf(const Rope &args, float sine) {
  return args.inverse ? -sine : sine;
}

template <typename T, int N>
__device__ __forceinline__ Run<T, N> loadRun(const Rope &args, int64_t at) {
  return Run<T, N>::load(static_cast<const T *>(args.tensor.x) + at);
}

template <typename T, int N>
__device__ __forceinline__ void storeRun(const Rope &args, const Run<T, N> &run,
                                         int64_t at, AbsMax<T> &amax) {
  amax.add(run);
  run.store(static_cast<T *>(args.tensor.y) + at);
}

/// N pairs from pair `i` on, whose first elements are a run at `at`, and whose
/// second elements are a run at `other`.
template <typename T, int N>
__device__ __forceinline__ void turnRuns(const Rope &args, int64_t at,
                                         int64_t other, int64_t position, int i,
                                         AbsMax<T> &amax) {
  const Run<T, N> first = loadRun<T, N>(args, at);
  const Run<T, N> second = loadRun<T, N>(args, other);
  float u[N], v[N], cosine[N], sine[N];
  loadAngles(args, args.cos, position, i, cosine);
  loadAngles(args, args.sin, position, i, sine);
  first.unpack(u);
  second.unpack(v);
#pragma unroll
  for (int i = 0; i < N; ++i)
    math::rotate(cosine[i], sineOf(args, sine[i]), u[i], v[i]);
  storeRun(args, Run<T, N>::pack(u), at, amax);
  storeRun(args, Run<T, N>::pack(v), other, amax);
}

template <typename T, int N>
__device__ __forceinline__ void copyRun(const Rope &args, int64_t at,
                                        AbsMax<T> &amax) {
  storeRun(args, loadRun<T, N>(args, at), at, amax);
}

/// Every thread of the block calls this.
template <typename T>
__device__ __forceinline__ void raiseAmax(const Rope &args,
                                          const AbsMax<T> &amax) {
  if (float *ofTensor = args.tensor.amax)
    raiseToBlockMax(ofTensor, amax.get());
}

template <typename T>
__device__ __forceinline__ void ropeAny(const Rope &args, bool interleaved) {
  AbsMax<T> amax;
  forEachItem(args, [&](int64_t first, int64_t position, int item) {
    if (item >= args.pairs)
      return copyRun<T, 1>(args, first + args.pairs + item, amax);
    const int64_t at = first + (interleaved ? 2 * item : item);
    turnRuns<T, 1>(args, at, at + (interleaved ? 1 : args.pairs), position,
                   item, amax);
  });
  raiseAmax(args, amax);
}

template <typename T>
__device__ __forceinline__ void ropeHalf(const Rope &args) {
  constexpr int N = 16 / sizeof(T);
  AbsMax<T> amax;
  forEachItem(args, [&](int64_t first, int64_t position, int item) {
    const int i = item * N;
    if (i >= args.pairs)
      return copyRun<T, N>(args, first + args.pairs + i, amax);
    turnRuns<T, N>(args, first + i, first + args.pairs + i, position, i, amax);
  });
  raiseAmax(args, amax);
}

template <typename T>
__device__ __forceinline__ void ropeInterleaved(const Rope &args) {
  constexpr int N = 16 / sizeof(T);
  AbsMax<T> amax;
  forEachItem(args, [&](int64_t first, int64_t position, int item) {
    const int i = item * N;
    if (i >= 2 * args.pairs)
      return copyRun<T, N>(args, first + i, amax);
    float values[N], cosine[N / 2], sine[N / 2];
    loadRun<T, N>(args, first + i).unpack(values);
    loadAngles(args, args.cos, position, i / 2, cosine);
    loadAngles(args, args.sin, position, i / 2, sine);
#pragma unroll
    for (int pair = 0; pair < N / 2; ++pair)
      math::rotate(cosine[pair], sineOf(args, sine[pair]), values[2 * pair],
                   values[2 * pair + 1]);
    storeRun(args, Run<T, N>::pack(values), first + i, amax);
  });
  raiseAmax(args, amax);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_ROPE(form, type, call)                                              \
  extern "C" __global__ void __launch_bounds__(kRopeBlock)                     \
      te_rope_##form##_##type(const __grid_constant__ RopeArgs given) {        \
    te::rt::cuda::ptx::beginKernel();                                          \
    const Rope args(given);                                                    \
    call;                                                                      \
  }
#define TE_ROPE_FORMS(type, T)                                                 \
  TE_ROPE(any_half, type, ropeAny<T>(args, false))                             \
  TE_ROPE(any_interleaved, type, ropeAny<T>(args, true))                       \
  TE_ROPE(half, type, ropeHalf<T>(args))                                       \
  TE_ROPE(interleaved, type, ropeInterleaved<T>(args))
TE_ROPE_FORMS(f32, float)
TE_ROPE_FORMS(bf16, bf16)
TE_ROPE_FORMS(f16, f16)
