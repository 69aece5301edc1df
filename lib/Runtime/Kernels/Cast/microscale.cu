//===- microscale.cu - mx and nv values: dequantise, transpose, swizzle ---===//
//
// te_dequantize_{mx,nv}_axis<axis>_..., te_transpose_{mx,nv},
// te_swizzle_scales. A block of threads has a tile of 128 x 128 elements as in
// tile.cuh: thread (ty, tx) = (tid / 16, tid % 16) has an 8 x 8 part of it, and
// either the whole part is in the matrix or none of it. Eight f4E2M1FN are one
// word.
//
// nv tiles that change their order pass through shared memory as 128 lines of
// 16 words. Word w of line l is stored at w ^ (l / 8), so that neither whole
// lines nor 16 threads with eight lines each use a bank more than twice.
//
// The kernel whose name ends in _general takes any alignment.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Cast/cast_args.h"
#include "Kernels/Cast/microscale_args.h"
#include "Kernels/Device/chunk.cuh"
#include "Kernels/Device/fp8_sm89.cuh"
#include "Kernels/Device/global_memory.cuh"
#include "Kernels/Device/launch_sm90.cuh"

namespace te::rt::cuda {
namespace {

/// Rows and columns of one thread.
constexpr int kPart = 8;
constexpr int kLineWords = kTile / 8;

/// The position of the thread's part in the tile of its block.
template <typename Args> struct Position {
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  int64_t row0, col0; // of the tile
  int64_t row, col;   // the thread's first element
  bool inside;

  __device__ explicit Position(const Args &args)
      : row0(static_cast<int64_t>(blockIdx.x / args.colTiles) * kTile),
        col0(static_cast<int64_t>(blockIdx.x % args.colTiles) * kTile),
        row(row0 + ty * kPart), col(col0 + tx * kPart),
        inside(row < args.rows && col < args.cols) {}
};

template <bool kAligned>
__device__ __forceinline__ uint32_t loadWord(const uint8_t *from) {
  if constexpr (kAligned)
    return ptx::loadReadOnly4(from);
  else
    return from[0] | from[1] << 8 | from[2] << 16 |
           static_cast<uint32_t>(from[3]) << 24;
}
template <bool kAligned>
__device__ __forceinline__ void storeWord(uint8_t *to, uint32_t word) {
  if constexpr (kAligned) {
    *reinterpret_cast<uint32_t *>(to) = word;
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      to[j] = static_cast<uint8_t>(word >> (8 * j));
  }
}

/// Loads eight bytes, which are 8-byte aligned with `kAligned`.
template <bool kAligned>
__device__ __forceinline__ uint2 loadPair(const uint8_t *from) {
  if constexpr (kAligned)
    return ptx::loadReadOnly8(from);
  else
    return make_uint2(loadWord<false>(from), loadWord<false>(from + 4));
}
template <bool kAligned>
__device__ __forceinline__ void storePair(uint8_t *to, uint2 pair) {
  if constexpr (kAligned) {
    *reinterpret_cast<uint2 *>(to) = pair;
  } else {
    storeWord<false>(to, pair.x);
    storeWord<false>(to + 4, pair.y);
  }
}

template <typename T, bool kAligned>
__device__ __forceinline__ void storeValues(T *to,
                                            const float (&values)[kPart]) {
  if constexpr (kAligned) {
    const Chunk<T> chunk = Chunk<T>::pack(values);
#pragma unroll
    for (int w = 0; w < Chunk<T>::kWords; w += 4)
      ptx::store16(reinterpret_cast<uint32_t *>(to) + w, chunk.words[w],
                   chunk.words[w + 1], chunk.words[w + 2], chunk.words[w + 3]);
  } else {
#pragma unroll
    for (int j = 0; j < kPart; ++j)
      to[j] = fromFloat<T>(values[j]);
  }
}

/// Word `w` of line `line` of a tile in shared memory.
__device__ __forceinline__ int stageIndex(int line, int w) {
  return line * kLineWords + (w ^ (line >> 3));
}

/// Calls body(line, word) for the words of the tile that a thread moves, where
/// 16 threads move a line.
template <typename Body>
__device__ __forceinline__ void forEachWord(const Body &body) {
#pragma unroll
  for (int i = 0; i < kTile * kLineWords / kTileThreads; ++i)
    body(i * (kTileThreads / kLineWords) + threadIdx.x / kLineWords,
         threadIdx.x % kLineWords);
}

//===----------------------------------------------------------------------===//
// Dequantise
//===----------------------------------------------------------------------===//

/// The arguments for the matrix of this block.
__device__ __forceinline__ MicroscaleDequantizeArgs
matrixOf(const MicroscaleDequantizeArgs &stack) {
  MicroscaleDequantizeArgs args = stack;
  args.data = ofMatrix(stack.data, stack.strides.data);
  args.scale = ofMatrix(stack.scale, stack.strides.scale);
  args.amax = ofMatrix(stack.amax, stack.strides.amax);
  args.out = ofMatrix(stack.out, stack.strides.out);
  return args;
}

/// The scale is constant along the eight columns (axis 1) or the eight rows
/// (axis 0) of the thread's part.
template <typename F8, typename T, int kAxis, bool kAligned>
__device__ __forceinline__ void
dequantizeMx(const MicroscaleDequantizeArgs &stack) {
  const MicroscaleDequantizeArgs args = matrixOf(stack);
  const Position at(args);
  if (!at.inside)
    return;
  const uint8_t *data = args.data + at.row * args.cols + at.col;
  uint2 bytes[kPart];
#pragma unroll
  for (int i = 0; i < kPart; ++i)
    bytes[i] = loadPair<kAligned>(data + i * args.cols);
  float factors[kPart]; // of the rows for axis 1, of the columns for axis 0
  if constexpr (kAxis == 1) {
#pragma unroll
    for (int i = 0; i < kPart; ++i)
      factors[i] = math::e8m0ToFloat(
          args.scale[(at.row + i) * args.pitch + at.col / 32]);
  } else {
    const uint2 codes =
        loadPair<kAligned>(args.scale + at.row / 32 * args.pitch + at.col);
#pragma unroll
    for (int j = 0; j < kPart; ++j)
      factors[j] = math::e8m0ToFloat(
          static_cast<uint8_t>((j < 4 ? codes.x : codes.y) >> (j % 4 * 8)));
  }
  T *out = static_cast<T *>(args.out) + at.row * args.cols + at.col;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    float values[kPart];
    unpackBytes<F8>(bytes[i].x, values);
    unpackBytes<F8>(bytes[i].y, values + 4);
#pragma unroll
    for (int j = 0; j < kPart; ++j)
      values[j] *= factors[kAxis == 1 ? i : j];
    storeValues<T, kAligned>(out + i * args.cols, values);
  }
}

__device__ __forceinline__ float nvScale(const MicroscaleDequantizeArgs &args,
                                         int64_t index, int64_t row) {
  float scale[4];
  unpackBytes<E4M3>(args.scale[index], scale);
  return args.amax
             ? math::nvFactor(scale[0], args.amax[args.rowScaled ? row : 0],
                              args.scaleMax)
             : scale[0];
}

template <typename T, int kAxis, bool kAligned>
__device__ __forceinline__ void
dequantizeNv(const MicroscaleDequantizeArgs &stack) {
  const MicroscaleDequantizeArgs args = matrixOf(stack);
  const Position at(args);
  uint32_t words[kPart]; // rows of the part for axis 1, columns for axis 0
  if constexpr (kAxis == 1) {
    const uint8_t *data = args.data + (at.row * args.cols + at.col) / 2;
    if (at.inside)
#pragma unroll
      for (int i = 0; i < kPart; ++i)
        words[i] = loadWord<kAligned>(data + i * (args.cols / 2));
  } else {
    __shared__ uint32_t stage[kTile * kLineWords];
    forEachWord([&](int line, int w) {
      const int64_t col = at.col0 + line, row = at.row0 + w * 8;
      if (col < args.cols && row < args.rows)
        stage[stageIndex(line, w)] =
            loadWord<kAligned>(args.data + (col * args.rows + row) / 2);
    });
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kPart; ++j)
      words[j] = stage[stageIndex(at.tx * kPart + j, at.ty)];
  }
  if (!at.inside)
    return;
  float factors[kPart]; // of the rows for axis 1, of the columns for axis 0
#pragma unroll
  for (int i = 0; i < kPart; ++i)
    factors[i] =
        kAxis == 1
            ? nvScale(args, (at.row + i) * args.pitch + at.col / 16, at.row + i)
            : nvScale(args, (at.col + i) * args.pitch + at.row / 16, 0);
  T *out = static_cast<T *>(args.out) + at.row * args.cols + at.col;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    float values[kPart];
#pragma unroll
    for (int j = 0; j < kPart; ++j)
      values[j] = math::e2m1ToFloat(kAxis == 1 ? words[i] >> (4 * j)
                                               : words[j] >> (4 * i)) *
                  factors[kAxis == 1 ? i : j];
    storeValues<T, kAligned>(out + i * args.cols, values);
  }
}

