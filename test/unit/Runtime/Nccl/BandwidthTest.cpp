//===- BandwidthTest.cpp - how fast collectives are on this machine -------===//
//
// Measures, but does not check, the time of a captured collective for several
// sizes, and its bus bandwidth. This is the number of bytes that each link
// transfers (2 (R-1)/R of the array of an all-reduce, and (R-1)/R of one that
// is gathered, scattered or exchanged) divided by the time. Writes a JSON
// object per line to --json=F, and prints a table.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Nccl/Ranks.h"

#include <cstdio>
#include <fstream>

using namespace te::ranks;

namespace {

using Collective = RanksTest;

struct Case {
  const char *name;
  /// Plans it for an array of `bytes` in total: the one that is reduced or
  /// scattered, or the result of a gather.
  void (*plan)(te_rt_instance *instance, int32_t slot, int64_t bytes);
  double linkShare; // of those bytes, times R / (R - 1)
};

constexpr Case kCases[] = {
    {"all_reduce_max",
     [](te_rt_instance *instance, int32_t slot, int64_t bytes) {
       te_rt_plan_all_reduce_max(instance, slot, bytes / 4, 7);
     },
     2},
    {"all_reduce_sum",
     [](te_rt_instance *instance, int32_t slot, int64_t bytes) {
       te_rt_plan_all_reduce_sum(instance, slot, bytes / 2, TE_RT_BF16,
                                 numRanks(), 7);
     },
     2},
    {"all_gather",
     [](te_rt_instance *instance, int32_t slot, int64_t bytes) {
       te_rt_plan_all_gather(instance, slot, bytes / numRanks(), numRanks(), 7);
     },
     1},
    {"reduce_scatter_sum",
     [](te_rt_instance *instance, int32_t slot, int64_t bytes) {
       te_rt_plan_reduce_scatter_sum(instance, slot, bytes / 2 / numRanks(),
                                     TE_RT_BF16, numRanks(), 7);
     },
     1},
    {"all_to_all",
     [](te_rt_instance *instance, int32_t slot, int64_t bytes) {
       te_rt_plan_all_to_all(instance, slot, bytes / numRanks(), 0, numRanks(),
                             7);
     },
     1},
};

constexpr int kRuns = 20;

TEST_F(Collective, Bandwidth) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  std::ofstream json;
  if (!jsonFile().empty()) {
    json.open(jsonFile());
    ASSERT_TRUE(json) << "cannot write '" << jsonFile() << "'";
  }
  onEachRank([&](Rank &rank) {
    for (const Case &each : kCases)
      for (int64_t bytes :
           {int64_t(1) << 10, int64_t(1) << 16, int64_t(1) << 20,
            int64_t(1) << 24, int64_t(1) << 27}) {
        // A multiple of the size that every rank needs.
        bytes = bytes / (4 * numRanks()) * (4 * numRanks());
        const Step step = {
            kRuns, 2, 0,
            [&](te_rt_instance *instance) {
              for (int32_t slot = 0; slot < kRuns; ++slot)
                each.plan(instance, slot, bytes);
            },
            [](te_rt_instance *instance, char *, void *const *arguments) {
              // An exchange of only bytes has no scales.
              void *const buffers[] = {arguments[0], arguments[1], nullptr,
                                       nullptr};
              for (int32_t slot = 0; slot < kRuns; ++slot)
                te_rt_launch(instance, slot, buffers);
            }};
        te_rt_instance *instance = rank.load(step);
        ASSERT_NE(instance, nullptr);
        void *x = rank.allocate(static_cast<size_t>(bytes));
        void *y = rank.allocate(static_cast<size_t>(bytes));
        float milliseconds = 0;
        // The first run captures and connects.
        for (int i = 0; i < 2; ++i) {
          TE_EXPECT_OK(te_rt_timer_mark(rank.context, 0));
          rank.run(instance, step, {x, y}, /*captured=*/true);
          TE_EXPECT_OK(te_rt_timer_mark(rank.context, 1));
          TE_EXPECT_OK(te_rt_timer_elapsed_ms(rank.context, &milliseconds));
        }
        te_rt_instance_destroy(instance);
        rank.free(x);
        rank.free(y);
        if (rank.number != 0)
          continue;
        const double us = 1000.0 * milliseconds / kRuns;
        const double busGBs = each.linkShare * (numRanks() - 1) / numRanks() *
                              static_cast<double>(bytes) / us / 1000;
        std::printf("%-20s %10lld bytes %10.2f us %8.2f GB/s\n", each.name,
                    static_cast<long long>(bytes), us, busGBs);
        char line[256];
        std::snprintf(line, sizeof(line),
                      "{\"collective\": \"%s\", \"ranks\": %d, \"bytes\": "
                      "%lld, \"us\": %.3f, \"bus_gb_per_s\": %.3f}\n",
                      each.name, numRanks(), static_cast<long long>(bytes), us,
                      busGBs);
        json << line;
      }
  });
}

} // namespace
