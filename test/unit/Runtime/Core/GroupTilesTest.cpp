//===- GroupTilesTest.cpp - the tiles of grouped GEMMs, enumerated --------===//
//
// The table of groups and the walks over it are host code too. The tests
// enumerate every tile of every cluster, for random sizes with empty groups,
// negative sizes and sizes that are too large, and compare them with a simple
// walk over the rows.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Gemm/group_tiles.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

using namespace te::rt;
using namespace te::rt::cuda;

namespace {

/// As a warp computes it: 32 lanes, each with a run of groups.
std::vector<GroupSlot> makeSlots(const GroupShape &shape,
                                 const std::vector<int32_t> &sizes) {
  std::vector<GroupSlot> slots(shape.groups + 2);
  const uint32_t run = (shape.groups + 31) / 32;
  uint32_t start = 0, tiles = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t begin = std::min(lane * run, shape.groups);
    const uint32_t end = std::min(begin + run, shape.groups);
    const uint32_t extent = groupsExtent(shape, sizes.data(), begin, end);
    const uint32_t own =
        placeGroups(shape, sizes.data(), begin, end, start, slots.data());
    numberTiles(begin, end, tiles, slots.data());
    start = addExtents(start, extent, shape);
    tiles += own;
  }
  endGroups(shape, start, tiles, slots.data());
  return slots;
}

std::vector<GroupSlot> bySize(const std::vector<GroupSlot> &slots,
                              uint32_t groups) {
  std::vector<GroupSlot> ordered(groups);
  for (uint32_t g = 0; g < groups; ++g)
    ordered[sizeRank(slots.data(), groups, g)] = slots[g];
  return ordered;
}

struct Problem {
  GroupShape shape;
  std::vector<int32_t> sizes;
};

std::vector<Problem> problems() {
  std::mt19937 random(5);
  auto below = [&](uint32_t bound) {
    return static_cast<uint32_t>(random() % bound);
  };
  std::vector<Problem> result;
  for (uint32_t alignment : {1u, 16u, 32u, 128u, 512u})
    for (uint32_t groups : {1u, 2u, 8u, 31u, 33u, 64u, 100u, 257u})
      for (int round = 0; round < 6; ++round) {
        Problem p = {{0, groups, alignment}, {}};
        uint32_t extent = 0;
        for (uint32_t g = 0; g < groups; ++g) {
          const uint32_t kind = below(4);
          const uint32_t size = kind == 0   ? 0
                                : kind == 1 ? below(300)
                                : kind == 2 ? alignment * below(4)
                                            : below(2000);
          p.sizes.push_back(static_cast<int32_t>(size));
          extent += (size + alignment - 1) / alignment * alignment;
        }
        p.shape.rows = std::max(extent + alignment * below(5), alignment);
        // Sizes that the host did not check.
        if (round == 4)
          p.sizes[below(groups)] = INT32_MIN;
        if (round == 5) {
          p.sizes[below(groups)] = INT32_MAX;
          p.sizes[below(groups)] = -1;
          p.sizes[groups / 2] = static_cast<int32_t>(p.shape.rows);
        }
        result.push_back(p);
      }
  return result;
}

TEST(GroupTiles, RowsAreCoveredOnce) {
  for (const Problem &p : problems()) {
    std::vector<int> expected(p.shape.rows, -1);
    int64_t begin = 0;
    for (uint32_t g = 0; g < p.shape.groups; ++g) {
      const GroupRows rows =
          groupRows(begin, p.sizes[g], p.shape.rows, p.shape.alignment);
      std::fill(expected.begin() + rows.begin, expected.begin() + rows.end,
                static_cast<int>(g));
      begin = rows.next;
    }
    for (uint32_t n : {8u, 264u, 1536u})
      for (uint32_t clusters : {1u, 66u}) {
        const std::vector<GroupSlot> slots = makeSlots(p.shape, p.sizes);
        const uint32_t colTiles = (n + kClusterTileN - 1) / kClusterTileN;
        // The group of each row of each column tile; -1 for a row of zeros.
        std::vector<int> made(size_t{p.shape.rows} * colTiles, -2);
        for (uint32_t cluster = 0; cluster < clusters; ++cluster) {
          GroupRowWalk walk(slots.data(), p.shape.groups, n, cluster, clusters);
          while (walk.advance()) {
            ASSERT_LT(walk.col, n);
            ASSERT_LE(walk.rowEnd, p.shape.rows);
            for (uint32_t r = walk.row;
                 r < std::min(walk.row + kClusterTileM, walk.rowEnd); ++r) {
              int &at = made[size_t{r} * colTiles + walk.col / kClusterTileN];
              ASSERT_EQ(at, -2) << "row " << r << " twice";
              at = r < walk.dataEnd ? static_cast<int>(walk.group) : -1;
            }
          }
        }
        for (uint32_t r = 0; r < p.shape.rows; ++r)
          for (uint32_t c = 0; c < colTiles; ++c)
            ASSERT_EQ(made[size_t{r} * colTiles + c], expected[r])
                << "row " << r;
      }
  }
}

