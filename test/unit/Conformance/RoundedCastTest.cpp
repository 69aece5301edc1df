//===- RoundedCastTest.cpp - casts that round f32 to bf16 first -----------===//
//
// Each cast has the bytes of the cast of an array that was rounded before,
// whose own bytes other tests compare with an oracle.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cstring>
#include <functional>

using namespace te::conformance;

namespace {

using Bytes = std::vector<uint8_t>;
using PlanOf = std::function<PlanFunction(int32_t xType)>;

struct Shape {
  int64_t matrices, rows, cols, xRows, xCols;

  size_t all() const { return matrices * rows * cols; }
};
constexpr Shape kShapes[] = {
    {1, 1, 1, 1, 1},         {1, 33, 65, 33, 65},     {1, 128, 256, 128, 256},
    {2, 130, 272, 130, 272}, {1, 304, 264, 304, 264}, {3, 64, 48, 50, 37},
    {1, 272, 256, 256, 200}, {1, 16, 32, 0, 32},      {1, 0, 64, 0, 64}};

class RoundedCast : public BackendTest {
protected:
  /// `inputs` are those after x; outputs of 0 bytes are absent.
  std::vector<Bytes> run(const PlanFunction &plan, const Array &x, int offset,
                         const std::vector<Bytes> &inputs,
                         const std::vector<size_t> &sizes) {
    std::vector<Bytes> outputs;
    for (size_t bytes : sizes)
      outputs.emplace_back(bytes, 0xee);
    std::vector<Buffer> buffers = {unaligned(in(x.bytes), offset)};
    for (const Bytes &input : inputs)
      buffers.push_back(in(input));
    for (Bytes &output : outputs)
      buffers.push_back(output.empty() ? none() : out(output));
    buffers.push_back(none()); // skip
    device().run(plan, buffers);
    return outputs;
  }

  void check(const std::string &name, const Shape &s, const PlanOf &plan,
             const std::vector<Bytes> &inputs,
             const std::vector<size_t> &sizes) {
    for (const char *kind : {"normal", "zeros", "inf", "nan", "negzero",
                             "subnormal", "huge", "wide"}) {
      const auto values =
          makeValues(kind, TE_RT_F32, s.matrices * s.xRows * s.xCols, 7);
      const Array wide(TE_RT_F32, values);
      Array rounded(TE_RT_BF16, values.size());
      for (size_t i = 0; i < values.size(); ++i)
        rounded.set(i, wide.at(i)); // of the f32 number
      const auto expected = run(plan(TE_RT_BF16), rounded, 0, inputs, sizes);
      for (int offset : {0, 4}) {
        const auto found = run(plan(TE_RT_F32), wide, offset, inputs, sizes);
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_EQ(expected[i], found[i])
              << name << ", output " << i << ", " << kind << ", " << s.xRows
              << "x" << s.xCols << " to " << s.rows << "x" << s.cols
              << ", offset " << offset;
      }
    }
  }

  static Bytes scales(int64_t count) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(7.3f + static_cast<float>(i));
    Bytes bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
};

TEST_P(RoundedCast, Tensors) {
  for (const Shape &s : kShapes)
    for (size_t amax : {0, 4})
      for (bool isFromAmax : {false, true}) {
        const size_t each = s.matrices * 4;
        check("quantize_tensor", s,
              [&](int32_t xType) {
                return TE_PLAN(quantize_tensor, s.matrices, s.rows, s.cols,
                               s.xRows, s.xCols, xType, TE_RT_BF16,
                               TE_RT_F8E4M3FN, isFromAmax, 0, 0.0f);
              },
              {scales(s.matrices)},
              {s.all(), each, s.all(), each, s.matrices * amax});
      }
}

TEST_P(RoundedCast, SquareBlocks) {
  for (const Shape &s : kShapes)
    for (bool pow2 : {false, true}) {
      auto count = [&](int64_t outer, int64_t inner) {
        return size_t(s.matrices *
                      scaleCount(TE_RT_BLOCK_128X128, outer, inner)) *
               4;
      };
      check("quantize_block", s,
            [&](int32_t xType) {
              return TE_PLAN(quantize_block, s.matrices, s.rows, s.cols,
                             s.xRows, s.xCols, xType, TE_RT_BF16,
                             TE_RT_F8E4M3FN, TE_RT_BLOCK_128X128, pow2, 0.0f);
            },
            {},
            {s.all(), count(s.rows, s.cols), s.all(), count(s.cols, s.rows)});
    }
}

TEST_P(RoundedCast, OneUsage) {
  const Shape s{1, 130, 272, 130, 272};
  auto plan = [&](int32_t xType) {
    return TE_PLAN(quantize_tensor, 1, s.rows, s.cols, s.xRows, s.xCols, xType,
                   TE_RT_BF16, TE_RT_F8E4M3FN, 0, 0, 0.0f);
  };
  check("row", s, plan, {scales(1)}, {s.all(), 4, 0, 0, 4});
  check("col", s, plan, {scales(1)}, {0, 0, s.all(), 4, 0});
}

TEST_P(RoundedCast, Amaxes) {
  for (int64_t count : {0, 1, 7, 4096, 70001})
    check(
        "amax", {1, 1, count, 1, count},
        [&](int32_t xType) { return TE_PLAN(amax, count, xType, TE_RT_BF16); },
        {}, {4});
}

TEST_P(RoundedCast, SkippedCastsKeepTheirResults) {
  const Array x(TE_RT_F32, std::vector<double>(64 * 64, 3.0));
  const std::vector<float> skip{1.0f}, scale{1.0f};
  std::vector<uint8_t> row(64 * 64);
  std::vector<float> amax(1);
  device().run(TE_PLAN(quantize_tensor, 1, 64, 64, 64, 64, TE_RT_F32,
                       TE_RT_BF16, TE_RT_F8E4M3FN, 0, 0, 0.0f),
               {in(x.bytes), in(scale), out(row), none(), none(), none(),
                out(amax), in(skip)});
  EXPECT_EQ(row, std::vector<uint8_t>(64 * 64, kPoison));
  EXPECT_EQ(amax[0], 0.0f);
  device().run(TE_PLAN(amax, 64 * 64, TE_RT_F32, TE_RT_BF16),
               {in(x.bytes), out(amax), in(skip)});
  EXPECT_EQ(amax[0], 0.0f);
}

// A value between two bf16 numbers, whose cast changes if it is not rounded.
TEST_P(RoundedCast, RoundsTwice) {
  const Array x(TE_RT_F32, {1.0625 + 0x1p-12, 1.0625});
  std::vector<uint8_t> row(2), direct(2);
  const Bytes one = {0, 0, 0x80, 0x3f};
  auto cast = [&](int32_t type, std::vector<uint8_t> &to) {
    device().run(TE_PLAN(quantize_tensor, 1, 1, 2, 1, 2, TE_RT_F32, type,
                         TE_RT_F8E4M3FN, 0, 0, 0.0f),
                 {in(x.bytes), in(one), out(to), none(), none(), none(), none(),
                  none()});
  };
  cast(TE_RT_BF16, row);
  cast(TE_RT_F32, direct);
  EXPECT_EQ(row[0], row[1]);
  EXPECT_NE(direct[0], direct[1]);
}

TE_FOR_EACH_BACKEND(RoundedCast);

} // namespace
