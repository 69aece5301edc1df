//===- group_tiles.h - which tiles of a grouped GEMM exist ----------------===//
//
// Only the device knows the sizes of the groups, so a kernel that computes the
// tiles of all groups computes by itself which tiles there are. A table of
// slots, one for each group, has the start of its rows and the number of tiles
// before it. The clusters of the persistent kernel then share the tiles:
// cluster i computes the tiles i, i + clusters, and so on. Nothing is read or
// written outside [0, rows), regardless of the sizes: a negative size counts as
// 0, and one that is too large is reduced.
//
// If groups are runs of the contracted axis, the number of tiles is known on
// the host. If the last wave then has tiles for less than half of the clusters,
// two clusters compute one tile. (Groups of rows do not: their main loop has no
// registers left for it, and lost 1 %.)
//
// The header is host code too: the unit test enumerates every tile of every
// cluster.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GROUP_TILES_H
#define TE_RUNTIME_KERNELS_GEMM_GROUP_TILES_H

#include "Core/GroupLayout.h"

#include <cstdint>

namespace te::rt::cuda {

/// Rows and columns of the tile of a cluster; each of its two CTAs computes
/// half of the columns.
inline constexpr uint32_t kClusterTileM = 256, kClusterTileN = 256;
/// Row tiles in a band: clusters compute all columns of a band before the next
/// band, so that the operands are still in L2.
inline constexpr uint32_t kBandTiles = 8;

struct TilePosition {
  uint32_t row, col; // in tiles
};

/// The `index`-th tile of rowTiles x colTiles.
TE_HOST_DEVICE TilePosition tilePosition(uint32_t index, uint32_t rowTiles,
                                         uint32_t colTiles) {
  const uint32_t band = index / (kBandTiles * colTiles);
  const uint32_t within = index - band * kBandTiles * colTiles;
  const uint32_t left = rowTiles - band * kBandTiles;
  const uint32_t height = kBandTiles < left ? kBandTiles : left;
  return {band * kBandTiles + within % height, within / height};
}

/// What a cluster computes in one iteration: a tile, or the upper or lower half
/// of one.
struct Piece {
  uint32_t tile, firstRow, rows;
};

/// How many of `tiles` are computed whole when `clusters` share them: all, or
/// all but those of the last wave if it would leave half of the clusters or
/// more without a tile. Two clusters then share each tile of that wave.
TE_HOST_DEVICE uint32_t wholeTiles(uint32_t tiles, uint32_t clusters) {
  const uint32_t last = tiles % clusters;
  return 2 * last > clusters ? tiles : tiles - last;
}

/// The `index`-th piece of tiles of which the first `whole` are.
TE_HOST_DEVICE Piece pieceOf(uint32_t index, uint32_t whole) {
  const bool isHalf = index >= whole;
  const uint32_t beyond = isHalf ? index - whole : 0;
  return {index - (beyond + 1) / 2, beyond % 2 * (kClusterTileM / 2),
          isHalf ? kClusterTileM / 2 : kClusterTileM};
}

/// The first piece of a cluster. `clusters` of them run at a time and share the
/// pieces; each computes `iterations` of them, one in every wave. The clusters
/// after them start when these end, and continue with the next pieces.
TE_HOST_DEVICE uint32_t firstPiece(uint32_t cluster, uint32_t clusters,
                                   uint32_t iterations) {
  return cluster % clusters + cluster / clusters * iterations * clusters;
}

/// The end of the rows of a piece that starts at `row`, if all rows end at
/// `end`. It is not above `row` if the piece has no rows.
TE_HOST_DEVICE uint32_t rowEndOf(uint32_t row, const Piece &piece,
                                 uint32_t end) {
  return row + piece.rows < end ? row + piece.rows : end;
}

//===----------------------------------------------------------------------===//
// The table of groups
//===----------------------------------------------------------------------===//

/// One group: its rows, and the row tiles of all groups before it.
struct GroupSlot {
  uint32_t group, start, size, firstTile;
};

/// The lanes of a warp fill the table, each for a run of groups. The first step
/// is groupsExtent, which finds the start of a run. This is the second step: it
/// writes the slots of groups [begin, end), which start at row `start`, with
/// tiles counted from group `begin`, and returns the number of tiles.
TE_HOST_DEVICE uint32_t placeGroups(const GroupShape &shape,
                                    const int32_t *sizes, uint32_t begin,
                                    uint32_t end, uint32_t start,
                                    GroupSlot *slots) {
  uint32_t tiles = 0;
  for (uint32_t g = begin; g < end; ++g) {
    const GroupRows rows =
        groupRows(start, sizes[g], shape.rows, shape.alignment);
    slots[g] = {g, start, static_cast<uint32_t>(rows.end - rows.begin), tiles};
    const auto extent = static_cast<uint32_t>(rows.next - rows.begin);
    tiles += (extent + kClusterTileM - 1) / kClusterTileM;
    start += extent;
  }
  return tiles;
}

/// The third step: `before` tiles come before those of group `begin`.
TE_HOST_DEVICE void numberTiles(uint32_t begin, uint32_t end, uint32_t before,
                                GroupSlot *slots) {
  for (uint32_t g = begin; g < end; ++g)
    slots[g].firstTile += before;
}

/// The last step, by one lane: the rows from `end` on belong to no group and
/// get the slot after the last group. One more slot ends the table.
TE_HOST_DEVICE void endGroups(const GroupShape &shape, uint32_t end,
                              uint32_t tiles, GroupSlot *slots) {
  const uint32_t rest = (shape.rows - end + kClusterTileM - 1) / kClusterTileM;
  slots[shape.groups] = {shape.groups, end, 0, tiles};
  slots[shape.groups + 1] = {shape.groups + 1, shape.rows, 0, tiles + rest};
}

/// The position of group `g` when the slots are sorted by decreasing size.
TE_HOST_DEVICE uint32_t sizeRank(const GroupSlot *slots, uint32_t groups,
                                 uint32_t g) {
  uint32_t rank = 0;
  for (uint32_t other = 0; other < groups; ++other)
    rank += slots[other].size > slots[g].size ||
            (slots[other].size == slots[g].size && other < g);
  return rank;
}

//===----------------------------------------------------------------------===//
// Walking
//===----------------------------------------------------------------------===//

/// The tiles of a cluster if groups are runs of rows of the result, including
/// those of the rows that belong to no group.
class GroupRowWalk {
public:
  TE_HOST_DEVICE GroupRowWalk(const GroupSlot *slots, uint32_t groups,
                              uint32_t n, uint32_t cluster, uint32_t clusters)
      : slots(slots), groups(groups),
        colTiles((n + kClusterTileN - 1) / kClusterTileN), next(cluster),
        clusters(clusters) {}

