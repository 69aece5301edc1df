//===- Cast.cpp - quantisation on the reference backend -------------------===//
//
// A value is converted to f32 exactly, multiplied by its f32 scale with one
// rounding and rounded to 8 bits; nothing else happens to it. What the schemes
// differ in is which values share a scale, and where that scale is stored.
//
//===----------------------------------------------------------------------===//

#include "Core/KernelGroups.h"
#include "Reference/Reference.h"

#include <cstring>
#include <vector>

namespace te::rt::reference {

namespace {

constexpr int64_t kBlock = 128;

uint8_t toFp8(float value, int32_t type) {
  return type == TE_RT_F8E4M3FN ? floatToE4M3(value) : floatToE5M2(value);
}

float amaxOf(const void *x, int64_t count, int32_t type) {
  float result = 0.0f;
  for (int64_t i = 0; i < count; ++i)
    result = maxMagnitude(result, load(x, i, type));
  return result;
}

/// One usage: values at(outer, inner) stored as [outer, inner], in rows of
/// `pitch` elements.
template <typename At>
void quantizeUsage(int64_t outer, int64_t inner, int64_t pitch,
                   const BlockRecipe &recipe, At at, uint8_t *data,
                   float *scaleInv) {
  const ScaleLayout layout(recipe.scheme, outer, inner);
  if (scaleInv)
    std::memset(scaleInv, 0, layout.size() * sizeof(float));
  const int64_t blockRows = recipe.scheme == TE_RT_BLOCK_1X128 ? 1 : kBlock;
  parallelFor(ceilDiv(outer, blockRows), outer * inner * 16,
              [&](int64_t begin, int64_t end) {
                for (int64_t o0 = begin * blockRows;
                     o0 < std::min(outer, end * blockRows); o0 += blockRows) {
                  const int64_t o1 = std::min(outer, o0 + blockRows);
                  for (int64_t i0 = 0; i0 < inner; i0 += kBlock) {
                    const int64_t i1 = std::min(inner, i0 + kBlock);
                    float amax = 0.0f;
                    for (int64_t o = o0; o < o1; ++o)
                      for (int64_t i = i0; i < i1; ++i)
                        amax = maxMagnitude(amax, at(o, i));
                    const float scale = math::computeScale(
                        amax, math::maxFinite(recipe.fp8Type), recipe.pow2,
                        recipe.epsilon, math::maxFinite(recipe.type));
                    if (scaleInv)
                      scaleInv[layout.index(o0, i0)] = 1.0f / scale;
                    for (int64_t o = o0; data && o < o1; ++o)
                      for (int64_t i = i0; i < i1; ++i)
                        data[o * pitch + i] =
                            toFp8(at(o, i) * scale, recipe.fp8Type);
                  }
                }
              });
}

} // namespace

void quantizeBlocks(int64_t rows, int64_t cols, const BlockRecipe &recipe,
                    const std::function<float(int64_t, int64_t)> &at,
                    const BlockOutputs &out) {
  if (out.row || out.rowScale)
    quantizeUsage(rows, cols, cols, recipe, at, static_cast<uint8_t *>(out.row),
                  static_cast<float *>(out.rowScale));
  if (out.col || out.colScale)
    quantizeUsage(
        cols, rows, out.colPitch ? out.colPitch : rows, recipe,
        [&](int64_t c, int64_t r) { return at(r, c); },
        static_cast<uint8_t *>(out.col), static_cast<float *>(out.colScale));
}

void quantize_block(const quantize_block_params &p, void *const *buffers) {
  namespace b = quantize_block_buffers;
  if (isSkipped(buffers[b::skip]))
    return;
  const void *x = buffers[b::x];
  quantizeBlocks(
      p.rows, p.cols,
      {p.type, p.fp8_type, p.scheme, p.pow2_scales != 0, p.amax_epsilon},
      [&](int64_t r, int64_t c) { return loadPadded(x, r, c, p); },
      {buffers[b::row], buffers[b::row_scale], buffers[b::col],
       buffers[b::col_scale]});
}

void quantize_rows(const quantize_rows_params &p, void *const *buffers) {
  namespace b = quantize_rows_buffers;
  auto *row = static_cast<uint8_t *>(buffers[b::row]);
  auto *col = static_cast<uint8_t *>(buffers[b::col]);
  if (col)
    col += p.first_row;
  auto *rowScale = static_cast<float *>(buffers[b::row_scale]);
  auto *colScale = static_cast<float *>(buffers[b::col_scale]);
  const void *x = buffers[b::x];
  auto at = [&](int64_t r, int64_t c) {
    return load(x, r * p.cols + c, p.type);
  };
  if (p.scheme == TE_RT_BLOCK_1X128) {
    // The scales of 128 rows follow those of the 128 rows before.
    if (colScale)
      colScale += ScaleLayout(TE_RT_BLOCK_1X128, p.cols, p.first_row).size();
    return quantizeBlocks(
        p.rows, p.cols,
        {p.type, p.fp8_type, p.scheme, p.pow2_scales != 0, p.amax_epsilon}, at,
        {row, rowScale, col, colScale, p.whole_rows});
  }
  const float scale = *static_cast<const float *>(buffers[b::scale]);
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t c = 0; c < p.cols; ++c) {
      const uint8_t q = toFp8(at(r, c) * scale, p.fp8_type);
      if (row)
        row[r * p.cols + c] = q;
      if (col)
        col[c * p.whole_rows + r] = q;
    }
  for (float *scaleInv : {rowScale, colScale})
    if (scaleInv)
      *scaleInv = 1.0f / scale;
  if (buffers[b::amax])
    *static_cast<float *>(buffers[b::amax]) =
        amaxOf(x, p.rows * p.cols, p.type);
}

