//===- GroupedLayout.h - rows of several groups ---------------------------===//

#ifndef TE_CONFORMANCE_GROUPEDLAYOUT_H
#define TE_CONFORMANCE_GROUPEDLAYOUT_H

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

namespace te::conformance {

/// Sizes of groups, and the unused rows at the end, in multiples of
/// `alignment`.
struct Layout {
  std::vector<int32_t> sizes;
  int64_t alignment, spare = 1;

  int64_t groups() const { return static_cast<int64_t>(sizes.size()); }
  int64_t padded(int64_t g) const {
    return (sizes[g] + alignment - 1) / alignment * alignment;
  }
  int64_t start(int64_t g) const {
    return g == 0 ? 0 : start(g - 1) + padded(g - 1);
  }
  int64_t rows() const { return start(groups()) + spare * alignment; }
};

inline std::vector<Layout> layouts(int64_t alignment) {
  const auto a = static_cast<int32_t>(alignment);
  return {{{a}, alignment},
          {{a + 5, 0, 3 * a, 7}, alignment, 0},
          {{0, 1, 0, 2 * a - 1, 0}, alignment, 2},
          {{0, 0}, alignment}};
}

/// Rows [begin, begin + count) of x, then zero rows up to `height`.
inline Array rowsOf(const Array &x, int64_t cols, int64_t begin, int64_t count,
                    int64_t height) {
  Array part(x.type, height * cols);
  for (int64_t i = 0; i < count * cols; ++i)
    part.set(i, x.at(begin * cols + i));
  return part;
}

/// Values in group layout, with zeros as padding.
inline Array makeGrouped(const Layout &layout, const char *kind, int32_t type,
                         int64_t cols, uint32_t seed) {
  const auto values = makeValues(kind, type, layout.rows() * cols, seed);
  Array x(type, values.size());
  for (int64_t g = 0; g < layout.groups(); ++g)
    for (int64_t i = layout.start(g) * cols;
         i < (layout.start(g) + layout.sizes[g]) * cols; ++i)
      x.set(i, values[i]);
  return x;
}

/// A quantised value, with an amax for each group if its scheme has them.
struct Scaled {
  std::vector<uint8_t> data, scale;
  std::vector<float> amax;
};

/// The values that are quantised.
inline constexpr const char *kKinds[] = {"normal",  "inf",       "nan",
                                         "negzero", "subnormal", "wide"};

} // namespace te::conformance

#endif // TE_CONFORMANCE_GROUPEDLAYOUT_H