  /// Moves to the next tile; false when there is none.
  TE_HOST_DEVICE bool advance() {
    if (next >= slots[groups + 1].firstTile * colTiles)
      return false;
    while (next >= slots[at + 1].firstTile * colTiles)
      ++at;
    const GroupSlot slot = slots[at], following = slots[at + 1];
    const TilePosition tile =
        tilePosition(next - slot.firstTile * colTiles,
                     following.firstTile - slot.firstTile, colTiles);
    group = slot.group;
    row = slot.start + tile.row * kClusterTileM;
    col = tile.col * kClusterTileN;
    dataEnd = slot.start + slot.size;
    rowEnd = following.start;
    next += clusters;
    return true;
  }

  /// The tile. It belongs to no group if `group` equals the number of groups.
  uint32_t group = 0, row = 0, col = 0;
  /// Rows from dataEnd to rowEnd are padding; rows from there on belong to
  /// another tile.
  uint32_t dataEnd = 0, rowEnd = 0;

private:
  const GroupSlot *slots;
  uint32_t groups, colTiles, next, clusters, at = 0;
};

/// The tiles of a cluster if groups are runs of the contracted axis: each group
/// has its own result. Slots are sorted by decreasing size: then no
/// cluster computes a long tile at the end, and the work of two clusters
/// differs by at most one tile of the largest group.
class GroupKWalk {
public:
  /// The first `whole` of all tiles are computed whole (see wholeTiles).
  TE_HOST_DEVICE GroupKWalk(const GroupSlot *slots, uint32_t groups, uint32_t m,
                            uint32_t n, uint32_t whole, uint32_t cluster,
                            uint32_t clusters)
      : slots(slots), groups(groups), m(m), whole(whole),
        rowTiles((m + kClusterTileM - 1) / kClusterTileM),
        colTiles((n + kClusterTileN - 1) / kClusterTileN), next(cluster),
        clusters(clusters) {}

  /// Moves to the next piece; false when there is none.
  TE_HOST_DEVICE bool advance() {
    const uint32_t each = rowTiles * colTiles;
    const Piece piece = pieceOf(next, whole);
    if (piece.tile >= groups * each)
      return false;
    const uint32_t at = piece.tile / each;
    const TilePosition tile =
        tilePosition(piece.tile - at * each, rowTiles, colTiles);
    group = slots[at].group;
    start = slots[at].start;
    size = slots[at].size;
    row = tile.row * kClusterTileM + piece.firstRow;
    col = tile.col * kClusterTileN;
    rowEnd = rowEndOf(row, piece, m);
    next += clusters;
    return true;
  }

  /// Rows from rowEnd on do not belong to this piece; a piece may have no rows.
  uint32_t group = 0, row = 0, col = 0, rowEnd = 0;
  /// The group's run of the contracted axis.
  uint32_t start = 0, size = 0;

private:
  const GroupSlot *slots;
  uint32_t groups, m, whole, rowTiles, colTiles, next, clusters;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GROUP_TILES_H