//===----------------------------------------------------------------------===//
// Transpose
//===----------------------------------------------------------------------===//

/// The arguments for the matrix of this block.
__device__ __forceinline__ MicroscaleTransposeArgs
matrixOf(const MicroscaleTransposeArgs &stack) {
  MicroscaleTransposeArgs args = stack;
  args.data = ofMatrix(stack.data, stack.strides.data);
  args.scale = ofMatrix(stack.scale, stack.strides.scale);
  args.amax = ofMatrix(stack.amax, sizeof(float));
  args.outData = ofMatrix(stack.outData, stack.strides.data);
  args.outScale = ofMatrix(stack.outScale, stack.strides.outScale);
  args.outAmax = ofMatrix(stack.outAmax, sizeof(float));
  return args;
}

/// The data does not change; the exponent of a block moves from its 32 rows to
/// its 32 columns.
template <bool kAligned>
__device__ __forceinline__ void
transposeMx(const MicroscaleTransposeArgs &stack) {
  if (isSkipped(stack.skip))
    return;
  const MicroscaleTransposeArgs args = matrixOf(stack);
  const Position at(args);
  if (at.inside) {
    const int64_t offset = at.row * args.cols + at.col;
#pragma unroll
    for (int i = 0; i < kPart; ++i)
      storePair<kAligned>(
          args.outData + offset + i * args.cols,
          loadPair<kAligned>(args.data + offset + i * args.cols));
  }
  if (threadIdx.x >= kTile)
    return;
  // A warp writes a line of the tile's output scales, four columns a thread.
  const int line = threadIdx.x / 32, four = threadIdx.x % 32 * 4;
  const int64_t row = at.row0 + line * 32, col = at.col0 + four;
  const uint32_t code = row < args.rows && col < args.cols
                            ? args.scale[row * args.pitch + col / 32]
                            : 0;
  storeWord<kAligned>(args.outScale + row / 32 * args.outPitch + col,
                      code * 0x01010101u);
}

