//===- StageSpecs.cpp - what may exist after each stage -------------------===//
//
// The contract between stages is data: a row is a fact that holds from the end
// of one stage to the end of another. A pass may rely on every row of the
// stages before it, and on nothing else.
//
//===----------------------------------------------------------------------===//

#include "StageSpecs.h"

#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::te;

namespace {

bool inDialect(Operation *op, StringRef dialect) {
  return op->getName().getDialectNamespace() == dialect;
}

bool isStructure(Operation *op) {
  return isa<ModuleOp, func::FuncOp, func::ReturnOp>(op);
}

/// True if a type of `op`'s operands, results, blocks or signature satisfies
/// `predicate`.
bool hasType(Operation *op, function_ref<bool(Type)> predicate) {
  if (llvm::any_of(op->getOperandTypes(), predicate) ||
      llvm::any_of(op->getResultTypes(), predicate))
    return true;
  if (auto function = dyn_cast<func::FuncOp>(op))
    return llvm::any_of(function.getArgumentTypes(), predicate) ||
           llvm::any_of(function.getResultTypes(), predicate);
  return false;
}

bool isCall(Operation *op, BlockFacts &) { return isa<func::CallOp>(op); }

bool isNotTensorCode(Operation *op, BlockFacts &) {
  if (isStructure(op) || inDialect(op, "te") ||
      isa<linalg::LinalgOp>(op->getParentOp()) || isDataMovement(op) ||
      isa<arith::ConstantOp, linalg::ReduceOp>(op))
    return false;
  return !(inDialect(op, "arith") || inDialect(op, "math")) ||
         !OpTrait::hasElementwiseMappableTraits(op);
}

bool hasDynamicShape(Operation *op, BlockFacts &) {
  return hasType(op, [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped && !shaped.hasStaticShape();
  });
}

bool isVjp(Operation *op, BlockFacts &) { return isa<VjpOp>(op); }

bool isLinear(Operation *op, BlockFacts &) {
  return isa<LinearOp, LinearDgradOp, LinearWgradOp, GroupedLinearOp,
             GroupedLinearDgradOp, GroupedLinearWgradOp>(op);
}

/// Whether `value` may be read in the backward without being saved: an argument
/// or a constant is available anyway, a scalar costs nothing to save, and a
/// gathered or moved value is available if what it is made of is.
bool mayCross(Value value) {
  if (Operation *op = value.getDefiningOp();
      op && (isa<AllGatherOp>(op) || isDataMovement(op)))
    return llvm::all_of(op->getOperands(), mayCross);
  if (isa<BlockArgument>(value) || value.getDefiningOp<ResidualOp>() ||
      matchPattern(value, m_Constant()))
    return true;
  auto shaped = dyn_cast<ShapedType>(value.getType());
  return shaped && shaped.hasRank() && shaped.getRank() == 0;
}

bool readsUnsavedOperand(Operation *op, BlockFacts &) {
  auto backward = dyn_cast<SavedOperandsOpInterface>(op);
  return backward && !llvm::all_of(backward.getSavedOperands(), mayCross);
}

/// True if `op` is after the block's first residual, depends on a residual, and
/// reads a value from before the first residual. Returns and parameter updates
/// are not part of the backward.
bool readsAcrossBoundary(Operation *op, BlockFacts &facts) {
  if (isStructure(op) || isa<ResidualOp, AdamWOp, SgdOp>(op))
    return false;
  Operation *first = facts.firstResidual(op->getBlock());
  if (!first || op->isBeforeInBlock(first) ||
      llvm::none_of(op->getOperands(), [&](Value value) {
        Operation *producer = value.getDefiningOp();
        return producer && !producer->isBeforeInBlock(first);
      }))
    return false;
  // This is checked first because it is cheap and rarely true.
  if (llvm::none_of(op->getOperands(), [&](Value value) {
        Operation *producer = value.getDefiningOp();
        return producer && producer->isBeforeInBlock(first) && !mayCross(value);
      }))
    return false;

  // Check whether `op` depends on a residual. A second forward after the first
  // residual may read any value from before it.
  SmallVector<Operation *> worklist = {op};
  SmallPtrSet<Operation *, 16> seen;
  bool inBackward = false;
  while (!worklist.empty() && !inBackward) {
    Operation *next = worklist.pop_back_val();
    if (!seen.insert(next).second || next->isBeforeInBlock(first))
      continue;
    inBackward = isa<ResidualOp>(next);
    for (Value value : next->getOperands())
      if (Operation *producer = value.getDefiningOp())
        worklist.push_back(producer);
  }
  return inBackward;
}

bool isNotLaunchCode(Operation *op, BlockFacts &) {
  // The body of generated code is arithmetic on elements.
  return !isStructure(op) && !inDialect(op, "tert") &&
         !inDialect(op->getParentOp(), "tert");
}

bool hasTensor(Operation *op, BlockFacts &) {
  return hasType(op,
                 [](Type type) { return isa<TensorType, ScaledType>(type); });
}

bool isNotLLVM(Operation *op, BlockFacts &) {
  return !isa<ModuleOp>(op) && !inDialect(op, "llvm");
}

constexpr StringLiteral stageNames[] = {"import", "autodiff", "quantize",
                                        "fuse",   "schedule", "lower"};

constexpr StageRule rules[] = {
    {Stage::Import, Stage::Schedule, "no-calls", "every call is inlined",
     isCall},
    {Stage::Import, Stage::Fuse, "tensor-code",
     "every op is te, elementwise arith or math, a reshape, slice or concat "
     "of tensor, a broadcast, transpose or reduce of linalg, or a constant",
     isNotTensorCode},
    {Stage::Import, Stage::Fuse, "static-shapes", "every shape is static",
     hasDynamicShape},
    {Stage::Autodiff, Stage::Fuse, "no-vjp",
     "every te.vjp is replaced by its forward and backward", isVjp},
    {Stage::Autodiff, Stage::Autodiff, "saved-operands",
     "te backward ops read the forward through te.residual, arguments or "
     "constants",
     readsUnsavedOperand},
    {Stage::Autodiff, Stage::Autodiff, "residual-boundary",
     "a tensor from before the first te.residual reaches the backward only "
     "through te.residual",
     readsAcrossBoundary},
    {Stage::Quantize, Stage::Fuse, "no-linear",
     "every te.linear, te.linear_dgrad and te.linear_wgrad is replaced with "
     "casts and a GEMM",
     isLinear},
    {Stage::Schedule, Stage::Schedule, "launches-only",
     "functions contain only tert ops and a return", isNotLaunchCode},
    {Stage::Schedule, Stage::Lower, "no-tensors", "every value is a buffer",
     hasTensor},
    {Stage::Lower, Stage::Lower, "llvm-only", "every op is of the llvm dialect",
     isNotLLVM},
};

} // namespace

Operation *BlockFacts::firstResidual(Block *block) {
  auto [found, isNew] = firstResiduals.try_emplace(block);
  if (isNew)
    if (auto residuals = block->getOps<ResidualOp>(); !residuals.empty())
      found->second = *residuals.begin();
  return found->second;
}

StringRef te::stringifyStage(Stage stage) {
  return stageNames[static_cast<unsigned>(stage)];
}

std::optional<Stage> te::symbolizeStage(StringRef name) {
  const auto *found = llvm::find(stageNames, name);
  if (found == std::end(stageNames))
    return std::nullopt;
  return static_cast<Stage>(found - std::begin(stageNames));
}

ArrayRef<StageRule> te::getStageRules() { return rules; }
