//===- route.cuh - one block computes the row of every entry --------------===//
//
// This is a stable counting sort. Each warp has a segment of the entries. It
// counts
// those of each group, adds up how many of them are in the segments before its
// own, and walks over its segment again to place them in order. Within 32
// entries, a lane finds the other lanes with its group. Only integers are
// added, so that any order of execution gives the same rows.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_MOE_ROUTE_CUH
#define TE_RUNTIME_KERNELS_MOE_ROUTE_CUH

#include "Kernels/Grouped/group_scan.cuh"
#include "Kernels/Moe/moe_args.h"

namespace te::rt::cuda {

/// In place of a group: of entries whose id is that of no expert, and of those
/// of tokens that are not used.
constexpr uint32_t kNowhere = ~0u, kUnused = ~0u - 1;

/// Calls visit(entry, group, peers) for the entries of a segment, 32 at a time
/// and in order. Every lane calls it. `peers` are the lanes with the same
/// group.
template <typename Visit>
__device__ __forceinline__ void walkSegment(const MoeRouteArgs &args,
                                            uint32_t segment, Visit visit) {
  constexpr int kBatch = 8; // loads in flight
  const uint32_t lane = threadIdx.x % 32;
  const int64_t length = (args.entries + args.segments * (32 * kBatch) - 1) /
                         (args.segments * (32 * kBatch)) * (32 * kBatch);
  const int64_t begin = segment * length;
  const int64_t end = min(begin + length, args.entries);
  for (int64_t first = begin; first < end; first += 32 * kBatch) {
    uint32_t group[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int64_t entry = first + i * 32 + lane;
      const int32_t id = entry < end ? args.ids[entry] : -1;
      group[i] =
          id >= 0 && id < args.groups ? static_cast<uint32_t>(id) : kNowhere;
      if (args.used && entry < end &&
          args.used[static_cast<uint32_t>(entry) /
                    static_cast<uint32_t>(args.k)] == 0.0f)
        group[i] = kUnused;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      visit(first + i * 32 + lane, group[i], __match_any_sync(~0u, group[i]));
  }
}

/// `shared` has routeSharedBytes bytes.
__device__ __forceinline__ void route(const MoeRouteArgs &args,
                                      uint32_t *shared) {
  const auto groups = static_cast<uint32_t>(args.groups);
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t &unused = *shared;
  uint32_t *starts = shared + 1, *counts = starts + groups;
  uint32_t *own = counts + warp * groups;
  const bool hasSegment = warp < args.segments;
  auto isFirst = [=](uint32_t peers) {
    return (peers & ((1u << lane) - 1)) == 0;
  };

  for (uint32_t i = threadIdx.x; i < args.segments * groups; i += blockDim.x)
    counts[i] = 0;
  if (threadIdx.x == 0)
    unused = 0;
  __syncthreads();
  if (hasSegment)
    walkSegment(args, warp, [&](int64_t, uint32_t group, uint32_t peers) {
      if (group < groups && isFirst(peers))
        own[group] += __popc(peers);
      if (group == kUnused && isFirst(peers))
        atomicAdd(&unused, __popc(peers));
      __syncwarp();
    });
  __syncthreads();

  const int64_t most = args.capacity == 0 ? args.rows : args.capacity;
  for (uint32_t g = threadIdx.x; g < groups; g += blockDim.x) {
    uint32_t total = 0;
    for (uint32_t s = 0; s < args.segments; ++s) {
      const uint32_t count = counts[s * groups + g];
      counts[s * groups + g] = total;
      total += count;
    }
    args.sizes[g] = static_cast<int32_t>(min(int64_t{total}, most));
  }
  __syncthreads();

  // The extent of a group depends on its start, and so on the groups before it.
  if (warp == 0) {
    uint32_t taken = 0;
    GroupScan scan({static_cast<uint32_t>(args.rows), groups,
                    static_cast<uint32_t>(args.alignment)},
                   args.sizes);
    while (!args.padded && scan.advance())
      if (scan.group < groups) {
        starts[scan.group] = scan.begin;
        args.sizes[scan.group] = static_cast<int32_t>(scan.end - scan.begin);
        taken += scan.end - scan.begin;
      }
    for (uint32_t g = lane; args.padded && g < groups; g += 32) {
      starts[g] = g * static_cast<uint32_t>(args.capacity);
      taken += static_cast<uint32_t>(args.sizes[g]);
      args.sizes[g] = static_cast<int32_t>(args.capacity);
    }
    const uint32_t below =
        scanLanes(taken, [](uint32_t a, uint32_t b) { return a + b; });
    if (lane == 31)
      *args.dropped =
          static_cast<int32_t>(args.entries - unused - (below + taken));
  }
  __syncthreads();

  if (hasSegment)
    walkSegment(args, warp, [&](int64_t entry, uint32_t group, uint32_t peers) {
      const bool isThere = group < groups;
      const uint32_t place =
          isThere ? own[group] + __popc(peers & ((1u << lane) - 1)) : 0;
      if (isThere && place < static_cast<uint32_t>(args.sizes[group])) {
        const uint32_t row = starts[group] + place;
        args.rowOf[entry] = static_cast<int32_t>(row);
        args.entryOf[row] = static_cast<int32_t>(entry);
      }
      __syncwarp();
      if (isThere && isFirst(peers))
        own[group] += __popc(peers);
      __syncwarp();
    });
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_MOE_ROUTE_CUH
