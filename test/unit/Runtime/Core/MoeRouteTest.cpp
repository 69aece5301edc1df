//===- MoeRouteTest.cpp - the kernel that routes, on the host -------------===//
//
// Tests route.cuh with a block of a few warps (HostWarp.h) against a loop over
// the entries of each group: with a capacity, with fewer rows than entries, and
// with entries without a valid group.
//
//===----------------------------------------------------------------------===//

#include "HostWarp.h"

#include "Kernels/Moe/route.cuh"

#include <gtest/gtest.h>

#include <random>

using namespace te::rt;
using namespace te::rt::cuda;

namespace {

TEST(MoeRoute, EntriesAreInOrder) {
  std::mt19937 random(3);
  for (int64_t entries : {0, 5, 300, 1500})
    for (int64_t groups : {1, 7, 70})
      for (auto [capacity, share] :
           {std::pair(int64_t{0}, 3), {20, 3}, {0, 1}, {9, 1}}) {
        const int64_t alignment = 16;
        const int64_t rows = (entries * share / 2 + 64) / 16 * 16;
        std::vector<int32_t> ids;
        for (int64_t i = 0; i < entries; ++i)
          ids.push_back(static_cast<int32_t>(
              static_cast<int64_t>(random() % (groups + 2)) - 1));
        std::vector<int32_t> sizes(groups, -7), rowOf(entries, -1),
            entryOf(rows, -1), dropped(1, -7);
        constexpr unsigned kWarps = 3, kSegments = 2;
        std::vector<uint32_t> shared(routeSharedBytes(groups, kSegments) / 4,
                                     0xcdcdcdcd);
        const MoeRouteArgs args = {.ids = ids.data(),
                                   .used = nullptr,
                                   .sizes = sizes.data(),
                                   .rowOf = rowOf.data(),
                                   .entryOf = entryOf.data(),
                                   .dropped = dropped.data(),
                                   .entries = entries,
                                   .k = 1,
                                   .groups = groups,
                                   .rows = rows,
                                   .alignment = alignment,
                                   .capacity = capacity,
                                   .segments = kSegments,
                                   .padded = 0};
        te::test::runBlock(kWarps, [&] { route(args, shared.data()); });

        std::vector<int32_t> wantedRow(entries, -1), wantedEntry(rows, -1);
        int64_t start = 0, taken = 0;
        for (int64_t g = 0; g < groups; ++g) {
          int64_t place = start;
          for (int64_t i = 0; i < entries; ++i)
            if (ids[i] == g && place < rows &&
                (capacity == 0 || place - start < capacity)) {
              wantedRow[i] = static_cast<int32_t>(place);
              wantedEntry[place++] = static_cast<int32_t>(i);
            }
          ASSERT_EQ(sizes[g], place - start) << "group " << g;
          taken += place - start;
          start += (place - start + alignment - 1) / alignment * alignment;
        }
        ASSERT_EQ(rowOf, wantedRow);
        ASSERT_EQ(entryOf, wantedEntry);
        ASSERT_EQ(dropped[0], entries - taken);
      }
}

// Every group has its capacity, for any number of entries.
TEST(MoeRoute, PaddedGroupsHaveTheirCapacity) {
  std::mt19937 random(5);
  for (int64_t entries : {0, 5, 300, 1500})
    for (int64_t groups : {1, 7, 70})
      for (int64_t capacity : {16, 48}) {
        const int64_t rows = groups * capacity;
        std::vector<int32_t> ids, wantedRow(entries, -1), wantedEntry(rows, -1);
        std::vector<int64_t> taken(groups);
        int64_t lost = 0;
        for (int64_t i = 0; i < entries; ++i) {
          // Few groups have entries, and some ids are invalid.
          const int64_t g =
              static_cast<int64_t>(random() % (groups / 2 + 3)) - 1;
          ids.push_back(static_cast<int32_t>(g));
          if (g < 0 || g >= groups || taken[g] == capacity) {
            ++lost;
            continue;
          }
          const int64_t row = g * capacity + taken[g]++;
          wantedRow[i] = static_cast<int32_t>(row);
          wantedEntry[row] = static_cast<int32_t>(i);
        }
        std::vector<int32_t> sizes(groups, -7), rowOf(entries, -1),
            entryOf(rows, -1), dropped(1, -7);
        constexpr unsigned kWarps = 3, kSegments = 2;
        std::vector<uint32_t> shared(routeSharedBytes(groups, kSegments) / 4,
                                     0xcdcdcdcd);
        const MoeRouteArgs args = {.ids = ids.data(),
                                   .used = nullptr,
                                   .sizes = sizes.data(),
                                   .rowOf = rowOf.data(),
                                   .entryOf = entryOf.data(),
                                   .dropped = dropped.data(),
                                   .entries = entries,
                                   .k = 1,
                                   .groups = groups,
                                   .rows = rows,
                                   .alignment = 16,
                                   .capacity = capacity,
                                   .segments = kSegments,
                                   .padded = 1};
        te::test::runBlock(kWarps, [&] { route(args, shared.data()); });
        ASSERT_EQ(sizes, std::vector<int32_t>(groups, capacity));
        ASSERT_EQ(rowOf, wantedRow);
        ASSERT_EQ(entryOf, wantedEntry);
        ASSERT_EQ(dropped[0], lost);
      }
}

} // namespace
