//===- RopeTest.cpp - the rotary embedding, to the bit --------------------===//
//
// Every operation of a rotation is rounded to f32. f64 represents the product
// of two f32 exactly, and a sum of two so precisely that rounding it to f32 is
// correct, so the oracle has the same bits.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <array>
#include <cmath>

using namespace te::conformance;

namespace {

struct Shape {
  int64_t tokens, heads, headDim, sequence, rotaryDim;
};
// Whole heads and parts of them; lengths with and without a multiple of the
// vector width.
constexpr Shape kShapes[] = {{6, 3, 6, 3, 4},       {10, 1, 5, 5, 2},
                             {32, 4, 64, 16, 64},   {24, 5, 128, 12, 64},
                             {40, 2, 72, 20, 24},   {60, 40, 64, 20, 64},
                             {17, 300, 16, 17, 16}, {64, 32, 128, 32, 128}};
constexpr int32_t kTypes[] = {TE_RT_BF16, TE_RT_F32, TE_RT_F16};

float product(double a, double b) { return static_cast<float>(a * b); }

/// Rotates x with tables of the shape's sequence. A position that is no row of
/// them has a NaN in place of its angles.
Array rotated(const Shape &s, const Array &x, const Array &cos,
              const Array &sin, bool interleaved, bool inverse,
              const std::vector<int32_t> &positions = {}) {
  Array y = x;
  const int64_t pairs = s.rotaryDim / 2;
  for (int64_t t = 0; t < s.tokens; ++t)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t first = (t * s.heads + h) * s.headDim;
        const int64_t a = first + (interleaved ? 2 * i : i);
        const int64_t b = interleaved ? a + 1 : a + pairs;
        const int64_t row = positions.empty() ? t % s.sequence : positions[t];
        const int64_t angle = row * pairs + i;
        const bool isRow = row >= 0 && row < s.sequence;
        const double c = isRow ? cos.at(angle) : std::nan("");
        const double sine =
            (inverse ? -1.0 : 1.0) * (isRow ? sin.at(angle) : std::nan(""));
        const double left = product(x.at(a), c), right = product(x.at(b), sine);
        const double up = product(x.at(b), c), across = product(x.at(a), sine);
        y.set(a, static_cast<float>(left - right));
        y.set(b, static_cast<float>(up + across));
      }
  return y;
}

