//===- OverlapPlannerTest.cpp - orders in which collectives hide ----------===//

#include "Schedule/OverlapPlanner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>
#include <vector>

using mlir::te::OverlapPlanner;

namespace {

using Launches = std::vector<OverlapPlanner::Launch>;
using Order = std::vector<unsigned>;

Order orderOf(const OverlapPlanner &planner) {
  return {planner.getOrder().begin(), planner.getOrder().end()};
}

/// dx = reduce_scatter(GEMM), dw = GEMM of all_gather, in the order of
/// emission.
Launches columnBackward() {
  return {
      {5, false, 0, {}},      // 0: dy
      {200, false, 0, {0}},   // 1: dgrad
      {100, true, 0, {1}},    // 2: scatter
      {100, true, 0, {}},     // 3: gather
      {200, false, 0, {0, 3}} // 4: wgrad
  };
}

TEST(OverlapPlanner, GatherRunsBesideDgradAndScatterBesideWgrad) {
  const Launches launches = columnBackward();
  OverlapPlanner planner(launches, /*mayReorder=*/true);
  EXPECT_EQ(planner.serialMicroseconds(), 605);
  planner.plan();
  EXPECT_EQ(orderOf(planner), Order({0, 3, 1, 2, 4}));
  // GEMMs run one after the other, plus the costs of contention and waits.
  EXPECT_GT(planner.microseconds(), 405);
  EXPECT_LT(planner.microseconds(), 445);
}

// If collectives may not pass each other, the gather is after the scatter, and
// the GEMM that needs it waits for both.
TEST(OverlapPlanner, CollectivesKeepTheirOrderWhereTheyMust) {
  const Launches launches = columnBackward();
  OverlapPlanner planner(launches, /*mayReorder=*/false);
  planner.plan();
  EXPECT_EQ(orderOf(planner), Order({0, 1, 2, 3, 4}));
  EXPECT_GE(planner.microseconds(), 600);
}

// Data and scales are gathered by two collectives; moving only one of them
// gains nothing.
TEST(OverlapPlanner, RunsOfCollectivesMoveTogether) {
  const Launches launches = {
      {200, false, 0, {}},     // 0: dgrad
      {100, true, 0, {0}},     // 1: scatter
      {100, true, 0, {}},      // 2: gather of data
      {10, false, 0, {2}},     // 3: puts parts in place
      {20, true, 0, {}},       // 4: gather of scales
      {200, false, 0, {3, 4}}, // 5: wgrad
  };
  OverlapPlanner planner(launches, true);
  planner.plan();
  const Order order = orderOf(planner);
  EXPECT_EQ(Order(order.begin(), order.begin() + 3), Order({2, 4, 0}));
  EXPECT_LT(planner.microseconds(), 460);
}

TEST(OverlapPlanner, WaitsAreFilledFromBelow) {
  const Launches launches = {
      {100, true, 0, {}},   // 0: gather of x
      {200, false, 0, {0}}, // 1: product
      {30, false, 0, {}},   // 2: amax of the next weight
      {30, false, 0, {2}},  // 3: its cast
      {200, false, 0, {1, 3}},
  };
  OverlapPlanner planner(launches, true);
  planner.plan();
  EXPECT_EQ(orderOf(planner), Order({0, 2, 3, 1, 4}));
}

// Launches after the first use of a cotangent run in a separate call.
TEST(OverlapPlanner, SegmentsStayApart) {
  const Launches launches = {
      {200, false, 0, {}},  // 0
      {100, true, 1, {}},   // 1: could run beside 0
      {200, false, 1, {1}}, // 2
      {50, false, 2, {}},   // 3: could fill the wait for 1
  };
  OverlapPlanner planner(launches, true);
  planner.plan();
  EXPECT_EQ(orderOf(planner), Order({0, 1, 2, 3}));
}

TEST(OverlapPlanner, NothingToHideBehindIsNoGain) {
  const Launches launches = {
      {50, true, 0, {}},
      {100, false, 0, {0}},
      {50, true, 0, {1}},
      {20, false, 0, {2}},
  };
  OverlapPlanner planner(launches, true);
  planner.plan();
  EXPECT_EQ(orderOf(planner), Order({0, 1, 2, 3}));
  EXPECT_GE(planner.microseconds(), planner.serialMicroseconds());
}

// A launch never moves before a launch that it needs, or out of its segment.
// The plan of a program is always the same, and never slower than the original
// order.
TEST(OverlapPlanner, RandomProgramsKeepTheirMeaning) {
  unsigned moved = 0;
  for (int round = 0; round < 200; ++round) {
    std::mt19937 random(round);
    Launches launches(1 + random() % 120);
    unsigned segment = 0;
    for (unsigned i = 0; i < launches.size(); ++i) {
      OverlapPlanner::Launch &launch = launches[i];
      launch.isCollective = random() % 4 == 0;
      launch.microseconds = 2 + random() % 200;
      launch.segment = segment += random() % 50 == 0;
      for (unsigned n = random() % 3; n != 0 && i != 0; --n)
        launch.needs.push_back(i - 1 - random() % std::min(i, 20u));
      std::sort(launch.needs.begin(), launch.needs.end());
    }
    const bool mayReorder = round % 2;
    OverlapPlanner planner(launches, mayReorder), again(launches, mayReorder);
    const double before = planner.microseconds();
    planner.plan();
    again.plan();
    moved += planner.numMoved();
    const Order order = orderOf(planner);
    EXPECT_EQ(order, orderOf(again));
    EXPECT_LE(planner.microseconds(), before * 1.02);
    std::vector<size_t> places(order.size(), order.size());
    for (size_t place = 0; place < order.size(); ++place)
      places[order[place]] = place;
    Order collectives;
    for (size_t place = 0; place < order.size(); ++place) {
      const OverlapPlanner::Launch &launch = launches[order[place]];
      for (unsigned needed : launch.needs)
        ASSERT_LT(places[needed], place);
      if (place != 0) {
        ASSERT_LE(launches[order[place - 1]].segment, launch.segment);
      }
      if (launch.isCollective)
        collectives.push_back(order[place]);
    }
    if (!mayReorder) {
      EXPECT_TRUE(std::is_sorted(collectives.begin(), collectives.end()));
    }
  }
  EXPECT_GT(moved, 200u);
}

} // namespace
