//===- GemmTest.cpp - matrix products against f64 within a derived bound --===//
//
// For exact operands a and b (products of two values of at most 12 significant
// bits are exact in f32), a sum of n terms accumulated in arithmetic of unit
// roundoff u differs from the true one by at most
//
//   gamma(n) * sum|a||b|,   gamma(n) = n u / (1 - n u)            (1)
//
// in whatever order, because each term passes through at most n roundings. To
// n are added: 1 for a product that is not exact (f32 operands), 3 for the two
// multiplications by scales and the product of the scales, 1 each for alpha,
// bias and c. The stored value is rounded again, by u_out of the magnitude
// that is rounded (twice where c is added to a rounded product).
//
// u is that of the accumulator: 2^-24 where it is IEEE f32 (reference). Tensor
// cores align the addends of one step and truncate: no less than 2^-22 relative
// to the largest for 16-bit and split 8-bit products summed in f32; for 8-bit
// products one step of 32 is known to keep 13 fraction bits, so 2^-13 of the
// slice sum, for each of the steps that are chained before an f32 promotion (4
// with split accumulation, k / 32 with fast accumulation).
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>

using namespace te::conformance;

namespace {

struct Problem {
  int64_t m, n, k;
  bool bias, accumulate;
};

class Gemm : public BackendTest {
protected:
  bool isReference() const { return GetParam() == "reference"; }

  /// The relative error of a sum of n terms; see the head of this file.
  double sumError(int64_t n, bool fp8, bool fast) const {
    const double u = isReference() ? 0x1p-24 : 0x1p-22;
    double error = n * u / (1 - n * u);
    if (fp8 && !isReference())
      error += 0x1p-13 * (fast ? std::ceil(n / 32.0) : 4.0);
    return error;
  }

