//===- RowCode.h - code of launches with reductions of rows ---------------===//
//
// A row is visited in the passes of RowPasses. What has one value for a row is
// computed once, between passes.
//
// Sums have the order of the lane sum of Kernels.td, as `row_sum` does. On a
// GPU, a warp or a block computes a row. A thread of a warp has runs of
// consecutive elements, and one of a block has the elements of one, two or four
// neighbouring lanes: 256, 128 or 64 threads have all lanes. A block has
// several such groups of threads if its row is long. Each group has a part of
// the columns, and the groups add to the lanes one after another.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_LOWER_ROWCODE_H
#define TE_TRANSFORMS_LOWER_ROWCODE_H

#include "CodeEmitter.h"
#include "RowPasses.h"

namespace mlir::te {

class RowCode final : public CodeEmitter {
public:
  RowCode(func::FuncOp step, tert::LaunchOp launch, StringRef name);

  int32_t getBlock() const override;
  int32_t getBlockElements() const override;
  int32_t getSharedBytes() const override;

private:
  /// The values of the body for one element.
  struct Element {
    explicit Element(Value index) : index(index) {}
    Value index;
    DenseMap<Value, Value> values;
  };
  /// Consecutive elements, from column `col` on, that a thread loads together.
  /// `inRow` is null if the row has all of them.
  struct Run {
    Value index, col, inRow;
    SmallVector<Element> elements;
  };
  using UseRuns =
      function_ref<SmallVector<Value>(MutableArrayRef<Run>, ValueRange)>;
  /// Takes what an element adds to a lane, by the number of the lane among
  /// those that the thread has of all reductions of the pass.
  using Reduce = function_ref<void(tert::RowReduceOp, int64_t lane, Value)>;

  void emitHostBody(Value begin, Value end) override;
  void emitDeviceBody(Value count, Value aligned) override;

  bool isOfRow(Value value) const { return plain.isOfRow(value); }
  bool isOutputOfRow(unsigned i) const {
    return !isOutputOfAll(i) && !amaxOf(i);
  }
  /// What the lanes of a reduction begin with, and what an element makes them.
  Value startOf(tert::RowReduceOp op);
  Value combine(tert::RowReduceOp op, Value lane, Value value);
  auto combinerOf(tert::RowReduceOp op) {
    return [this, op](Value a, Value b) { return combine(op, a, b); };
  }
  /// Computes what has one value for the row from `base` on, and depends on the
  /// reductions of the passes before `pass` and on no others.
  void computeRowValues(unsigned pass, Value base);
  void storeRowOutputs(Value base);
  /// The value of `value` for an element.
  Value valueOf(Value value, Element &element);

  /// Whether `op` divides elements by a value of the row, which a GPU does
  /// without a branch for each.
  bool dividesByRow(Operation &op) const;
  /// Computes what divisions of `pass` by one value of the row share.
  void prepareDivisors(unsigned pass);
  void divideByRow(arith::DivFOp op, MutableArrayRef<Element> elements);

  void emitHostRow(Value base, ValueRange lanes);

  /// The most elements in a run of a warp's thread.
  int64_t getRunLength() const;
  /// Whether a warp can have a row in registers, with no more code than
  /// `mostCode` for each thread.
  bool fitsInWarp(int64_t mostCode) const;
  /// Has a block compute a row, if it can keep the row in registers.
  void planBlock();

  /// Emits the code of one row, with runs of `length` elements.
  void emitRow(Value base, Value thread, int64_t length);
  /// The reductions of `pass`, of the lanes that each thread has.
  void reduceInWarp(MutableArrayRef<Value> lanes, Value thread, int64_t length);
  void reduceInBlock(ArrayRef<Value> lanes, Value thread, int64_t length);
  /// The same, of what each thread adds to its lanes, after the group before.
  void reduceInTurn(ArrayRef<SmallVector<Value>> terms, Value thread);
  /// The same, of all lanes in shared memory.
  void reduceSharedLanes(Value thread);
  /// The address of lane `first` + `number` in shared memory.
  Value sharedLaneAt(int64_t first, Value number);
  /// Emits code for one group of threads, or for all if there are no groups.
  void emitInGroup(int64_t number, function_ref<void()> emit);
  /// How many runs of a row that is not in registers a thread has at a time.
  int64_t getRunsAtATime(int64_t length) const;
  /// Emits a loop over the runs of the thread. `use` takes those of an
  /// iteration and the values that the one before left, and returns those that
  /// it leaves. In a block, the first group has all runs.
  SmallVector<Value> emitRuns(Value base, Value thread, int64_t length,
                              ValueRange initial, UseRuns use);
  /// The runs of the thread among the next `runs` runs from column `begin` on,
  /// of which the first `known` columns are in the row.
  SmallVector<Run> loadRuns(Value base, Value begin, Value thread,
                            int64_t length, int64_t runs, int64_t known);
  /// Computes the elements of `runs` in `pass`: what they add to the lanes of
  /// its reductions, and the results of the last pass.
  void useRuns(MutableArrayRef<Run> runs, int64_t length, Reduce reduce);
  /// Rotates the lanes that a thread has of each reduction, so that the first
  /// one is that of the next iteration with one element. The tree of
  /// reduceLanes has the same pairs afterwards.
  void turnLanes(MutableArrayRef<Value> lanes) const;
  int64_t getLanesOfThread() const;
  /// Forgets what is computed again, so that it takes no registers.
  void forgetValues(Run &run);
  /// Computes and stores what is left after the last pass.
  void finishRow(Value base, Value thread);

  int64_t cols;
  /// The passes that keep values and those that do not, and which are emitted.
  RowPasses keeping, plain;
  const RowPasses *passes = &plain;
  unsigned pass = 0;
  /// The values of the row that are computed.
  DenseMap<Value, Value> rowValues;
  /// Of the values of the row that elements are divided by.
  DenseMap<Value, Divisor> divisors;

  /// Whether a row has a block, how many groups of threads it has, and how many
  /// threads a group or a warp has.
  bool hasBlock = false;
  int64_t groups = 1, threads;
  /// The passes if the row is kept in registers, which it is if its buffers are
  /// aligned. Otherwise each pass loads it again.
  const RowPasses *planned = nullptr;
  /// The number of the thread's group, null if there is only one.
  Value group;
  /// Where the lanes of the next reduction begin in shared memory.
  int64_t sharedLanes = 0;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_LOWER_ROWCODE_H
