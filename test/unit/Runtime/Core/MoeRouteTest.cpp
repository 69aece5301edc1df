//===- MoeRouteTest.cpp - the kernels that route, on the host -------------===//
//
// Tests route.cuh with blocks of a few warps (HostWarp.h), one after the other,
// against a loop over the entries of each group: with a capacity, with fewer
// rows than entries, and with entries without a valid group.
//
//===----------------------------------------------------------------------===//

#include "HostWarp.h"

#include "Core/Kernels.h"
#include "Kernels/Moe/route.cuh"

#include <gtest/gtest.h>

#include <random>

using namespace te::rt;
using namespace te::rt::cuda;

namespace {

/// What blocks of two warps write.
struct Routed {
  std::vector<int32_t> sizes, rowOf, entryOf, dropped;
};

/// Routes tokens that have one entry each. Without `used`, all are used.
Routed routed(const std::vector<int32_t> &ids, int64_t groups, int64_t rows,
              int64_t capacity, int64_t alignment, int32_t padded,
              const std::vector<float> &used = {}) {
  constexpr unsigned kWarps = 2;
  const auto entries = static_cast<int64_t>(ids.size());
  const int64_t blocks =
      std::max<int64_t>(ceilDiv(entries, kRouteBatch * kWarps), 1);
  Routed out{std::vector<int32_t>(groups, -7),
             std::vector<int32_t>(entries, -7), std::vector<int32_t>(rows, -7),
             std::vector<int32_t>(1, -7)};
  std::vector<uint32_t> counts(blocks * (groups + 1), 0xcdcdcdcd);
  const MoeRouteArgs args = {.ids = ids.data(),
                             .used = used.empty() ? nullptr : used.data(),
                             .sizes = out.sizes.data(),
                             .rowOf = out.rowOf.data(),
                             .entryOf = out.entryOf.data(),
                             .dropped = out.dropped.data(),
                             .counts = counts.data(),
                             .entries = entries,
                             .k = 1,
                             .groups = groups,
                             .rows = rows,
                             .alignment = alignment,
                             .capacity = capacity,
                             .segment = kRouteBatch,
                             .blocks = static_cast<uint32_t>(blocks),
                             .warps = kWarps,
                             .padded = padded};
  for (auto kernel : {countEntries, placeEntries})
    for (uint32_t block = 0; block < args.blocks; ++block) {
      std::vector<uint32_t> shared(routeSharedBytes(groups, kWarps) / 4,
                                   0xcdcdcdcd);
      te::test::runBlock(kWarps, [&] { kernel(args, block, shared.data()); });
    }
  return out;
}

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
        const auto [sizes, rowOf, entryOf, dropped] =
            routed(ids, groups, rows, capacity, alignment, 0);

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
        const auto [sizes, rowOf, entryOf, dropped] =
            routed(ids, groups, rows, capacity, 16, 1);
        ASSERT_EQ(sizes, std::vector<int32_t>(groups, capacity));
        ASSERT_EQ(rowOf, wantedRow);
        ASSERT_EQ(entryOf, wantedEntry);
        ASSERT_EQ(dropped[0], lost);
      }
}

// Tokens that are not used have no row, take no room and are not dropped: the
// others are routed as without them.
TEST(MoeRoute, UnusedTokensGoNowhere) {
  constexpr int64_t entries = 300, groups = 7, rows = 128, capacity = 9;
  std::mt19937 random(5);
  std::vector<int32_t> ids, kept;
  std::vector<float> used;
  for (int64_t i = 0; i < entries; ++i) {
    ids.push_back(static_cast<int32_t>(random() % (groups + 1)));
    used.push_back(random() % 3 != 0);
    if (used.back() != 0.0f)
      kept.push_back(ids.back());
  }
  const Routed all = routed(ids, groups, rows, capacity, 16, 0, used);
  const Routed alone = routed(kept, groups, rows, capacity, 16, 0);
  EXPECT_EQ(all.sizes, alone.sizes);
  EXPECT_EQ(all.dropped, alone.dropped);
  std::vector<int32_t> rowOf, place;
  for (int64_t i = 0; i < entries; ++i) {
    place.push_back(static_cast<int32_t>(rowOf.size()));
    if (used[i] != 0.0f)
      rowOf.push_back(all.rowOf[i]);
    else
      EXPECT_EQ(all.rowOf[i], -1) << i;
  }
  EXPECT_EQ(rowOf, alone.rowOf);
  for (int64_t row = 0; row < rows; ++row)
    EXPECT_EQ(all.entryOf[row] < 0 ? -1 : place[all.entryOf[row]],
              alone.entryOf[row])
        << row;
}

} // namespace