  /// Compares with sum a[i, k] b[j, k] (+ bias) (+ c) and returns the largest
  /// observed error as a fraction of the bound.
  double compare(const Problem &p, const std::vector<double> &a,
                 const std::vector<double> &b, const Array &bias,
                 const Array &c, const Array &actual, double relative,
                 bool roundBeforeC) {
    double worst = 0;
    const double uOut = unitRoundoff(actual.type);
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          sum += a[i * p.k + k] * b[j * p.k + k];
          magnitude += std::fabs(a[i * p.k + k] * b[j * p.k + k]);
        }
        if (p.bias) {
          sum += bias.at(j);
          magnitude += std::fabs(bias.at(j));
        }
        const double product = std::fabs(sum) + relative * magnitude;
        if (p.accumulate) {
          sum += c.at(i * p.n + j);
          magnitude += std::fabs(c.at(i * p.n + j));
        }
        double bound = relative * magnitude;
        bound += uOut * (std::fabs(sum) + bound);
        if (roundBeforeC && p.accumulate)
          bound += 2 * uOut * product;
        // Half of the smallest subnormal of f16, the narrowest output.
        bound += 0x1p-25;
        const double error = std::fabs(actual.at(i * p.n + j) - sum);
        worst = std::max(worst, error / bound);
        if (!(error <= bound)) {
          ADD_FAILURE() << "at (" << i << ", " << j << ") of " << p.m << "x"
                        << p.n << "x" << p.k << ": expected " << sum
                        << " within " << bound << ", but got "
                        << actual.at(i * p.n + j);
          return worst;
        }
      }
    return worst;
  }

  /// Multiplies by `alpha`, if it is given.
  double runMatmul(const Problem &p, bool transA, bool transB, int32_t type,
                   int32_t outType, const std::vector<float> &alpha = {}) {
    const Array a = makeArray("normal", type, p.m * p.k, 1);
    const Array b = makeArray("normal", type, p.n * p.k, 2);
    const Array bias = makeArray("normal", type, p.n, 3);
    const Array c = makeArray("normal", outType, p.m * p.n, 4);
    Array result(outType, p.m * p.n);
    device().run(TE_PLAN(matmul, p.m, p.n, p.k, transA, transB, type, outType),
                 {in(a.bytes), in(b.bytes), alpha.empty() ? none() : in(alpha),
                  p.bias ? in(bias.bytes) : none(),
                  p.accumulate ? in(c.bytes) : none(), out(result.bytes)});
    std::vector<double> scaledA = logical(a, p.m, p.k, transA);
    for (double &value : scaledA)
      value *= alpha.empty() ? 1.0 : alpha[0];
    return compare(p, scaledA, logical(b, p.n, p.k, transB), bias, c, result,
                   sumError(p.k + 4, false, false), false);
  }

  void checkExactIntegers(int64_t m, int64_t n, int64_t k);

  static std::vector<double> logical(const Array &x, int64_t outer, int64_t k,
                                     bool transposed) {
    std::vector<double> values(outer * k);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < k; ++i)
        values[o * k + i] = x.at(transposed ? i * outer + o : o * k + i);
    return values;
  }

  struct Operand {
    Quantised stored;
    std::vector<double> values;
  };
  static Operand makeOperand(int64_t outer, int64_t k, int32_t fp8Type,
                             int32_t scheme, uint32_t seed) {
    const Array x = makeArray("normal", TE_RT_BF16, outer * k, seed);
    Operand result;
    if (scheme == TE_RT_PER_TENSOR) {
      result.stored.scale = {0.037f / static_cast<float>(seed)};
      for (int64_t i = 0; i < outer * k; ++i)
        result.stored.data.push_back(
            encodeFp8(fp8Type, x.at(i) / result.stored.scale[0]));
    } else {
      result.stored = quantiseBlocks(x, outer, k, 1, fp8Type, scheme,
                                     /*pow2=*/false, 0.0f);
    }
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < k; ++i)
        result.values.push_back(
            decode(fp8Type, result.stored.data[o * k + i]) *
            result.stored.scale[scaleIndex(scheme, outer, k, o, i)]);
    return result;
  }

  double runScaled(const Problem &p, int32_t aType, int32_t aScheme,
                   int32_t bType, int32_t bScheme, int32_t outType, bool fast) {
    const Operand a = makeOperand(p.m, p.k, aType, aScheme, 1);
    const Operand b = makeOperand(p.n, p.k, bType, bScheme, 2);
    const Array bias = makeArray("normal", TE_RT_BF16, p.n, 3);
    const Array c = makeArray("normal", outType, p.m * p.n, 4);
    Array result(outType, p.m * p.n);
    device().run(TE_PLAN(scaled_matmul, p.m, p.n, p.k, aType, aScheme, bType,
                         bScheme, outType, fast, 1, 1, 0, 0, 0, 0),
                 {in(a.stored.data), in(a.stored.scale), none(),
                  in(b.stored.data), in(b.stored.scale), none(),
                  p.bias ? in(bias.bytes) : none(),
                  p.accumulate ? in(c.bytes) : none(), out(result.bytes)});
    return compare(p, a.values, b.values, bias, c, result,
                   sumError(p.k + 5, true, fast), aScheme != TE_RT_PER_TENSOR);
  }
};

constexpr Problem kProblems[] = {
    {16, 16, 16, false, false},   {8, 24, 144, true, false},
    {128, 128, 128, false, true}, {136, 264, 400, true, true},
    {1, 8, 2048, false, false},   {304, 72, 32, true, false},
};

TEST_P(Gemm, Matmul) {
  double worst = 0;
  for (const Problem &p : kProblems)
    for (bool transA : {false, true})
      for (bool transB : {false, true})
        for (const auto &[type, outType] : {std::pair{TE_RT_F32, TE_RT_F32},
                                            {TE_RT_BF16, TE_RT_BF16},
                                            {TE_RT_BF16, TE_RT_F32},
                                            {TE_RT_F16, TE_RT_F16}}) {
          Problem problem = p;
          problem.bias &= type == outType;
          worst = std::max(worst,
                           runMatmul(problem, transA, transB, type, outType));
        }
  std::printf("matmul: largest error is %.3f of the bound\n", worst);
}

TEST_P(Gemm, MatmulTimesAlpha) {
  double worst = 0;
  for (const Problem &p : kProblems)
    for (bool transB : {false, true})
      for (const auto &[type, outType] : {std::pair{TE_RT_BF16, TE_RT_BF16},
                                          {TE_RT_BF16, TE_RT_F32},
                                          {TE_RT_F32, TE_RT_F32}})
        for (float alpha : {0.3f, -17.0f}) {
          Problem problem = p;
          problem.bias &= type == outType;
          worst = std::max(
              worst, runMatmul(problem, false, transB, type, outType, {alpha}));
        }
  std::printf("matmul times alpha: largest error is %.3f of the bound\n",
              worst);
}

