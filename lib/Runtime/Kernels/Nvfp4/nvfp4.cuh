//===- nvfp4.cuh - from the lines of a tile to 4-bit groups ---------------===//
//
// A thread has 8 x 8 elements of a tile (tile.cuh): eight lines of the row
// usage, which are its rows, and eight lines of the column usage, which are its
// columns. Two threads of a warp have a group of 16 elements of a line. Their
// lanes differ in one bit: 1 for rows, 16 for columns. The thread whose bit is
// 0 has the first half of the group. So every reduction is a shuffle, and
// one thread of the two computes what belongs to a group rather than to an
// element (scale, inverse, random words): the lower thread for lines 0 to 3,
// the upper one for lines 4 to 7.
//
// The whole warp takes part in a shuffle, so threads outside the matrix have
// zeros and continue.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_NVFP4_NVFP4_CUH
#define TE_RUNTIME_KERNELS_NVFP4_NVFP4_CUH

#include "Core/Nvfp4.h"
#include "Kernels/Cast/tile.cuh"
#include "Kernels/Device/packed_math_sm86.cuh"
#include "Kernels/Nvfp4/nvfp4_args.h"

namespace te::rt::cuda {

enum class NvMode { Nearest, FourOverSix, Stochastic };

inline constexpr int kNvLines = 8;
/// Groups of a tile in one direction, which is also the number of bytes between
/// the scales of two lines.
inline constexpr int kNvGroups = kTile / kNvBlock;

/// Replaces NaN with the canonical positive NaN, so that its sign bit is that
/// of +6. Other values do not change, not even -0.
template <typename T>
__device__ __forceinline__ uint32_t canonicalNaN(uint32_t word) {
  if constexpr (sizeof(T) == 4) {
    return (word & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : word;
  } else {
    // x * 1 + -0.
    if constexpr (std::is_same_v<T, bf16>)
      return ptx::fmaBf16x2(word, 0x3f803f80u, 0x80008000u);
    else
      return ptx::fmaF16x2(word, 0x3c003c00u, 0x80008000u);
  }
}

/// Element `j` of a chunk. `j` is known at compile time.
template <typename T>
__device__ __forceinline__ float elementOf(const Chunk<T> &chunk, int j) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(chunk.words[j]);
  } else {
    float low, high;
    unpackWord<T>(chunk.words[j / 2], low, high);
    return j % 2 == 0 ? low : high;
  }
}

/// Bit 3 of each nibble from the sign bits of the bytes of `even` (elements
/// 0, 2, 4, 6) and `odd` (1, 3, 5, 7).
__device__ __forceinline__ uint32_t nibbleSigns(uint32_t even, uint32_t odd) {
  return (even >> 4 & 0x08080808u) | (odd & 0x80808080u);
}

