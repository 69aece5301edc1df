//===- RematPlan.h - what the backward computes again ---------------------===//
//
// The decisions of te-rematerialize, free of any rewriting. What is held is a
// set of values of the forward; a *unit* is one op of the forward (or one
// function argument) with all held values that are it or casts of it. A unit is
// given up as a whole: its values are then computed again, from what is held
// still or always there.
//
// Where a whole forward is computed again it must not be so from its first op,
// or all of it would be alive at once. Layer inputs stay held: the values that
// are alone alive at some point of the forward and that two ops read, which is
// what the input of a residual block is. Casts and elementwise ops on arguments
// do not count as alive: they can be had anywhere.
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

  /// Reads "nothing", "everything", "ops:<name>,..." or "budget:<bytes>"; says
  /// in `error` what is wrong with another text.
  static FailureOr<RematPolicy> parse(StringRef text, std::string &error);
};

/// The operand that `op` only casts, decodes or gives another shape, or null.
Value castOperand(Operation *op);

/// The value that `value` is a cast of.
Value sourceOf(Value value);

/// `value` without changes of shape, which are the same memory.
Value storageOf(Value value);

/// True for what the backward has without holding it.
bool isAlwaysThere(Value value);

/// True for a scale, an amax and the like, which takes no part in what is alive
/// between layers.
bool isScalar(Value value);

/// True for what costs nothing to hold: a scalar, or one of each group or large
/// block.
bool isFree(Value value);

class RematPlan {
public:
  /// Operations that a machine does in the time it moves one byte.
  static constexpr int64_t kFlopsPerByte = 256;

  struct Unit {
    /// Makes the values before casts; null for a function argument.
    Operation *op = nullptr;
    /// "linear" for the product of a forward layer, else the op's name; the
    /// layer is what reports call it.
    std::string mnemonic, layer;
    SmallVector<ResidualOp> residuals;

    /// What giving it up frees and takes: bytes held no more, bytes held
    /// instead, bytes moved and operations done to compute the values again.
    /// All zero where that was not looked at.
    bool isGivenUp = false;
    int64_t freed = 0, added = 0, traffic = 0, flops = 0;

    int64_t cost() const { return traffic + flops / kFlopsPerByte; }
  };

  /// Reads what the residuals of `block` hold.
  explicit RematPlan(Block &block);

  /// True when `name` is an op or a layer of the forward.
  bool isKnown(StringRef name) const;
  /// The ops of the forward that have a name of their own, sorted.
  SmallVector<StringRef> getMnemonics() const;

  /// Gives up all but layer inputs.
  void giveUpEverything();
  /// Gives up what ops and layers of these names make.
  void giveUp(ArrayRef<std::string> names);
  /// Gives up what frees the most for its cost until at most `budget` bytes are
  /// held. Fails when all but layer inputs is not enough.
  LogicalResult giveUpUntil(int64_t budget);

  Block &getBlock() const { return block; }
  ArrayRef<Unit> getUnits() const { return units; }
  /// Up to `count` of the values held, with their bytes, largest first.
  SmallVector<std::pair<int64_t, ResidualOp>>
  getLargestHeld(unsigned count) const;
  /// Bytes of all values that are held.
  int64_t getHeldBytes() const { return bytesHeld; }
  /// The memory of `value` is held, by a residual that is there or to be made.
  bool isHeld(Value value) const { return held.contains(storageOf(value)); }

private:
  /// What computing some values again takes.
  struct Chain {
    llvm::SetVector<Operation *> ops;
    llvm::SetVector<Value> newlyHeld;
    /// What is held no more.
    llvm::SetVector<Value> going;
  };

  void findForward();
  void nameForward();
  void findLayerInputs();
  void makeUnits();
  bool isNamed(Operation *op, StringRef name) const;
  /// True when `op` computes the same again in the backward, and the policy
  /// wants it to.
  bool mayRepeat(Operation *op) const;
  bool mustHold(Value storage) const;
  /// Adds to `chain` what `value` takes.
  void require(Value value, Chain &chain) const;
  /// What giving up `unit` takes; sets its figures.
  Chain estimate(Unit &unit) const;
  /// Gives up `unit` if that frees bytes.
  bool tryGiveUp(Unit &unit);

  Block &block;
  SmallVector<ResidualOp> residuals;
  /// What some residual depends on, in program order.
  SmallVector<Operation *> forward;
  /// What depends on some residual.
  DenseSet<Operation *> readsHeld;
  /// Mnemonic, layer and layer by number of ops of `forward`.
  struct Names {
    std::string mnemonic, layer, numbered;
  };
  DenseMap<Operation *, Names> names;
  DenseSet<Value> layerInputs, held;
  DenseSet<Operation *> inForward;
  /// Ops that are repeated once for all their readers: not casts of arguments,
  /// which are repeated for each.
  DenseSet<Operation *> repeated;
  /// The ops that may be repeated beside casts, under `ops:`.
  std::optional<DenseSet<Operation *>> selected;
  SmallVector<Unit, 0> units;
  /// The unit of the value before casts.
  DenseMap<Value, unsigned> unitOf;
  int64_t bytesHeld = 0;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_RESIDUALS_REMATPLAN_H