// alpha multiplies the f32 sum, but neither bias nor c.
TEST_P(Gemm, AlphaMultipliesTheSum) {
  const int64_t m = 24, n = 40, k = 80;
  Array a(TE_RT_BF16, m * k), b(TE_RT_BF16, n * k), c(TE_RT_F32, m * n);
  for (size_t i = 0; i < a.size(); ++i)
    a.set(i, static_cast<double>(i * 5 % 7) - 3);
  for (size_t i = 0; i < b.size(); ++i)
    b.set(i, static_cast<double>(i * 3 % 5) - 2);
  for (size_t i = 0; i < c.size(); ++i)
    c.set(i, static_cast<double>(i % 11));
  auto product = [&](float alpha, bool accumulate) {
    const std::vector<float> factor = {alpha};
    std::vector<float> actual(m * n);
    device().run(TE_PLAN(matmul, m, n, k, 0, 0, TE_RT_BF16, TE_RT_F32),
                 {in(a.bytes), in(b.bytes), in(factor), none(),
                  accumulate ? in(c.bytes) : none(), out(actual)});
    return actual;
  };
  const std::vector<float> rounded = product(0.3f, false);
  // With a power of two, every operation is exact.
  const std::vector<float> exact = product(0.25f, true);
  const std::vector<float> nothing = product(0.0f, true);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a.at(i * k + l) * b.at(j * k + l);
      const int64_t at = i * n + j;
      ASSERT_EQ(roundTo(TE_RT_F32, sum * double{0.3f}), rounded[at]);
      ASSERT_EQ(sum * 0.25 + c.at(at), exact[at]);
      ASSERT_EQ(c.at(at), nothing[at]);
    }
}

// The result may overwrite c, as the compiler permits.
TEST_P(Gemm, OutMayBeC) {
  const int64_t m = 24, n = 40, k = 272;
  std::mt19937 random(5);
  std::vector<float> c(m * n);
  std::vector<uint8_t> a(m * k), b(n * k);
  for (float &value : c)
    value = static_cast<float>(random() % 1000) / 8;
  // Finite codes of FP8, and of either byte of a bf16.
  for (auto *codes : {&a, &b})
    for (uint8_t &code : *codes)
      code = static_cast<uint8_t>(0x20 + random() % 0x20);
  auto compare = [&](const PlanFunction &plan, std::vector<Buffer> buffers) {
    std::vector<float> apart(m * n), inPlace(m * n);
    const int added = static_cast<int>(buffers.size());
    buffers.push_back(in(c));
    buffers.push_back(out(apart));
    device().run(plan, buffers);
    buffers.back() = outOn(added, inPlace);
    device().run(plan, buffers);
    EXPECT_EQ(apart, inPlace);
    EXPECT_NE(apart, c);
  };
  compare(TE_PLAN(matmul, m, n, k / 2, 0, 0, TE_RT_BF16, TE_RT_F32),
          {in(a), in(b), none(), none()});
  for (auto [aScheme, bScheme] : {std::pair{TE_RT_PER_TENSOR, TE_RT_PER_TENSOR},
                                  {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128}}) {
    std::vector<float> aScale(3 * 24, 0.5f), bScale(4, 0.25f);
    if (aScheme == TE_RT_PER_TENSOR)
      aScale.resize(1), bScale.resize(1);
    compare(TE_PLAN(scaled_matmul, m, n, k, TE_RT_F8E4M3FN, aScheme,
                    TE_RT_F8E4M3FN, bScheme, TE_RT_F32, 0, 1, 1, 0, 0, 0, 0),
            {in(a), in(aScale), none(), in(b), in(bScale), none(), none()});
  }
}

