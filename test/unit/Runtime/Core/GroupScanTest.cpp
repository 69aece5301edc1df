//===- GroupScanTest.cpp - how a warp finds groups, on the host -----------===//
//
// Tests group_scan.cuh with a warp of host threads (HostWarp.h) against a
// simple loop over the sizes, including sizes that the host did not check.
//
//===----------------------------------------------------------------------===//

#include "HostWarp.h"

#include "Kernels/Grouped/group_scan.cuh"

#include <gtest/gtest.h>

#include <random>

using te::test::kLanes;
using namespace te::rt;
using namespace te::rt::cuda;

namespace {

struct Problem {
  GroupShape shape;
  std::vector<int32_t> sizes;
};

std::vector<Problem> problems() {
  std::mt19937 random(7);
  std::vector<Problem> result;
  for (uint32_t alignment : {1u, 16u, 48u, 128u})
    for (uint32_t groups : {1u, 5u, 32u, 33u, 64u, 100u})
      for (int round = 0; round < 3; ++round) {
        Problem p = {{0, groups, alignment}, {}};
        for (uint32_t g = 0; g < groups; ++g) {
          const auto size = random() % 3 == 0 ? 0 : random() % 300;
          p.sizes.push_back(static_cast<int32_t>(size));
          p.shape.rows += static_cast<uint32_t>(size + alignment - 1) /
                          alignment * alignment;
        }
        p.shape.rows += alignment * static_cast<uint32_t>(random() % 3 + 1);
        if (round == 1)
          p.sizes[random() % groups] = INT32_MIN;
        if (round == 2) {
          p.sizes[random() % groups] = INT32_MAX;
          p.sizes[groups / 2] = static_cast<int32_t>(p.shape.rows);
        }
        result.push_back(p);
      }
  return result;
}

TEST(GroupScan, FindsTheGroupsOfAnyRows) {
  std::mt19937 random(9);
  for (const Problem &p : problems()) {
    const auto &[rows, groups, alignment] = p.shape;
    std::vector<int64_t> expected;
    for (uint32_t row = 0; row < rows; ++row)
      expected.push_back(
          groupOfRow(p.sizes.data(), groups, rows, alignment, row));
    // The sizes of a tile, of one row, and of all rows.
    const auto tile = static_cast<uint32_t>(random() % rows);
    for (auto [from, to] : {std::pair(tile, tile + 128),
                            {tile, tile + 1},
                            {uint32_t{0}, p.shape.rows}}) {
      std::vector<std::vector<int64_t>> found(kLanes,
                                              std::vector<int64_t>(rows, -1));
      te::test::runBlock(1, [&, from = from, to = to] {
        forGroupsOf(p.shape, p.sizes.data(), from, to,
                    [&](uint32_t group, uint32_t begin, uint32_t end) {
                      for (uint32_t r = begin; r < end; ++r)
                        found[threadIdx.x][r] = group;
                    });
      });
      for (unsigned lane = 0; lane < kLanes; ++lane)
        for (uint32_t row = from; row < std::min(to, rows); ++row)
          ASSERT_EQ(found[lane][row], expected[row])
              << "row " << row << ", lane " << lane;
    }
  }
}

TEST(GroupScan, FindsTheRowsOfAGroup) {
  for (const Problem &p : problems())
    for (uint32_t g : {0u, p.shape.groups / 2, p.shape.groups - 1}) {
      const GroupRows expected =
          groupRowsOf(p.sizes.data(), g, p.shape.rows, p.shape.alignment);
      GroupRows found[kLanes] = {};
      te::test::runBlock(1, [&] {
        found[threadIdx.x] = groupRowsByWarp(p.shape, p.sizes.data(), g);
      });
      for (const GroupRows &each : found) {
        ASSERT_EQ(each.begin, expected.begin) << "group " << g;
        ASSERT_EQ(each.end, expected.end) << "group " << g;
        ASSERT_EQ(each.next, expected.next) << "group " << g;
      }
    }
}

} // namespace
