//===- grouped.cu - casts and sums of row groups --------------------------===//
//
// te_grouped_{bias_grad,quantize_nvfp4}_<type>, te_grouped_{dequantize,
// round_sizes}; the others are in grouped_cast.cu. The device computes the rows
// of a group from the sizes: a kernel is launched for all rows that there may
// be, and a warp finds the group of its row. The formulas for an element are
// those of the kernels for one matrix.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Core/Nvfp4.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/fp8_sm89.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Grouped/group_scan.cuh"
#include "Kernels/Grouped/grouped_args.h"

namespace te::rt::cuda {
namespace {

/// The group that has `row`, or -1 for padding; the same in the whole warp.
__device__ __forceinline__ int64_t groupOf(const GroupedRows &layout,
                                           uint32_t row) {
  int64_t found = -1;
  forGroupsOf(layout.shape, layout.sizes, row, row + 1,
              [&](uint32_t group, uint32_t, uint32_t) { found = group; });
  return found;
}

template <typename T>
__device__ __forceinline__ float at(const void *x, int64_t i) {
  return toFloat(static_cast<const T *>(x)[i]);
}
__device__ __forceinline__ void storeAs(void *out, int64_t i, float value,
                                        int32_t type) {
  if (type == TE_RT_BF16)
    static_cast<bf16 *>(out)[i] = fromFloat<bf16>(value);
  else if (type == TE_RT_F16)
    static_cast<f16 *>(out)[i] = fromFloat<f16>(value);
  else
    static_cast<float *>(out)[i] = value;
}

/// A thread sums one column of one group, so chunks are added in order.
template <typename T>
__device__ __forceinline__ void biasGrad(const GroupedBiasGradArgs &args) {
  const int64_t col = blockIdx.x * int64_t{kGroupedBlock} + threadIdx.x;
  const int64_t group = blockIdx.y, cols = args.layout.cols;
  const GroupRows rows =
      groupRowsByWarp(args.layout.shape, args.layout.sizes, blockIdx.y);
  if (col >= cols)
    return;
  float total = 0.0f;
  for (int64_t begin = rows.begin; begin < rows.end; begin += kChunkRows) {
    const int64_t end =
        begin + kChunkRows < rows.end ? begin + kChunkRows : rows.end;
    float chunk = 0.0f;
    for (int64_t row = begin; row < end; ++row)
      chunk = chunk + at<T>(args.dy, row * cols + col);
    total = total + chunk;
  }
  storeAs(args.db, group * cols + col, total, args.outType);
}

__device__ __forceinline__ uint8_t toE4M3(float value) {
  return static_cast<uint8_t>(E4M3::pack(value, 0.0f, 0.0f, 0.0f));
}
__device__ __forceinline__ float fromE4M3(uint8_t code) {
  const uint32_t halves = E4M3::toHalves(code);
  return __half22float2(reinterpret_cast<const __half2 &>(halves)).x;
}

/// The error of a block of 16 with this scale, as 4over6 measures it.
__device__ __forceinline__ float nvError(const GroupedQuantizeNvfp4Args &args,
                                         const float (&x)[kNvBlock],
                                         math::NvTensorScale tensor,
                                         float tensorAmax, uint8_t code) {
  const float scale = fromE4M3(code);
  const float inverse = math::nvInverse(scale, tensor);
  const float reach = 6.0f * static_cast<float>(args.scaleMax);
  float sum = 0.0f;
  for (int i = 0; i < kNvBlock; ++i) {
    const float magnitude = fabsf(x[i]);
    const float q = math::e2m1ToFloat(math::e2m1Code(magnitude * inverse));
    sum = sum + math::nvError(args.fourOverSix, q, scale, tensorAmax, reach,
                              magnitude);
  }
  return sum;
}

/// A thread quantises one block of 16 elements of one usage.
template <typename T>
__device__ __forceinline__ void
quantizeNvfp4(const GroupedQuantizeNvfp4Args &args) {
  const GroupedRows &layout = args.layout;
  const bool alongCols = args.axis == 1;
  const GroupShape &shape = layout.shape;
  const int64_t outer = alongCols ? shape.rows : layout.cols;
  const int64_t blocks = (alongCols ? layout.cols : shape.rows) / kNvBlock;
  const int64_t index = blockIdx.x * int64_t{kGroupedBlock} + threadIdx.x;
  if (args.amaxOut && index < shape.groups)
    args.amaxOut[index] = args.amax[index];
  if (index >= outer * blocks)
    return;
  // Neighbouring threads read neighbouring columns.
  const int64_t o = alongCols ? index / blocks : index % outer;
  const int64_t block = alongCols ? index % blocks : index / outer;

  float x[kNvBlock];
  float amax = 0.0f;
  int64_t group = -1;
  const GroupRows rows = [&] {
    // All rows of a block belong to one group or its padding.
    const int64_t first = alongCols ? o : block * kNvBlock;
    int64_t begin = 0;
    GroupRows found{0, 0, 0};
    for (int64_t g = 0; g < shape.groups; ++g) {
      found = groupRows(begin, layout.sizes[g], shape.rows, shape.alignment);
      if (first < found.next) {
        group = g;
        break;
      }
      begin = found.next;
    }
    return found;
  }();
#pragma unroll
  for (int i = 0; i < kNvBlock; ++i) {
    const int64_t row = alongCols ? o : block * kNvBlock + i;
    const int64_t col = alongCols ? block * kNvBlock + i : o;
    const bool inside = group >= 0 && row >= rows.begin && row < rows.end;
    x[i] = inside ? at<T>(args.x, row * layout.cols + col) : 0.0f;
    amax = fmaxf(amax, fabsf(x[i]));
  }
  const float tensorAmax = group >= 0 ? args.amax[group] : 0.0f;
  const math::NvTensorScale tensor =
      math::nvTensorScale(tensorAmax, args.scaleMax);
  uint8_t scale;
  if (args.fourOverSix == kNvNoError) {
    scale = toE4M3(math::nvBlockScale(amax, tensor));
  } else {
    const uint8_t six = toE4M3(math::nvBlockScale46(amax, tensor, false));
    const uint8_t four = toE4M3(math::nvBlockScale46(amax, tensor, true));
    scale = nvError(args, x, tensor, tensorAmax, four) <
                    nvError(args, x, tensor, tensorAmax, six)
                ? four
                : six;
  }
  if (args.scale)
    args.scale[o * args.pitch + block] = scale;
  if (!args.data)
    return;
  const float inverse = math::nvInverse(fromE4M3(scale), tensor);
  math::PhiloxWords random{};
  if (args.stochastic)
    random = math::nvRandom(o * blocks + block, alongCols ? 0 : 1,
                            args.rng ? args.rng[0] : 0,
                            args.rng ? args.rng[1] : 0, args.stream);
  uint32_t words[2] = {};
#pragma unroll
  for (int i = 0; i < kNvBlock; ++i) {
    const float magnitude = fabsf(x[i] * inverse);
    const uint32_t bits =
        math::nvRandomBits(random.word[i / 4], random.word[i / 4 ^ 1], i);
    const uint32_t sign = signbit(x[i]) && x[i] == x[i] ? 8 : 0;
    const uint32_t code =
        sign | (args.stochastic ? math::e2m1CodeStochastic(magnitude, bits)
                                : math::e2m1Code(magnitude));
    words[i / 8] |= code << 4 * (i % 8);
  }
  *reinterpret_cast<uint2 *>(args.data + (o * blocks + block) * 8) =
      make_uint2(words[0], words[1]);
}

/// A thread computes one element of the result; a block those of one row.
__device__ __forceinline__ void dequantize(const GroupedDequantizeArgs &args) {
  const GroupedRows &layout = args.layout;
  const uint32_t row = blockIdx.x / args.rowBlocks;
  const int64_t col =
      blockIdx.x % args.rowBlocks * int64_t{kGroupedBlock} + threadIdx.x;
  const int64_t group = groupOf(layout, row);
  if (col >= layout.cols)
    return;
  const int64_t index = row * layout.cols + col;
  float value = 0.0f;
  if (group >= 0) {
    const int64_t stored =
        args.axis == 1 ? index : col * layout.shape.rows + row;
    if (args.fp8Type == TE_RT_F4E2M1FN) {
      const int64_t outer = args.axis == 1 ? row : col;
      const int64_t inner = args.axis == 1 ? col : row;
      const uint8_t byte = args.data[stored / 2];
      const float q =
          math::e2m1ToFloat(stored % 2 == 0 ? byte & 0xf : byte >> 4);
      const float scale = fromE4M3(static_cast<const uint8_t *>(
          args.scale)[outer * args.pitch + inner / kNvBlock]);
      value = q * (args.amax
                       ? math::nvFactor(scale,
                                        args.amax[args.rowScaled ? row : group],
                                        args.scaleMax)
                       : scale);
    } else {
      const uint16_t code = args.data[stored];
      const uint32_t halves = args.fp8Type == TE_RT_F8E4M3FN
                                  ? E4M3::toHalves(code)
                                  : E5M2::toHalves(code);
      value = __half22float2(reinterpret_cast<const __half2 &>(halves)).x *
              static_cast<const float *>(args.scale)[group];
    }
  }
  storeAs(args.out, index, value, args.outType);
}

} // namespace

#define TE_GROUPED(name, Args, body, type, T)                                  \
  extern "C" __global__ void __launch_bounds__(kGroupedBlock)                  \
      te_grouped_##name##_##type(const __grid_constant__ Args args) {          \
    te::rt::cuda::ptx::beginKernel();                                          \
    body<T>(args);                                                             \
  }
#define TE_GROUPED_ALL(type, T)                                                \
  TE_GROUPED(bias_grad, GroupedBiasGradArgs, biasGrad, type, T)                \
  TE_GROUPED(quantize_nvfp4, GroupedQuantizeNvfp4Args, quantizeNvfp4, type, T)

TE_GROUPED_ALL(f32, float)
TE_GROUPED_ALL(bf16, bf16)
TE_GROUPED_ALL(f16, f16)

extern "C" __global__ void __launch_bounds__(kGroupedBlock)
    te_grouped_round_sizes(const __grid_constant__ GroupedRoundArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const int64_t g = blockIdx.x * int64_t{kGroupedBlock} + threadIdx.x;
  if (g < args.groups)
    args.rounded[g] = roundGroupSize(args.sizes[g], args.multiple);
}

extern "C" __global__ void __launch_bounds__(kGroupedBlock)
    te_grouped_dequantize(const __grid_constant__ GroupedDequantizeArgs args) {
  te::rt::cuda::ptx::beginKernel();
  dequantize(args);
}

} // namespace te::rt::cuda