/// The top bytes of four words.
__device__ __forceinline__ uint32_t topBytes(uint32_t a, uint32_t b, uint32_t c,
                                             uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0073), __byte_perm(c, d, 0x0073),
                     0x5410);
}
/// The top bytes of the low or of the high halves of four words.
__device__ __forceinline__ uint32_t halfTopBytes(uint32_t a, uint32_t b,
                                                 uint32_t c, uint32_t d,
                                                 bool high) {
  return __byte_perm(__byte_perm(a, b, 0x7351), __byte_perm(c, d, 0x7351),
                     high ? 0x7632 : 0x5410);
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

/// The thread's rows as lines. `maxima` packs lines as a chunk packs elements.
template <typename T> struct RowLines {
  static constexpr int kMask = 1;
  const Tile<T> &tile;

  __device__ __forceinline__ float at(int line, int j) const {
    return elementOf(tile[line], j);
  }
  __device__ __forceinline__ uint32_t signs(int line) const {
    const uint32_t *w = tile[line].words;
    if constexpr (sizeof(T) == 4)
      return nibbleSigns(topBytes(w[0], w[2], w[4], w[6]),
                         topBytes(w[1], w[3], w[5], w[7]));
    else
      return nibbleSigns(halfTopBytes(w[0], w[1], w[2], w[3], false),
                         halfTopBytes(w[0], w[1], w[2], w[3], true));
  }
  __device__ __forceinline__ void
  maxima(uint32_t (&words)[Chunk<T>::kWords]) const {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < kNvLines; ++i)
        words[i] = maxAbs(tile[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kNvLines / 2; ++i) {
        const uint32_t a = maxAbs(tile[2 * i]), b = maxAbs(tile[2 * i + 1]);
        words[i] =
            maxAbs<T>(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
      }
    }
  }
};

/// The thread's columns as lines.
template <typename T> struct ColLines {
  static constexpr int kMask = 16;
  const Tile<T> &tile;

  __device__ __forceinline__ float at(int line, int j) const {
    return elementOf(tile[j], line);
  }
  __device__ __forceinline__ uint32_t signs(int line) const {
    const int w = line * static_cast<int>(sizeof(T)) / 4;
    if constexpr (sizeof(T) == 4)
      return nibbleSigns(topBytes(tile[0].words[w], tile[2].words[w],
                                  tile[4].words[w], tile[6].words[w]),
                         topBytes(tile[1].words[w], tile[3].words[w],
                                  tile[5].words[w], tile[7].words[w]));
    else
      return nibbleSigns(
          halfTopBytes(tile[0].words[w], tile[2].words[w], tile[4].words[w],
                       tile[6].words[w], line % 2 != 0),
          halfTopBytes(tile[1].words[w], tile[3].words[w], tile[5].words[w],
                       tile[7].words[w], line % 2 != 0));
  }
  __device__ __forceinline__ void
  maxima(uint32_t (&words)[Chunk<T>::kWords]) const {
#pragma unroll
    for (int w = 0; w < Chunk<T>::kWords; ++w) {
      words[w] = maxAbs<T>(tile[0].words[w], tile[1].words[w]);
#pragma unroll
      for (int i = 2; i < kNvLines; ++i)
        words[w] = maxAbs<T>(words[w], tile[i].words[w]);
    }
  }
};

/// Whether the thread has the second half of its groups.
template <typename Lines> __device__ __forceinline__ bool isUpper() {
  return threadIdx.x & Lines::kMask;
}
template <typename Lines, typename V>
__device__ __forceinline__ V fromPartner(V value) {
  return __shfl_xor_sync(~0u, value, Lines::kMask);
}

/// The amax of line `i` of packed maxima.
template <typename T>
__device__ __forceinline__ float lineAmax(const uint32_t *words, int i) {
  return sizeof(T) == 4 ? amaxOf<T>(words[i], false)
                        : amaxOf<T>(words[i / 2], i % 2 != 0);
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// The tensor scale of the thread's lines, from one amax or from one for each
/// line.
struct TensorScale {
  float amax;
  math::NvTensorScale scale;
  const float *lines; // [8], or null
  int32_t scaleMax, measure;

  __device__ TensorScale(float amax, const float *lines,
                         const QuantizeNvfp4Args &args)
      : amax(amax), scale(math::nvTensorScale(amax, args.scaleMax)),
        lines(lines), scaleMax(args.scaleMax), measure(args.measure) {}

  __device__ __forceinline__ float amaxOf(int line) const {
    return lines ? lines[line] : amax;
  }
  __device__ __forceinline__ math::NvTensorScale scaleOf(int line) const {
    return lines ? math::nvTensorScale(lines[line], scaleMax) : scale;
  }
};

struct BlockScale {
  uint32_t byte;
  float value, inverse;

  __device__ BlockScale(float exact, math::NvTensorScale tensor)
      : byte(E4M3::pack(exact, 0.0f, 0.0f, 0.0f) & 0xff) {
    value = __half2float(__ushort_as_half(
        static_cast<uint16_t>(E4M3::toHalves(static_cast<uint16_t>(byte)))));
    inverse = math::nvInverse(value, tensor);
  }
};

/// Returns the sum of the errors of a line's 16 elements, in order, in both
/// threads.
template <typename Lines>
__device__ __forceinline__ float lineError(const Lines &lines, int line,
                                           const BlockScale &block,
                                           const TensorScale &tensor) {
  const float reach = 6.0f * static_cast<float>(tensor.scaleMax);
  const float amax = tensor.amaxOf(line);
  float errors[kChunk];
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    const float x = fabsf(lines.at(line, j));
    const float q = math::e2m1ToFloat(math::e2m1Code(x * block.inverse));
    errors[j] = math::nvError(tensor.measure, q, block.value, amax, reach, x);
  }
  // The upper thread continues the sum of the lower thread.
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kChunk; ++j)
    sum += errors[j];
  sum = fromPartner<Lines>(sum);
#pragma unroll
  for (int j = 0; j < kChunk; ++j)
    sum += errors[j];
  const float other = fromPartner<Lines>(sum);
  return isUpper<Lines>() ? sum : other;
}

