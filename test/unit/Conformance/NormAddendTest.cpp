//===- NormAddendTest.cpp - sums in norms and in their gradients ----------===//
//
// A norm with an addend is compared with one without it. NormTest checks those.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};

class NormAddend : public BackendTest {};

/// The sums of two arrays, rounded to their type.
Array added(const Array &a, const Array &b) {
  Array sum(a.type, a.size());
  for (size_t i = 0; i < a.size(); ++i)
    sum.set(i, static_cast<float>(a.at(i)) + static_cast<float>(b.at(i)));
  return sum;
}

// A norm with an addend has the bits of the norm of the rounded sum, wherever
// the sum is stored, and gives the sum.
TEST_P(NormAddend, IsAddedBeforeTheNorm) {
  for (int32_t type : kTypes)
    for (const char *kind : {"normal", "huge", "inf", "nan", "negzero"})
      for (int64_t cols : {1, 33, 256, 1000, 2048, 4096, 9000, 20001}) {
        const int64_t rows = 5;
        const size_t count = rows * cols;
        const Array x = makeArray(kind, type, count, 1);
        const Array addend = makeArray("normal", type, count, 2);
        const Array gamma = makeArray("normal", type, cols, 3);
        const Array expectedSum = added(x, addend);
        for (bool centred : {false, true}) {
          const PlanFunction plan =
              centred
                  ? PlanFunction(
                        TE_PLAN(layer_norm, rows, cols, type, 1e-5f, 0))
                  : PlanFunction(TE_PLAN(rms_norm, rows, cols, type, 1e-5f, 0));
          // The buffers of a launch on `source`, with those of an addend.
          const auto run = [&](const Array &source, std::vector<Buffer> more,
                               Array &y, Array &mu, Array &rsigma,
                               std::vector<float> &amax) {
            std::vector<Buffer> buffers = {in(source.bytes), in(gamma.bytes)};
            if (centred)
              buffers.push_back(in(gamma.bytes));
            buffers.push_back(out(y.bytes));
            if (centred)
              buffers.push_back(out(mu.bytes));
            buffers.push_back(out(rsigma.bytes));
            buffers.push_back(out(amax));
            buffers.insert(buffers.end(), more.begin(), more.end());
            device().run(plan, buffers);
          };
          Array y(type, count), mu(TE_RT_F32, rows), rsigma(TE_RT_F32, rows);
          std::vector<float> amax(1);
          run(expectedSum, {none(), none()}, y, mu, rsigma, amax);
          const int ofAddend = centred ? 7 : 5;
          for (int shared : {-1, 0, ofAddend}) {
            Array sum(type, count), y2(type, count), mu2(TE_RT_F32, rows),
                rsigma2(TE_RT_F32, rows);
            std::vector<float> amax2(1);
            run(x,
                {in(addend.bytes),
                 shared < 0 ? out(sum.bytes) : outOn(shared, sum.bytes)},
                y2, mu2, rsigma2, amax2);
            ASSERT_TRUE(sameBits(expectedSum, sum))
                << kind << " " << cols << " " << shared;
            ASSERT_TRUE(sameBits(y, y2))
                << kind << " " << cols << " " << shared;
            ASSERT_TRUE(sameBits(mu, mu2)) << kind << " " << cols;
            ASSERT_TRUE(sameBits(rsigma, rsigma2)) << kind << " " << cols;
            ASSERT_EQ(amax, amax2) << kind << " " << cols;
          }
        }
      }
}

