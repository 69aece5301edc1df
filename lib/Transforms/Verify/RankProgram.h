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
  /// What all ranks must agree on: what they give and get, and the axis, or how
  /// a layer is split.
  Type payload, result;
  Attribute how;

  bool matches(const CollectiveEvent &other) const;
  /// "'te.all_gather' of 'tensor<8xf32>' along axis 0".
  std::string describe() const;
};

struct RankProgram {
  std::vector<CollectiveEvent> events;
  /// Where it ends.
  Location end;
  /// Whether another rank may have another program in the same module.
  bool asksForRank = false;
};

/// Walks the public functions of modules as a rank would: branches and loops
/// are followed where integers decide them that come from constants and
/// te.rank. A collective behind any other branch is an error, unless both sides
/// have the same.
class RankProgramBuilder {
public:
  explicit RankProgramBuilder(ModuleOp mesh);
  ~RankProgramBuilder();

  /// The program of `rank` in `module`.
  FailureOr<const RankProgram *> get(ModuleOp module, int64_t rank);

private:
  ModuleOp mesh;
  /// Of modules whose program is that of any rank.
  std::map<Operation *, const RankProgram *> shared;
  std::vector<std::unique_ptr<RankProgram>> programs;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_VERIFY_RANKPROGRAM_H