class Rope : public BackendTest {
protected:
  void SetUp() override {
    for (int i = 0; i < 128 * 64; ++i) {
      const double angle = i / 64 * std::pow(1e4, -(i % 64) / 64.0);
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  /// The first values, as the table of a shape.
  static Array table(const Shape &s, const std::vector<double> &values) {
    return Array(TE_RT_F32, {values.begin(),
                             values.begin() + s.sequence * s.rotaryDim / 2});
  }
  static PlanFunction plan(const Shape &s, int32_t type, bool interleaved,
                           bool inverse, bool hasPositions = false) {
    return TE_PLAN(rope, s.tokens, s.heads, s.headDim, s.sequence, s.rotaryDim,
                   type, interleaved, inverse, hasPositions);
  }
  /// The amax of `y`, by the kernel that does nothing else.
  std::vector<float> amaxOf(const Array &y) {
    std::vector<float> amax(1);
    device().run(TE_PLAN(amax, static_cast<int64_t>(y.size()), y.type, y.type),
                 {in(y.bytes), out(amax)});
    return amax;
  }

  std::vector<double> cosines, sines;
};

TEST_P(Rope, RoundsEveryOperation) {
  for (const Shape &s : kShapes)
    for (int32_t type : kTypes)
      for (const char *kind :
           {"normal", "wide", "inf", "nan", "negzero", "subnormal", "huge"}) {
        const bool large = s.tokens * s.heads * s.headDim > 20000;
        if (large && kind != std::string("normal"))
          continue;
        const Array x =
            makeArray(kind, type, s.tokens * s.heads * s.headDim, 1);
        const Array cos = table(s, cosines), sin = table(s, sines);
        for (bool interleaved : {false, true})
          for (bool inverse : {false, true})
            for (int offset : {0, 1}) {
              // The alignment is that of the elements.
              const int by = offset * static_cast<int>(elementBytes(type));
              Array y(type, x.size());
              std::vector<float> amax(1);
              device().run(plan(s, type, interleaved, inverse),
                           {unaligned(in(x.bytes), by), in(cos.bytes),
                            in(sin.bytes), none(), unaligned(out(y.bytes), by),
                            out(amax)});
              ASSERT_TRUE(
                  sameBits(rotated(s, x, cos, sin, interleaved, inverse), y))
                  << kind << " type " << type << " head " << s.headDim << " of "
                  << s.rotaryDim << " interleaved " << interleaved
                  << " inverse " << inverse << " offset " << offset;
              ASSERT_EQ(amaxOf(y), amax) << kind << " type " << type;
            }
      }
}

// The result may use the memory of x.
TEST_P(Rope, WorksInPlace) {
  for (const Shape &s : kShapes)
    for (bool interleaved : {false, true}) {
      const Array x =
          makeArray("normal", TE_RT_BF16, s.tokens * s.heads * s.headDim, 1);
      const Array cos = table(s, cosines), sin = table(s, sines);
      Array y(TE_RT_BF16, x.size());
      std::vector<float> amax(1);
      device().run(plan(s, TE_RT_BF16, interleaved, false),
                   {in(x.bytes), in(cos.bytes), in(sin.bytes), none(),
                    outOn(0, y.bytes), out(amax)});
      ASSERT_TRUE(sameBits(rotated(s, x, cos, sin, interleaved, false), y));
      ASSERT_EQ(amaxOf(y), amax);
    }
}

/// Positions in any order, and more tokens than a multiple of the rows.
std::vector<int32_t> mixedPositions(const Shape &s) {
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < s.tokens; ++t)
    positions.push_back(static_cast<int32_t>((t * 7 + t / 3) % s.sequence));
  return positions;
}

TEST_P(Rope, TakesPositions) {
  for (Shape s : kShapes)
    for (int32_t type : kTypes) {
      s.tokens += 1; // not a multiple of the rows of the tables
      const Array x =
          makeArray("normal", type, s.tokens * s.heads * s.headDim, 1);
      const Array cos = table(s, cosines), sin = table(s, sines);
      const std::vector<int32_t> positions = mixedPositions(s);
      for (bool interleaved : {false, true})
        for (bool inverse : {false, true}) {
          Array y(type, x.size());
          device().run(plan(s, type, interleaved, inverse, true),
                       {in(x.bytes), in(cos.bytes), in(sin.bytes),
                        in(positions), out(y.bytes)});
          ASSERT_TRUE(sameBits(
              rotated(s, x, cos, sin, interleaved, inverse, positions), y));
        }
    }
}

// A group has the results and amaxes of its tensors, with any numbers of heads,
// and in place. One of them may be the one that is not aligned, and any may be
// absent.
TEST_P(Rope, Groups) {
  for (const Shape &s : kShapes)
    for (std::array<int64_t, 2> heads :
         {std::array<int64_t, 2>{s.heads, 1}, {3, 40}, {0, 2}, {5, 0}, {0, 0}})
      for (int32_t type : {TE_RT_BF16, TE_RT_F32})
        for (bool interleaved : {false, true})
          for (bool hasPositions : {false, true})
            for (int offset : {0, 1}) {
              const bool inverse = offset != 0;
              const int by = offset * static_cast<int>(elementBytes(type));
              const Array cos = table(s, cosines), sin = table(s, sines);
              std::vector<int32_t> positions;
              if (hasPositions)
                positions = mixedPositions(s);
              std::vector<Array> x, y;
              std::vector<std::vector<float>> amax(2, std::vector<float>(1));
              for (int i : {0, 1}) {
                x.push_back(makeArray(i == 0 ? "normal" : "wide", type,
                                      s.tokens * s.headDim * heads[i], i));
                y.emplace_back(type, x[i].size());
              }
              auto each = [&](int i, Buffer buffer) {
                return heads[i] == 0 ? none() : buffer;
              };
              device().run(
                  TE_PLAN(rope_group, s.tokens, s.headDim, s.sequence,
                          s.rotaryDim, type, interleaved, inverse, hasPositions,
                          heads[0], heads[1]),
                  {each(0, in(x[0].bytes)),
                   each(1, unaligned(in(x[1].bytes), by)), in(cos.bytes),
                   in(sin.bytes), hasPositions ? in(positions) : none(),
                   each(0, outOn(0, y[0].bytes)), each(1, outOn(1, y[1].bytes)),
                   each(0, out(amax[0])), each(1, out(amax[1]))});
              for (int i : {0, 1}) {
                if (heads[i] == 0)
                  continue;
                Shape own = s;
                own.heads = heads[i];
                ASSERT_TRUE(sameBits(rotated(own, x[i], cos, sin, interleaved,
                                             inverse, positions),
                                     y[i]))
                    << i << " of " << heads[0] << " and " << heads[1];
                ASSERT_EQ(amaxOf(y[i]), amax[i]);
              }
            }
}

TEST_P(Rope, GroupsNeedTheirTensors) {
  const Shape s = kShapes[0];
  const Array x = makeArray("normal", TE_RT_F32, s.tokens * s.headDim, 1);
  const Array cos = table(s, cosines), sin = table(s, sines);
  Array y(TE_RT_F32, x.size());
  EXPECT_EQ(device().tryRun(TE_PLAN(rope_group, s.tokens, s.headDim, s.sequence,
                                    s.rotaryDim, TE_RT_F32, 0, 0, 0, 1, 1),
                            {in(x.bytes), in(x.bytes), in(cos.bytes),
                             in(sin.bytes), none(), out(y.bytes), none()}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(
      std::string(te_rt_last_error())
          .find("expected all buffers of tensor 1, whose number of heads is 1"),
      std::string::npos)
      << te_rt_last_error();
}

// A position that is no row of the tables is an error of the launch, or, where
// nobody waits for it, gives NaN in the rotated part of its own token.
TEST_P(Rope, PositionsOutOfRange) {
  for (const Shape &s : kShapes)
    for (int32_t position :
         {-1, static_cast<int32_t>(s.sequence), INT32_MAX, INT32_MIN})
      for (bool interleaved : {false, true}) {
        const Array x =
            makeArray("normal", TE_RT_BF16, s.tokens * s.heads * s.headDim, 1);
        const Array cos = table(s, cosines), sin = table(s, sines);
        std::vector<int32_t> positions = mixedPositions(s);
        positions[3] = position;
        Array y(TE_RT_BF16, x.size());
        std::vector<float> amax(1);
        const te_rt_status status =
            device().tryRun(plan(s, TE_RT_BF16, interleaved, false, true),
                            {in(x.bytes), in(cos.bytes), in(sin.bytes),
                             in(positions), out(y.bytes), out(amax)});
        if (GetParam() == "reference") {
          EXPECT_EQ(status, TE_RT_INVALID_ARGUMENT);
          EXPECT_NE(std::string(te_rt_last_error())
                        .find("expected 'positions[3]' to be one of the " +
                              std::to_string(s.sequence) +
                              " rows of 'cos', but got " +
                              std::to_string(position)),
                    std::string::npos)
              << te_rt_last_error();
          continue;
        }
        ASSERT_EQ(status, TE_RT_OK) << te_rt_last_error();
        ASSERT_TRUE(sameBits(
            rotated(s, x, cos, sin, interleaved, false, positions), y));
        ASSERT_EQ(amaxOf(y), amax);
      }
}

TE_FOR_EACH_BACKEND(Rope);

} // namespace