TEST_P(Gemm, ScaledPerTensor) {
  double worst = 0;
  for (const Problem &p : kProblems)
    for (const auto &[aType, bType] :
         {std::pair{TE_RT_F8E4M3FN, TE_RT_F8E4M3FN},
          {TE_RT_F8E5M2, TE_RT_F8E4M3FN},
          {TE_RT_F8E4M3FN, TE_RT_F8E5M2}})
      for (int32_t outType : {TE_RT_BF16, TE_RT_F32})
        for (bool fast : {false, true})
          worst = std::max(worst, runScaled(p, aType, TE_RT_PER_TENSOR, bType,
                                            TE_RT_PER_TENSOR, outType, fast));
  std::printf("per_tensor: largest error is %.3f of the bound\n", worst);
}

// An operand of axis 0 has the storage of the other one with its axes
// exchanged.
TEST_P(Gemm, ScaledPerTensorOfAnyAxis) {
  if (GetParam() != "reference")
    GTEST_SKIP() << "sm_90 has no such product, and a library may add in "
                    "another order for another layout";
  for (const auto [m, n, k] :
       {std::array<int64_t, 3>{48, 32, 80}, {16, 272, 16}, {144, 16, 400}}) {
    const Operand a = makeOperand(m, k, TE_RT_F8E5M2, TE_RT_PER_TENSOR, 1);
    const Operand b = makeOperand(n, k, TE_RT_F8E4M3FN, TE_RT_PER_TENSOR, 2);
    auto run = [&](int aAxis, int bAxis) {
      auto stored = [&](const Operand &operand, int64_t outer, int axis) {
        std::vector<uint8_t> bytes = operand.stored.data;
        for (int64_t o = 0; axis == 0 && o < outer; ++o)
          for (int64_t i = 0; i < k; ++i)
            bytes[i * outer + o] = operand.stored.data[o * k + i];
        return bytes;
      };
      const auto aData = stored(a, m, aAxis), bData = stored(b, n, bAxis);
      Array result(TE_RT_BF16, m * n);
      device().run(TE_PLAN(scaled_matmul, m, n, k, TE_RT_F8E5M2,
                           TE_RT_PER_TENSOR, TE_RT_F8E4M3FN, TE_RT_PER_TENSOR,
                           TE_RT_BF16, 0, aAxis, bAxis, 0, 0, 0, 0),
                   {in(aData), in(a.stored.scale), none(), in(bData),
                    in(b.stored.scale), none(), none(), none(),
                    out(result.bytes)});
      return result;
    };
    const Array expected = run(1, 1);
    for (auto [aAxis, bAxis] : {std::pair{0, 1}, {1, 0}, {0, 0}})
      EXPECT_TRUE(sameBits(expected, run(aAxis, bAxis)))
          << aAxis << " " << bAxis;
  }
}

TEST_P(Gemm, ScaledBlocks) {
  double worst = 0;
  for (const auto &[aScheme, bScheme] :
       {std::pair{TE_RT_BLOCK_1X128, TE_RT_BLOCK_1X128},
        {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128},
        {TE_RT_BLOCK_128X128, TE_RT_BLOCK_1X128}})
    for (const Problem &p : kProblems) {
      if (p.m % 8 != 0)
        continue;
      for (const auto &[aType, bType] :
           {std::pair{TE_RT_F8E4M3FN, TE_RT_F8E4M3FN},
            {TE_RT_F8E5M2, TE_RT_F8E4M3FN}})
        for (int32_t outType : {TE_RT_BF16, TE_RT_F32})
          worst = std::max(worst, runScaled(p, aType, aScheme, bType, bScheme,
                                            outType, false));
    }
  std::printf("block scales: largest error is %.3f of the bound\n", worst);
}

// All products and sums are exact, so a wrong index, scale or slice gives a
// wrong integer.
TEST_P(Gemm, ExactIntegers) { checkExactIntegers(24, 40, 272); }

// Long sums and many tiles: stages wrap around, a block of the grid computes
// several tiles, and both edges are partial.
TEST_P(Gemm, ExactIntegersOverManyTiles) {
  checkExactIntegers(264, 152, 2064);
  checkExactIntegers(2568, 4120, 400);
}