/// Exchanges the nibbles `mask` of b with the nibbles of a that are `shift`
/// bits higher.
__device__ __forceinline__ void exchangeBits(uint32_t &a, uint32_t &b,
                                             int shift, uint32_t mask) {
  const uint32_t difference = ((a >> shift) ^ b) & mask;
  a ^= difference << shift;
  b ^= difference;
}

/// Transposes in place: nibble j of word i becomes nibble i of word j.
__device__ __forceinline__ void transposeNibbles(uint32_t (&words)[kPart]) {
#pragma unroll
  for (int i = 0; i < kPart; i += 2)
    exchangeBits(words[i], words[i + 1], 4, 0x0f0f0f0fu);
#pragma unroll
  for (int i = 0; i < kPart; ++i)
    if (!(i & 2))
      exchangeBits(words[i], words[i + 2], 8, 0x00ff00ffu);
#pragma unroll
  for (int i = 0; i < kPart / 2; ++i)
    exchangeBits(words[i], words[i + 4], 16, 0x0000ffffu);
}

template <bool kAligned>
__device__ __forceinline__ void
transposeNv(const MicroscaleTransposeArgs &stack) {
  if (isSkipped(stack.skip))
    return;
  const MicroscaleTransposeArgs args = matrixOf(stack);
  const Position at(args);
  if (blockIdx.x == 0 && threadIdx.x == 0 && args.amax && args.outAmax)
    *args.outAmax = *args.amax;
  __shared__ uint32_t stage[kTile * kLineWords];
  if (at.inside) {
    uint32_t words[kPart];
    const uint8_t *data = args.data + (at.row * args.cols + at.col) / 2;
#pragma unroll
    for (int i = 0; i < kPart; ++i)
      words[i] = loadWord<kAligned>(data + i * (args.cols / 2));
    transposeNibbles(words);
#pragma unroll
    for (int j = 0; j < kPart; ++j)
      stage[stageIndex(at.tx * kPart + j, at.ty)] = words[j];
  }
  __syncthreads();
  forEachWord([&](int line, int w) {
    const int64_t col = at.col0 + line, row = at.row0 + w * 8;
    if (col < args.cols && row < args.rows)
      storeWord<kAligned>(args.outData + (col * args.rows + row) / 2,
                          stage[stageIndex(line, w)]);
  });
  // Two threads write a line of the tile's output scales, four blocks each.
  const int64_t col = at.col0 + threadIdx.x / 2;
  const int64_t block = at.row0 / 16 + threadIdx.x % 2 * 4;
  if (block >= args.outPitch || args.cols == 0)
    return;
  uint32_t word = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int64_t row = (block + k) * 16;
    if (row < args.rows && col < args.cols)
      word |= static_cast<uint32_t>(args.scale[row * args.pitch + col / 16])
              << (8 * k);
  }
  storeWord<kAligned>(args.outScale + col * args.outPitch + block, word);
}

