//===- NormTest.cpp - norms against their formulas ------------------------===//
//
// u = 2^-24. A lane sum of n values rounds each at most K = n / 256 + 9 times.
// The backward is compared with its formula for the given mu and rsigma.
// GradientTest checks that this is the derivative of the forward.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>
#include <cstring>

using namespace te::conformance;

namespace {

constexpr double kU = 0x1p-24;
constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
constexpr int64_t kCols[] = {1, 8, 64, 120, 128, 255, 256, 257, 1000, 4104};

class LayerNorm : public BackendTest {};

/// Values around a mean, for which a sum of squares without centring would lose
/// precision.
Array offCentre(int32_t type, size_t count, double mean) {
  Array x = makeArray("normal", type, count, 1);
  for (size_t i = 0; i < count; ++i)
    x.set(i, x.at(i) + mean);
  return x;
}

// Statistics of nothing are NaN.
TEST_P(LayerNorm, RowsWithoutColumns) {
  const int64_t rows = 40;
  const std::vector<float> none_;
  std::vector<float> y, mu(rows), rsigma(rows), own(rows);
  device().run(TE_PLAN(layer_norm, rows, 0, TE_RT_F32, 1e-5f, 0),
               {in(none_), in(none_), in(none_), out(y), out(mu), out(rsigma)});
  device().run(TE_PLAN(rms_norm, rows, 0, TE_RT_F32, 1e-5f, 0),
               {in(none_), in(none_), out(y), out(own)});
  for (int64_t r = 0; r < rows; ++r)
    EXPECT_TRUE(std::isnan(mu[r]) && std::isnan(rsigma[r]) &&
                std::isnan(own[r]))
        << r;
}

// An error e of mu shifts every d = x - mu: the sum of d^2 moves by at most
// 2 e sum|d| + n e^2, and rounds K + 3 times; the root halves what that makes
// relatively, then come 4 roundings.
TEST_P(LayerNorm, Values) {
  for (int32_t type : kTypes)
    for (bool zeroCentered : {false, true})
      for (int64_t cols : kCols) {
        const int64_t rows = 11;
        const Array x = offCentre(type, rows * cols, 5);
        const Array gamma = makeArray("normal", type, cols, 2);
        const Array beta = makeArray("normal", type, cols, 3);
        Array y(type, rows * cols), mu(TE_RT_F32, rows),
            rsigma(TE_RT_F32, rows);
        std::vector<float> amax(1), amaxOfStored(1);
        device().run(TE_PLAN(layer_norm, rows, cols, type, 1e-5f, zeroCentered),
                     {in(x.bytes), in(gamma.bytes), in(beta.bytes),
                      out(y.bytes), out(mu.bytes), out(rsigma.bytes),
                      out(amax)});
        device().run(TE_PLAN(amax, rows * cols, type, type),
                     {in(y.bytes), out(amaxOfStored)});
        EXPECT_EQ(amax, amaxOfStored);
        const auto n = static_cast<double>(cols);
        const double k = n / 256 + 9;
        for (int64_t r = 0; r < rows && !HasFatalFailure(); ++r) {
          double sum = 0, size = 0, squares = 0, spread = 0;
          for (int64_t c = 0; c < cols; ++c) {
            sum += x.at(r * cols + c);
            size += std::fabs(x.at(r * cols + c));
          }
          const double mean = sum / n, e = 1.01 * (k + 1) * kU * size / n;
          expectNear(mean, e, mu, r, "mu");
          for (int64_t c = 0; c < cols; ++c) {
            const double d = x.at(r * cols + c) - mean;
            squares += d * d;
            spread += std::fabs(d);
          }
          const double variance = squares / n + static_cast<double>(1e-5f);
          const double moved =
              2 * e * spread / n + e * e + (k + 3) * kU * squares / n;
          const double root = 1 / std::sqrt(variance);
          const double rho = 0.51 * moved / variance + 4 * kU;
          expectNear(root, rho * root, rsigma, r, "rsigma");
          for (int64_t c = 0; c < cols && !HasFatalFailure(); ++c) {
            const double g = gamma.at(c) + zeroCentered, b = beta.at(c);
            const double h = root * (x.at(r * cols + c) - mean);
            expectNear(g * h + b,
                       std::fabs(g * h) * (rho + 6 * kU) +
                           1.01 * std::fabs(g) * root * e +
                           2 * kU * std::fabs(b),
                       y, r * cols + c, "y");
          }
        }
      }
}

TEST_P(LayerNorm, Gradients) {
  for (int32_t type : kTypes)
    for (bool zeroCentered : {false, true})
      for (int64_t cols : kCols) {
        const int64_t rows = cols > 1000 ? 3 : 131;
        const Array x = offCentre(type, rows * cols, 1);
        const Array dy = makeArray("normal", type, rows * cols, 2);
        const Array gamma = makeArray("normal", type, cols, 3);
        Array mu = makeArray("normal", TE_RT_F32, rows, 4);
        Array rsigma = makeArray("normal", TE_RT_F32, rows, 5);
        for (int64_t r = 0; r < rows; ++r)
          rsigma.set(r, std::fabs(rsigma.at(r)) + 0.1);
        Array dx(type, rows * cols), dgamma(type, cols), dbeta(type, cols);
        device().run(
            TE_PLAN(layer_norm_backward, rows, cols, type, zeroCentered),
            {in(dy.bytes), in(x.bytes), in(gamma.bytes), in(mu.bytes),
             in(rsigma.bytes), out(dx.bytes), out(dgamma.bytes),
             out(dbeta.bytes)});
        const auto n = static_cast<double>(cols);
        const double k = n / 256 + 9;
        struct Sum {
          double value = 0, size = 0;
          void add(double v) { value += v, size += std::fabs(v); }
        };
        std::vector<Sum> gammaSums(cols), betaSums(cols);
        for (int64_t r = 0; r < rows && !HasFatalFailure(); ++r) {
          const double root = rsigma.at(r);
          auto h = [&](int64_t c) {
            return root * (x.at(r * cols + c) - mu.at(r));
          };
          auto grad = [&](int64_t c) {
            return (gamma.at(c) + zeroCentered) * dy.at(r * cols + c);
          };
          Sum grads, products;
          for (int64_t c = 0; c < cols; ++c) {
            grads.add(grad(c) / n);
            products.add(grad(c) * h(c) / n);
            gammaSums[c].add(dy.at(r * cols + c) * h(c));
            betaSums[c].add(dy.at(r * cols + c));
          }
          // g dy within 2u, h within 2u, the means within K + 3 and K + 6; the
          // two differences and the product with rsigma round once each.
          for (int64_t c = 0; c < cols && !HasFatalFailure(); ++c)
            expectNear(root * (grad(c) - grads.value - h(c) * products.value),
                       1.01 * kU * root *
                           (6 * std::fabs(grad(c)) + (k + 7) * grads.size +
                            (k + 12) * std::fabs(h(c)) * products.size),
                       dx, r * cols + c, "dx");
        }
        // 32 additions in a strip, five strips, one run; an addend of dgamma
        // has two roundings more.
        for (int64_t c = 0; c < cols && !HasFatalFailure(); ++c) {
          expectNear(gammaSums[c].value, 41 * kU * gammaSums[c].size, dgamma, c,
                     "dgamma");
          expectNear(betaSums[c].value, 39 * kU * betaSums[c].size, dbeta, c,
                     "dbeta");
        }
      }
}

TE_FOR_EACH_BACKEND(LayerNorm);

// The amax of a gradient is that of what is stored, whatever it contains, and
// the gradients have the bits that they have without it. NormAddendTest has
// gradients with an addend.
class NormGradientAmax : public BackendTest {};

TEST_P(NormGradientAmax, IsThatOfTheStoredGradient) {
  for (int32_t type : kTypes)
    for (const char *kind : {"normal", "zeros", "negzero", "inf", "nan",
                             "subnormal", "huge", "wide"})
      for (const auto &[rows, cols] : {std::pair<int64_t, int64_t>{0, 8},
                                       {1, 1},
                                       {33, 257},
                                       {37, 1000},
                                       {5, 4104},
                                       {3, 9001}})
        for (int shift : {0, 1}) {
          // The alignment is that of the elements.
          const int by = shift * static_cast<int>(elementBytes(type));
          const size_t count = rows * cols;
          const Array dy = makeArray(kind, type, count, 1);
          const Array x = makeArray("normal", type, count, 2);
          const Array gamma = makeArray("normal", type, cols, 3);
          const Array mu = makeArray("normal", TE_RT_F32, rows, 4);
          const Array rsigma = makeArray("normal", TE_RT_F32, rows, 5);
          for (bool centred : {false, true}) {
            const auto run = [&](Array &dx, Array &dgamma, Array &dbeta,
                                 Buffer amax) {
              std::vector<Buffer> buffers = {unaligned(in(dy.bytes), by),
                                             in(x.bytes), in(gamma.bytes)};
              if (centred)
                buffers.push_back(in(mu.bytes));
              buffers.push_back(in(rsigma.bytes));
              buffers.push_back(out(dx.bytes));
              buffers.push_back(out(dgamma.bytes));
              if (centred)
                buffers.push_back(out(dbeta.bytes));
              buffers.push_back(amax);
              device().run(centred ? PlanFunction(TE_PLAN(layer_norm_backward,
                                                          rows, cols, type, 0))
                                   : PlanFunction(TE_PLAN(rms_norm_backward,
                                                          rows, cols, type, 0)),
                           buffers);
            };
            Array dx(type, count), dgamma(type, cols), dbeta(type, cols);
            Array dx2 = dx, dgamma2 = dgamma, dbeta2 = dbeta;
            std::vector<float> amax(1), expected(1);
            run(dx, dgamma, dbeta, none());
            run(dx2, dgamma2, dbeta2, out(amax));
            device().run(TE_PLAN(amax, static_cast<int64_t>(count), type, type),
                         {in(dx.bytes), out(expected)});
            const std::string what = std::string(kind) + " " +
                                     std::to_string(rows) + "x" +
                                     std::to_string(cols);
            ASSERT_TRUE(sameBits(dx, dx2)) << what;
            ASSERT_TRUE(sameBits(dgamma, dgamma2)) << what;
            ASSERT_TRUE(sameBits(dbeta, dbeta2)) << what;
            ASSERT_EQ(0, std::memcmp(&expected[0], &amax[0], sizeof(float)))
                << what << ": expected " << expected[0] << ", but got "
                << amax[0];
          }
        }
}

TE_FOR_EACH_BACKEND(NormGradientAmax);

// The order in which rows are added determines the bits of dgamma and dbeta:
// strips of 32 rows, runs of 16 strips, then runs. Addends are f32, so the test
// also adds in f32. The last rows are sufficient for the kernel that assigns
// whole strips to multiprocessors.
class NormParameters : public BackendTest {
protected:
  template <typename Term> static float sumOfStrips(int64_t rows, Term addTo) {
    float total = 0, run = 0, strip = 0;
    for (int64_t r = 0; r < rows; ++r) {
      strip = addTo(strip, r);
      const bool last = r + 1 == rows;
      if ((r + 1) % 32 == 0 || last) {
        run += strip;
        strip = 0;
      }
      if ((r + 1) % 512 == 0 || last) {
        total += run;
        run = 0;
      }
    }
    return total;
  }
};

TEST_P(NormParameters, AreSummedInStrips) {
  constexpr struct {
    int64_t rows, cols;
  } kShapes[] = {{1, 1},    {31, 24},   {33, 257}, {512, 8},
                 {513, 17}, {1061, 40}, {4225, 72}};
  for (const auto &[rows, cols] : kShapes)
    for (int32_t type : kTypes)
      for (bool zeroCentered : {false, true}) {
        const size_t count = rows * cols;
        const Array x = offCentre(type, count, 1);
        const Array dy = makeArray("normal", type, count, 2);
        const Array gamma = makeArray("normal", type, cols, 3);
        const Array mu = makeArray("normal", TE_RT_F32, rows, 4);
        const Array rsigma = makeArray("normal", TE_RT_F32, rows, 5);
        Array dx(type, count), rmsGamma(type, cols), layerGamma(type, cols),
            layerBeta(type, cols);
        device().run(TE_PLAN(rms_norm_backward, rows, cols, type, zeroCentered),
                     {in(dy.bytes), in(x.bytes), in(gamma.bytes),
                      in(rsigma.bytes), out(dx.bytes), out(rmsGamma.bytes)});
        device().run(
            TE_PLAN(layer_norm_backward, rows, cols, type, zeroCentered),
            {in(dy.bytes), in(x.bytes), in(gamma.bytes), in(mu.bytes),
             in(rsigma.bytes), out(dx.bytes), out(layerGamma.bytes),
             out(layerBeta.bytes)});
        Array ofRms(type, cols), ofLayer(type, cols), ofBeta(type, cols);
        for (int64_t c = 0; c < cols; ++c) {
          auto value = [&, column = c, width = cols](const Array &a,
                                                     int64_t r) {
            return static_cast<float>(a.at(r * width + column));
          };
          auto root = [&](int64_t r) {
            return static_cast<float>(rsigma.at(r));
          };
          auto mean = [&](int64_t r) { return static_cast<float>(mu.at(r)); };
          ofRms.set(c, sumOfStrips(rows, [&](float sum, int64_t r) {
                      return std::fma(value(dy, r), root(r) * value(x, r), sum);
                    }));
          ofLayer.set(c, sumOfStrips(rows, [&](float sum, int64_t r) {
                        return std::fma(value(dy, r),
                                        root(r) * (value(x, r) - mean(r)), sum);
                      }));
          ofBeta.set(c, sumOfStrips(rows, [&](float sum, int64_t r) {
                       return sum + value(dy, r);
                     }));
        }
        ASSERT_TRUE(sameBits(ofRms, rmsGamma)) << rows << "x" << cols;
        ASSERT_TRUE(sameBits(ofLayer, layerGamma)) << rows << "x" << cols;
        ASSERT_TRUE(sameBits(ofBeta, layerBeta)) << rows << "x" << cols;
      }
}

TE_FOR_EACH_BACKEND(NormParameters);

} // namespace