/// Computes the scales of 1x16 blocks: stores that of line i to
/// scales[i * kNvGroups], and its inverse to `inverse`.
template <typename T, NvMode kMode, typename Lines>
__device__ __forceinline__ void
findScales(const Lines &lines, const TensorScale &tensor, uint8_t *scales,
           float (&inverse)[kNvLines]) {
  constexpr int kWords = Chunk<T>::kWords;
  const bool upper = isUpper<Lines>();
  uint32_t words[kWords];
  lines.maxima(words);
  if constexpr (kMode == NvMode::FourOverSix) {
    // Both threads need both candidates of every line.
#pragma unroll
    for (int w = 0; w < kWords; ++w)
      words[w] = maxAbs<T>(words[w], fromPartner<Lines>(words[w]));
#pragma unroll
    for (int i = 0; i < kNvLines; ++i) {
      const float amax = lineAmax<T>(words, i);
      const math::NvTensorScale scale = tensor.scaleOf(i);
      const BlockScale six(math::nvBlockScale46(amax, scale, false), scale);
      const BlockScale four(math::nvBlockScale46(amax, scale, true), scale);
      const float error = lineError(lines, i, six, tensor);
      const bool pick = lineError(lines, i, four, tensor) < error;
      if (upper == (i >= kNvLines / 2))
        scales[i * kNvGroups] =
            static_cast<uint8_t>(pick ? four.byte : six.byte);
      inverse[i] = pick ? four.inverse : six.inverse;
    }
  } else {
    // Each thread continues with four of the lines.
    const int first = upper ? kNvLines / 2 : 0;
#pragma unroll
    for (int w = 0; w < kWords / 2; ++w) {
      const uint32_t keep = upper ? words[w + kWords / 2] : words[w];
      const uint32_t send = upper ? words[w] : words[w + kWords / 2];
      words[w] = maxAbs<T>(keep, fromPartner<Lines>(send));
    }
    float exact[4], values[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      exact[i] =
          math::nvBlockScale(lineAmax<T>(words, i), tensor.scaleOf(first + i));
    const uint32_t bytes = E4M3::pack(exact[0], exact[1], exact[2], exact[3]);
    unpackBytes<E4M3>(bytes, values);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scales[(first + i) * kNvGroups] = static_cast<uint8_t>(bytes >> 8 * i);
      const float mine = math::nvInverse(values[i], tensor.scaleOf(first + i));
      const float other = fromPartner<Lines>(mine);
      inverse[i] = upper ? other : mine;
      inverse[i + 4] = upper ? mine : other;
    }
  }
}

/// Returns the scale of a 16x16 block in all four threads that have a quarter
/// of it.
template <typename T, NvMode kMode>
__device__ __forceinline__ BlockScale
findSquareScale(const Tile<T> &tile, const TensorScale &tensor) {
  const RowLines<T> rows{tile};
  uint32_t word = maxAbs(tile[0]);
#pragma unroll
  for (int i = 1; i < kTileRows; ++i)
    word = maxAbs<T>(word, maxAbs(tile[i]));
  float amax = amaxOf<T>(word);
  amax = fmaxf(amax, fromPartner<RowLines<T>>(amax));
  amax = fmaxf(amax, fromPartner<ColLines<T>>(amax));
  if constexpr (kMode == NvMode::FourOverSix) {
    const BlockScale six(math::nvBlockScale46(amax, tensor.scale, false),
                         tensor.scale);
    const BlockScale four(math::nvBlockScale46(amax, tensor.scale, true),
                          tensor.scale);
    auto error = [&](const BlockScale &block) {
      // Adds rows i and i + 8, then the eight sums as a tree: the same in all
      // four threads.
      float sums[kNvLines];
#pragma unroll
      for (int i = 0; i < kNvLines; ++i) {
        sums[i] = lineError(rows, i, block, tensor);
        sums[i] += fromPartner<ColLines<T>>(sums[i]);
      }
#pragma unroll
      for (int s = kNvLines / 2; s != 0; s /= 2)
#pragma unroll
        for (int i = 0; i < s; ++i)
          sums[i] += sums[i + s];
      return sums[0];
    };
    const float errorSix = error(six);
    return error(four) < errorSix ? four : six;
  } else {
    return BlockScale(math::nvBlockScale(amax, tensor.scale), tensor.scale);
  }
}

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

