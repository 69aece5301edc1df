//===- Gemm.cpp - matrix products on the reference backend ----------------===//
//
// Every element of the result is a sum over k in increasing order, each product
// and each sum rounded to f32. Both operands are converted to f32 panels first;
// then kTile columns of a few rows at a time are accumulated, which changes the
// order of the work but of no element's sum. Rows are split over threads.
//
// Operands with a scale for each block: the sum of one slice of k, as wide as a
// block, is made apart as P, scaled by both, and added.
//
//===----------------------------------------------------------------------===//

#include "Core/Nvfp4.h"
#include "Reference/Reference.h"

#include <cstring>
#include <vector>

namespace te::rt::reference {

namespace {

/// Four neighbouring columns: the compiler's vector type, whose arithmetic is
/// that of its elements.
typedef float Vector __attribute__((vector_size(16)));
constexpr int64_t kWidth = 4, kVectors = 2;
constexpr int64_t kSlice = 128, kTile = kWidth * kVectors, kRows = 4;

/// The [k, n] panel of an operand stored [n, k], or [k, n] when `transposed`.
std::vector<float> loadPanel(const void *data, int64_t n, int64_t k,
                             bool transposed, int32_t type) {
  std::vector<float> panel(n * k);
  parallelFor(k, n * k * 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = transposed ? i * n + j : j * k + i;
        panel[i * n + j] =
            type == TE_RT_F4E2M1FN ? loadE2M1(data, at) : load(data, at, type);
      }
  });
  return panel;
}

/// sums = A[rows, k0..k1] * B[k0..k1, tile], each in order of k. `a` is [k, m]
/// and points at the first row, `b` is [k, n] and points at the first column.
/// The accumulators are few enough to stay in registers.
void multiplyTile(const float *a, int64_t m, const float *b, int64_t n,
                  int64_t k0, int64_t k1, float (&sums)[kRows][kTile]) {
  Vector acc[kRows][kVectors] = {};
  for (int64_t k = k0; k < k1; ++k) {
    Vector row[kVectors];
    std::memcpy(row, b + k * n, sizeof(row));
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t v = 0; v < kVectors; ++v)
        acc[i][v] += a[k * m + i] * row[v];
  }
  std::memcpy(sums, acc, sizeof(sums));
}

/// Panels padded to whole tiles, so that `multiplyTile` has constant bounds.
std::vector<float> padColumns(const std::vector<float> &panel, int64_t n,
                              int64_t k, int64_t padded) {
  std::vector<float> result(k * padded, 0.0f);
  for (int64_t i = 0; i < k; ++i)
    std::copy_n(panel.data() + i * n, n, result.data() + i * padded);
  return result;
}

/// Computes every sum and hands it over: slice(acc, partial, i, j, slice) folds
/// the sum of one slice of k into an element, finish(i, j, acc) stores it.
template <typename Fold, typename Finish>
void multiply(const std::vector<float> &a, const std::vector<float> &b,
              int64_t m, int64_t n, int64_t k, int64_t slice, Fold fold,
              Finish finish) {
  const int64_t mPadded = roundUp(m, kRows), nPadded = roundUp(n, kTile);
  const std::vector<float> aPanel = padColumns(a, m, k, mPadded);
  const std::vector<float> bPanel = padColumns(b, n, k, nPadded);
  parallelFor(mPadded / kRows, m * n * k, [&](int64_t begin, int64_t end) {
    for (int64_t j0 = 0; j0 < n; j0 += kTile)
      for (int64_t i0 = begin * kRows; i0 < end * kRows; i0 += kRows) {
        float acc[kRows][kTile] = {};
        for (int64_t k0 = 0; k0 < k; k0 += slice) {
          float partial[kRows][kTile];
          multiplyTile(&aPanel[i0], mPadded, &bPanel[j0], nPadded, k0,
                       std::min(k, k0 + slice), partial);
          for (int64_t i = 0; i < std::min(kRows, m - i0); ++i)
            for (int64_t j = 0; j < std::min(kTile, n - j0); ++j)
              acc[i][j] = fold(acc[i][j], partial[i][j], i0 + i, j0 + j, k0);
        }
        for (int64_t i = 0; i < std::min(kRows, m - i0); ++i)
          for (int64_t j = 0; j < std::min(kTile, n - j0); ++j)
            finish(i0 + i, j0 + j, acc[i][j]);
      }
  });
}

} // namespace

