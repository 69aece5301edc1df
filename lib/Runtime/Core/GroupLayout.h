//===- GroupLayout.h - where the rows of each group lie -------------------===//
//
// The group layout of Kernels.td, for host and device. A walk over
// the sizes gives each group's rows; bad sizes are cut to what fits, so nothing
// that follows them leaves the matrix.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_GROUPLAYOUT_H
#define TE_RUNTIME_CORE_GROUPLAYOUT_H

#include "Core/Math.h"

namespace te::rt {

/// Rows [begin, end) of a group; the next one starts at `next`.
struct GroupRows {
  int64_t begin, end, next;
};

/// The group of `size` rows that starts at `begin`. Preconditions: `rows` is a
/// multiple of `alignment`, and `begin` is at most `rows`.
TE_HOST_DEVICE GroupRows groupRows(int64_t begin, int32_t size, int64_t rows,
                                   int64_t alignment) {
  int64_t count = size < 0 ? 0 : size;
  if (count > rows - begin)
    count = rows - begin;
  return {begin, begin + count,
          begin + (count + alignment - 1) / alignment * alignment};
}

/// `size` rounded up to `multiple`; 0 where it is negative.
TE_HOST_DEVICE int32_t roundGroupSize(int32_t size, int64_t multiple) {
  const int64_t count = size < 0 ? 0 : size;
  return static_cast<int32_t>((count + multiple - 1) / multiple * multiple);
}

/// Group `g` of these sizes.
TE_HOST_DEVICE GroupRows groupRowsOf(const int32_t *sizes, int64_t g,
                                     int64_t rows, int64_t alignment) {
  GroupRows group = groupRows(0, sizes[0], rows, alignment);
  for (int64_t i = 1; i <= g; ++i)
    group = groupRows(group.next, sizes[i], rows, alignment);
  return group;
}

/// The group that has `row`, or -1 for padding.
TE_HOST_DEVICE int64_t groupOfRow(const int32_t *sizes, int64_t groups,
                                  int64_t rows, int64_t alignment,
                                  int64_t row) {
  int64_t begin = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const GroupRows group = groupRows(begin, sizes[g], rows, alignment);
    if (row < group.next)
      return row >= group.begin && row < group.end ? g : -1;
    begin = group.next;
  }
  return -1;
}

// Lanes that have a run of groups each place them together: what each run takes
// is summed up over the lanes.

/// Rows are a multiple of the alignment and fewer than 2^31.
struct GroupShape {
  uint32_t rows, groups, alignment;
};

/// The rows that a group of `size` takes, or all there are where it does not
/// fit: groupRows(0, ...).next in 32 bits.
TE_HOST_DEVICE uint32_t groupExtent(const GroupShape &shape, int32_t size) {
  const uint32_t wanted = size < 0 ? 0 : static_cast<uint32_t>(size);
  const uint32_t count = wanted < shape.rows ? wanted : shape.rows;
  return (count + shape.alignment - 1) / shape.alignment * shape.alignment;
}

/// The rows that groups [begin, end) take, or all there are where they do not
/// fit.
TE_HOST_DEVICE uint32_t groupsExtent(const GroupShape &shape,
                                     const int32_t *sizes, uint32_t begin,
                                     uint32_t end) {
  int64_t sum = 0;
  for (uint32_t g = begin; g < end && sum < shape.rows; ++g)
    sum += groupExtent(shape, sizes[g]);
  return static_cast<uint32_t>(sum < shape.rows ? sum : shape.rows);
}

/// How two such numbers add up.
TE_HOST_DEVICE uint32_t addExtents(uint32_t a, uint32_t b,
                                   const GroupShape &shape) {
  return a + b < shape.rows ? a + b : shape.rows;
}

} // namespace te::rt

#endif // TE_RUNTIME_CORE_GROUPLAYOUT_H
