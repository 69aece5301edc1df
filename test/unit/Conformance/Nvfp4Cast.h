//===- Nvfp4Cast.h - 4-bit quantisation of both usages --------------------===//

#ifndef TE_CONFORMANCE_NVFP4CAST_H
#define TE_CONFORMANCE_NVFP4CAST_H

#include "Conformance/Harness.h"
#include "Conformance/NvOracle.h"

#include <algorithm>
#include <cmath>

namespace te::conformance {

/// With an amax of 2688 the tensor's factor is 1, and a block with an amax of 6
/// has the scale 1, so codes are those of the elements themselves.
inline constexpr float kUnitAmax = 2688;

inline std::vector<float> amaxOf(const Array &x, int64_t rows, int64_t cols,
                                 bool perRow) {
  std::vector<float> amax(perRow ? rows : 1, 0.0f);
  for (int64_t i = 0; i < rows * cols; ++i) {
    float &entry = amax[perRow ? i / cols : 0];
    if (std::fabs(x.at(i)) > entry)
      entry = static_cast<float>(std::fabs(x.at(i)));
  }
  return amax;
}

struct BothUsages {
  BothUsages(int64_t rows, int64_t cols, size_t amaxes = 1)
      : rowAmax(amaxes), colAmax(1) {
    row.data.resize(rows * cols / 2);
    col.data.resize(rows * cols / 2);
    row.scale.resize(nvScaleCount(rows, cols));
    col.scale.resize(nvScaleCount(cols, rows));
  }
  NvQuantised row, col;
  std::vector<float> rowAmax, colAmax;
};

class Nvfp4Cast : public BackendTest {
protected:
  static PlanFunction plan(int32_t type, int64_t rows, int64_t cols,
                           const NvOptions &o) {
    return TE_PLAN(quantize_nvfp4, 1, rows, cols, rows, cols, type, o.scheme,
                   o.rowScaled, o.scaleMax, o.fourOverSix, o.stochastic,
                   o.stream);
  }
  /// Both usages, or only the row usage of a row-scaled value.
  BothUsages quantise(const Array &x, int64_t rows, int64_t cols,
                      const std::vector<float> &amax, const NvOptions &o) {
    BothUsages result(rows, cols, amax.size());
    const std::vector<int32_t> rng{o.seed, o.offset};
    std::vector<Buffer> buffers = {in(x.bytes),
                                   in(amax),
                                   o.stochastic ? in(rng) : none(),
                                   out(result.row.data),
                                   out(result.row.scale),
                                   out(result.rowAmax),
                                   out(result.col.data),
                                   out(result.col.scale),
                                   out(result.colAmax)};
    if (o.rowScaled)
      std::fill(buffers.begin() + 6, buffers.end(), none());
    device().run(plan(x.type, rows, cols, o), buffers);
    return result;
  }

  void expectEqual(const NvQuantised &expected, const NvQuantised &actual,
                   const std::string &what) {
    ASSERT_EQ(expected.scale.size(), actual.scale.size());
    for (size_t i = 0; i < expected.scale.size(); ++i)
      ASSERT_EQ(int(expected.scale[i]), int(actual.scale[i]))
          << what << ", scale at " << i;
    ASSERT_EQ(expected.data.size(), actual.data.size());
    for (size_t i = 0; i < expected.data.size() * 2; ++i)
      ASSERT_EQ(nibbleOf(expected.data, i), nibbleOf(actual.data, i))
          << what << ", code at " << i;
  }

  void check(const Array &x, int64_t rows, int64_t cols, const NvOptions &o,
             const std::string &what, bool alone) {
    const std::vector<float> amax = amaxOf(x, rows, cols, o.rowScaled);
    const BothUsages both = quantise(x, rows, cols, amax, o);
    expectEqual(quantiseNv(x, rows, cols, 1, amax, o), both.row, what + " row");
    ASSERT_EQ(amax, both.rowAmax) << what;
    if (o.rowScaled)
      return;
    expectEqual(quantiseNv(x, rows, cols, 0, amax, o), both.col, what + " col");
    ASSERT_EQ(amax, both.colAmax) << what;
    if (!alone)
      return;
    BothUsages one(rows, cols);
    const std::vector<int32_t> rng{o.seed, o.offset};
    device().run(plan(x.type, rows, cols, o),
                 {in(x.bytes), in(amax), in(rng), out(one.row.data),
                  out(one.row.scale), none(), none(), none(), none()});
    device().run(plan(x.type, rows, cols, o),
                 {in(x.bytes), in(amax), in(rng), none(), none(), none(),
                  out(one.col.data), out(one.col.scale), none()});
    expectEqual(both.row, one.row, what + " row alone");
    expectEqual(both.col, one.col, what + " col alone");
  }
};

} // namespace te::conformance

#endif // TE_CONFORMANCE_NVFP4CAST_H