void matmul(const matmul_params &p, void *const *buffers) {
  namespace b = matmul_buffers;
  const auto lhs = loadPanel(buffers[b::a], p.m, p.k, p.trans_a != 0, p.type);
  const auto rhs = loadPanel(buffers[b::b], p.n, p.k, p.trans_b != 0, p.type);
  const auto *alpha = static_cast<const float *>(buffers[b::alpha]);
  multiply(
      lhs, rhs, p.m, p.n, p.k, std::max<int64_t>(p.k, 1),
      [](float, float partial, int64_t, int64_t, int64_t) { return partial; },
      [&](int64_t i, int64_t j, float sum) {
        if (alpha)
          sum *= *alpha;
        if (buffers[b::bias])
          sum += load(buffers[b::bias], j, p.type);
        if (buffers[b::c])
          sum += load(buffers[b::c], i * p.n + j, p.out_type);
        store(buffers[b::out], i * p.n + j, sum, p.out_type);
      });
}

//===----------------------------------------------------------------------===//
// Scaled products, by family of schemes
//===----------------------------------------------------------------------===//

namespace {

/// What comes after the sum, in this order, each rounded to f32.
float addBias(float sum, int64_t j, void *const *buffers) {
  const void *bias = buffers[scaled_matmul_buffers::bias];
  return bias ? sum + load(bias, j, TE_RT_BF16) : sum;
}
float addC(float sum, int64_t at, int32_t type, void *const *buffers) {
  const void *c = buffers[scaled_matmul_buffers::c];
  return c ? sum + load(c, at, type) : sum;
}

void multiplyPerTensor(const scaled_matmul_params &p, void *const *buffers) {
  namespace b = scaled_matmul_buffers;
  const auto lhs = loadPanel(buffers[b::a], p.m, p.k, p.a_axis == 0, p.a_type);
  const auto rhs = loadPanel(buffers[b::b], p.n, p.k, p.b_axis == 0, p.b_type);
  const float alpha = *static_cast<const float *>(buffers[b::a_scale]) *
                      *static_cast<const float *>(buffers[b::b_scale]);
  multiply(
      lhs, rhs, p.m, p.n, p.k, std::max<int64_t>(p.k, 1),
      [](float, float partial, int64_t, int64_t, int64_t) { return partial; },
      [&](int64_t i, int64_t j, float sum) {
        const int64_t at = i * p.n + j;
        const float value = addBias(alpha * sum, j, buffers);
        store(buffers[b::out], at, addC(value, at, p.out_type, buffers),
              p.out_type);
      });
}

void multiplyBlocks(const scaled_matmul_params &p, void *const *buffers) {
  namespace b = scaled_matmul_buffers;
  const auto lhs = loadPanel(buffers[b::a], p.m, p.k, false, p.a_type);
  const auto rhs = loadPanel(buffers[b::b], p.n, p.k, false, p.b_type);
  const auto *aScale = static_cast<const float *>(buffers[b::a_scale]);
  const auto *bScale = static_cast<const float *>(buffers[b::b_scale]);
  const int64_t slices4 = roundUp(ceilDiv(p.k, kSlice), 4);
  auto scale = [&](const float *scales, int32_t scheme, int64_t outer,
                   int64_t row, int64_t slice) {
    return scheme == TE_RT_BLOCK_1X128 ? scales[slice * roundUp(outer, 4) + row]
                                       : scales[row / kSlice * slices4 + slice];
  };
  // acc = fma(rn(P * first), second, acc). The hardware multiplies by the finer
  // scale first where one is 128x128, and by that of `a` where both are 1x128.
  const bool bFirst = p.a_scheme == TE_RT_BLOCK_128X128;
  multiply(
      lhs, rhs, p.m, p.n, p.k, kSlice,
      [&](float acc, float partial, int64_t i, int64_t j, int64_t k0) {
        const float sa = scale(aScale, p.a_scheme, p.m, i, k0 / kSlice);
        const float sb = scale(bScale, p.b_scheme, p.n, j, k0 / kSlice);
        return bFirst ? std::fma(partial * sb, sa, acc)
                      : std::fma(partial * sa, sb, acc);
      },
      [&](int64_t i, int64_t j, float sum) {
        const int64_t at = i * p.n + j;
        // `c` is added to the rounded product, as cuBLASLt does. Read first: it
        // may be `out`.
        const float previous = addC(0.0f, at, p.out_type, buffers);
        const float rounded =
            store(buffers[b::out], at, addBias(sum, j, buffers), p.out_type);
        if (buffers[b::c])
          store(buffers[b::out], at, rounded + previous, p.out_type);
      });
}

/// The scales of an mx or nv operand of `outer` lines as f32 [k / block,
/// outer].
std::vector<float> loadMicroscales(const void *scales, int32_t scheme,
                                   bool transposed, bool swizzled,
                                   int64_t outer, int64_t k) {
  const int64_t block = isMx(scheme) ? 32 : 16, blocks = k / block;
  const MicroscaleLayout layout(scheme, transposed ? 0 : 1,
                                transposed ? k : outer, transposed ? outer : k);
  std::vector<float> result(blocks * outer);
  for (int64_t j = 0; j < blocks; ++j)
    for (int64_t i = 0; i < outer; ++i) {
      const int64_t at = swizzled     ? swizzledIndex(i, j, roundUp(blocks, 4))
                         : transposed ? layout.index(j * block, i)
                                      : layout.index(i, j * block);
      const uint8_t code = static_cast<const uint8_t *>(scales)[at];
      result[j * outer + i] =
          isMx(scheme) ? math::e8m0ToFloat(code) : e4m3ToFloat(code);
    }
  return result;
}

void multiplyMicroscaled(const scaled_matmul_params &p, void *const *buffers) {
  namespace b = scaled_matmul_buffers;
  const bool mx = isMx(p.a_scheme);
  // mx data of axis 0 is stored as [k, outer]; in all other data k is
  // contiguous.
  const bool aTransposed = mx && p.a_axis == 0;
  const bool bTransposed = mx && p.b_axis == 0;
  const auto lhs = loadPanel(buffers[b::a], p.m, p.k, aTransposed, p.a_type);
  const auto rhs = loadPanel(buffers[b::b], p.n, p.k, bTransposed, p.b_type);
  const auto aScale = loadMicroscales(buffers[b::a_scale], p.a_scheme,
                                      aTransposed, p.swizzled != 0, p.m, p.k);
  const auto bScale = loadMicroscales(buffers[b::b_scale], p.b_scheme,
                                      bTransposed, p.swizzled != 0, p.n, p.k);
  const auto *aAmax = static_cast<const float *>(buffers[b::a_amax]);
  const auto *bAmax = static_cast<const float *>(buffers[b::b_amax]);
  auto alpha = [&](int64_t i) {
    return math::nvAlpha(aAmax[p.a_row_scaled ? i : 0], *bAmax, p.a_scale_max,
                         p.b_scale_max);
  };
  const int64_t slice = mx ? 32 : kNvBlock;
  multiply(
      lhs, rhs, p.m, p.n, p.k, slice,
      [&](float acc, float partial, int64_t i, int64_t j, int64_t k0) {
        // Exact in f64, so that two mx exponents may cancel each other.
        const double scaled = double{partial} * aScale[k0 / slice * p.m + i] *
                              bScale[k0 / slice * p.n + j];
        return acc + static_cast<float>(scaled);
      },
      [&](int64_t i, int64_t j, float sum) {
        const int64_t at = i * p.n + j;
        const float product = mx ? sum : alpha(i) * sum;
        const float value = addBias(product, j, buffers);
        store(buffers[b::out], at, addC(value, at, p.out_type, buffers),
              p.out_type);
      });
}

} // namespace

void scaled_matmul(const scaled_matmul_params &p, void *const *buffers) {
  if (p.a_scheme == TE_RT_PER_TENSOR)
    return multiplyPerTensor(p, buffers);
  if (isMx(p.a_scheme) || isNv(p.a_scheme))
    return multiplyMicroscaled(p, buffers);
  multiplyBlocks(p, buffers);
}

} // namespace te::rt::reference