void Gemm::checkExactIntegers(int64_t m, int64_t n, int64_t k) {
  for (const auto &[aScheme, bScheme] :
       {std::pair{TE_RT_PER_TENSOR, TE_RT_PER_TENSOR},
        {TE_RT_BLOCK_1X128, TE_RT_BLOCK_1X128},
        {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128},
        {TE_RT_BLOCK_128X128, TE_RT_BLOCK_1X128}}) {
    auto operand = [&](int64_t outer, int32_t scheme, int seed) {
      Quantised q;
      for (int64_t i = 0; i < outer * k; ++i)
        q.data.push_back(
            encodeFp8(TE_RT_F8E4M3FN, static_cast<double>((i * seed) % 3) - 1));
      q.scale.resize(scaleCount(scheme, outer, k));
      for (size_t i = 0; i < q.scale.size(); ++i)
        q.scale[i] = static_cast<float>(1 << (i * seed) % 4);
      return q;
    };
    const Quantised a = operand(m, aScheme, 7), b = operand(n, bScheme, 11);
    std::vector<float> actual(m * n);
    device().run(TE_PLAN(scaled_matmul, m, n, k, TE_RT_F8E4M3FN, aScheme,
                         TE_RT_F8E4M3FN, bScheme, TE_RT_F32, 0, 1, 1, 0, 0, 0,
                         0),
                 {in(a.data), in(a.scale), none(), in(b.data), in(b.scale),
                  none(), none(), none(), out(actual)});
    // Every element of a small result, and a sample of a large one.
    const int64_t step = std::max<int64_t>(1, m * n * k / (1 << 22) | 1);
    for (int64_t element = 0; element < m * n; element += step) {
      const int64_t i = element / n, j = element % n;
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += decode(TE_RT_F8E4M3FN, a.data[i * k + l]) *
               a.scale[scaleIndex(aScheme, m, k, i, l)] *
               decode(TE_RT_F8E4M3FN, b.data[j * k + l]) *
               b.scale[scaleIndex(bScheme, n, k, j, l)];
      ASSERT_EQ(sum, actual[element])
          << i << ", " << j << " of " << m << "x" << n << "x" << k
          << ", schemes " << aScheme << " " << bScheme;
    }
  }
}

// On sm_90 a GEMM of this size is a kernel of this project, and its panels of
// 256 rows are cuBLASLt's: both add with the same bits. Bias and c are then
// added in f32, before the only rounding.
TEST_P(Gemm, LargeTensorProductsHaveTheBitsOfTheLibrary) {
  if (isReference())
    GTEST_SKIP() << "'reference' has one implementation for all sizes";
  const Problem p = {2040, 2040, 4112, false, false};
  const int64_t elements = p.m * p.n, panel = 256;
  for (const auto &[aType, bType] : {std::pair{TE_RT_F8E4M3FN, TE_RT_F8E4M3FN},
                                     {TE_RT_F8E5M2, TE_RT_F8E4M3FN},
                                     {TE_RT_F8E4M3FN, TE_RT_F8E5M2}}) {
    const Quantised a =
        makeOperand(p.m, p.k, aType, TE_RT_PER_TENSOR, 1).stored;
    const Quantised b =
        makeOperand(p.n, p.k, bType, TE_RT_PER_TENSOR, 2).stored;
    const auto multiply = [&](int64_t first, int64_t rows, const Array *bias,
                              const Array *c, int32_t outType) {
      Array result(outType, rows * p.n);
      const std::vector<uint8_t> data(a.data.begin() + first * p.k,
                                      a.data.begin() + (first + rows) * p.k);
      device().run(TE_PLAN(scaled_matmul, rows, p.n, p.k, aType,
                           TE_RT_PER_TENSOR, bType, TE_RT_PER_TENSOR, outType,
                           0, 1, 1, 0, 0, 0, 0),
                   {in(data), in(a.scale), none(), in(b.data), in(b.scale),
                    none(), bias ? in(bias->bytes) : none(),
                    c ? in(c->bytes) : none(), out(result.bytes)});
      return result;
    };
    const Array whole = multiply(0, p.m, nullptr, nullptr, TE_RT_F32);
    for (int64_t first = 0; first < p.m; first += panel) {
      const int64_t rows = std::min(panel, p.m - first);
      const Array part = multiply(first, rows, nullptr, nullptr, TE_RT_F32);
      ASSERT_EQ(0, std::memcmp(part.bytes.data(),
                               whole.bytes.data() + first * p.n * 4,
                               part.bytes.size()))
          << "rows from " << first;
    }
    const Array bias = makeArray("normal", TE_RT_BF16, p.n, 3);
    for (int32_t outType : {TE_RT_BF16, TE_RT_F32}) {
      const Array c = makeArray("normal", outType, elements, 4);
      const Array plain = multiply(0, p.m, nullptr, nullptr, outType),
                  added = multiply(0, p.m, &bias, &c, outType);
      for (int64_t i = 0; i < elements; i += 61) {
        const auto sum = static_cast<float>(whole.at(i));
        const float biased = sum + static_cast<float>(bias.at(i % p.n));
        const float total = biased + static_cast<float>(c.at(i));
        ASSERT_EQ(plain.at(i), roundTo(outType, sum)) << i;
        ASSERT_EQ(added.at(i), roundTo(outType, total)) << i;
      }
    }
  }
}

