//===- MicroscaleTest.cpp - mx and nv values read back, turned, swizzled --===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>
#include <limits>

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_BF16, TE_RT_F32, TE_RT_F16};
constexpr int32_t kMxSchemes[] = {TE_RT_MX_1X32, TE_RT_MX_32X32};
constexpr int32_t kNvSchemes[] = {TE_RT_NV_1X16, TE_RT_NV_16X16};

class Microscale : public BackendTest {};

std::vector<uint8_t> someBytes(size_t count, uint32_t seed) {
  std::vector<uint8_t> bytes(count);
  for (uint32_t &state = seed; uint8_t &byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

/// An nv value whose codes and scales are functions of the logical element.
template <typename Code, typename Scale>
Microscaled storeNv(int32_t scheme, int axis, int64_t rows, int64_t cols,
                    Code code, Scale scale) {
  Microscaled result;
  result.data.assign(rows * cols / 2, 0);
  result.scale.assign(microscaleCount(scheme, axis, rows, cols), 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t i = axis == 1 ? r * cols + c : c * rows + r;
      result.data[i / 2] |=
          static_cast<uint8_t>(code(r, c) << (i % 2 == 0 ? 0 : 4));
      result.scale[microscaleIndex(scheme, axis, rows, cols, r, c)] =
          static_cast<uint8_t>(scale(r, c));
    }
  return result;
}

// Every code of the data with every code of the scale.
TEST_P(Microscale, DequantiseMx) {
  const int64_t size = 256;
  for (int32_t scheme : kMxSchemes)
    for (int axis : {0, 1})
      for (int32_t fp8Type : {TE_RT_F8E4M3FN, TE_RT_F8E5M2})
        for (int32_t outType : kTypes) {
          Microscaled q;
          q.data.resize(size * size);
          q.scale.resize(microscaleCount(scheme, axis, size, size));
          Array expected(outType, size * size), actual(outType, size * size),
              odd(outType, size * size);
          for (int64_t r = 0; r < size; ++r)
            for (int64_t c = 0; c < size; ++c) {
              const int64_t outer = axis == 1 ? r : c;
              const int64_t inner = axis == 1 ? c : r;
              q.data[r * size + c] = static_cast<uint8_t>(inner);
              q.scale[microscaleIndex(scheme, axis, size, size, r, c)] =
                  static_cast<uint8_t>(outer);
              expected.set(r * size + c,
                           static_cast<float>(decode(fp8Type, inner) *
                                              e8m0Value(outer)));
            }
          const auto plan = TE_PLAN(dequantize, 1, size, size, fp8Type, scheme,
                                    axis, 0, 0, outType);
          device().run(plan,
                       {in(q.data), in(q.scale), none(), out(actual.bytes)});
          ASSERT_TRUE(sameBits(expected, actual))
              << "scheme " << scheme << " axis " << axis;
          device().run(plan, {unaligned(in(q.data)), unaligned(in(q.scale)),
                              none(), unaligned(out(odd.bytes), 4)});
          ASSERT_TRUE(sameBits(expected, odd)) << "unaligned";
        }
}

// A value that is quantised and dequantised is within half a step of its block,
// and exact if it is representable.
TEST_P(Microscale, DequantiseInvertsQuantise) {
  const int64_t rows = 96, cols = 160;
  // Multiples of 1/8 up to 3.75 with both signs, multiplied by a power of two
  // for each block of 32x32, are representable in E4M3 with any exponent that
  // covers them.
  std::vector<double> values(rows * cols);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t r = i / cols, c = i % cols;
    const int power = static_cast<int>(r / 32 * 7 + c / 32 * 5) - 20;
    values[i] = std::ldexp(static_cast<int>(i * 37 % 31) - 15, power);
  }
  const Array x(TE_RT_BF16, values);
  for (int32_t scheme : kMxSchemes) {
    Microscaled usages[2];
    for (int axis : {0, 1}) {
      usages[axis].data.resize(rows * cols);
      usages[axis].scale.resize(microscaleCount(scheme, axis, rows, cols));
    }
    device().run(TE_PLAN(quantize_mx, 1, rows, cols, rows, cols, TE_RT_BF16,
                         TE_RT_F8E4M3FN, scheme),
                 {in(x.bytes), out(usages[1].data), out(usages[1].scale),
                  out(usages[0].data), out(usages[0].scale)});
    for (int axis : {0, 1}) {
      Array back(TE_RT_BF16, rows * cols);
      device().run(TE_PLAN(dequantize, 1, rows, cols, TE_RT_F8E4M3FN, scheme,
                           axis, 0, 0, TE_RT_BF16),
                   {in(usages[axis].data), in(usages[axis].scale), none(),
                    out(back.bytes)});
      ASSERT_TRUE(sameBits(x, back)) << "scheme " << scheme << " axis " << axis;
    }
  }
}

// Every code with every scale, including NaN, and with amaxes that overflow,
// underflow, or are NaN.
TEST_P(Microscale, DequantiseNv) {
  const float inf = std::numeric_limits<float>::infinity();
  const int64_t rows = 256, cols = 256;
  for (int32_t scheme : kNvSchemes)
    for (int axis : {0, 1})
      for (int32_t scaleMax : {448, 256})
        for (float amax : {-1.0f, 0.0f, 1.0f, 2688.0f, 0.37f, 1e-38f, 1e-44f,
                           3e38f, inf, std::nanf("")}) {
          auto code = [](int64_t r, int64_t c) { return (r + c / 16) % 16; };
          // A function of the outer index, so that each block has one.
          auto scale = [&](int64_t r, int64_t c) { return axis ? r : c; };
          const Microscaled q = storeNv(scheme, axis, rows, cols, code, scale);
          const bool hasAmax = amax != -1.0f;
          const auto factor = static_cast<float>(1.0 / (6.0 * scaleMax));
          const int32_t outType = kTypes[(scaleMax / 64 + axis) % 3];
          Array expected(outType, rows * cols), actual(outType, rows * cols),
              odd(outType, rows * cols);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < cols; ++c) {
              const double s = decode(TE_RT_F8E4M3FN, scale(r, c));
              auto f = static_cast<float>(s);
              if (hasAmax) {
                f = static_cast<float>(s * amax);
                f = static_cast<float>(static_cast<double>(f) * factor);
              }
              expected.set(r * cols + c,
                           static_cast<float>(e2m1Value(code(r, c)) * f));
            }
          const std::vector<float> amaxes{amax};
          const auto plan = TE_PLAN(dequantize, 1, rows, cols, TE_RT_F4E2M1FN,
                                    scheme, axis, 0, scaleMax, outType);
          device().run(plan,
                       {in(q.data), in(q.scale), hasAmax ? in(amaxes) : none(),
                        out(actual.bytes)});
          ASSERT_TRUE(sameBits(expected, actual))
              << "scheme " << scheme << " axis " << axis << " amax " << amax
              << " of " << scaleMax;
          device().run(plan, {unaligned(in(q.data)), unaligned(in(q.scale)),
                              hasAmax ? in(amaxes) : none(),
                              unaligned(out(odd.bytes), 4)});
          ASSERT_TRUE(sameBits(expected, odd)) << "unaligned";
        }
}