/// The random words of the thread's groups: line i has group first + i * step.
struct RandomGroups {
  int64_t first, step;
  uint32_t usage, seed, offset, stream;
};

/// The codes of line `line`, rounded to nearest.
template <typename Lines>
__device__ __forceinline__ uint32_t encodeNearest(const Lines &lines, int line,
                                                  float inverse) {
  // The codes count up from the bits of kCodeBase, 0x4b000000. Shifted and
  // added, those of all eight are 0xfb000000 modulo 2^32.
  uint32_t word = 0;
#pragma unroll
  for (int j = kChunk - 1; j >= 0; --j)
    word = word * 16 + __float_as_uint(math::e2m1CodeOnBase(
                           fabsf(lines.at(line, j)) * inverse));
  return (word - 0xfb000000u) | lines.signs(line);
}

/// The codes of a line, rounded with the thread's half of the random words of
/// the group.
template <typename Lines>
__device__ __forceinline__ uint32_t encodeStochastic(const Lines &lines,
                                                     int line, float inverse,
                                                     uint2 random) {
  uint32_t word = 0;
#pragma unroll
  for (int j = kChunk - 1; j >= 0; --j) {
    const uint32_t bits = j < 4 ? math::nvRandomBits(random.x, random.y, j)
                                : math::nvRandomBits(random.y, random.x, j);
    word = word << 4 |
           math::e2m1CodeStochastic(fabsf(lines.at(line, j)) * inverse, bits);
  }
  return word | lines.signs(line);
}

/// The codes of all lines: the thread's half of each group, with element 0 in
/// the lowest nibble.
template <NvMode kMode, typename Lines>
__device__ __forceinline__ void
encode(const Lines &lines, const float (&inverse)[kNvLines],
       const RandomGroups &groups, uint32_t (&words)[kNvLines]) {
  if constexpr (kMode == NvMode::Stochastic) {
    const bool upper = isUpper<Lines>();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t line = upper ? i + 4 : i;
      const math::PhiloxWords random =
          math::nvRandom(groups.first + line * groups.step, groups.usage,
                         groups.seed, groups.offset, groups.stream);
      const uint2 low = make_uint2(random.word[0], random.word[1]);
      const uint2 high = make_uint2(random.word[2], random.word[3]);
      const uint2 keep = upper ? high : low;
      const uint2 send = upper ? low : high;
      const uint2 got =
          make_uint2(fromPartner<Lines>(send.x), fromPartner<Lines>(send.y));
      words[i] = encodeStochastic(lines, i, inverse[i], upper ? got : keep);
      words[i + 4] =
          encodeStochastic(lines, i + 4, inverse[i + 4], upper ? keep : got);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kNvLines; ++i)
      words[i] = encodeNearest(lines, i, inverse[i]);
  }
}

/// Transposes in place: nibble j of word i becomes nibble i of word j.
__device__ __forceinline__ void transposeNibbles(uint32_t (&words)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t a = words[i], b = words[i + 4];
    words[i] = __byte_perm(a, b, 0x5410);
    words[i + 4] = __byte_perm(a, b, 0x7632);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (!(i & 2)) {
      const uint32_t a = words[i], b = words[i + 2];
      words[i] = __byte_perm(a, b, 0x6240);
      words[i + 2] = __byte_perm(a, b, 0x7351);
    }
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    const uint32_t a = words[i], b = words[i + 1];
    words[i] = (a & 0x0f0f0f0fu) | (b << 4 & 0xf0f0f0f0u);
    words[i + 1] = (a >> 4 & 0x0f0f0f0fu) | (b & 0xf0f0f0f0u);
  }
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NVFP4_NVFP4_CUH
