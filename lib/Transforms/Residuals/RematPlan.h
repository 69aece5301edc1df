//===- RematPlan.h - which values the backward recomputes -----------------===//
//
// This file makes the decisions of te-rematerialize without changing the
// program. The saved values are a set of values of the forward. A *unit* is one
// op of the forward (or one function argument) with all saved values that are
// its results or casts of them. A unit is given up as a whole: its values are
// then recomputed from values that are still saved or always available.
//
// If a whole forward is recomputed, the recomputation must not start at its
// first op, because all of the forward would then be alive at once. Layer
// inputs are therefore always saved: a layer input is a value that at some
// point of the forward is the only one alive and that two ops read, such as the
// input of a residual block. Casts and elementwise ops on arguments do not
// count as alive, because they can be recomputed anywhere.
//
// A loss, its logits, and what is elementwise between them and their GEMM are
// never recomputed, and do not count as saved bytes: the backward begins with
// them, so that this would free nothing, and te-chunk-logits expects them in
// the forward.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_RESIDUALS_REMATPLAN_H
#define TE_TRANSFORMS_RESIDUALS_REMATPLAN_H

#include "TEDialect/IR/TE.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::te {

/// The option `remat`.
struct RematPolicy {
  enum class Kind { Nothing, Everything, Ops, Budget };
  Kind kind = Kind::Nothing;
  /// Mnemonics and layer names of `ops:`.
  SmallVector<std::string> names;
  /// Bytes of `budget:`.
  int64_t budget = 0;

  /// Parses "nothing", "everything", "ops:<name>,..." or "budget:<bytes>";
  /// `error` is the message for any other text.
  static FailureOr<RematPolicy> parse(StringRef text, std::string &error);
};

/// The operand that `op` only casts, dequantises or reshapes, or null.
Value castOperand(Operation *op);

/// The value that `value` is a cast of.
Value sourceOf(Value value);

/// `value` before reshapes, which share its memory.
Value storageOf(Value value);

/// True for a value that the backward can read without saving it.
bool isAlwaysThere(Value value);

/// True for a scale, an amax or a similar value, which does not count among the
/// values alive between layers.
bool isScalar(Value value);

/// True for a value that costs nothing to save: a scalar, or one element for
/// each group or large block.
bool isFree(Value value);

class RematPlan {
public:
  /// Operations that a machine does in the time it moves one byte.
  static constexpr int64_t kFlopsPerByte = 256;

  struct Unit {
    /// The op that computes the value before casts; null for a function
    /// argument.
    Operation *op = nullptr;
    /// The mnemonic is "linear" for the GEMM of a forward layer, else the op's
    /// name; the layer has its name in reports.
    std::string mnemonic, layer;
    SmallVector<ResidualOp> residuals;

    /// The effect of giving it up: bytes no longer saved, bytes saved instead,
    /// and bytes moved and operations done to recompute the values. All are
    /// zero if that was not estimated.
    bool isGivenUp = false;
    int64_t freed = 0, added = 0, traffic = 0, flops = 0;

    int64_t cost() const { return traffic + flops / kFlopsPerByte; }
  };

  /// Collects the values that the residuals of `block` save.
  explicit RematPlan(Block &block);

  /// True if `name` is an op or a layer of the forward.
  bool isKnown(StringRef name) const;
  /// The mnemonics of the ops of the forward, sorted.
  SmallVector<StringRef> getMnemonics() const;

  /// Gives up all values except layer inputs.
  void giveUpEverything();
  /// Gives up the results of ops and layers with these names.
  void giveUp(ArrayRef<std::string> names);
  /// Gives up the units that free the most bytes for their cost until at most
  /// `budget` bytes are saved. Fails if giving up all values except layer
  /// inputs is not enough.
  LogicalResult giveUpUntil(int64_t budget);

  Block &getBlock() const { return block; }
  ArrayRef<Unit> getUnits() const { return units; }
  /// Up to `count` of the saved values, with their bytes, largest first.
  SmallVector<std::pair<int64_t, ResidualOp>>
  getLargestHeld(unsigned count) const;
  /// Bytes of all saved values.
  int64_t getHeldBytes() const { return bytesHeld; }
  /// Whether `value` is saved, by a residual that exists or will be created.
  bool isHeld(Value value) const { return held.contains(storageOf(value)); }

private:
  /// The ops and values that recomputing some values requires.
  struct Chain {
    llvm::SetVector<Operation *> ops;
    llvm::SetVector<Value> newlyHeld;
    /// Values that are no longer saved.
    llvm::SetVector<Value> going;
  };

  void findLosses();
  void findForward();
  void nameForward();
  void findLayerInputs();
  void makeUnits();
  bool isNamed(Operation *op, StringRef name) const;
  /// True if `op` computes the same in the backward, and the policy allows to
  /// repeat it.
  bool mayRepeat(Operation *op) const;
  bool mustHold(Value storage) const;
  /// Adds to `chain` what recomputing `value` requires.
  void require(Value value, Chain &chain) const;
  /// Returns what giving up `unit` requires, and sets its figures.
  Chain estimate(Unit &unit) const;
  /// Gives up `unit` if that frees bytes.
  bool tryGiveUp(Unit &unit);

  Block &block;
  SmallVector<ResidualOp> residuals;
  /// The ops that any residual depends on, in program order.
  SmallVector<Operation *> forward;
  /// The ops that depend on any residual.
  DenseSet<Operation *> readsHeld;
  /// Mnemonic, layer, and numbered mnemonic of the ops of `forward`.
  struct Names {
    std::string mnemonic, layer, numbered;
  };
  DenseMap<Operation *, Names> names;
  DenseSet<Value> layerInputs, held;
  DenseSet<Operation *> inForward;
  /// The losses, and the ops between the GEMMs of their logits and them.
  DenseSet<Operation *> ofLoss;
  /// Ops that are repeated once for all their readers. Casts of arguments are
  /// not among them, because they are repeated for each reader.
  DenseSet<Operation *> repeated;
  /// The ops that `ops:` allows to repeat, besides casts.
  std::optional<DenseSet<Operation *>> selected;
  SmallVector<Unit, 0> units;
  /// The unit of the value before casts.
  DenseMap<Value, unsigned> unitOf;
  int64_t bytesHeld = 0;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_RESIDUALS_REMATPLAN_H
