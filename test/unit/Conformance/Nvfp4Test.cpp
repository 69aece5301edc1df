//===- Nvfp4Test.cpp - the small kernels of the nvfp4 recipe --------------===//
//
// Product factors, random states, row amaxes and the Hadamard transform;
// quantisation itself is in Nvfp4CastTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <bit>
#include <cmath>

using namespace te::conformance;

namespace {

class Nvfp4 : public BackendTest {};

// Each step in f64, where it is exact, then rounded.
TEST_P(Nvfp4, AlphaRoundsEveryStep) {
  for (int64_t rows : {0, 1, 300})
    for (int32_t aMax : {448, 256})
      for (int32_t bMax : {448, 256}) {
        const Array a = makeArray("wide", TE_RT_F32, rows, 1);
        const std::vector<float> b{2.71875f};
        std::vector<float> alpha(rows), expected(rows);
        for (int64_t r = 0; r < rows; ++r) {
          const auto product = static_cast<float>(a.at(r) * double(b[0]));
          const auto factor = static_cast<float>(1.0 / (36.0 * aMax * bMax));
          expected[r] = static_cast<float>(double(product) * factor);
        }
        device().run(TE_PLAN(nvfp4_alpha, rows, aMax, bMax),
                     {in(a.bytes), in(b), out(alpha)});
        ASSERT_EQ(expected, alpha);
      }
}

TEST_P(Nvfp4, RngAdvanceWrapsAndMayBeInPlace) {
  const std::vector<std::vector<int32_t>> cases = {
      {7, 0, 1}, {-5, 41, 1000}, {3, -1, 2}, {3, INT32_MAX, INT32_MAX}};
  for (const auto &c : cases) {
    const std::vector<int32_t> state{c[0], c[1]};
    const std::vector<int32_t> expected{
        c[0], std::bit_cast<int32_t>(static_cast<uint32_t>(c[1]) +
                                     static_cast<uint32_t>(c[2]))};
    std::vector<int32_t> apart(2), onTop(2);
    device().run(TE_PLAN(rng_advance, c[2]), {in(state), out(apart)});
    device().run(TE_PLAN(rng_advance, c[2]), {in(state), outOn(0, onTop)});
    EXPECT_EQ(expected, apart);
    EXPECT_EQ(expected, onTop);
  }
}

TE_FOR_EACH_BACKEND(Nvfp4);

} // namespace
