//===- HostWarp.h - device code of warps as threads of the host -----------===//
//
// Include this file before the header with the device code. Threads of the host
// run one block, and lanes exchange values through an array between barriers.
// This tests a part of a kernel without a GPU, except for its speed and for
// races that do not occur on the host.
//
//===----------------------------------------------------------------------===//

#ifndef TE_UNITTEST_RUNTIME_CORE_HOSTWARP_H
#define TE_UNITTEST_RUNTIME_CORE_HOSTWARP_H

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#define __device__
#define __forceinline__ inline
using std::max;
using std::min;

namespace te::test {

constexpr unsigned kLanes = 32;

struct Warp {
  std::barrier<> lanes{kLanes};
  uint32_t exchanged[kLanes] = {};
};
struct Thread {
  unsigned x = 0;
};
inline Thread blockDim;
inline thread_local Thread threadIdx;
inline thread_local Warp *warpOfThread = nullptr;
inline thread_local std::barrier<> *blockOfThread = nullptr;

/// `value` of every lane; read(values) selects the result.
template <typename Read> uint32_t exchange(uint32_t value, Read read) {
  warpOfThread->exchanged[threadIdx.x % kLanes] = value;
  warpOfThread->lanes.arrive_and_wait();
  const uint32_t result = read(warpOfThread->exchanged);
  warpOfThread->lanes.arrive_and_wait();
  return result;
}

/// Runs body() in every thread of a block with this many warps.
template <typename Body> void runBlock(unsigned warps, Body body) {
  blockDim.x = warps * kLanes;
  std::barrier<> all(blockDim.x);
  std::vector<std::unique_ptr<Warp>> state;
  std::vector<std::thread> threads;
  for (unsigned warp = 0; warp < warps; ++warp)
    state.push_back(std::make_unique<Warp>());
  for (unsigned thread = 0; thread < blockDim.x; ++thread)
    threads.emplace_back([&, thread] {
      threadIdx.x = thread;
      warpOfThread = state[thread / kLanes].get();
      blockOfThread = &all;
      body();
    });
  for (std::thread &thread : threads)
    thread.join();
}

inline uint32_t shfl(unsigned, uint32_t value, int lane) {
  return exchange(value, [=](const uint32_t *all) { return all[lane]; });
}
inline uint32_t shflUp(unsigned, uint32_t value, uint32_t distance) {
  const unsigned lane = threadIdx.x % kLanes;
  return exchange(value, [=](const uint32_t *all) {
    return all[lane < distance ? lane : lane - distance];
  });
}
/// The mask of the lanes whose values satisfy holds().
template <typename Holds> uint32_t lanesWhere(uint32_t value, Holds holds) {
  return exchange(value, [=](const uint32_t *all) {
    uint32_t bits = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      bits |= uint32_t{holds(all[lane])} << lane;
    return bits;
  });
}
inline uint32_t ballot(unsigned, bool value) {
  return lanesWhere(value, [](uint32_t each) { return each != 0; });
}
inline uint32_t matchAny(unsigned, uint32_t value) {
  return lanesWhere(value, [=](uint32_t each) { return each == value; });
}
inline uint32_t atomicAdd(uint32_t *to, uint32_t value) {
  return std::atomic_ref(*to).fetch_add(value);
}

} // namespace te::test

using te::test::blockDim;
using te::test::threadIdx;
#define __shfl_sync te::test::shfl
#define __shfl_up_sync te::test::shflUp
#define __ballot_sync te::test::ballot
#define __match_any_sync te::test::matchAny
#define __popc std::popcount
#define atomicAdd te::test::atomicAdd
#define __ffs(bits) __builtin_ffs(static_cast<int>(bits))
#define __syncwarp() te::test::warpOfThread->lanes.arrive_and_wait()
#define __syncthreads() te::test::blockOfThread->arrive_and_wait()

#endif // TE_UNITTEST_RUNTIME_CORE_HOSTWARP_H
