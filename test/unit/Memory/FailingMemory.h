//===- FailingMemory.h - host memory that runs out when a test says so ----===//
//
// A program that links FailingMemory.cpp has its operators new, and the malloc
// and aligned_alloc of what is linked statically, which fail on request and
// count what is alive.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TEST_UNIT_MEMORY_FAILINGMEMORY_H
#define TE_TEST_UNIT_MEMORY_FAILINGMEMORY_H

#include <cstdint>
#include <functional>

namespace te::memory {

/// Blocks that were allocated and not freed.
int64_t alive();

/// From here on `successes` allocations succeed and the next fails; if it is
/// `lasting`, so do all others.
void failAfter(int64_t successes, bool lasting);
/// As long as one lives, those of its thread succeed and are not counted.
struct Exempt {
  Exempt();
  ~Exempt();
  Exempt(const Exempt &) = delete;
  Exempt &operator=(const Exempt &) = delete;
};
/// All succeed again. Whether one failed since failAfter.
bool recover();

/// What a scenario does when a call ran out of memory.
enum class Reaction {
  Retry,  ///< Memory is there again, and the call has to succeed.
  GiveUp, ///< It is over; everything is destroyed without memory.
};

/// One run of a scenario.
class Attempt {
public:
  explicit Attempt(Reaction reaction) : reaction(reaction) {}

  /// Makes `call`, which returns whether it succeeded and, if it ran out of
  /// memory, says so in `outOfMemory`. False: the scenario ends.
  template <typename Call> bool operator()(Call call) {
    bool outOfMemory = false;
    if (call(outOfMemory))
      return true;
    wrong += !outOfMemory;
    if (reaction == Reaction::GiveUp)
      return false;
    recover();
    const bool works = call(outOfMemory);
    wrong += !works;
    return works;
  }
  void expect(bool holds) { wrong += !holds; }
  int failures() const { return wrong; }

private:
  const Reaction reaction;
  /// Counted, because a test cannot report while there is no memory.
  int wrong = 0;
};

/// Runs `scenario` with memory that runs out at its n-th allocation, for each n
/// up to the last, once and for good. Each is a thread of its own, so that what
/// belongs to a thread counts.
void sweep(const std::function<void(Attempt &)> &scenario);

} // namespace te::memory

#endif // TE_TEST_UNIT_MEMORY_FAILINGMEMORY_H
