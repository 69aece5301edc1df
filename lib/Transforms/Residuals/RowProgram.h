//===- RowProgram.h - what is computed of each row of a head's logits -----===//
//
// The logits of a head are a matrix with a row for each token. Losses, log
// probabilities and entropies are numbers for each row, and the gradient of a
// row of logits depends only on that row and on numbers for it. Such ops are a
// row program: they can run on some rows at a time.
//
// Other ops need the numbers of all rows, such as a mean over tokens. A stage
// of the program is what can run before the next of these ops is known, and the
// backward is a later stage than the forward. Stages have even numbers. Ops
// that are not of the program and read results of a stage have the odd number
// after it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_RESIDUALS_ROWPROGRAM_H
#define TE_TRANSFORMS_RESIDUALS_ROWPROGRAM_H

#include "TEDialect/IR/TE.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::te {

class RowProgram {
public:
  /// The program of the rows of `head`. If it cannot run by rows, fails and
  /// sets `why`, to "" if nothing reduces rows.
  static FailureOr<RowProgram> find(LinearOp head, std::string &why);

  LinearOp getHead() const { return head; }
  int64_t getRows() const {
    return cast<RankedTensorType>(getHead().getY().getType()).getDimSize(0);
  }
  /// The first residual of the block, before which the forward is; or null.
  Operation *getBoundary() const { return boundary; }
  /// The stages with results, in order.
  SmallVector<int> getStages() const;
  /// The numbers and gradients of `stage` that ops which are not of the program
  /// read, in order.
  SmallVector<Value> getResults(int stage) const;
  bool isOutside(Operation *op) const { return !members.contains(op); }
  /// Whether `value` has a row for each token, and is computed by rows.
  bool isMatrix(Value value) const { return matrices.contains(value); }
  /// The columns of a matrix. A reshape may give it any shape.
  int64_t getColumns(Value matrix) const { return matrices.at(matrix); }
  /// Whether `stage` computes `value`, which is not a matrix. Otherwise, the
  /// stage can read it.
  bool isComputed(Value value, int stage) const {
    return !isMatrix(value) && members.contains(value.getDefiningOp()) &&
           stageOf(value) == stage;
  }

private:
  explicit RowProgram(LinearOp head) : head(head) {}

  void visit(Operation &op, std::string &why);
  void addMembers();
  bool hasRows(Value value) const;
  bool isInRows(Value value) const;
  std::optional<int64_t> columnsOf(Operation *op) const;
  bool isVector(Value value) const;
  bool isVectorOp(Operation *op) const;
  bool isReduction(Operation *op) const;
  bool isGradient(Operation *op) const;
  bool readsLogits(Operation *op) const {
    return llvm::any_of(op->getOperands(),
                        [&](Value each) { return ofLogits.contains(each); });
  }
  int stageOf(Value value) const {
    auto found = stages.find(value);
    return found == stages.end() ? -1 : found->second;
  }

  LinearOp head;
  Operation *boundary = nullptr;
  /// Values with a row for each token, with their columns.
  DenseMap<Value, int64_t> matrices;
  /// Those of them that depend on logits.
  DenseSet<Value> ofLogits;
  /// Of values that depend on logits; others have stage -1.
  DenseMap<Value, int> stages;
  /// The reductions and the gradients of the head.
  SmallVector<Operation *> sinks;
  /// The ops of the program.
  llvm::SetVector<Operation *> members;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_RESIDUALS_ROWPROGRAM_H
