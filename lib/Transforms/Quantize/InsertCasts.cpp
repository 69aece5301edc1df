//===- InsertCasts.cpp - linear layers into casts and GEMMs ---------------===//
//
// Linear layers, and then their backward GEMMs, are replaced one at a time, in
// the order of the program. The policy decides what each of them reads. The
// parts of the work are in other files:
//
//   LayerGemms        describes the GEMM of a layer and builds its replacement
//   CastPlacement     where the casts of its operands go
//   OperandCasts      the ops of one cast
//   DelayedSlots      the scales that delayed scaling carries between steps
//   GatheredOperands  which parts of a tensor are cast before they are gathered
//   LayerPadding      the zeros up to the sizes that casts need
//
// A weight [K, N] is contracted along the other axes, and the operands of its
// wgrad are exchanged: the casts and sums are those of a weight [N, K]. Layers
// of groups are replaced in the same way, with a scale, an amax or a state for
// each group.
//
//===----------------------------------------------------------------------===//

#include "CastPlacement.h"
#include "GatheredOperands.h"
#include "LayerPadding.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/IR/Support.h"
#include "TEDialect/Transforms/Quantize/Passes.h"
#include "TEDialect/Transforms/TargetOption.h"
#include "TEDialect/Transforms/Utils/Padding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace mlir::te {
#define GEN_PASS_DEF_INSERTCASTSPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

static StringRef stringifyMode(OperandMode mode) {
  switch (mode) {
  case OperandMode::HighPrecision:
    return "te.matmul on the original operands";
  case OperandMode::Dequantized:
    return "te.matmul on dequantised operands";
  case OperandMode::Quantized:
    return "te.scaled_matmul";
  }
  llvm_unreachable("all modes are listed");
}

namespace {
/// How one GEMM is computed, and why.
struct Decision {
  OperandMode mode;
  GemmOrigin origin;
};

class CastInserter {
public:
  CastInserter(func::FuncOp function, bool strict, bool calibrate,
               bool anyLayout)
      : function(function), strict(strict), calibrate(calibrate),
        states(function), slots(function, states), casts(states, slots),
        placement(function, casts, slots, anyLayout) {}

  LogicalResult run();

  unsigned numQuantized = 0;
  unsigned numHighPrecision = 0;
  unsigned numCalibrated = 0;

private:
  LogicalResult rewrite(LayerGemm gemm);
  std::string layerName(const LayerGemm &gemm);
  FailureOr<Decision> decide(const LayerGemm &gemm, const Layer &layer);
  Operation *createProduct(LayerGemm &gemm, Location loc, const Layer &layer,
                           OperandMode mode);
  void emitRemark(Location loc, const Decision &decision);

  func::FuncOp function;
  bool strict;
  /// Whether tensors that would be quantised are only measured.
  bool calibrate;
  StateThreading states;
  DelayedSlots slots;
  OperandCasts casts;
  CastPlacement placement;
  std::optional<LayerPadding> padding;
  /// The names of forward layers by location, because a backward GEMM has the
  /// location of its layer. Empty if two layers have one location.
  DenseMap<Location, std::string> layerAt;
};
} // namespace

std::string CastInserter::layerName(const LayerGemm &gemm) {
  if (gemm.gemm != Gemm::Wgrad)
    return describeLayer(gemm.op->getLoc(), gemm.b.value);
  // A wgrad does not read the weight that the layer is named after.
  auto found = layerAt.find(gemm.op->getLoc());
  return found != layerAt.end() && !found->second.empty()
             ? found->second
             : describeLayer(gemm.op->getLoc(), gemm.ofForward().value);
}

FailureOr<Decision> CastInserter::decide(const LayerGemm &gemm,
                                         const Layer &layer) {
  const QuantPolicy &policy = layer.policy;
  Decision decision{policy.operandMode(gemm.gemm), {}};
  auto &[mode, origin] = decision;
  origin.layer = layer.name;
  origin.gemm = stringifyGemm(gemm.gemm).str();
  origin.reason = policy.reason(gemm.gemm);
  if (std::string rule = refuseMode(gemm, policy, mode); !rule.empty()) {
    if (strict)
      return withData(gemm.op->emitError(), {code::kFallback, origin.layer})
             << origin.gemm << " of '" << origin.layer << "' cannot run as "
             << origin.reason << " says: " << rule;
    mode = OperandMode::HighPrecision;
    origin.fallback = true;
    origin.reason = "fallback: " + rule;
  }
  const RecipeKind kind = policy.recipeOf(gemm.gemm).getKind();
  if (mode == OperandMode::Quantized &&
      (kind == RecipeKind::DelayedScaling ||
       kind == RecipeKind::NvFp4BlockScaling) &&
      (gemm.op->getParentOp() != function || !function.getBody().hasOneBlock()))
    return gemm.op->emitError()
           << "expected a layer with recipe '" << stringifyRecipeKind(kind)
           << "' to be in the one block of its function";
  return decision;
}

