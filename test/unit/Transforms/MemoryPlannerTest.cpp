//===- MemoryPlannerTest.cpp - no two live buffers overlap ----------------===//

#include "Schedule/MemoryPlanner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using mlir::te::MemoryPlanner;

namespace {

constexpr int64_t kAlignment = 256;

struct Interval {
  int64_t bytes;
  unsigned first, last;
};

int64_t aligned(int64_t bytes) {
  return std::max(kAlignment,
                  (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

/// The definition of maxLiveBytes, computed for each event.
int64_t liveBytes(const std::vector<Interval> &intervals, unsigned event) {
  int64_t live = 0;
  for (const Interval &interval : intervals)
    if (interval.first <= event && event <= interval.last)
      live += aligned(interval.bytes);
  return live;
}

void expectSound(const std::vector<Interval> &intervals,
                 const MemoryPlanner &planner) {
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval &a = intervals[i];
    ASSERT_EQ(planner.offset(i) % kAlignment, 0);
    ASSERT_GE(planner.offset(i), 0);
    ASSERT_LE(planner.offset(i) + a.bytes, planner.arenaBytes());
    for (size_t j = 0; j < i; ++j) {
      const Interval &b = intervals[j];
      if (a.last < b.first || b.last < a.first)
        continue;
      ASSERT_TRUE(planner.offset(i) + aligned(a.bytes) <= planner.offset(j) ||
                  planner.offset(j) + aligned(b.bytes) <= planner.offset(i))
          << "buffers " << i << " and " << j;
    }
  }
}

TEST(MemoryPlanner, RandomLifetimesDoNotOverlap) {
  double worst = 1, sum = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    std::mt19937 random(round);
    const unsigned numEvents = 1 + random() % 60;
    std::vector<Interval> intervals;
    MemoryPlanner planner(kAlignment);
    for (unsigned n = 1 + random() % 80; n != 0; --n) {
      unsigned a = random() % numEvents, b = random() % numEvents;
      intervals.push_back(
          {int64_t(random() % 5000), std::min(a, b), std::max(a, b)});
      planner.add(intervals.back().bytes, intervals.back().first,
                  intervals.back().last);
    }
    planner.plan();
    expectSound(intervals, planner);
    int64_t maxLive = 0;
    for (unsigned event = 0; event < numEvents; ++event)
      maxLive = std::max(maxLive, liveBytes(intervals, event));
    ASSERT_EQ(planner.maxLiveBytes(), maxLive);
    ASSERT_EQ(liveBytes(intervals, planner.peakEvent()), maxLive);
    ASSERT_GE(planner.arenaBytes(), maxLive);
    const double ratio = double(planner.arenaBytes()) / maxLive;
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  printf("arena / most alive: mean %.4f, worst %.4f\n", sum / kRounds, worst);
}

/// A forward followed by a backward: the first saved value is the last one that
/// dies. Placing buffers in the order of size needs no more than the minimum.
TEST(MemoryPlanner, NestedLifetimesNeedNoMoreThanIsAlive) {
  MemoryPlanner planner(kAlignment);
  for (unsigned layer = 0; layer < 50; ++layer)
    planner.add(1024 * (1 + layer % 3), layer, 100 - layer);
  planner.plan();
  EXPECT_EQ(planner.arenaBytes(), planner.maxLiveBytes());
}

TEST(MemoryPlanner, ASuccessorTakesOverTheMemory) {
  MemoryPlanner planner(kAlignment);
  unsigned a = planner.add(1000, 0, 2), b = planner.add(1000, 2, 5),
           c = planner.add(1000, 5, 6), other = planner.add(512, 0, 6);
  EXPECT_TRUE(planner.share(a, b));
  EXPECT_TRUE(planner.share(b, c));
  planner.plan();
  EXPECT_EQ(planner.offset(a), planner.offset(b));
  EXPECT_EQ(planner.offset(a), planner.offset(c));
  EXPECT_NE(planner.offset(a), planner.offset(other));
  EXPECT_EQ(planner.arenaBytes(), 1024 + 512);
  EXPECT_EQ(planner.maxLiveBytes(), 1024 + 512);
}

TEST(MemoryPlanner, RefusesSuccessorsThatWouldOverlap) {
  MemoryPlanner planner(kAlignment);
  unsigned a = planner.add(1000, 0, 2), late = planner.add(1000, 3, 4),
           small = planner.add(100, 2, 4), dead = planner.add(1000, 2, 2),
           second = planner.add(1000, 2, 4);
  EXPECT_FALSE(planner.share(a, late)) << "born after the death";
  EXPECT_FALSE(planner.share(a, small)) << "of another size";
  EXPECT_TRUE(planner.share(a, dead));
  EXPECT_FALSE(planner.share(a, second)) << "a second successor";
}

TEST(MemoryPlanner, NothingToPlan) {
  MemoryPlanner planner(kAlignment);
  planner.plan();
  EXPECT_EQ(planner.arenaBytes(), 0);
}

TEST(MemoryPlanner, PlansALargeStep) {
  std::mt19937 random(7);
  MemoryPlanner planner(kAlignment);
  // 20,000 launches, where most buffers are short-lived, and one in ten is a
  // residual.
  constexpr unsigned kEvents = 20000;
  for (unsigned event = 0; event < kEvents / 2; ++event)
    planner.add(256 * (1 + random() % 64), event,
                event % 10 == 0 ? kEvents - event : event + random() % 8);
  planner.plan();
  EXPECT_LE(planner.arenaBytes(), 2 * planner.maxLiveBytes());
  printf("arena / most alive of 10000 buffers: %.4f\n",
         double(planner.arenaBytes()) / planner.maxLiveBytes());
}

/// An order that meets many gaps is given up, except for the one by size: the
/// orders and rounds would visit 232 million ranges together.
TEST(MemoryPlanner, GivesUpOrdersWithManyGaps) {
  std::mt19937 random(7);
  MemoryPlanner planner(kAlignment);
  constexpr unsigned kBuffers = 8000, kEvents = 20000;
  for (unsigned buffer = 0; buffer < kBuffers; ++buffer) {
    const unsigned first = random() % kEvents;
    planner.add(256 * (1 + random() % 64), first,
                std::min(kEvents - 1, unsigned(first + random() % 5000)));
  }
  planner.plan();
  EXPECT_LE(planner.workDone(), 30'000'000u);
  EXPECT_LE(planner.arenaBytes(), 1.2 * planner.maxLiveBytes());
}

} // namespace
