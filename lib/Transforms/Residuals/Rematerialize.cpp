//===- Rematerialize.cpp - recompute forward values in the backward -------===//
//
// RematPlan decides which values are given up. This file clones the ops that
// compute them, each directly before its first reader in the backward. A clone
// reads values of the forward, including function arguments, only through a
// te.residual. The residual names what is saved, and it keeps cse and
// te-pair-cast-layouts from merging the clone with the original op, because the
// two have different operands. Scalars are read directly, so a repeated cast
// has the scale, the amax and the random state of the original, and measures
// nothing.
//
//===----------------------------------------------------------------------===//

#include "RematPlan.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/TERT/Remat.h"
#include "TEDialect/Transforms/Residuals/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::te {
#define GEN_PASS_DEF_REMATERIALIZEPASS
#include "TEDialect/Transforms/Residuals/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

/// Rewrites one block according to its plan.
class Rematerializer {
public:
  Rematerializer(Block &block, const RematPlan &plan)
      : block(block), plan(plan), builder(block.getParentOp()->getContext()) {}

  /// Returns the number of repeated ops.
  unsigned run();

private:
  bool isGivenUp(Operation *op) const;
  /// Returns the value that `reader` must read instead of `value`, a value of
  /// the forward.
  Value get(Value value, Operation *reader);
  /// Saves `value` in a new residual.
  Value hold(Value value);
  Operation *repeat(Operation *op, Operation *reader);

  Block &block;
  const RematPlan &plan;
  OpBuilder builder;
  /// The values available in the current backward; a step may have several.
  DenseMap<Value, Value> available;
  /// The last residual before the current backward.
  ResidualOp boundary;
  SmallVector<Operation *> clones;
  llvm::StringSet<> taken;
};

} // namespace

bool Rematerializer::isGivenUp(Operation *op) const {
  auto residual = dyn_cast_or_null<ResidualOp>(op);
  return residual && !isAlwaysThere(residual.getValue()) &&
         !isScalar(residual.getValue()) && !plan.isHeld(residual.getValue());
}

Value Rematerializer::hold(Value value) {
  std::string name = describeValue(value), unique = name;
  for (unsigned i = 1; !taken.insert(unique).second; ++i)
    unique = name + "_" + std::to_string(i);
  builder.setInsertionPointAfter(boundary);
  boundary = ResidualOp::create(builder, value.getLoc(), value.getType(), value,
                                builder.getStringAttr(unique));
  return boundary.getHeld();
}

/// The location of `op`, marked as recomputed.
static Location repeatedLoc(Operation *op) {
  Location loc = NameLoc::get(StringAttr::get(op->getContext(), "recomputed"),
                              op->getLoc());
  std::optional<GemmOrigin> origin = GemmOrigin::find(loc);
  if (!origin)
    return loc;
  origin->reason += ", recomputed";
  return origin->attach(loc);
}

Operation *Rematerializer::repeat(Operation *op, Operation *reader) {
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, get(operand, reader));
  builder.setInsertionPoint(reader);
  Operation *clone = builder.clone(*op, operands);
  clone->setLoc(repeatedLoc(op));
  clones.push_back(clone);
  return clone;
}