//===----------------------------------------------------------------------===//
// Swizzle
//===----------------------------------------------------------------------===//

/// A thread writes the scales of four blocks of one outer index.
template <bool kAligned>
__device__ __forceinline__ void swizzle(const SwizzleArgs &args) {
  const int64_t index =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= args.outer * args.blocks / 4)
    return;
  const int64_t fours = args.blocks / 4;
  const int64_t tile = index / 128;
  const int word = static_cast<int>(index % 128); // of the tile of 512 bytes
  const int64_t i = tile / fours * 128 + word % 4 * 32 + word / 4;
  const int64_t j = tile % fours * 4;
  uint32_t bytes = 0;
  if (args.isTransposed) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      bytes |= static_cast<uint32_t>(args.scale[(j + k) * args.outer + i])
               << (8 * k);
  } else {
    bytes = loadWord<kAligned>(args.scale + i * args.blocks + j);
  }
  storeWord<kAligned>(args.swizzled + index * 4, bytes);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_BOTH_FORMS(name, Args, kernel, ...)                                 \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 3)                \
      name(const __grid_constant__ Args args) {                                \
    te::rt::cuda::ptx::beginKernel();                                          \
    kernel<__VA_ARGS__ __VA_OPT__(, ) true>(args);                             \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads)                   \
      name##_general(const __grid_constant__ Args args) {                      \
    te::rt::cuda::ptx::beginKernel();                                          \
    kernel<__VA_ARGS__ __VA_OPT__(, ) false>(args);                            \
  }

TE_BOTH_FORMS(te_transpose_mx, MicroscaleTransposeArgs, transposeMx)
TE_BOTH_FORMS(te_transpose_nv, MicroscaleTransposeArgs, transposeNv)
TE_BOTH_FORMS(te_swizzle_scales, SwizzleArgs, swizzle)

#define TE_DEQUANTIZE_AXIS(axis, type, T)                                      \
  TE_BOTH_FORMS(te_dequantize_mx_axis##axis##_e4m3_##type,                     \
                MicroscaleDequantizeArgs, dequantizeMx, E4M3, T, axis)         \
  TE_BOTH_FORMS(te_dequantize_mx_axis##axis##_e5m2_##type,                     \
                MicroscaleDequantizeArgs, dequantizeMx, E5M2, T, axis)         \
  TE_BOTH_FORMS(te_dequantize_nv_axis##axis##_##type,                          \
                MicroscaleDequantizeArgs, dequantizeNv, T, axis)
#define TE_DEQUANTIZE_TYPE(type, T)                                            \
  TE_DEQUANTIZE_AXIS(0, type, T)                                               \
  TE_DEQUANTIZE_AXIS(1, type, T)
TE_DEQUANTIZE_TYPE(bf16, bf16)
TE_DEQUANTIZE_TYPE(f16, f16)
TE_DEQUANTIZE_TYPE(f32, float)
