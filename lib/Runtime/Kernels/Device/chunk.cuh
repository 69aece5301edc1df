//===- chunk.cuh - eight consecutive elements in registers ----------------===//
//
// A chunk is the unit of every quantisation kernel. bf16 and f16 stay packed,
// two to a word, until they are scaled, so that one instruction computes the
// maximum magnitudes of two elements. `maxAbs` drops NaN if the other operand
// is a number, so a maximum must end in `amaxOf`, which starts from zero.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_CHUNK_CUH
#define TE_RUNTIME_KERNELS_DEVICE_CHUNK_CUH

#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/global_memory.cuh"
#include "Kernels/Device/packed_math_sm86.cuh"

#include <cstdint>
#include <type_traits>

namespace te::rt::cuda {

inline constexpr int kChunk = 8;

/// `pointer`, which may be null, for the matrix of this block: each matrix of a
/// stack starts `stride` bytes after the one before it.
template <typename T>
__device__ __forceinline__ T *ofMatrix(T *pointer, int64_t stride) {
  return pointer ? reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(pointer) +
                                         blockIdx.y * stride)
                 : nullptr;
}

/// Whether a launch with this `skip` does not write its outputs.
__device__ __forceinline__ bool isSkipped(const float *skip) {
  return skip && *skip == 1.0f;
}

template <typename T> struct alignas(16) Chunk {
  static constexpr int kWords = kChunk * static_cast<int>(sizeof(T)) / 4;
  uint32_t words[kWords];

  static __device__ __forceinline__ Chunk zero() { return Chunk{}; }

  /// Loads from 16-byte aligned global memory that this kernel does not write
  /// and reads once. L1 keeps it no longer than until both halves of a sector
  /// are read.
  static __device__ __forceinline__ Chunk load(const T *from) {
    Chunk chunk;
    const auto *words = reinterpret_cast<const uint32_t *>(from);
    uint32_t (&to)[kWords] = chunk.words;
    if constexpr (kWords == 4) {
      ptx::loadStreaming16(to[0], to[1], to[2], to[3], words);
    } else {
      ptx::loadHalfSector(to[0], to[1], to[2], to[3], words);
      ptx::loadHalfSector(to[4], to[5], to[6], to[7], words + 4);
    }
    return chunk;
  }

  /// Loads if `inside`, otherwise returns zeros. There is no branch.
  static __device__ __forceinline__ Chunk loadIf(bool inside, const T *from) {
    Chunk chunk;
    const auto *words = reinterpret_cast<const uint32_t *>(from);
    uint32_t (&to)[kWords] = chunk.words;
    if constexpr (kWords == 4) {
      ptx::loadStreaming16If(inside, to[0], to[1], to[2], to[3], words);
    } else {
      ptx::loadHalfSectorIf(inside, to[0], to[1], to[2], to[3], words);
      ptx::loadHalfSectorIf(inside, to[4], to[5], to[6], to[7], words + 4);
    }
    return chunk;
  }

  __device__ __forceinline__ void unpack(float (&values)[kChunk]) const {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i)
        values[i] = __uint_as_float(words[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        unpackWord<T>(words[i], values[2 * i], values[2 * i + 1]);
    }
  }

  /// Elements `first` to `first` + 3; `first` is 0 or 4.
  __device__ __forceinline__ void unpackFour(int first,
                                             float (&values)[4]) const {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        values[i] = __uint_as_float(words[first + i]);
    } else {
      unpackWord<T>(words[first / 2], values[0], values[1]);
      unpackWord<T>(words[first / 2 + 1], values[2], values[3]);
    }
  }

  static __device__ __forceinline__ Chunk pack(const float (&values)[kChunk]) {
    Chunk chunk;
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i)
        chunk.words[i] = __float_as_uint(values[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        chunk.words[i] = packWord<T>(values[2 * i], values[2 * i + 1]);
    }
    return chunk;
  }
};

/// The larger magnitude of each element of a word. The signs are undefined.
template <typename T>
__device__ __forceinline__ uint32_t maxAbs(uint32_t a, uint32_t b) {
  if constexpr (sizeof(T) == 4)
    return __float_as_uint(
        fmaxf(fabsf(__uint_as_float(a)), fabsf(__uint_as_float(b))));
  else if constexpr (std::is_same_v<T, bf16>)
    return ptx::maxAbsBf16x2(a, b);
  else
    return ptx::maxAbsF16x2(a, b);
}

/// The magnitude of one element of a word of maxima, or 0 for NaN. `odd`
/// selects the upper of two.
template <typename T>
__device__ __forceinline__ float amaxOf(uint32_t word, bool odd) {
  float low, high;
  if constexpr (sizeof(T) == 4)
    low = high = __uint_as_float(word);
  else
    unpackWord<T>(word, low, high);
  return fmaxf(fabsf(odd ? high : low), 0.0f);
}

/// The magnitude of the largest element of a word of maxima.
template <typename T> __device__ __forceinline__ float amaxOf(uint32_t word) {
  const float low = amaxOf<T>(word, false);
  return sizeof(T) == 4 ? low : fmaxf(low, amaxOf<T>(word, true));
}

/// The maximum of the words of a chunk.
template <typename T>
__device__ __forceinline__ uint32_t maxAbs(const Chunk<T> &chunk) {
  uint32_t result = maxAbs<T>(chunk.words[0], chunk.words[1]);
#pragma unroll
  for (int i = 2; i < Chunk<T>::kWords; ++i)
    result = maxAbs<T>(result, chunk.words[i]);
  return result;
}

/// The maximum of non-negative floats over the warp.
__device__ __forceinline__ float warpMax(float value) {
  return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(value)));
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_DEVICE_CHUNK_CUH