Value Rematerializer::get(Value value, Operation *reader) {
  if (isFree(value) || matchPattern(value, m_Constant()))
    return value;
  if (Value known = available.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  // The value is reused by later readers, except for a cast of a weight:
  // repeating the cast is cheaper than keeping it, so each reader gets a
  // residual of the argument with its own name.
  const bool isKept = !isAlwaysThere(sourceOf(value));
  if (!op || isa<ResidualOp>(op) || plan.isHeld(value)) {
    Value held = hold(value);
    return isKept ? available[value] = held : held;
  }
  Operation *clone = repeat(op, reader);
  if (!isKept)
    return clone->getResult(cast<OpResult>(value).getResultNumber());
  for (auto [result, again] : llvm::zip(op->getResults(), clone->getResults()))
    available[result] = again;
  return available[value];
}

/// Removes unused results of `cast`: the backward may read only one of two
/// usages, and the amax was measured in the forward.
static void dropUnusedResults(QuantizeOpInterface cast) {
  SmallVector<Value> used;
  SmallVector<Type> types;
  for (Value usage : cast.getUsages())
    if (!usage.use_empty()) {
      used.push_back(usage);
      types.push_back(usage.getType());
    }
  Value amax = cast.getAmax();
  const bool keepsAmax = amax && !amax.use_empty();
  if (used.empty() || (used.size() == cast.getUsages().size() &&
                       keepsAmax == static_cast<bool>(amax)))
    return;
  OpBuilder builder(cast);
  QuantizeOpInterface smaller =
      cast.withResults(builder, types, keepsAmax ? amax.getType() : Type());
  for (auto [old, usage] : llvm::zip_equal(used, smaller.getUsages()))
    old.replaceAllUsesWith(usage);
  if (keepsAmax)
    amax.replaceAllUsesWith(smaller.getAmax());
  cast->erase();
}

/// If `cast` is only transposed, and exactly, casts for the other axis instead.
static void castToTransposed(QuantizeOpInterface cast) {
  if (cast.getUsages().size() != 1 || cast.getRng())
    return;
  Value usage = cast.getUsages().front();
  if (usage.use_empty() || !llvm::all_of(usage.getUsers(), [](Operation *user) {
        return isa<TransposeOp>(user);
      }))
    return;
  usage.setType(mlir::cast<ScaledType>(usage.getType()).getTransposedUsage());
  for (Operation *user : llvm::make_early_inc_range(usage.getUsers())) {
    user->replaceAllUsesWith(ValueRange(usage));
    user->erase();
  }
}

/// Erases ops whose results were needed only for `value`.
static void eraseDead(Value value) {
  llvm::SetVector<Operation *> worklist;
  worklist.insert(value.getDefiningOp());
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    if (op && isOpTriviallyDead(op)) {
      for (Value operand : op->getOperands())
        worklist.insert(operand.getDefiningOp());
      op->erase();
    } else if (auto cast = dyn_cast_or_null<QuantizeOpInterface>(op)) {
      dropUnusedResults(cast);
    }
  }
}

unsigned Rematerializer::run() {
  SmallVector<Operation *> ops;
  SmallVector<ResidualOp> givenUp;
  for (Operation &op : block) {
    ops.push_back(&op);
    if (auto residual = dyn_cast<ResidualOp>(op))
      taken.insert(residual.getName());
  }
  size_t numCloned = 0;
  for (Operation *op : ops) {
    for (OpOperand &operand : op->getOpOperands())
      if (isGivenUp(operand.get().getDefiningOp()))
        operand.set(
            get(operand.get().getDefiningOp<ResidualOp>().getValue(), op));
    auto residual = dyn_cast<ResidualOp>(op);
    if (!residual)
      continue;
    // The next backward recomputes its values; otherwise, they would be alive
    // until then.
    if (clones.size() != numCloned)
      available.clear();
    numCloned = clones.size();
    boundary = residual;
    if (isGivenUp(residual))
      givenUp.push_back(residual);
    else
      available.try_emplace(residual.getValue(), residual.getHeld());
  }
  for (ResidualOp residual : givenUp) {
    Value value = residual.getValue();
    residual.erase();
    eraseDead(value);
  }
  const unsigned numRepeated = clones.size();
  for (Operation *clone : clones)
    if (auto cast = dyn_cast<QuantizeOpInterface>(clone)) {
      castToTransposed(cast);
      dropUnusedResults(cast);
    }
  return numRepeated;
}

/// The decisions, as the memory report reads them.
static DictionaryAttr describe(Builder &b, StringRef policy,
                               const RematPlan &plan, int64_t before) {
  SmallVector<Attribute> rows;
  for (const RematPlan::Unit &unit : plan.getUnits()) {
    if (!unit.isGivenUp)
      continue;
    rows.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("op", b.getStringAttr(unit.mnemonic)),
         b.getNamedAttr("layer", b.getStringAttr(unit.layer)),
         b.getNamedAttr("freed", b.getI64IntegerAttr(unit.freed)),
         b.getNamedAttr("held", b.getI64IntegerAttr(unit.added)),
         b.getNamedAttr("traffic", b.getI64IntegerAttr(unit.traffic)),
         b.getNamedAttr("flops", b.getI64IntegerAttr(unit.flops))}));
  }
  return b.getDictionaryAttr(
      {b.getNamedAttr("policy", b.getStringAttr(policy)),
       b.getNamedAttr("held_before", b.getI64IntegerAttr(before)),
       b.getNamedAttr("held_after", b.getI64IntegerAttr(plan.getHeldBytes())),
       b.getNamedAttr("recomputed", b.getArrayAttr(rows))});
}

