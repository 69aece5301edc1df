//===- TransposePolicyTest.cpp - tests of which columns are kept ----------===//

#include "Residuals/TransposePolicy.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir::te;

namespace {

/// The most bytes of columns that are alive at once, counted for each op.
int64_t mostHeld(llvm::ArrayRef<ColumnUses> columns,
                 llvm::ArrayRef<KeptUses> kept) {
  int64_t most = 0;
  for (unsigned event = 0; event < 100; ++event) {
    int64_t sum = 0;
    for (auto [column, keep] : llvm::zip_equal(columns, kept)) {
      bool alive = false;
      for (auto [use, at] : llvm::enumerate(column.uses)) {
        unsigned from = use == 0 ? column.cast : column.uses[use - 1];
        alive |= at == event || (keep[use] && from <= event && event <= at);
      }
      sum += alive ? column.bytes : 0;
    }
    most = std::max(most, sum);
  }
  return most;
}

int64_t totalMoved(llvm::ArrayRef<ColumnUses> columns,
                   llvm::ArrayRef<KeptUses> kept) {
  int64_t sum = 0;
  for (auto [column, keep] : llvm::zip_equal(columns, kept))
    sum += bytesMoved(column, keep);
  return sum;
}

/// Two layers and two micro-batches: the uses of the inner layer are closer
/// together.
const ColumnUses twoLayers[] = {{100, 0, {30, 60}}, {50, 10, {20, 50}}};

} // namespace

TEST(TransposePolicy, EveryPolicyIsOneBitForEachUse) {
  EXPECT_EQ(keepEager(twoLayers)[0], (KeptUses{true, true}));
  EXPECT_EQ(keepCached(twoLayers)[0], (KeptUses{false, true}));
  EXPECT_EQ(keepOnDemand(twoLayers)[0], (KeptUses{false, false}));
}

TEST(TransposePolicy, BytesMovedCountCastsOnceAndTransposesTwice) {
  EXPECT_EQ(bytesMoved(twoLayers[0], keepEager(twoLayers)[0]), 100);
  EXPECT_EQ(bytesMoved(twoLayers[0], keepCached(twoLayers)[0]), 200);
  EXPECT_EQ(bytesMoved(twoLayers[0], keepOnDemand(twoLayers)[0]), 400);
}

TEST(TransposePolicy, TheSmallestBudgetIsWhatOneOpReads) {
  EXPECT_EQ(smallestColumnBudget({}), 0);
  EXPECT_EQ(smallestColumnBudget(twoLayers), 100);
  const ColumnUses together[] = {{100, 0, {30}}, {50, 10, {30, 40}}};
  EXPECT_EQ(smallestColumnBudget(together), 150);
}

TEST(TransposePolicy, TheSmallestBudgetKeepsWhatNobodyElseIsThereWith) {
  // Between 10 and 20, only the second layer's columns are alive.
  EXPECT_EQ(keepWithin(twoLayers, 100),
            (llvm::SmallVector<KeptUses>{{false, false}, {true, false}}));
}

TEST(TransposePolicy, AnyBudgetIsEager) {
  EXPECT_EQ(keepWithin(twoLayers, 150), keepEager(twoLayers));
}

TEST(TransposePolicy, NoBudgetIsExceededAndMoreNeverMovesMoreThanOnDemand) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    llvm::SmallVector<ColumnUses> columns;
    for (unsigned i = 0; i < 6; ++i) {
      ColumnUses column{static_cast<int64_t>(1 + random() % 50),
                        static_cast<unsigned>(random() % 20),
                        {}};
      for (unsigned at = column.cast + 1 + random() % 20; at < 99;
           at += 1 + random() % 40)
        column.uses.push_back(at);
      columns.push_back(column);
    }
    int64_t budget = smallestColumnBudget(columns) + random() % 100;
    llvm::SmallVector<KeptUses> kept = keepWithin(columns, budget);
    EXPECT_LE(mostHeld(columns, kept), budget);
    EXPECT_LE(totalMoved(columns, kept),
              totalMoved(columns, keepOnDemand(columns)));
    EXPECT_EQ(keepWithin(columns, 1000), keepEager(columns));
  }
}
