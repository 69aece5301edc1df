//===- route.cuh - the row of every entry ---------------------------------===//
//
// This is a stable counting sort in two kernels. A block has a part of the
// entries, and each of its warps a segment of that. The first kernel counts the
// entries of each group in each part. The second adds up those of the parts
// before its own and of the segments before the warp's, and walks over its
// segment to place the entries in order. Within 32 entries, a lane finds the
// other lanes with its group. Only integers are added, so that any order of
// execution gives the same rows.
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

/// Calls visit(entry, group, peers) for the entries of a warp's segment, 32 at
/// a time and in order. Every lane calls it. `peers` are the lanes with the
/// same group.
template <typename Visit>
__device__ __forceinline__ void walkSegment(const MoeRouteArgs &args,
                                            uint32_t block, Visit visit) {
  constexpr int kLoads = kRouteBatch / 32; // in flight
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t begin = (block * int64_t{args.warps} + warp) * args.segment;
  const int64_t end = min(begin + args.segment, args.entries);
  for (int64_t first = begin; first < end; first += kRouteBatch) {
    uint32_t group[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
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
    for (int i = 0; i < kLoads; ++i)
      visit(first + i * 32 + lane, group[i], __match_any_sync(~0u, group[i]));
  }
}

__device__ __forceinline__ bool isFirstOf(uint32_t peers) {
  return (peers & ((1u << threadIdx.x % 32) - 1)) == 0;
}

/// Counts the entries of each group in the segments of a block, to
/// [warps, groups], and those of tokens that are not used, to `unused`.
__device__ __forceinline__ void countSegments(const MoeRouteArgs &args,
                                              uint32_t block, uint32_t *counts,
                                              uint32_t &unused) {
  const auto groups = static_cast<uint32_t>(args.groups);
  uint32_t *own = counts + threadIdx.x / 32 * groups;
  for (uint32_t i = threadIdx.x; i < args.warps * groups; i += blockDim.x)
    counts[i] = 0;
  if (threadIdx.x == 0)
    unused = 0;
  __syncthreads();
  walkSegment(args, block, [&](int64_t, uint32_t group, uint32_t peers) {
    if (group < groups && isFirstOf(peers))
      own[group] += __popc(peers);
    if (group == kUnused && isFirstOf(peers))
      atomicAdd(&unused, __popc(peers));
    __syncwarp();
  });
  __syncthreads();
}

/// The first kernel. It also marks all rows as padding. `shared` has
/// routeSharedBytes bytes, here and below.
__device__ __forceinline__ void countEntries(const MoeRouteArgs &args,
                                             uint32_t block, uint32_t *shared) {
  const auto groups = static_cast<uint32_t>(args.groups);
  uint32_t &unused = *shared, *counts = shared + 1;
  const int64_t threads = int64_t{args.blocks} * blockDim.x;
  for (int64_t row = int64_t{block} * blockDim.x + threadIdx.x; row < args.rows;
       row += threads)
    args.entryOf[row] = -1;
  countSegments(args, block, counts, unused);
  uint32_t *out = args.counts + block * (groups + 1);
  for (uint32_t g = threadIdx.x; g <= groups; g += blockDim.x) {
    uint32_t count = g == groups ? unused : 0;
    for (uint32_t w = 0; g < groups && w < args.warps; ++w)
      count += counts[w * groups + g];
    out[g] = count;
  }
}

/// The second kernel.
__device__ __forceinline__ void placeEntries(const MoeRouteArgs &args,
                                             uint32_t block, uint32_t *shared) {
  const auto groups = static_cast<uint32_t>(args.groups);
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t &unused = *shared, *starts = shared + 1, *counts = starts + groups;
  auto *sizes = reinterpret_cast<int32_t *>(counts + args.warps * groups);
  uint32_t *own = counts + warp * groups;
  countSegments(args, block, counts, unused);

  // The counts of a segment become the place of its next entry in the group.
  const int64_t most = args.capacity == 0 ? args.rows : args.capacity;
  for (uint32_t g = threadIdx.x; g <= groups; g += blockDim.x) {
    uint32_t before = 0, total = 0;
#pragma unroll 8
    for (uint32_t b = 0; b < args.blocks; ++b) {
      const uint32_t count = args.counts[b * (groups + 1) + g];
      before += b < block ? count : 0;
      total += count;
    }
    if (g == groups) {
      unused = total;
      continue;
    }
    for (uint32_t w = 0; w < args.warps; ++w) {
      const uint32_t count = counts[w * groups + g];
      counts[w * groups + g] = before;
      before += count;
    }
    sizes[g] = static_cast<int32_t>(min(int64_t{total}, most));
  }
  __syncthreads();

  // The extent of a group depends on its start, and so on the groups before it.
  if (warp == 0) {
    uint32_t taken = 0;
    GroupScan scan({static_cast<uint32_t>(args.rows), groups,
                    static_cast<uint32_t>(args.alignment)},
                   sizes);
    while (!args.padded && scan.advance())
      if (scan.group < groups) {
        starts[scan.group] = scan.begin;
        sizes[scan.group] = static_cast<int32_t>(scan.end - scan.begin);
        taken += scan.end - scan.begin;
      }
    for (uint32_t g = lane; args.padded && g < groups; g += 32) {
      starts[g] = g * static_cast<uint32_t>(args.capacity);
      taken += static_cast<uint32_t>(sizes[g]);
    }
    const uint32_t below =
        scanLanes(taken, [](uint32_t a, uint32_t b) { return a + b; });
    if (block == 0 && lane == 31)
      *args.dropped =
          static_cast<int32_t>(args.entries - unused - (below + taken));
  }
  __syncthreads();
  for (uint32_t g = threadIdx.x; block == 0 && g < groups; g += blockDim.x)
    args.sizes[g] =
        args.padded ? static_cast<int32_t>(args.capacity) : sizes[g];

  walkSegment(args, block, [&](int64_t entry, uint32_t group, uint32_t peers) {
    const uint32_t place =
        group < groups ? own[group] + __popc(peers & ((1u << lane) - 1)) : 0;
    const bool hasRow =
        group < groups && place < static_cast<uint32_t>(sizes[group]);
    if (hasRow)
      args.entryOf[starts[group] + place] = static_cast<int32_t>(entry);
    if (entry < args.entries)
      args.rowOf[entry] =
          hasRow ? static_cast<int32_t>(starts[group] + place) : -1;
    __syncwarp();
    if (group < groups && isFirstOf(peers))
      own[group] += __popc(peers);
    __syncwarp();
  });
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_MOE_ROUTE_CUH