Operation *CastInserter::createProduct(LayerGemm &gemm, Location loc,
                                       const Layer &layer, OperandMode mode) {
  OpBuilder builder(gemm.op);
  if (mode == OperandMode::Quantized) {
    for (Operand *operand : {&gemm.a, &gemm.b})
      *operand = keepExactGather(*operand, layer.policy, function.getName());
    Value a = placement.castFor(gemm.op, gemm.a, layer);
    Value b = placement.castFor(gemm.op, gemm.b, layer);
    ++numQuantized;
    return createScaledGemm(builder, loc, gemm, a, b,
                            layer.policy.fastAccumulation(gemm.gemm));
  }
  Value a = gemm.a.whole(), b = gemm.b.whole();
  if (const Operand &saved = gemm.ofForward(); mode == OperandMode::Dequantized)
    (&saved == &gemm.a ? a : b) =
        placement.dequantizedFor(gemm.op, saved, layer);
  ++numHighPrecision;
  return createPlainGemm(builder, loc, gemm, a, b);
}

void CastInserter::emitRemark(Location loc, const Decision &decision) {
  const GemmOrigin &origin = decision.origin;
  auto options = remark::RemarkOpts::name("gemm-precision")
                     .category("te-insert-casts")
                     .function(function.getName());
  auto emit = [&](remark::detail::InFlightRemark &&out) {
    out << remark::add("{0} of '{1}' became {2}", origin.gemm, origin.layer,
                       stringifyMode(decision.mode))
        << remark::reason("{0}", origin.reason);
  };
  // A remark is 'missed' only if the recipe asked for another precision.
  if (origin.fallback)
    emit(remark::missed(loc, options));
  else if (decision.mode == OperandMode::Quantized)
    emit(remark::passed(loc, options));
  else
    emit(remark::analysis(loc, options));
}

LogicalResult CastInserter::rewrite(LayerGemm gemm) {
  Operation *op = gemm.op;
  padding->applyTo(gemm);
  const Layer layer = {layerName(gemm), QuantPolicy(RecipeAttr::lookup(op))};
  FailureOr<Decision> decision = decide(gemm, layer);
  if (failed(decision))
    return failure();
  if (calibrate && decision->mode != OperandMode::HighPrecision) {
    if (decision->mode == OperandMode::Quantized)
      for (const Operand &operand : {gemm.a, gemm.b})
        placement.measureFor(op, operand, layer);
    decision->mode = OperandMode::HighPrecision;
    decision->origin.reason = "calibration for " + decision->origin.reason;
    ++numCalibrated;
  }
  if (decision->mode == OperandMode::Quantized)
    if (std::string sizes = describePadding(gemm); !sizes.empty())
      decision->origin.reason += ", padded: " + sizes;
  Operation *product = createProduct(
      gemm, decision->origin.attach(op->getLoc()), layer, decision->mode);
  emitRemark(op->getLoc(), *decision);
  if (gemm.gemm == Gemm::Fprop) {
    placement.replacedForward(gemm, product);
    // The backward cannot distinguish two layers with one location.
    auto [entry, isNew] = layerAt.try_emplace(op->getLoc(), layer.name);
    if (!isNew && entry->second != layer.name)
      entry->second.clear();
  }
  OpBuilder builder(op);
  op->replaceAllUsesWith(
      ValueRange{cutTo(builder, op->getLoc(), product->getResult(0),
                       op->getResult(0).getType())});
  op->erase();
  return success();
}

/// The layers are those of one rank.
static LogicalResult checkNotParallel(ArrayRef<Operation *> layers) {
  LogicalResult result = success();
  for (Operation *op : layers)
    if (op->getAttrOfType<ParallelAttr>("parallel"))
      result = op->emitError()
               << "expected parallel layers to be replaced before "
                  "'te-insert-casts'; run 'te-insert-collectives' first";
  return result;
}

LogicalResult CastInserter::run() {
  if (function.isExternal())
    return success();
  if (failed(checkNoCalls(function, "te-insert-casts")))
    return failure();
  SmallVector<Operation *> layers, backward;
  function.walk([&](Operation *op) {
    if (isForwardLayer(op))
      layers.push_back(op);
    else if (isBackwardLayer(op))
      backward.push_back(op);
  });
  // Those of the forward first.
  layers.append(backward);
  if (failed(checkNotParallel(layers)))
    return failure();
  padding.emplace(layers);
  LogicalResult result = success();
  for (Operation *op : layers)
    if (failed(rewrite(describeLayerGemm(op))))
      result = failure();
  if (succeeded(result)) {
    OpBuilder builder(function.getBody().front().getTerminator());
    casts.finish(builder);
    slots.update(builder);
    states.finish();
  }
  placement.eraseUnusedResiduals();
  return result;
}

namespace {
struct InsertCasts final : te::impl::InsertCastsPassBase<InsertCasts> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTargetOption(context, getArgument(), target.getValue());
  }

  void runOnOperation() override {
    CastInserter inserter(getOperation(), strict, calibrate,
                          support::parseTarget(target.getValue()) ==
                              support::Target::Sm100);
    if (failed(inserter.run()))
      return signalPassFailure();
    numQuantized += inserter.numQuantized;
    numHighPrecision += inserter.numHighPrecision;
    numCalibrated += inserter.numCalibrated;
  }
};
} // namespace