// What a norm is added to changes neither the rounding of the norm nor its
// statistics, wherever the sum is stored, and the amax is that of the sum. A
// norm may have an addend, too.
TEST_P(NormAddend, IsAddedToTheNorm) {
  for (int32_t type : kTypes)
    for (const char *kind : {"normal", "huge", "inf", "nan", "negzero"})
      for (int64_t cols : {1, 33, 256, 1000, 2048, 4096, 9000, 20001}) {
        const int64_t rows = 5;
        const size_t count = rows * cols;
        const Array x = makeArray("normal", type, count, 1);
        const Array addend = makeArray("normal", type, count, 2);
        const Array gamma = makeArray("normal", type, cols, 3);
        const Array base = makeArray(kind, type, count, 4);
        for (bool centred : {false, true})
          for (bool adds : {false, true}) {
            const PlanFunction plan =
                centred ? PlanFunction(
                              TE_PLAN(layer_norm, rows, cols, type, 1e-5f, 0))
                        : PlanFunction(
                              TE_PLAN(rms_norm, rows, cols, type, 1e-5f, 0));
            Array sum(type, count);
            const auto run = [&](Buffer y, Array &mu, Array &rsigma,
                                 std::vector<float> &amax, Buffer more) {
              std::vector<Buffer> buffers = {in(x.bytes), in(gamma.bytes)};
              if (centred)
                buffers.push_back(in(gamma.bytes));
              buffers.push_back(y);
              if (centred)
                buffers.push_back(out(mu.bytes));
              buffers.push_back(out(rsigma.bytes));
              buffers.push_back(out(amax));
              buffers.push_back(adds ? in(addend.bytes) : none());
              buffers.push_back(adds ? out(sum.bytes) : none());
              buffers.push_back(more);
              device().run(plan, buffers);
            };
            Array y(type, count), mu(TE_RT_F32, rows), rsigma = mu;
            std::vector<float> amax(1), expectedAmax(1);
            run(out(y.bytes), mu, rsigma, amax, none());
            const Array expected = added(y, base);
            device().run(TE_PLAN(amax, static_cast<int64_t>(count), type, type),
                         {in(expected.bytes), out(expectedAmax)});
            for (bool inPlace : {false, true}) {
              Array y2(type, count), mu2(TE_RT_F32, rows), rsigma2 = mu2;
              std::vector<float> amax2(1);
              run(inPlace ? outOn(centred ? 9 : 7, y2.bytes) : out(y2.bytes),
                  mu2, rsigma2, amax2, in(base.bytes));
              ASSERT_TRUE(sameBits(expected, y2))
                  << kind << " " << cols << " " << inPlace;
              ASSERT_TRUE(sameBits(mu, mu2)) << kind << " " << cols;
              ASSERT_TRUE(sameBits(rsigma, rsigma2)) << kind << " " << cols;
              ASSERT_EQ(expectedAmax, amax2) << kind << " " << cols;
            }
          }
      }
}

// An addend of the gradient is added to the rounded gradient, wherever the sum
// is stored, and the amax is that of the sum. The gradients of the parameters
// do not change, neither with an addend nor with an amax.
TEST_P(NormAddend, IsAddedToTheGradient) {
  for (int32_t type : kTypes)
    for (int64_t cols : {1, 33, 256, 1000, 2048, 3072, 4096, 9000}) {
      const int64_t rows = 37;
      const size_t count = rows * cols;
      const Array dy = makeArray("normal", type, count, 1);
      const Array x = makeArray("normal", type, count, 2);
      const Array gamma = makeArray("normal", type, cols, 4);
      const Array mu = makeArray("normal", TE_RT_F32, rows, 5);
      const Array rsigma = makeArray("normal", TE_RT_F32, rows, 6);
      for (bool centred : {false, true}) {
        const PlanFunction plan =
            centred
                ? PlanFunction(
                      TE_PLAN(layer_norm_backward, rows, cols, type, 0))
                : PlanFunction(TE_PLAN(rms_norm_backward, rows, cols, type, 0));
        const auto run = [&](Buffer dx, Array &dgamma, Array &dbeta,
                             Buffer amax, Buffer more) {
          std::vector<Buffer> buffers = {in(dy.bytes), in(x.bytes),
                                         in(gamma.bytes)};
          if (centred)
            buffers.push_back(in(mu.bytes));
          buffers.push_back(in(rsigma.bytes));
          buffers.push_back(dx);
          buffers.push_back(out(dgamma.bytes));
          if (centred)
            buffers.push_back(out(dbeta.bytes));
          buffers.push_back(amax);
          buffers.push_back(more);
          device().run(plan, buffers);
        };
        // The amax of what is stored, by the kernel that does nothing else.
        const auto amaxOf = [&](const Array &stored) {
          std::vector<float> amax(1);
          device().run(TE_PLAN(amax, static_cast<int64_t>(count), type, type),
                       {in(stored.bytes), out(amax)});
          return amax;
        };
        Array dx(type, count), dgamma(type, cols), dbeta(type, cols);
        run(out(dx.bytes), dgamma, dbeta, none(), none());
        // Most elements are normal in each of these.
        for (const char *kind : {"inf", "nan", "negzero"}) {
          const Array addend = makeArray(kind, type, count, 3);
          const Array expected = added(dx, addend);
          for (bool inPlace : {false, true}) {
            Array total(type, count), dgamma2(type, cols), dbeta2(type, cols);
            std::vector<float> amax(1);
            run(inPlace ? outOn(centred ? 9 : 7, total.bytes)
                        : out(total.bytes),
                dgamma2, dbeta2, out(amax), in(addend.bytes));
            ASSERT_TRUE(sameBits(expected, total))
                << kind << " " << cols << " " << inPlace;
            ASSERT_TRUE(sameBits(dgamma, dgamma2)) << kind << " " << cols;
            ASSERT_TRUE(sameBits(dbeta, dbeta2)) << kind << " " << cols;
            ASSERT_EQ(amaxOf(expected), amax) << kind << " " << cols;
          }
        }
      }
    }
}

TE_FOR_EACH_BACKEND(NormAddend);

} // namespace
