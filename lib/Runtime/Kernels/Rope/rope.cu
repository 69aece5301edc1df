//===- rope.cu - rotary position embedding --------------------------------===//
//
// te_rope_<form>_<type>. A head is divided into items: first items that rotate
// pairs, then items that copy the elements after the rotary part. An item of
// the forms `half` and `interleaved` is one run of N pairs or elements. An item
// of the form `any`, which serves both styles without alignment, is one pair or
// element. A block has whole tokens, so that its heads share the tables in the
// cache.
//
// An item reads all that it needs before it writes, and nothing else is read,
// so y may be x.
//
//===----------------------------------------------------------------------===//

#include "Core/Rotation.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Rope/rope_args.h"

namespace te::rt::cuda {
namespace {

/// Calls body(first element, head's row of the tables, item of the head).
template <typename Body>
__device__ __forceinline__ void forEachItem(const RopeArgs &args, Body body) {
  const int perToken = args.heads * args.itemsPerHead;
  const int slot = static_cast<int>(threadIdx.x) / perToken;
  const int64_t token =
      static_cast<int64_t>(blockIdx.x) * args.tokensPerBlock + slot;
  if (slot >= args.tokensPerBlock || token >= args.tokens)
    return;
  const int64_t position = static_cast<uint32_t>(token) %
                           static_cast<uint32_t>(args.sequence) *
                           static_cast<int64_t>(args.pairs);
  const int step = args.tokensPerBlock == 1 ? kRopeBlock : perToken;
  for (int item = static_cast<int>(threadIdx.x) - slot * perToken;
       item < perToken; item += step) {
    const int64_t head = item / args.itemsPerHead;
    body((token * args.heads + head) * args.headDim, position,
         item % args.itemsPerHead);
  }
}

__device__ __forceinline__ float sineOf(const RopeArgs &args, float sine) {
  return args.inverse ? -sine : sine;
}

/// N pairs whose first elements are a run at `at`, and whose second elements
/// are a run at `other`.
template <typename T, int N>
__device__ __forceinline__ void turnRuns(const RopeArgs &args, int64_t at,
                                         int64_t other, int64_t angle) {
  const Run<T, N> first = Run<T, N>::load(static_cast<const T *>(args.x) + at);
  const Run<T, N> second =
      Run<T, N>::load(static_cast<const T *>(args.x) + other);
  float u[N], v[N], cosine[N], sine[N];
  Run<float, N>::load(args.cos + angle).unpack(cosine);
  Run<float, N>::load(args.sin + angle).unpack(sine);
  first.unpack(u);
  second.unpack(v);
#pragma unroll
  for (int i = 0; i < N; ++i)
    math::rotate(cosine[i], sineOf(args, sine[i]), u[i], v[i]);
  Run<T, N>::pack(u).store(static_cast<T *>(args.y) + at);
  Run<T, N>::pack(v).store(static_cast<T *>(args.y) + other);
}

template <typename T, int N>
__device__ __forceinline__ void copyRun(const RopeArgs &args, int64_t at) {
  Run<T, N>::load(static_cast<const T *>(args.x) + at)
      .store(static_cast<T *>(args.y) + at);
}

template <typename T>
__device__ __forceinline__ void ropeAny(const RopeArgs &args,
                                        bool interleaved) {
  forEachItem(args, [&](int64_t first, int64_t angle, int item) {
    if (item >= args.pairs)
      return copyRun<T, 1>(args, first + args.pairs + item);
    const int64_t at = first + (interleaved ? 2 * item : item);
    turnRuns<T, 1>(args, at, at + (interleaved ? 1 : args.pairs), angle + item);
  });
}

template <typename T>
__device__ __forceinline__ void ropeHalf(const RopeArgs &args) {
  constexpr int N = 16 / sizeof(T);
  forEachItem(args, [&](int64_t first, int64_t angle, int item) {
    const int i = item * N;
    if (i >= args.pairs)
      return copyRun<T, N>(args, first + args.pairs + i);
    turnRuns<T, N>(args, first + i, first + args.pairs + i, angle + i);
  });
}

template <typename T>
__device__ __forceinline__ void ropeInterleaved(const RopeArgs &args) {
  constexpr int N = 16 / sizeof(T);
  forEachItem(args, [&](int64_t first, int64_t angle, int item) {
    const int i = item * N;
    if (i >= 2 * args.pairs)
      return copyRun<T, N>(args, first + i);
    float values[N], cosine[N / 2], sine[N / 2];
    Run<T, N>::load(static_cast<const T *>(args.x) + first + i).unpack(values);
    Run<float, N / 2>::load(args.cos + angle + i / 2).unpack(cosine);
    Run<float, N / 2>::load(args.sin + angle + i / 2).unpack(sine);
#pragma unroll
    for (int pair = 0; pair < N / 2; ++pair)
      math::rotate(cosine[pair], sineOf(args, sine[pair]), values[2 * pair],
                   values[2 * pair + 1]);
    Run<T, N>::pack(values).store(static_cast<T *>(args.y) + first + i);
  });
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_ROPE(form, type, call)                                              \
  extern "C" __global__ void __launch_bounds__(kRopeBlock)                     \
      te_rope_##form##_##type(const __grid_constant__ RopeArgs args) {         \
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
