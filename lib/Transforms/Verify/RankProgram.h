//===- RankProgram.h - the collectives of one rank, in order --------------===//

#ifndef TE_TRANSFORMS_VERIFY_RANKPROGRAM_H
#define TE_TRANSFORMS_VERIFY_RANKPROGRAM_H

#include "TEDialect/IR/TE.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <memory>

namespace mlir::te {

/// One collective of one rank.
struct CollectiveEvent {
  Operation *op;
  GroupAttr group;
  /// What all ranks must agree on: the types of the operand and the result, and
  /// the axis, or how a layer is split.
  Type payload, result;
  Attribute how;

  bool matches(const CollectiveEvent &other) const;
  /// "'te.all_gather' of 'tensor<8xf32>' along axis 0".
  std::string describe() const;
};

struct RankProgram {
  std::vector<CollectiveEvent> events;
  /// The location of its end.
  Location end;
  /// Whether ranks may have different programs in this module.
  bool asksForRank = false;
};

/// Walks the public functions of modules as a rank would run them. Branches and
/// loops are followed if they depend only on constants and te.rank. A
/// collective in any other branch is an error, unless both sides have the same
/// collectives.
class RankProgramBuilder {
public:
  explicit RankProgramBuilder(ModuleOp mesh);
  ~RankProgramBuilder();

  /// The program of `rank` in `module`.
  FailureOr<const RankProgram *> get(ModuleOp module, int64_t rank);

private:
  ModuleOp mesh;
  /// The programs of modules in which all ranks have the same program.
  std::map<Operation *, const RankProgram *> shared;
  std::vector<std::unique_ptr<RankProgram>> programs;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_VERIFY_RANKPROGRAM_H