// Odd numbers of blocks, and one amax for each row.
TEST_P(Microscale, DequantiseNvShapes) {
  for (int64_t rows : {16, 48, 144, 272})
    for (int64_t cols : {16, 80, 128, 208})
      for (int axis : {0, 1})
        for (bool rowScaled : {false, true}) {
          if (rowScaled && axis == 0)
            continue;
          auto code = [](int64_t r, int64_t c) {
            return (r * 5 + c * 11 + r * c) % 16;
          };
          auto scale = [&](int64_t r, int64_t c) {
            return axis ? 0x20 + (r * 3 + c / 16) % 64
                        : 0x20 + (c * 3 + r / 16) % 64;
          };
          const Microscaled q =
              storeNv(TE_RT_NV_1X16, axis, rows, cols, code, scale);
          std::vector<float> amax(rowScaled ? rows : 1);
          for (size_t i = 0; i < amax.size(); ++i)
            amax[i] = 0.7f + 0.3f * static_cast<float>(i);
          const auto factor = static_cast<float>(1.0 / 2688.0);
          Array expected(TE_RT_F32, rows * cols), actual = expected;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < cols; ++c) {
              auto f = static_cast<float>(decode(TE_RT_F8E4M3FN, scale(r, c)) *
                                          amax[rowScaled ? r : 0]);
              f = static_cast<float>(static_cast<double>(f) * factor);
              expected.set(r * cols + c,
                           static_cast<float>(e2m1Value(code(r, c)) * f));
            }
          device().run(TE_PLAN(dequantize, 1, rows, cols, TE_RT_F4E2M1FN,
                               TE_RT_NV_1X16, axis, rowScaled, 448, TE_RT_F32),
                       {in(q.data), in(q.scale), in(amax), out(actual.bytes)});
          ASSERT_TRUE(sameBits(expected, actual))
              << rows << "x" << cols << " axis " << axis;
        }
}