void quantize_tensor(const quantize_tensor_params &p, void *const *buffers) {
  namespace b = quantize_tensor_buffers;
  if (isSkipped(buffers[b::skip])) {
    if (buffers[b::amax])
      *static_cast<float *>(buffers[b::amax]) = 0.0f;
    return;
  }
  const void *x = buffers[b::x];
  float scale = *static_cast<const float *>(buffers[b::scale]);
  if (p.from_amax)
    scale =
        math::computeScale(scale, math::maxFinite(p.fp8_type),
                           p.pow2_scales != 0, p.amax_epsilon, math::kFloatMax);
  auto *row = static_cast<uint8_t *>(buffers[b::row]);
  auto *col = static_cast<uint8_t *>(buffers[b::col]);
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t c = 0; c < p.cols; ++c) {
      const uint8_t q = toFp8(loadPadded(x, r, c, p) * scale, p.fp8_type);
      if (row)
        row[r * p.cols + c] = q;
      if (col)
        col[c * p.rows + r] = q;
    }
  for (void *scaleInv : {buffers[b::row_scale], buffers[b::col_scale]})
    if (scaleInv)
      *static_cast<float *>(scaleInv) = 1.0f / scale;
  if (buffers[b::amax])
    *static_cast<float *>(buffers[b::amax]) =
        roundTo(amaxOf(x, p.x_rows * p.x_cols, p.x_type), p.type);
}

void quantize_tensor_group(const quantize_tensor_group_params &p,
                           void *const *buffers) {
  const quantize_tensor_params one = {
      1,      p.rows,     p.cols,      p.x_rows,      p.x_cols,      p.x_type,
      p.type, p.fp8_type, p.from_amax, p.pow2_scales, p.amax_epsilon};
  for (int i : {0, 1})
    quantize_tensor(one, quantizeBuffersOf(buffers, i).data());
}

void amax(const amax_params &p, void *const *buffers) {
  namespace b = amax_buffers;
  *static_cast<float *>(buffers[b::amax]) =
      isSkipped(buffers[b::skip])
          ? 0.0f
          : roundTo(amaxOf(buffers[b::x], p.count, p.x_type), p.type);
}