static void emitRemark(func::FuncOp function, const RematPlan::Unit &unit) {
  // The policy did not consider this unit.
  if (!unit.isGivenUp && unit.freed == 0)
    return;
  Location loc = unit.op ? unit.op->getLoc() : function.getLoc();
  auto options = remark::RemarkOpts::name("rematerialize")
                     .category("te-rematerialize")
                     .function(function.getName());
  if (unit.isGivenUp)
    remark::passed(loc, options)
        << remark::add("'{0}' of '{1}' is recomputed: frees {2} bytes, "
                       "moves {3} bytes and does {4} operations",
                       unit.mnemonic, unit.layer, unit.freed - unit.added,
                       unit.traffic, unit.flops);
  else if (unit.freed <= unit.added)
    remark::missed(loc, options)
        << remark::add("'{0}' of '{1}' is not recomputed: that would save {2} "
                       "other bytes to free {3}",
                       unit.mnemonic, unit.layer, unit.added, unit.freed);
  else
    remark::analysis(loc, options)
        << remark::add("'{0}' of '{1}' is saved: the budget is met",
                       unit.mnemonic, unit.layer);
}

namespace {
struct Rematerialize final : te::impl::RematerializePassBase<Rematerialize> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    std::string error;
    FailureOr<RematPolicy> parsed = RematPolicy::parse(policy, error);
    if (failed(parsed))
      return emitError(UnknownLoc::get(context))
             << "option 'policy' of 'te-rematerialize': " << error;
    settled = *parsed;
    return success();
  }

  void runOnOperation() override {
    if (settled.kind == RematPolicy::Kind::Nothing)
      return markAllAnalysesPreserved();
    SmallVector<std::pair<func::FuncOp, std::unique_ptr<RematPlan>>> plans;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        if (!block.getOps<ResidualOp>().empty())
          plans.emplace_back(function, std::make_unique<RematPlan>(block));
    if (failed(checkNames(plans)))
      return signalPassFailure();
    for (auto &[function, plan] : plans)
      if (failed(apply(function, *plan)))
        return signalPassFailure();
  }

private:
  /// Checks that every name of the policy is in a function.
  template <typename Plans> LogicalResult checkNames(const Plans &plans) {
    LogicalResult result = success();
    for (const std::string &name : settled.names) {
      if (llvm::any_of(
              plans, [&](auto &entry) { return entry.second->isKnown(name); }))
        continue;
      llvm::SmallSetVector<StringRef, 16> known;
      for (auto &[function, plan] : plans)
        known.insert_range(plan->getMnemonics());
      InFlightDiagnostic diagnostic =
          withData(emitError(getModuleLoc(getOperation())),
                   {code::kRematUnknown})
          << "expected 'remat' to name ops or layers of a forward, but nothing "
             "is called '"
          << name << "'";
      if (!known.empty())
        diagnostic << "; ops are " << llvm::join(known, ", ");
      result = failure();
    }
    return result;
  }

  LogicalResult apply(func::FuncOp function, RematPlan &plan) {
    const int64_t before = plan.getHeldBytes();
    switch (settled.kind) {
    case RematPolicy::Kind::Nothing:
      break;
    case RematPolicy::Kind::Everything:
      plan.giveUpEverything();
      break;
    case RematPolicy::Kind::Ops:
      plan.giveUp(settled.names);
      break;
    case RematPolicy::Kind::Budget:
      if (failed(plan.giveUpUntil(settled.budget)))
        return refuseBudget(function, plan);
      break;
    }
    for (const RematPlan::Unit &unit : plan.getUnits())
      emitRemark(function, unit);
    Builder b(&getContext());
    DictionaryAttr decisions = describe(b, policy, plan, before);
    function->setAttr(tert::kRematAttr, decisions);
    numGivenUp += cast<ArrayAttr>(decisions.get("recomputed")).size();
    numRepeated += Rematerializer(plan.getBlock(), plan).run();
    return success();
  }

  LogicalResult refuseBudget(func::FuncOp function, const RematPlan &plan) {
    InFlightDiagnostic diagnostic =
        withData(function.emitError(), {code::kMemoryBudget})
        << "expected the values that '" << function.getName()
        << "' saves for its backward to fit in " << settled.budget
        << " bytes, but they need " << plan.getHeldBytes();
    diagnostic.attachNote()
        << "the smallest 'budget' that works is " << plan.getHeldBytes();
    for (auto [bytes, residual] : plan.getLargestHeld(5))
      diagnostic.attachNote(residual->getLoc())
          << "'" << residual.getName() << "' (" << bytes
          << " bytes) is still saved";
    return diagnostic;
  }

  RematPolicy settled;
};
} // namespace