// Compares bytes with the inverse of the formula: the index of the scale at
// each byte in the tensor core's order.
TEST_P(Microscale, Swizzle) {
  for (int32_t scheme :
       {TE_RT_MX_1X32, TE_RT_MX_32X32, TE_RT_NV_1X16, TE_RT_NV_16X16})
    for (int axis : {0, 1})
      for (int64_t rows : {32, 96, 128, 160, 512})
        for (int64_t cols : {32, 96, 128, 160, 512}) {
          const bool mx = scheme == TE_RT_MX_1X32 || scheme == TE_RT_MX_32X32;
          const int64_t inner = axis == 1 ? cols : rows;
          const int64_t blocks = (inner / (mx ? 32 : 16) + 3) / 4 * 4;
          const int64_t size = microscaleCount(scheme, axis, rows, cols);
          const int64_t outer = size / blocks;
          const std::vector<uint8_t> scale =
              someBytes(size, static_cast<uint32_t>(rows * 512 + cols));
          std::vector<uint8_t> expected(size), actual(size), odd(size);
          for (int64_t at = 0; at < size; ++at) {
            const int64_t tile = at / 512, within = at % 512;
            const int64_t i =
                tile / (blocks / 4) * 128 + within / 4 % 4 * 32 + within / 16;
            const int64_t j = tile % (blocks / 4) * 4 + within % 4;
            expected[at] =
                scale[mx && axis == 0 ? j * outer + i : i * blocks + j];
          }
          const auto plan = TE_PLAN(swizzle_scales, rows, cols, scheme, axis);
          device().run(plan, {in(scale), out(actual)});
          ASSERT_EQ(expected, actual) << rows << "x" << cols << " scheme "
                                      << scheme << " axis " << axis;
          device().run(plan, {unaligned(in(scale)), unaligned(out(odd))});
          ASSERT_EQ(expected, odd);
        }
}

// The compiler relies on this when it replaces one with the other.
TEST_P(Microscale, TransposeMxEqualsQuantisingForTheOtherAxis) {
  for (int64_t rows : {32, 96, 128, 288})
    for (int64_t cols : {32, 160, 256}) {
      const Array x = makeArray("wide", TE_RT_BF16, rows * cols, rows);
      const int32_t scheme = TE_RT_MX_32X32;
      Microscaled row, col, turned, odd;
      for (Microscaled *each : {&row, &col, &turned, &odd})
        each->data.resize(rows * cols);
      row.scale.resize(microscaleCount(scheme, 1, rows, cols));
      for (Microscaled *each : {&col, &turned, &odd})
        each->scale.resize(microscaleCount(scheme, 0, rows, cols));
      device().run(TE_PLAN(quantize_mx, 1, rows, cols, rows, cols, TE_RT_BF16,
                           TE_RT_F8E4M3FN, scheme),
                   {in(x.bytes), out(row.data), out(row.scale), out(col.data),
                    out(col.scale)});
      const auto plan = TE_PLAN(transpose_scaled, 1, rows, cols, scheme);
      device().run(plan, {in(row.data), in(row.scale), none(), out(turned.data),
                          out(turned.scale), none()});
      ASSERT_EQ(col.data, turned.data) << rows << "x" << cols;
      ASSERT_EQ(col.scale, turned.scale) << rows << "x" << cols;
      device().run(plan, {unaligned(in(row.data)), unaligned(in(row.scale)),
                          none(), unaligned(out(odd.data)),
                          unaligned(out(odd.scale)), none()});
      ASSERT_EQ(col.data, odd.data);
      ASSERT_EQ(col.scale, odd.scale);
    }
}

