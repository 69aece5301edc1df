//===- elements.cuh - short runs of elements, and streaming over them -----===//
//
// `Run<T, N>` is N consecutive values of a tensor in their memory format,
// loaded or stored by one access of N * sizeof(T) bytes (two accesses if that
// is 32). Arithmetic is in f32; packing rounds once, to nearest even.
//
// An elementwise kernel is a `Body<N>` with `load(i)` and `finish(i, loaded)`
// for the i-th run. `streamRuns` loads several runs before it finishes the
// first, so that enough bytes are in flight. The same body with N = 1 handles
// the elements that are left over, or all elements when a pointer is not
// aligned.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_ELEMENTS_CUH
#define TE_RUNTIME_KERNELS_DEVICE_ELEMENTS_CUH

#include "Kernels/Device/global_memory.cuh"

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace te::rt::cuda {

using bf16 = __nv_bfloat16;
using f16 = __half;

__device__ __forceinline__ float toFloat(float x) { return x; }
__device__ __forceinline__ float toFloat(bf16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float toFloat(f16 x) { return __half2float(x); }

template <typename T> __device__ __forceinline__ T fromFloat(float x);
template <> __device__ __forceinline__ float fromFloat(float x) { return x; }
template <> __device__ __forceinline__ bf16 fromFloat(float x) {
  return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ f16 fromFloat(float x) {
  return __float2half_rn(x);
}

/// Converts the two halves of a word of 16-bit values, and back (packWord).
template <typename T>
__device__ __forceinline__ void unpackWord(uint32_t word, float &low,
                                           float &high);
template <>
__device__ __forceinline__ void unpackWord<bf16>(uint32_t word, float &low,
                                                 float &high) {
  low = __uint_as_float(word << 16);
  high = __uint_as_float(word & 0xffff0000u);
}
template <>
__device__ __forceinline__ void unpackWord<f16>(uint32_t word, float &low,
                                                float &high) {
  const float2 pair = __half22float2(*reinterpret_cast<__half2 *>(&word));
  low = pair.x;
  high = pair.y;
}
template <typename T>
__device__ __forceinline__ uint32_t packWord(float low, float high);
template <>
__device__ __forceinline__ uint32_t packWord<bf16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&pair);
}
template <>
__device__ __forceinline__ uint32_t packWord<f16>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&pair);
}

/// The maximum of each half of a word. NaN is dropped.
template <typename T>
__device__ __forceinline__ uint32_t maxWord(uint32_t a, uint32_t b);
template <>
__device__ __forceinline__ uint32_t maxWord<bf16>(uint32_t a, uint32_t b) {
  const __nv_bfloat162 pair = __hmax2(*reinterpret_cast<__nv_bfloat162 *>(&a),
                                      *reinterpret_cast<__nv_bfloat162 *>(&b));
  return *reinterpret_cast<const uint32_t *>(&pair);
}
template <>
__device__ __forceinline__ uint32_t maxWord<f16>(uint32_t a, uint32_t b) {
  const __half2 pair = __hmax2(*reinterpret_cast<__half2 *>(&a),
                               *reinterpret_cast<__half2 *>(&b));
  return *reinterpret_cast<const uint32_t *>(&pair);
}

template <int kWords>
__device__ __forceinline__ void loadWords(uint32_t (&words)[kWords],
                                          const void *from) {
  if constexpr (kWords == 1) {
    words[0] = *static_cast<const uint32_t *>(from);
  } else if constexpr (kWords == 2) {
    const uint2 pair = *static_cast<const uint2 *>(from);
    words[0] = pair.x, words[1] = pair.y;
  } else {
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i) {
      const uint4 quad = static_cast<const uint4 *>(from)[i];
      words[4 * i] = quad.x, words[4 * i + 1] = quad.y;
      words[4 * i + 2] = quad.z, words[4 * i + 3] = quad.w;
    }
  }
}

template <int kWords>
__device__ __forceinline__ void storeWords(void *to,
                                           const uint32_t (&words)[kWords]) {
  if constexpr (kWords == 1) {
    *static_cast<uint32_t *>(to) = words[0];
  } else if constexpr (kWords == 2) {
    *static_cast<uint2 *>(to) = make_uint2(words[0], words[1]);
  } else {
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i)
      ptx::store16(static_cast<uint4 *>(to) + i, words[4 * i], words[4 * i + 1],
                   words[4 * i + 2], words[4 * i + 3]);
  }
}

