//===- Reference.h - the kernels of the reference backend -----------------===//
//
// One function per row of Kernels.td, grouped by family in the
// files beside this one. They are written to be read: every result bit follows
// from the row's comment and from Core/{Math,Formulas,Types}.h. Parameters have
// passed checkSupported, required buffers are not null. A kernel with
// `matrices` is called for each of them, with the buffers moved (Core/Stack.h).
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_REFERENCE_REFERENCE_H
#define TE_RUNTIME_REFERENCE_REFERENCE_H

#include "Core/Formulas.h"
#include "Core/Kernels.h"
#include "Core/Status.h"
#include "Core/Types.h"

#include <functional>

namespace te::rt::reference {

#define TE_RT_KERNEL(name, parameters, buffers)                                \
  void name(const name##_params &p, void *const *buffers);
#include "TEDialect/Runtime/te_runtime_kernels.inc"

/// Whether values on which addresses depend are in range, for the kernels that
/// have such values besides sizes of groups.
Status checkValues(const attention_params &p, void *const *buffers);
Status checkValues(const attention_backward_params &p, void *const *buffers);
Status checkValues(const attention_sink_grad_params &p, void *const *buffers);
Status checkValues(const rope_params &p, void *const *buffers);
Status checkValues(const rope_group_params &p, void *const *buffers);

/// Whether a launch with this `skip` leaves its outputs as they are.
inline bool isSkipped(const void *skip) {
  return skip && *static_cast<const float *>(skip) == 1.0f;
}

/// Calls body(begin, end) for disjoint ranges that cover [0, count), on several
/// threads where `work` (elementary operations in all) is worth it. A body must
/// give the same result for every cut.
void parallelFor(int64_t count, int64_t work,
                 const std::function<void(int64_t, int64_t)> &body);

/// The halving tree of the lane sum.
inline float addLanes(float (&lanes)[kLanes]) {
  for (int s = kLanes / 2; s != 0; s /= 2)
    for (int i = 0; i < s; ++i)
      lanes[i] += lanes[i + s];
  return lanes[0];
}

/// The lane sum of Kernels.td: `step(acc, i)` is the new value of a
/// lane that takes element i.
template <typename Step> float laneSum(int64_t count, Step step) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i)
    lanes[i % kLanes] = step(lanes[i % kLanes], i);
  return addLanes(lanes);
}

/// The chunk sum of Kernels.td over rows.
template <typename Step> float chunkSum(int64_t rows, Step step) {
  float total = 0.0f;
  for (int64_t begin = 0; begin < rows; begin += kChunkRows) {
    float chunk = 0.0f;
    for (int64_t row = begin; row < std::min(rows, begin + kChunkRows); ++row)
      chunk = step(chunk, row);
    total += chunk;
  }
  return total;
}

/// The strip sum of Kernels.td over rows.
template <typename Step> float stripSum(int64_t rows, Step step) {
  const int64_t strips = ceilDiv(rows, kStripRows);
  float total = 0.0f;
  for (int64_t first = 0; first < strips; first += kRunStrips) {
    float run = 0.0f;
    for (int64_t s = first; s < std::min(strips, first + kRunStrips); ++s) {
      float strip = 0.0f;
      for (int64_t row = s * kStripRows;
           row < std::min(rows, (s + 1) * kStripRows); ++row)
        strip = step(strip, row);
      run += strip;
    }
    total += run;
  }
  return total;
}

/// Drops NaN, keeps infinities.
inline float maxMagnitude(float amax, float value) {
  const float magnitude = std::fabs(value);
  return magnitude > amax ? magnitude : amax;
}

/// Where the f32 scale of a stored element is, per-tensor or of blocks: `outer`
/// and `inner` are its storage coordinates, inner running along the contraction
/// axis.
struct ScaleLayout {
  ScaleLayout(int32_t scheme, int64_t outer, int64_t inner) : scheme(scheme) {
    if (scheme == TE_RT_PER_TENSOR)
      rows = stride = 1;
    else if (scheme == TE_RT_BLOCK_1X128)
      rows = ceilDiv(inner, 128), stride = roundUp(outer, 4);
    else
      rows = ceilDiv(outer, 128), stride = roundUp(ceilDiv(inner, 128), 4);
  }
  int64_t index(int64_t outer, int64_t inner) const {
    if (scheme == TE_RT_PER_TENSOR)
      return 0;
    if (scheme == TE_RT_BLOCK_1X128)
      return inner / 128 * stride + outer;
    return outer / 128 * stride + inner / 128;
  }
  int64_t size() const { return rows * stride; }

  int32_t scheme;
  int64_t rows, stride;
};

/// Quantises the [rows, cols] values `at(r, c)` (already of `type`) with one
/// scale per block; any output may be null.
struct BlockOutputs {
  void *row, *rowScale, *col, *colScale;
  /// The elements from a row of `col` to the next; 0 if rows follow each other.
  int64_t colPitch = 0;
};
struct BlockRecipe {
  int32_t type, fp8Type, scheme;
  bool pow2;
  float epsilon;
};
void quantizeBlocks(int64_t rows, int64_t cols, const BlockRecipe &recipe,
                    const std::function<float(int64_t, int64_t)> &at,
                    const BlockOutputs &out);

/// The kernels of these names, of mx and nv values.
void dequantizeMicroscaled(const dequantize_params &p, void *const *buffers);
void transposeMicroscaled(const transpose_scaled_params &p,
                          void *const *buffers);

} // namespace te::rt::reference

#endif // TE_RUNTIME_REFERENCE_REFERENCE_H