// Only the permutation, for arbitrary bytes and both forms.
TEST_P(Microscale, TransposeNv) {
  for (int64_t rows : {16, 48, 128, 144, 272})
    for (int64_t cols : {16, 80, 128, 256}) {
      const std::vector<uint8_t> random =
          someBytes(rows * cols, static_cast<uint32_t>(rows + cols));
      auto code = [&](int64_t r, int64_t c) {
        return random[r * cols + c] >> 4;
      };
      auto scale = [&](int64_t r, int64_t c) {
        return random[r / 16 * cols + c / 16];
      };
      const int32_t scheme = TE_RT_NV_16X16;
      const Microscaled row = storeNv(scheme, 1, rows, cols, code, scale);
      const Microscaled col = storeNv(scheme, 0, rows, cols, code, scale);
      Microscaled turned = col, odd = col;
      const std::vector<float> amax{17.25f};
      std::vector<float> outAmax(1);
      const auto plan = TE_PLAN(transpose_scaled, 1, rows, cols, scheme);
      device().run(plan, {in(row.data), in(row.scale), in(amax),
                          out(turned.data), out(turned.scale), out(outAmax)});
      ASSERT_EQ(col.data, turned.data) << rows << "x" << cols;
      ASSERT_EQ(col.scale, turned.scale) << rows << "x" << cols;
      ASSERT_EQ(outAmax, amax);
      device().run(plan, {unaligned(in(row.data)), unaligned(in(row.scale)),
                          none(), unaligned(out(odd.data)),
                          unaligned(out(odd.scale)), none()});
      ASSERT_EQ(col.data, odd.data);
      ASSERT_EQ(col.scale, odd.scale);
    }
}

TEST_P(Microscale, TransposeNvEqualsQuantisingForTheOtherAxis) {
  const int32_t scheme = TE_RT_NV_16X16;
  for (int64_t rows : {16, 80, 128, 288})
    for (int64_t cols : {32, 144, 256}) {
      const Array x = makeArray("wide", TE_RT_BF16, rows * cols, rows);
      std::vector<float> amax(1), rowAmax(1), colAmax(1), turnedAmax(1);
      Microscaled row, col, turned;
      for (Microscaled *each : {&row, &col, &turned})
        each->data.resize(rows * cols / 2);
      row.scale.resize(microscaleCount(scheme, 1, rows, cols));
      col.scale.resize(microscaleCount(scheme, 0, rows, cols));
      turned.scale = col.scale;
      device().run(TE_PLAN(amax, rows * cols, TE_RT_BF16, TE_RT_BF16),
                   {in(x.bytes), out(amax)});
      device().run(TE_PLAN(quantize_nvfp4, 1, rows, cols, rows, cols,
                           TE_RT_BF16, scheme, 0, 448, 0, 0, 0),
                   {in(x.bytes), in(amax), none(), out(row.data),
                    out(row.scale), out(rowAmax), out(col.data), out(col.scale),
                    out(colAmax)});
      device().run(TE_PLAN(transpose_scaled, 1, rows, cols, scheme),
                   {in(row.data), in(row.scale), in(rowAmax), out(turned.data),
                    out(turned.scale), out(turnedAmax)});
      ASSERT_EQ(col.data, turned.data) << rows << "x" << cols;
      ASSERT_EQ(col.scale, turned.scale) << rows << "x" << cols;
      ASSERT_EQ(colAmax, turnedAmax);
    }
}

TEST_P(Microscale, EmptyValues) {
  std::vector<uint8_t> nothing;
  const std::vector<float> amax{3.5f};
  std::vector<float> outAmax(1);
  device().run(TE_PLAN(transpose_scaled, 1, 0, 64, TE_RT_NV_16X16),
               {in(nothing), in(nothing), in(amax), out(nothing), out(nothing),
                out(outAmax)});
  EXPECT_EQ(outAmax, amax);
  outAmax[0] = 0.0f;
  device().run(TE_PLAN(transpose_scaled, 1, 64, 0, TE_RT_NV_16X16),
               {in(nothing), in(nothing), in(amax), out(nothing), out(nothing),
                out(outAmax)});
  EXPECT_EQ(outAmax, amax);
  device().run(
      TE_PLAN(transpose_scaled, 1, 64, 0, TE_RT_MX_32X32),
      {in(nothing), in(nothing), none(), out(nothing), out(nothing), none()});
  for (int axis : {0, 1}) {
    device().run(TE_PLAN(swizzle_scales, 0, 64, TE_RT_MX_1X32, axis),
                 {in(nothing), out(nothing)});
    device().run(TE_PLAN(dequantize, 1, 0, 64, TE_RT_F4E2M1FN, TE_RT_NV_1X16,
                         axis, 0, 448, TE_RT_BF16),
                 {in(nothing), in(nothing), in(amax), out(nothing)});
  }
}

TE_FOR_EACH_BACKEND(Microscale);

} // namespace