TEST(GroupTiles, EachGroupHasEveryTileOfItsResult) {
  for (const Problem &p : problems())
    for (auto [m, n] : {std::pair(8u, 264u), {4096u, 1536u}})
      for (uint32_t clusters : {1u, 7u, 66u}) {
        const std::vector<GroupSlot> slots =
            bySize(makeSlots(p.shape, p.sizes), p.shape.groups);
        const uint32_t tiles = p.shape.groups *
                               ((m + kClusterTileM - 1) / kClusterTileM) *
                               ((n + kClusterTileN - 1) / kClusterTileN);
        // The last row of each piece.
        std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> made;
        uint64_t least = UINT64_MAX, most = 0;
        for (uint32_t cluster = 0; cluster < clusters; ++cluster) {
          GroupKWalk walk(slots.data(), p.shape.groups, m, n,
                          wholeTiles(tiles, clusters), cluster, clusters);
          uint64_t work = 0;
          while (walk.advance()) {
            if (walk.row >= walk.rowEnd)
              continue;
            ASSERT_TRUE(
                made.try_emplace({walk.group, walk.col, walk.row}, walk.rowEnd)
                    .second);
            ASSERT_LT(walk.col, n);
            const GroupRows rows = groupRowsOf(p.sizes.data(), walk.group,
                                               p.shape.rows, p.shape.alignment);
            ASSERT_EQ(walk.start, rows.begin);
            ASSERT_EQ(walk.size, rows.end - rows.begin);
            work += walk.size;
          }
          least = std::min(least, work);
          most = std::max(most, work);
        }
        // The pieces of a column of tiles are contiguous from row 0 to m.
        uint32_t end = m;
        for (const auto &[piece, rowEnd] : made) {
          ASSERT_EQ(std::get<2>(piece), end == m ? 0 : end);
          ASSERT_GT(rowEnd, std::get<2>(piece));
          end = rowEnd;
        }
        ASSERT_EQ(end, m);
        ASSERT_EQ(made.count({0, 0, 0}), 1u);
        std::set<std::pair<uint32_t, uint32_t>> columns;
        for (const auto &[piece, rowEnd] : made)
          columns.insert({std::get<0>(piece), std::get<1>(piece)});
        ASSERT_EQ(columns.size(),
                  uint64_t{p.shape.groups} *
                      ((n + kClusterTileN - 1) / kClusterTileN));
        // No cluster has more than one additional tile of the largest group.
        ASSERT_LE(most - least, slots[0].size);
      }
}

TEST(GroupTiles, LastWaveIsComputedInHalves) {
  // The rest of each cluster, in rows of tiles.
  const auto busiest = [](uint32_t tiles, uint32_t clusters) {
    const uint32_t whole = wholeTiles(tiles, clusters);
    uint32_t most = 0;
    std::vector<uint32_t> rows(tiles);
    for (uint32_t cluster = 0; cluster < clusters; ++cluster) {
      uint32_t work = 0;
      for (uint32_t next = cluster;; next += clusters) {
        const Piece piece = pieceOf(next, whole);
        if (piece.tile >= tiles)
          break;
        rows[piece.tile] += piece.rows;
        work += piece.rows;
      }
      most = std::max(most, work);
    }
    for (uint32_t made : rows)
      EXPECT_EQ(made, kClusterTileM);
    return most;
  };
  // Cases: 54 waves and 20 tiles; 31 and 2; a full last wave; more than half of
  // one.
  EXPECT_EQ(busiest(3584, 66), 54 * kClusterTileM + kClusterTileM / 2);
  EXPECT_EQ(busiest(2048, 66), 31 * kClusterTileM + kClusterTileM / 2);
  EXPECT_EQ(busiest(132, 66), 2 * kClusterTileM);
  EXPECT_EQ(busiest(100, 66), 2 * kClusterTileM);
  EXPECT_EQ(busiest(33, 66), kClusterTileM / 2);
  EXPECT_EQ(busiest(34, 66), kClusterTileM);
  EXPECT_EQ(busiest(1, 2), kClusterTileM / 2);
  EXPECT_EQ(busiest(1, 1), kClusterTileM);
}

TEST(GroupTiles, IterationsCoverEachPieceOnce) {
  for (uint32_t clusters : {1u, 2u, 66u})
    for (uint32_t pieces : {1u, 2u, 65u, 66u, 67u, 132u, 330u, 331u, 3600u})
      for (uint32_t iterations : {1u, 2u, 3u, 14u, 60u}) {
        const uint32_t waves = (pieces + clusters - 1) / clusters;
        const uint32_t generations = (waves + iterations - 1) / iterations;
        std::vector<uint32_t> made(pieces);
        for (uint32_t cluster = 0; cluster < generations * clusters;
             ++cluster) {
          uint32_t next = firstPiece(cluster, clusters, iterations);
          // Clusters that run at the same time compute neighbouring pieces.
          ASSERT_EQ(next % clusters, cluster % clusters);
          for (uint32_t left = iterations; left > 0 && next < pieces; --left) {
            ++made[next];
            next += clusters;
          }
        }
        ASSERT_EQ(made, std::vector<uint32_t>(pieces, 1));
      }
}

} // namespace
