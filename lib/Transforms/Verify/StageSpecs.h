//===- StageSpecs.h - the table of post-conditions ------------------------===//

#ifndef TE_TRANSFORMS_VERIFY_STAGESPECS_H
#define TE_TRANSFORMS_VERIFY_STAGESPECS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace mlir::te {

enum class Stage { Import, Autodiff, Quantize, Fuse, Schedule, Lower };

/// "import", "autodiff", ...
StringRef stringifyStage(Stage stage);
/// The stage called `name`, if there is one.
std::optional<Stage> symbolizeStage(StringRef name);

/// Facts about the block of an op that rules need, computed once.
class BlockFacts {
public:
  /// The first te.residual of `block`, or null.
  Operation *firstResidual(Block *block);

private:
  DenseMap<Block *, Operation *> firstResiduals;
};

/// One fact about every op, from the end of stage `from` to the end of stage
/// `to`.
struct StageRule {
  Stage from, to;
  /// A stable name for messages and tests.
  StringLiteral name;
  /// One sentence, in terms that a user of the IR knows.
  StringLiteral sentence;
  /// True if `op` breaks the rule.
  bool (*isBroken)(Operation *op, BlockFacts &facts);
};

/// Every rule, in stage order.
ArrayRef<StageRule> getStageRules();

} // namespace mlir::te

#endif // TE_TRANSFORMS_VERIFY_STAGESPECS_H