/// N consecutive elements in registers, in their memory format. `load` and
/// `store` need an alignment of N * sizeof(T), but no more than 16.
template <typename T, int N> struct Run {
  uint32_t words[N * sizeof(T) / 4];

  static __device__ __forceinline__ Run load(const T *from) {
    Run run;
    loadWords(run.words, from);
    return run;
  }
  __device__ __forceinline__ void store(T *to) const { storeWords(to, words); }

  __device__ __forceinline__ void unpack(float (&values)[N]) const {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        values[i] = __uint_as_float(words[i]);
    } else {
#pragma unroll
      for (int i = 0; i < N / 2; ++i)
        unpackWord<T>(words[i], values[2 * i], values[2 * i + 1]);
    }
  }
  static __device__ __forceinline__ Run pack(const float (&values)[N]) {
    Run run;
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        run.words[i] = __float_as_uint(values[i]);
    } else {
#pragma unroll
      for (int i = 0; i < N / 2; ++i)
        run.words[i] = packWord<T>(values[2 * i], values[2 * i + 1]);
    }
    return run;
  }
};

template <typename T> struct Run<T, 1> {
  T value;

  static __device__ __forceinline__ Run load(const T *from) { return {*from}; }
  __device__ __forceinline__ void store(T *to) const { *to = value; }
  __device__ __forceinline__ void unpack(float (&values)[1]) const {
    values[0] = toFloat(value);
  }
  static __device__ __forceinline__ Run pack(const float (&values)[1]) {
    return {fromFloat<T>(values[0])};
  }
};

/// The maximum of |x| over the values that a thread stores. NaN is dropped.
template <typename T> class AbsMax {
public:
  template <int N> __device__ __forceinline__ void add(const Run<T, N> &run) {
    if constexpr (N == 1) {
      single = fmaxf(single, fabsf(toFloat(run.value)));
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        single = fmaxf(single, fabsf(__uint_as_float(run.words[i])));
    } else {
#pragma unroll
      for (int i = 0; i < N / 2; ++i)
        pair = maxWord<T>(pair, run.words[i] & 0x7fff7fffu);
    }
  }
  __device__ __forceinline__ float get() const {
    if constexpr (sizeof(T) == 4) {
      return single;
    } else {
      float low, high;
      unpackWord<T>(pair, low, high);
      return fmaxf(single, fmaxf(low, high));
    }
  }

private:
  float single = 0.0f;
  uint32_t pair = 0;
};

/// Raises *amax to the largest `value` (>= 0) of the block. Every thread of the
/// block calls it once for each amax. *amax is zero before the kernel starts.
__device__ __forceinline__ void raiseToBlockMax(float *amax, float value) {
  __shared__ unsigned blockMax;
  if (threadIdx.x == 0)
    blockMax = 0;
  __syncthreads();
  // The bits of non-negative floats have the same order as the floats.
  const unsigned warpMax = __reduce_max_sync(~0u, __float_as_uint(value));
  if (threadIdx.x % 32 == 0)
    atomicMax(&blockMax, warpMax);
  __syncthreads();
  // *amax only grows, so a stale value read here costs at most an atomic.
  unsigned *global = reinterpret_cast<unsigned *>(amax);
  if (threadIdx.x == 0 && blockMax > *static_cast<volatile unsigned *>(global))
    atomicMax(global, blockMax);
}

/// Elements in a run of the vector path, where `Widest` is the widest type.
template <typename Widest>
inline constexpr int runLength = 16 / static_cast<int>(sizeof(Widest));

/// The runs of one thread: kUnroll of [0, runs). Those of a block are
/// consecutive.
template <int kUnroll, typename Body> class RunStream {
public:
  __device__ __forceinline__ explicit RunStream(int64_t runs)
      : runs(runs),
        first(static_cast<int64_t>(blockIdx.x) * (kUnroll * blockDim.x) +
              threadIdx.x) {}

  __device__ __forceinline__ void load(const Body &body) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * blockDim.x < runs)
        loaded[u] = body.load(first + u * blockDim.x);
  }
  __device__ __forceinline__ void finish(Body &body) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * blockDim.x < runs)
        body.finish(first + u * blockDim.x, loaded[u]);
  }

private:
  int64_t runs, first;
  typename Body::Loaded loaded[kUnroll];
};

template <int kUnroll, typename Body>
__device__ __forceinline__ void streamRuns(int64_t runs, Body &body) {
  RunStream<kUnroll, Body> stream(runs);
  stream.load(body);
  stream.finish(body);
}

/// Applies `body` to elements [from, count), one by one, with the whole grid.
template <typename Body>
__device__ __forceinline__ void streamElements(int64_t from, int64_t count,
                                               Body &body) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i =
           from + static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step)
    body.finish(i, body.load(i));
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_DEVICE_ELEMENTS_CUH
