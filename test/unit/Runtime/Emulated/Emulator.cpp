//===- Emulator.cpp - runs the blocks of an emulated kernel ---------------===//

#include "Runtime/Emulated/Emulator.h"
#include "Runtime/Cuda/FakeCuda.h"
#include "Runtime/Emulated/Fiber.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

/// The dynamic shared memory of all kernels, by the name that they give it.
namespace te::rt::cuda {
alignas(16) thread_local uint8_t dynamicShared[227 * 1024];
} // namespace te::rt::cuda

namespace te::emulated {

Index thread, block, blockSize, gridSize;

namespace {

struct Function {
  const void *function = nullptr;
  Call call = nullptr;
};
std::map<std::string, Function> &functions() {
  static std::map<std::string, Function> all;
  return all;
}

void runThread();

/// A thread of a block. It serves all blocks and launches.
struct Thread {
  Fiber fiber{runThread};
  /// The intrinsic that it waits in; null if it can run.
  const char *waitsIn = nullptr;
  bool ended = false;
  /// The copies that it started and that are not made yet, with their group,
  /// and the number of groups that it committed.
  struct Copy {
    void *to;
    const void *from;
    size_t group;
  };
  std::vector<Copy> copies;
  size_t groups = 0;
};

/// Threads that wait for each other: those of the block, or of a mask of a
/// warp.
struct Meeting {
  unsigned arrived = 0;
  const char *name = nullptr;
  std::vector<Thread *> waiting;
  /// Those of the round before may still be read while lanes arrive.
  uint64_t values[2][32] = {};
  int round = 0;
};
struct Warp {
  Meeting all;
  std::map<uint32_t, Meeting> parts;
};

/// The block that runs. There is only one at a time.
struct {
  std::string name;
  Function kernel;
  void **arguments;
  std::vector<std::unique_ptr<Thread>> threads; // at least those of the block
  std::vector<Warp> warps;
  Meeting all;
  Thread *current = nullptr;
} running;

void runThread() {
  running.kernel.call(running.kernel.function, running.arguments);
  running.current->ended = true;
}

/// Waits until `threads` threads have come.
void meet(Meeting &meeting, const char *name, unsigned threads) {
  if (meeting.arrived == 0)
    meeting.name = name;
  else if (std::strcmp(name, meeting.name) != 0)
    fail(std::string("calls ") + name + ", but another one of its warp calls " +
         meeting.name);
  if (++meeting.arrived < threads) {
    running.current->waitsIn = name;
    meeting.waiting.push_back(running.current);
    return running.current->fiber.suspend();
  }
  for (Thread *thread : meeting.waiting)
    thread->waitsIn = nullptr;
  meeting.waiting.clear();
  meeting.arrived = 0;
  ++meeting.round;
}

/// What the threads of a block do of which none can go on.
std::string describeWaiting() {
  std::map<std::string, unsigned> counts;
  for (unsigned i = 0; i < blockSize.x; ++i) {
    const Thread &thread = *running.threads[i];
    ++counts[thread.ended ? "ended" : std::string("wait in ") + thread.waitsIn];
  }
  std::string text;
  for (const auto &[state, count] : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + state;
  return text;
}

/// Runs the threads of a block, in this order or in reverse.
void runBlock(bool reversed) {
  const unsigned count = blockSize.x;
  for (unsigned i = 0; i < count; ++i) {
    Thread &each = *running.threads[i];
    each.ended = false;
    each.copies.clear();
    each.groups = 0;
  }
  for (unsigned left = count; left != 0;) {
    bool any = false;
    for (unsigned i = 0; i < count; ++i) {
      thread.x = reversed ? count - 1 - i : i;
      running.current = running.threads[thread.x].get();
      if (running.current->ended || running.current->waitsIn)
        continue;
      any = true;
      running.current->fiber.resume();
      left -= running.current->ended;
    }
    if (!any)
      fail("waits forever. Of the threads of its block, " + describeWaiting());
  }
}

} // namespace

Registration::Registration(const char *name, const void *function, Call call) {
  functions()[name] = {function, call};
}

void waitForBlock() { meet(running.all, "__syncthreads", blockSize.x); }

const uint64_t *exchange(const char *name, uint32_t mask, uint64_t value) {
  if ((mask >> lane() & 1) == 0)
    fail("is not in the mask of its own call");
  Warp &warp = running.warps[thread.x / 32];
  Meeting &meeting = mask == ~0u ? warp.all : warp.parts[mask];
  uint64_t (&values)[32] = meeting.values[meeting.round % 2];
  values[lane()] = value;
  meet(meeting, name, static_cast<unsigned>(std::popcount(mask)));
  return values;
}

void startCopy(void *to, const void *from) {
  running.current->copies.push_back({to, from, running.current->groups});
}

void commitCopies() { ++running.current->groups; }

void waitForCopies(size_t pending) {
  std::erase_if(running.current->copies, [&](const Thread::Copy &copy) {
    if (copy.group + pending >= running.current->groups)
      return false;
    static constexpr char zeros[16] = {};
    std::memcpy(copy.to, copy.from ? copy.from : zeros, sizeof(zeros));
    return true;
  });
}

void fail(const std::string &message) {
  std::fprintf(stderr,
               "emulated kernel '%s': thread %u of block %u, %u, %u %s\n",
               running.name.c_str(), thread.x, block.x, block.y, block.z,
               message.c_str());
  std::abort();
}

} // namespace te::emulated

bool te::fake::runKernel(const std::string &name, const Dimensions &grid,
                         unsigned block, unsigned sharedBytes,
                         void **arguments) {
  using namespace te::emulated;
  const auto found = functions().find(name);
  if (found == functions().end()) {
    std::fprintf(stderr, "the kernel '%s' is not emulated\n", name.c_str());
    return false;
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  constexpr int kPoison = 0xcd;
  std::memset(rt::cuda::dynamicShared, kPoison, sharedBytes);
  running.name = name;
  running.kernel = found->second;
  running.arguments = arguments;
  while (running.threads.size() < block)
    running.threads.push_back(std::make_unique<Thread>());
  running.warps.resize(block / 32);
  gridSize = {grid.x, grid.y, grid.z};
  blockSize = {block, 1, 1};
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t i = 0; i < blocks; ++i) {
    emulated::block = {static_cast<unsigned>(i % grid.x),
                       static_cast<unsigned>(i / grid.x % grid.y),
                       static_cast<unsigned>(i / grid.x / grid.y)};
    runBlock(i % 2 != 0);
  }
  return true;
}
