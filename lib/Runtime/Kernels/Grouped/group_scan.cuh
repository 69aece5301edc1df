//===- group_scan.cuh - a warp finds the rows of the groups ---------------===//
//
// The start of a group is the sum of the extents of all groups before it. A
// warp takes 32 groups at a time, one per lane, and adds their extents in five
// steps. Groups that do not fit are cut by the formulas of Core/GroupLayout.h.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GROUPED_GROUP_SCAN_CUH
#define TE_RUNTIME_KERNELS_GROUPED_GROUP_SCAN_CUH

#include "Core/GroupLayout.h"

namespace te::rt::cuda {

/// Combines `value` over the lanes below this one; 0 for the first lane.
template <typename Combine>
__device__ __forceinline__ uint32_t scanLanes(uint32_t value, Combine combine) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t distance = 1; distance < 32; distance *= 2) {
    const uint32_t below = __shfl_up_sync(~0u, value, distance);
    if (lane >= distance)
      value = combine(value, below);
  }
  const uint32_t below = __shfl_up_sync(~0u, value, 1);
  return lane == 0 ? 0 : below;
}

/// The groups in order, 32 at a time. A whole warp makes every call.
class GroupScan {
public:
  __device__ __forceinline__ GroupScan(const GroupShape &shape,
                                       const int32_t *sizes)
      : shape(shape), sizes(sizes), ahead(sizeOf(threadIdx.x % 32)) {}

  /// Moves to the next groups; false when there are none.
  __device__ __forceinline__ bool advance() {
    if (first >= shape.groups)
      return false;
    group = first + threadIdx.x % 32;
    first += 32;
    const int32_t size = ahead;
    ahead = sizeOf(group + 32);
    const uint32_t extent = groupExtent(shape, size);
    const auto add = [this](uint32_t a, uint32_t b) {
      return addExtents(a, b, shape);
    };
    begin = add(start, scanLanes(extent, add));
    end = begin + min(static_cast<uint32_t>(max(size, 0)), shape.rows - begin);
    start = __shfl_sync(~0u, add(begin, extent), 31);
    return true;
  }

  /// Calls visit(group, begin, end), with the same arguments in every lane, for
  /// those of the 32 groups that have rows in [from, to).
  template <typename Visit>
  __device__ __forceinline__ void forOverlaps(uint32_t from, uint32_t to,
                                              Visit visit) const {
    uint32_t hits = __ballot_sync(~0u, begin < end && begin < to && end > from);
    for (; hits != 0; hits &= hits - 1) {
      const int lane = __ffs(hits) - 1;
      visit(__shfl_sync(~0u, group, lane), __shfl_sync(~0u, begin, lane),
            __shfl_sync(~0u, end, lane));
    }
  }

  /// Whether all groups after these start at `row` or after it.
  __device__ __forceinline__ bool reaches(uint32_t row) const {
    return start >= row;
  }

  /// The lane's group, which may be `groups` or more, and its rows.
  uint32_t group = 0, begin = 0, end = 0;

private:
  __device__ __forceinline__ int32_t sizeOf(uint32_t g) const {
    return g < shape.groups ? sizes[g] : 0;
  }

  const GroupShape shape;
  const int32_t *sizes;
  uint32_t first = 0, start = 0;
  int32_t ahead; // the size of the lane's next group
};

/// Calls visit(group, begin, end), with the same arguments in every lane of the
/// warp, for all groups that have rows in [from, to).
template <typename Visit>
__device__ __forceinline__ void forGroupsOf(const GroupShape &shape,
                                            const int32_t *sizes, uint32_t from,
                                            uint32_t to, Visit visit) {
  GroupScan scan(shape, sizes);
  while (scan.advance()) {
    scan.forOverlaps(from, to, visit);
    if (scan.reaches(to))
      return;
  }
}

/// The rows of group `g`, the same in the whole warp.
__device__ __forceinline__ GroupRows groupRowsByWarp(const GroupShape &shape,
                                                     const int32_t *sizes,
                                                     uint32_t g) {
  GroupScan scan(shape, sizes);
  for (uint32_t first = 0; scan.advance() && first + 32 <= g; first += 32)
    ;
  const int lane = static_cast<int>(g % 32);
  const int64_t begin = __shfl_sync(~0u, scan.begin, lane);
  return groupRows(begin, sizes[g], shape.rows, shape.alignment);
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GROUPED_GROUP_SCAN_CUH
