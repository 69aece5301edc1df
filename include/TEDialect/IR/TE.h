//===- TE.h - the te dialect: types, attributes, ops ----------------------===//

#ifndef TEDIALECT_IR_TE_H
#define TEDIALECT_IR_TE_H

#include "TEDialect/IR/Differentiation.h"
#include "TEDialect/IR/OpMeaning.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "TEDialect/IR/RecipeOptions.h"
#include "TEDialect/IR/TEDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "TEDialect/IR/TEAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "TEDialect/IR/TETypes.h.inc"

namespace mlir::te {
class QuantizeOpInterface;

/// What a cast takes beside its tensor. What is not given is null, or off, as
/// it is for the ops that have no such operand.
struct CastArgs {
  Value scale = {};
  Value givenAmax = {};
  Value rng = {};
  float amaxEpsilon = 0.0f;
  int32_t stream = 0;
  FourOverSix fourOverSix = FourOverSix::Off;
};

/// Kinds from swiglu on read [first | second].
inline bool isGated(ActivationKind kind) {
  return kind >= ActivationKind::Swiglu;
}

} // namespace mlir::te

#include "TEDialect/IR/TEInterfaces.h.inc"

#define GET_OP_CLASSES
#include "TEDialect/IR/TEOps.h.inc"

namespace mlir::te {

/// Names of discardable attributes (see the dialect description).
inline constexpr llvm::StringLiteral kNameAttr = "te.name";
inline constexpr llvm::StringLiteral kWeightAttr = "te.weight";
inline constexpr llvm::StringLiteral kInitAttr = "te.init";
inline constexpr llvm::StringLiteral kRecipeStateAttr = "te.recipe_state";
inline constexpr llvm::StringLiteral kOverwriteAttr = "te.overwrite_main_grad";
inline constexpr llvm::StringLiteral kProbeAttr = "te.probe";
inline constexpr llvm::StringLiteral kRecipeAttr = "te.recipe";
inline constexpr llvm::StringLiteral kNoGradientAttr = "te.no_gradient";
inline constexpr llvm::StringLiteral kGroupsAttr = "te.groups";
inline constexpr llvm::StringLiteral kShardingAttr = "te.sharding";
inline constexpr llvm::StringLiteral kRanksAttr = "te.ranks";

/// More than any machine has.
inline constexpr int64_t kMaxRanks = int64_t(1) << 20;

/// The entries of the innermost `te.groups` around `op`, or none.
SmallVector<GroupAttr> getGroups(Operation *op);

/// The group `id` in force at `op`; null where it is not declared.
GroupAttr lookupGroup(Operation *op, int64_t id);

/// Ranks of the mesh that the groups in force at `op` are of; 1 without groups.
int64_t getNumRanks(Operation *op);

/// Where to report what is wrong with a module as a whole. A module that the
/// file does not spell out is at line 0, which no editor shows: then its first
/// op with a place.
Location getModuleLoc(Operation *module);

/// Largest finite magnitude of `f8E4M3FN` or `f8E5M2`.
float maxFinite(Type fp8);

} // namespace mlir::te

#endif // TEDIALECT_IR_TE_H
