//===- RowSumTest.cpp - sums of rows --------------------------------------===//
//
// To the bit against the lane sum, written here in f32.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <array>

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
/// No rows, no columns; rows in whole runs of 16 bytes and not, of a part of
/// the lanes and of several rounds, and longer than what stays in registers.
constexpr struct {
  int64_t rows, cols;
} kShapes[] = {{0, 8},    {3, 0},    {1, 1},    {5, 7},    {9, 64},
               {3, 255},  {2, 256},  {6, 257},  {4, 1000}, {2, 2048},
               {2, 4096}, {1, 4104}, {2, 5001}, {1, 8200}};

/// `addTo(acc, i)` is the new value of a lane that takes element i.
template <typename AddTo> float laneSum(int64_t count, AddTo addTo) {
  std::array<float, 256> lanes{};
  for (int64_t i = 0; i < count; ++i)
    lanes[i % 256] = addTo(lanes[i % 256], i);
  for (int distance = 128; distance >= 1; distance /= 2)
    for (int i = 0; i < distance; ++i)
      lanes[i] = lanes[i] + lanes[i + distance];
  return lanes[0];
}

using RowSum = BackendTest;

// The sum has the definition's bits. A row without elements sums to 0.
TEST_P(RowSum, IsALaneSum) {
  for (auto [rows, cols] : kShapes)
    for (int32_t type : kTypes)
      for (int32_t outType : {type, +TE_RT_F32})
        for (const char *kind : {"normal", "inf", "nan", "negzero", "huge"}) {
          const Array x = makeArray(kind, type, rows * cols, 1);
          Array expected(outType, rows), y(outType, rows);
          for (int64_t r = 0; r < rows; ++r)
            expected.set(r, laneSum(cols, [&](float acc, int64_t c) {
                           return acc + static_cast<float>(x.at(r * cols + c));
                         }));
          device().run(TE_PLAN(row_sum, rows, cols, type, outType),
                       {in(x.bytes), out(y.bytes)});
          ASSERT_TRUE(sameBits(expected, y))
              << rows << "x" << cols << " " << kind << " type " << type;
        }
}

TE_FOR_EACH_BACKEND(RowSum);

} // namespace