// The reference backend has the bits of a simple loop over k, which this is.
// Other backends only meet the bound.
TEST_P(Gemm, ReferenceOrder) {
  if (!isReference())
    GTEST_SKIP() << "only the reference backend fixes the order";
  const int64_t m = 37, n = 45, k = 333;
  const Array a = makeArray("wide", TE_RT_F32, m * k, 1);
  const Array b = makeArray("wide", TE_RT_F32, n * k, 2);
  std::vector<float> actual(m * n);
  device().run(TE_PLAN(matmul, m, n, k, 0, 0, TE_RT_F32, TE_RT_F32),
               {in(a.bytes), in(b.bytes), none(), none(), none(), out(actual)});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        const float product = static_cast<float>(a.at(i * k + l)) *
                              static_cast<float>(b.at(j * k + l));
        sum = sum + product;
      }
      ASSERT_EQ(sum, actual[i * n + j]) << i << ", " << j;
    }
}

// numerics: acc = fma(rn(P * first), second, acc) over slices of 128.
TEST_P(Gemm, ReferenceBlockOrder) {
  if (!isReference())
    GTEST_SKIP() << "only the reference backend fixes the order";
  const Problem p = {24, 136, 400, false, false};
  for (const auto &[aScheme, bScheme] :
       {std::pair{TE_RT_BLOCK_1X128, TE_RT_BLOCK_1X128},
        {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128},
        {TE_RT_BLOCK_128X128, TE_RT_BLOCK_1X128}}) {
    const Quantised a =
        makeOperand(p.m, p.k, TE_RT_F8E4M3FN, aScheme, 1).stored;
    const Quantised b =
        makeOperand(p.n, p.k, TE_RT_F8E4M3FN, bScheme, 2).stored;
    std::vector<float> actual(p.m * p.n);
    device().run(TE_PLAN(scaled_matmul, p.m, p.n, p.k, TE_RT_F8E4M3FN, aScheme,
                         TE_RT_F8E4M3FN, bScheme, TE_RT_F32, 0, 1, 1, 0, 0, 0,
                         0),
                 {in(a.data), in(a.scale), none(), in(b.data), in(b.scale),
                  none(), none(), none(), out(actual)});
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        float acc = 0;
        for (int64_t k0 = 0; k0 < p.k; k0 += 128) {
          float partial = 0;
          for (int64_t l = k0; l < std::min(p.k, k0 + 128); ++l)
            partial +=
                static_cast<float>(decode(TE_RT_F8E4M3FN, a.data[i * p.k + l]) *
                                   decode(TE_RT_F8E4M3FN, b.data[j * p.k + l]));
          const float sa = a.scale[scaleIndex(aScheme, p.m, p.k, i, k0)];
          const float sb = b.scale[scaleIndex(bScheme, p.n, p.k, j, k0)];
          const bool square = aScheme == TE_RT_BLOCK_128X128;
          const float scaled = partial * (square ? sb : sa);
          acc = std::fmaf(scaled, square ? sa : sb, acc);
        }
        ASSERT_EQ(acc, actual[i * p.n + j]) << i << ", " << j;
      }
  }
}

TE_FOR_EACH_BACKEND(Gemm);

} // namespace
