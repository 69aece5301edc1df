//===- group_tiles.h - which tiles of a grouped product exist -------------===//
//
// The sizes of the groups are known on the device only, so a kernel that makes
// the tiles of all groups finds out by itself which those are. A table of
// slots, one for each group, says where its rows start and how many tiles lie
// before it; clusters then take the tiles in turn, cluster i the tiles i, i +
// clusters, and so on. Nothing is read or written outside [0, rows), whatever
// the sizes: a negative one counts as 0, one that does not fit as what does.
//
// How many tiles there are is known beforehand where groups are runs of the
// contracted axis. In a last turn for less than half of the clusters two of
// them then make a tile. (Groups of rows would need registers for it that the
// loop of products has not: it lost 1 %.)
//
// Host code too: the unit test enumerates every tile of every cluster.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GROUP_TILES_H
#define TE_RUNTIME_KERNELS_GEMM_GROUP_TILES_H

#include "Core/GroupLayout.h"

#include <cstdint>

namespace te::rt::cuda {

/// Rows and columns of a tile of a cluster; each of its two CTAs makes half of
/// the columns.
inline constexpr uint32_t kTileRows = 256, kTileCols = 256;
/// Row tiles that are walked together, so that their columns are still in L2.
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

/// What a cluster makes at a time: a tile, or the upper or lower half of one.
struct Piece {
  uint32_t tile, firstRow, rows;
};

/// How many of `tiles`, which `clusters` take in turn, are made whole: all but
/// those of the last turn, where half of the clusters or more would have none.
/// Of these two clusters make one.
TE_HOST_DEVICE uint32_t wholeTiles(uint32_t tiles, uint32_t clusters) {
  const uint32_t last = tiles % clusters;
  return 2 * last > clusters ? tiles : tiles - last;
}

/// The `index`-th piece of tiles of which the first `whole` are.
TE_HOST_DEVICE Piece pieceOf(uint32_t index, uint32_t whole) {
  const bool isHalf = index >= whole;
  const uint32_t beyond = isHalf ? index - whole : 0;
  return {index - (beyond + 1) / 2, beyond % 2 * (kTileRows / 2),
          isHalf ? kTileRows / 2 : kTileRows};
}

/// The first piece of a cluster. `clusters` of them run at a time and take
/// pieces in turn, `turns` of them each; those behind them, which start as
/// others end, go on where these stop.
TE_HOST_DEVICE uint32_t firstPiece(uint32_t cluster, uint32_t clusters,
                                   uint32_t turns) {
  return cluster % clusters + cluster / clusters * turns * clusters;
}

/// Where the rows of a piece end that starts at `row`, of rows that end at
/// `end`; not behind `row` where it has none.
TE_HOST_DEVICE uint32_t rowEndOf(uint32_t row, const Piece &piece,
                                 uint32_t end) {
  return row + piece.rows < end ? row + piece.rows : end;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// One group: its rows, and the row tiles of all groups before it.
struct GroupSlot {
  uint32_t group, start, size, firstTile;
};

/// The table is made by lanes that have a run of groups each, whose
/// groupsExtent comes first. Second: writes the slots of groups [begin, end),
/// which start at row `start`, with tiles counted from `begin`; returns how
/// many there are.
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
    tiles += (extent + kTileRows - 1) / kTileRows;
    start += extent;
  }
  return tiles;
}

/// Third: `before` tiles lie before those of group `begin`.
TE_HOST_DEVICE void numberTiles(uint32_t begin, uint32_t end, uint32_t before,
                                GroupSlot *slots) {
  for (uint32_t g = begin; g < end; ++g)
    slots[g].firstTile += before;
}

/// Last, once: the rows from `end` on belong to no group; they are the slot
/// after the last group. One more slot ends the table.
TE_HOST_DEVICE void endGroups(const GroupShape &shape, uint32_t end,
                              uint32_t tiles, GroupSlot *slots) {
  const uint32_t rest = (shape.rows - end + kTileRows - 1) / kTileRows;
  slots[shape.groups] = {shape.groups, end, 0, tiles};
  slots[shape.groups + 1] = {shape.groups + 1, shape.rows, 0, tiles + rest};
}

/// Where the slot of group `g` belongs among those in order of falling size.
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

/// Tiles of a product whose groups are runs of rows of the result, and of the
/// rows that belong to none.
class GroupRowWalk {
public:
  TE_HOST_DEVICE GroupRowWalk(const GroupSlot *slots, uint32_t groups,
                              uint32_t n, uint32_t cluster, uint32_t clusters)
      : slots(slots), groups(groups), colTiles((n + kTileCols - 1) / kTileCols),
        next(cluster), clusters(clusters) {}

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
    row = slot.start + tile.row * kTileRows;
    col = tile.col * kTileCols;
    dataEnd = slot.start + slot.size;
    rowEnd = following.start;
    next += clusters;
    return true;
  }

  /// The tile: of a group, or of none where `group` is `groups`.
  uint32_t group = 0, row = 0, col = 0;
  /// Rows from dataEnd to rowEnd are padding, rows from there on another
  /// tile's.
  uint32_t dataEnd = 0, rowEnd = 0;

private:
  const GroupSlot *slots;
  uint32_t groups, colTiles, next, clusters, at = 0;
};

/// Tiles of a product whose groups are runs of the contracted axis: each group
/// has a result of its own. Slots are in order of falling size: then no cluster
/// is left with a long tile at the end, and the work of two clusters differs by
/// no more than one tile of the largest group.
class GroupDepthWalk {
public:
  /// The first `whole` of all tiles are made whole (wholeTiles).
  TE_HOST_DEVICE GroupDepthWalk(const GroupSlot *slots, uint32_t groups,
                                uint32_t m, uint32_t n, uint32_t whole,
                                uint32_t cluster, uint32_t clusters)
      : slots(slots), groups(groups), m(m), whole(whole),
        rowTiles((m + kTileRows - 1) / kTileRows),
        colTiles((n + kTileCols - 1) / kTileCols), next(cluster),
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
    row = tile.row * kTileRows + piece.firstRow;
    col = tile.col * kTileCols;
    rowEnd = rowEndOf(row, piece, m);
    next += clusters;
    return true;
  }

  /// Rows from rowEnd on are another piece's, or none; a piece may have none.
  uint32_t group = 0, row = 0, col = 0, rowEnd = 0;
  /// Of the contracted axis.
  uint32_t start = 0, size = 0;

private:
  const GroupSlot *slots;
  uint32_t groups, m, whole, rowTiles, colTiles, next, clusters;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GROUP_TILES_H