void compute_scale(const compute_scale_params &p, void *const *buffers) {
  namespace b = compute_scale_buffers;
  const auto *amax = static_cast<const float *>(buffers[b::amax]);
  auto *scale = static_cast<float *>(buffers[b::scale]);
  for (int64_t i = 0; i < p.count; ++i)
    scale[i] =
        math::computeScale(amax[i], math::maxFinite(p.fp8_type),
                           p.pow2_scales != 0, p.amax_epsilon, math::kFloatMax);
}

void delayed_scaling_update(const delayed_scaling_update_params &p,
                            void *const *buffers) {
  namespace b = delayed_scaling_update_buffers;
  const auto *measured = static_cast<const float *>(buffers[b::amax]);
  const auto *history = static_cast<const float *>(buffers[b::history]);
  const auto *scale = static_cast<const float *>(buffers[b::scale]);
  auto *newHistory = static_cast<float *>(buffers[b::new_history]);
  auto *newScale = static_cast<float *>(buffers[b::new_scale]);
  const float scaledMax = std::ldexp(p.fp8_max, -p.margin);
  for (int64_t slot = 0; slot < p.slots; ++slot) {
    const float last = measured[slot] != 0.0f ? measured[slot] : history[slot];
    float amax = last;
    // Upwards, so that the new history may overwrite the old one.
    for (int64_t i = 0; i < p.history_length; ++i) {
      const int64_t at = i * p.slots + slot;
      if (last == 0.0f) {
        newHistory[at] = history[at];
        continue;
      }
      const float entry =
          i + 1 < p.history_length ? history[at + p.slots] : last;
      newHistory[at] = i == 0 ? 0.0f : entry;
      if (p.algorithm == TE_RT_AMAX_MAX)
        amax = std::fmax(amax, entry);
    }
    newScale[slot] = math::delayedScale(amax, scaledMax, scale[slot]);
  }
}

void delayed_scaling_group(const delayed_scaling_group_params &p,
                           void *const *buffers) {
  for (int i = 0; i < kDelayedScalingGroup; ++i)
    if (const delayed_scaling_update_params member = memberOf(p, i);
        member.slots != 0)
      delayed_scaling_update(member,
                             delayedScalingBuffersOf(buffers, i).data());
}

void dequantize(const dequantize_params &p, void *const *buffers) {
  namespace b = dequantize_buffers;
  if (isMx(p.scheme) || isNv(p.scheme))
    return dequantizeMicroscaled(p, buffers);
  const bool transposed = p.axis == 0;
  const int64_t outer = transposed ? p.cols : p.rows;
  const int64_t inner = transposed ? p.rows : p.cols;
  const ScaleLayout layout(p.scheme, outer, inner);
  const auto *scale = static_cast<const float *>(buffers[b::scale]);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const float q = load(buffers[b::data], o * inner + i, p.fp8_type);
      store(buffers[b::out], transposed ? i * outer + o : o * inner + i,
            q * scale[layout.index(o, i)], p.out_type);
    }
}

void transpose_scaled(const transpose_scaled_params &p, void *const *buffers) {
  namespace b = transpose_scaled_buffers;
  if (isSkipped(buffers[b::skip]))
    return;
  if (isMx(p.scheme) || isNv(p.scheme))
    return transposeMicroscaled(p, buffers);
  const auto *data = static_cast<const uint8_t *>(buffers[b::data]);
  const auto *scale = static_cast<const float *>(buffers[b::scale]);
  auto *outData = static_cast<uint8_t *>(buffers[b::out_data]);
  auto *outScale = static_cast<float *>(buffers[b::out_scale]);
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t c = 0; c < p.cols; ++c)
      outData[c * p.rows + r] = data[r * p.cols + c];
  if (p.scheme == TE_RT_PER_TENSOR) {
    *outScale = *scale;
    return;
  }
  const ScaleLayout from(p.scheme, p.rows, p.cols),
      to(p.scheme, p.cols, p.rows);
  std::memset(outScale, 0, to.size() * sizeof(float));
  for (int64_t r = 0; r < p.rows; r += kBlock)
    for (int64_t c = 0; c < p.cols; c += kBlock)
      outScale[to.index(c, r)] = scale[from.index(r, c)];
}

} // namespace te::rt::reference
