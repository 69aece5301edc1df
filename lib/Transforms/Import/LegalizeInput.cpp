//===- LegalizeInput.cpp - te-legalize-input ------------------------------===//
//
// This pass decides which programs the compiler accepts. Calls are inlined
// first. Then every rule is checked on every op, so that a frontend gets all
// errors in one run. Later passes do not repeat the checks. A failure ends the
// pipeline before te-check-constraints, so this pass reports the errors of that
// pass too.
//
//===----------------------------------------------------------------------===//

#include "CheckConstraints.h"

#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/GeneratedBody.h"
#include "TEDialect/Transforms/Import/Passes.h"
#include "TEDialect/Transforms/Utils/Inline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::te {
#define GEN_PASS_DEF_LEGALIZEINPUTPASS
#include "TEDialect/Transforms/Import/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

/// Inlines all calls of a module, callees first.
class CallInliner {
public:
  explicit CallInliner(ModuleOp module) : module(module) {}

  LogicalResult run() {
    LogicalResult result = success();
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(visit(function)))
        result = failure();
    if (failed(result))
      return failure();
    for (func::FuncOp callee : inlined)
      if (callee.isPrivate() &&
          SymbolTable::symbolKnownUseEmpty(callee, module))
        callee.erase();
    return success();
  }

  unsigned getNumInlined() const { return numInlined; }

private:
  enum class State { Unseen, Open, Done };

  /// Bounds of what a program makes, far above those of real ones: a few short
  /// functions can ask for 2^30 operations.
  static constexpr size_t kMaxOps = 1 << 20, kMaxDepth = 256;

  LogicalResult visit(func::FuncOp function) {
    states[function] = State::Open;
    LogicalResult result = success();
    SmallVector<func::CallOp> calls(function.getOps<func::CallOp>());
    for (func::CallOp call : calls)
      if (failed(inlineCall(call)))
        result = failure();
    states[function] = State::Done;
    return result;
  }

  LogicalResult inlineCall(func::CallOp call) {
    auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
    if (!callee || !llvm::hasSingleElement(callee.getBody()))
      return call.emitError() << "expected '@" << call.getCallee()
                              << "' to have a body of one block, to inline it";
    if (states.lookup(callee) == State::Open)
      return call.emitError() << "expected '@" << call.getCallee()
                              << "' not to call itself, directly or not";
    if (states.lookup(callee) == State::Unseen) {
      if (depth == kMaxDepth)
        return call.emitError() << "expected calls to be nested at most "
                                << kMaxDepth << " deep, but got more";
      ++depth;
      const LogicalResult visited = visit(callee);
      --depth;
      if (failed(visited))
        return failure();
    }
    if (numOps > kMaxOps)
      return failure(); // Said already.
    callee.walk([&](Operation *) { ++numOps; });
    if (numOps > kMaxOps)
      return call.emitError()
             << "expected calls to become at most " << kMaxOps
             << " operations when they are inlined, but got more";

    func::FuncOp copy = callee.clone();
    pinRecipes(copy, callee, call);
    Block &body = copy.getBody().front();
    for (auto [parameter, value] :
         llvm::zip(body.getArguments(), call.getOperands()))
      parameter.replaceAllUsesWith(value);
    for (Operation &op : body)
      op.setLoc(CallSiteLoc::get(op.getLoc(), call.getLoc()));
    Operation *terminator = body.getTerminator();
    call.replaceAllUsesWith(terminator->getOperands());
    terminator->erase();
    call->getBlock()->getOperations().splice(call->getIterator(),
                                             body.getOperations());
    call.erase();
    copy.erase();
    inlined.insert(callee);
    ++numInlined;
    return success();
  }

  ModuleOp module;
  DenseMap<Operation *, State> states;
  llvm::SetVector<func::FuncOp> inlined;
  unsigned numInlined = 0;
  /// Operations copied so far, and functions being visited.
  size_t numOps = 0, depth = 0;
};

/// More bytes than any device has, and few enough that no sum of sizes
/// overflows.
constexpr uint64_t kMaxBytes = uint64_t(1) << 40;

/// Bytes of `shape`, saturated to the largest number. A size of 0 counts as 1,
/// because buffers beside the tensor may have only its other sizes.
uint64_t saturatingBytes(ArrayRef<int64_t> shape, Type element) {
  uint64_t bytes = element.getIntOrFloatBitWidth() / 8;
  for (int64_t size : shape)
    bytes = llvm::SaturatingMultiply(bytes, std::max<uint64_t>(size, 1));
  return bytes;
}

/// Checks every rule on every op of a module; `failed()` if one is violated.
class InputChecker {
public:
  void check(ModuleOp module) {
    for (Operation &op : *module.getBody()) {
      if (auto function = dyn_cast<func::FuncOp>(op))
        check(function);
      else
        report(op.getLoc())
            << "expected only functions in the module, but got '"
            << op.getName() << "'";
    }
  }

  /// A compiled module is one step.
  void checkOneEntry(ModuleOp module) {
    SmallVector<func::FuncOp> entries;
    for (auto function : module.getOps<func::FuncOp>())
      if (function.isPublic())
        entries.push_back(function);
    if (entries.size() < 2)
      return;
    InFlightDiagnostic diagnostic = report(entries[1].getLoc());
    diagnostic << "expected one public function, the step, but got ";
    llvm::interleaveComma(entries, diagnostic, [&](func::FuncOp function) {
      diagnostic << "'@" << function.getName() << "'";
    });
    diagnostic << "; make the others private ('func.func private'), or compile "
                  "them as modules of their own; a function that only exists "
                  "to be differentiated is private and named by 'vjp='";
    diagnostic.attachNote(entries[0].getLoc())
        << "'@" << entries[0].getName() << "' is here";
  }

  bool foundViolation() const { return violated; }

private:
  InFlightDiagnostic report(Location loc, StringRef code = "") {
    violated = true;
    return withData(emitError(loc), {code});
  }

  void check(func::FuncOp function) {
    if (!llvm::hasSingleElement(function.getBody())) {
      report(function.getLoc()) << "expected '@" << function.getName()
                                << "' to have a body of one block, but it has "
                                << function.getBody().getBlocks().size();
      return;
    }
    checkNames(function);
    for (auto [i, argument] : llvm::enumerate(function.getArguments()))
      checkType(argument, "argument " + Twine(i).str());
    for (Operation &op : function.getBody().front()) {
      checkOp(&op);
      for (Value result : op.getResults())
        checkType(result,
                  ("a result of '" + op.getName().getStringRef() + "'").str());
    }
  }

  void checkOp(Operation *op) {
    // An error was reported for a call that could not be inlined.
    if (isa<func::ReturnOp, func::CallOp, tensor::CollapseShapeOp,
            tensor::ExpandShapeOp>(op))
      return;
    if (isa<tensor::EmptyOp>(op)) {
      for (OpOperand &use : op->getUses()) {
        if (isa<linalg::BroadcastOp, linalg::TransposeOp>(use.getOwner()) &&
            use.getOperandNumber() == 1)
          continue;
        report(op->getLoc())
            << "expected a tensor.empty to be only what a linalg.broadcast or "
               "linalg.transpose writes, but '"
            << use.getOwner()->getName() << "' reads it";
        return;
      }
      return;
    }
    if (isDataMovement(op) || isa<linalg::ReduceOp>(op))
      return checkMovement(op);
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      // Sizes of groups are i32.
      if (isa<TensorType>(constant.getType()) &&
          !(elements && (elements.getElementType().isSignlessInteger(32) ||
                         (elements.isSplat() &&
                          isa<FloatType>(elements.getElementType())))))
        report(op->getLoc())
            << "expected a constant tensor to hold one float in every element, "
               "or i32; pass others as arguments";
      return;
    }
    Dialect *dialect = op->getDialect();
    if (isa_and_present<TEDialect>(dialect))
      return;
    if (auto narrow = dyn_cast<arith::TruncFOp>(op);
        narrow && narrow.getRoundingmode().value_or(
                      arith::RoundingMode::to_nearest_even) !=
                      arith::RoundingMode::to_nearest_even) {
      report(op->getLoc())
          << "expected 'roundingmode' to be to_nearest_even, the only one that "
             "code is generated for";
      return;
    }
    if (auto select = dyn_cast<arith::SelectOp>(op);
        select && !select.getCondition().getDefiningOp<arith::CmpFOp>()) {
      report(op->getLoc()) << "expected the condition of an arith.select to be "
                              "the result of an arith.cmpf";
      return;
    }
    if (isa<arith::CmpFOp>(op))
      return checkReaders(op);
    if (tert::isElementwiseOp(op->getName().getStringRef()))
      return;
    if (isa_and_present<arith::ArithDialect, math::MathDialect>(dialect)) {
      InFlightDiagnostic diagnostic = report(op->getLoc(), code::kNoKernel);
      diagnostic << "the runtime has no kernel for '" << op->getName()
                 << "'; of arith and math it has ";
      llvm::interleaveComma(tert::getElementwiseOps(), diagnostic,
                            [&](StringRef known) { diagnostic << known; });
      return;
    }
    report(op->getLoc())
        << "expected a te op, elementwise arith or math, a reshape, slice or "
           "concat of tensor, a broadcast, transpose or reduce of linalg, or a "
           "constant, but got '"
        << op->getName() << "'";
  }

  /// Truth values are never stored.
  void checkReaders(Operation *comparison) {
    for (OpOperand &use : comparison->getUses())
      if (!isa<arith::SelectOp>(use.getOwner()) || use.getOperandNumber() != 0)
        report(comparison->getLoc())
            << "expected an arith.cmpf to be only the condition of an "
               "arith.select, but '"
            << use.getOwner()->getName() << "' reads it";
  }

  /// Slices and sums have more forms than the runtime has code for.
  void checkMovement(Operation *op) {
    const Type type = op->getOperand(0).getType();
    const Type element = getElementTypeOrSelf(type);
    auto expect = [&](const Twine &what) {
      report(op->getLoc()) << "expected a " << op->getName() << " " << what
                           << ", but got one of " << type;
    };
    if (!element.isF32() && !element.isBF16() && !element.isF16())
      return expect("of f32, bf16 or f16");
    auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
    if (slice &&
        (slice.getSourceType().getRank() != slice.getType().getRank() ||
         ShapedType::isDynamicShape(slice.getStaticOffsets()) ||
         ShapedType::isDynamicShape(slice.getStaticSizes()) ||
         !llvm::all_of(slice.getStaticStrides(),
                       [](int64_t stride) { return stride == 1; })))
      return expect("with constant offsets and sizes, strides of 1 and no "
                    "dropped dimensions");
    auto reduce = dyn_cast<linalg::ReduceOp>(op);
    if (!reduce)
      return;
    if (!element.isF32() || reduce.getInputs().size() != 1 ||
        reduce.getDimensions().empty() || !isKnownReduction(reduce))
      return expect("of f32 to add all elements of at least one dimension to "
                    "zero, or to take the arith.maximumf of them and -inf, or "
                    "the arith.minimumf of them and +inf");
    // A region reduces rows, of which a longer one becomes several.
    if (!isSum(reduce) &&
        llvm::any_of(reduce.getDimensions(), [&](int64_t axis) {
          return cast<ShapedType>(type).getDimSize(axis) >
                 tert::kMostColsOfReduction;
        }))
      expect("that takes the maximum or minimum of dimensions of at most " +
             Twine(tert::kMostColsOfReduction) + " elements");
  }

  /// Whether a reduction begins with the neutral element of its only op.
  static bool isKnownReduction(linalg::ReduceOp reduce) {
    Block &body = *reduce.getBody();
    Operation &op = body.front();
    if (op.getNumOperands() != 2 || op.getNumResults() != 1 ||
        op.getNextNode() != body.getTerminator() ||
        body.getTerminator()->getOperand(0) != op.getResult(0) ||
        !llvm::is_contained(op.getOperands(), body.getArgument(0)) ||
        !llvm::is_contained(op.getOperands(), body.getArgument(1)))
      return false;
    const Value init = reduce.getInits().front();
    return isa<arith::AddFOp>(op) ? matchPattern(init, m_AnyZeroFloat())
           : isa<arith::MaximumFOp>(op)
               ? matchPattern(init, m_NegInfFloat())
               : isa<arith::MinimumFOp>(op) &&
                     matchPattern(init, m_PosInfFloat());
  }

  /// Whether only te.adamw computes and reads a value: as moments of 8 bits.
  static bool isMoment(Value value) {
    return isa<Float8E4M3FNType, Float8E5M2Type>(getElementTypeOrSelf(value)) &&
           (isa<BlockArgument>(value) || value.getDefiningOp<AdamWOp>()) &&
           llvm::all_of(value.getUsers(), [](Operation *user) {
             return isa<AdamWOp, func::CallOp, func::ReturnOp>(user);
           });
  }

  void checkType(Value value, const std::string &what) {
    Location loc = value.getLoc();
    auto comparison = value.getDefiningOp<arith::CmpFOp>();
    Type type =
        comparison ? comparison.getOperand(0).getType() : value.getType();
    if (auto scaled = dyn_cast<ScaledType>(type)) {
      checkBytes(loc, type, {scaled.getRows(), scaled.getCols()},
                 scaled.getElementType(), what);
      return;
    }
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape()) {
      report(loc) << "expected " << what
                  << " to be a tensor of static shape, but got " << type;
      return;
    }
    Type element = tensor.getElementType();
    if (!element.isBF16() && !element.isF16() && !element.isF32() &&
        !element.isSignlessInteger(32) && !isMoment(value))
      report(loc) << "expected " << what
                  << " to have elements of bf16, f16, f32 or i32, but got "
                  << type;
    else
      checkBytes(loc, type, tensor.getShape(), element, what);
  }

  void checkBytes(Location loc, Type type, ArrayRef<int64_t> shape,
                  Type element, const std::string &what) {
    if (saturatingBytes(shape, element) < kMaxBytes)
      return;
    InFlightDiagnostic diagnostic = report(loc);
    diagnostic << "expected " << what << " to take fewer than " << kMaxBytes
               << " bytes (2^40), but got " << type << ", which takes ";
    for (int64_t size : shape)
      diagnostic << size << " x ";
    diagnostic << element.getIntOrFloatBitWidth() / 8;
  }

  /// A name is unique among arguments and among results; an argument and a
  /// result with one name are a state.
  void checkNames(func::FuncOp function) {
    llvm::StringMap<unsigned> arguments, results;
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
      auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr);
      if (!name)
        continue;
      auto [previous, isNew] = arguments.try_emplace(name.getValue(), i);
      if (!isNew)
        report(function.getArgument(i).getLoc())
            << "expected arguments to have different names, but arguments "
            << previous->second << " and " << i << " of '@"
            << function.getName() << "' are both '" << name.getValue() << "'";
    }
    for (unsigned i = 0, e = function.getNumResults(); i < e; ++i) {
      auto name = function.getResultAttrOfType<StringAttr>(i, kNameAttr);
      if (!name)
        continue;
      auto [previous, isNew] = results.try_emplace(name.getValue(), i);
      if (!isNew)
        report(function.getLoc())
            << "expected results to have different names, but results "
            << previous->second << " and " << i << " of '@"
            << function.getName() << "' are both '" << name.getValue() << "'";
      auto state = arguments.find(name.getValue());
      if (state == arguments.end())
        continue;
      Type argumentType = function.getArgumentTypes()[state->second];
      Type resultType = function.getResultTypes()[i];
      if (argumentType != resultType)
        report(function.getLoc())
            << "expected result '" << name.getValue()
            << "' to have the type of the argument whose next state it is, but "
               "got "
            << resultType << " and " << argumentType;
    }
  }

  bool violated = false;
};

class LegalizeInput final
    : public te::impl::LegalizeInputPassBase<LegalizeInput> {
public:
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    FailureOr<StepTarget> parsed =
        parseStepTarget(context, getArgument(), target, emulate);
    stepTarget = parsed.value_or(StepTarget());
    return parsed;
  }

  void runOnOperation() override {
    CallInliner inliner(getOperation());
    LogicalResult inlining = inliner.run();
    numInlined += inliner.getNumInlined();
    InputChecker checker;
    checker.check(getOperation());
    if (oneEntry)
      checker.checkOneEntry(getOperation());
    if (succeeded(inlining) && !checker.foundViolation())
      return;
    reportConstraintViolations(getOperation(), stepTarget,
                               /*asWarnings=*/false);
    signalPassFailure();
  }

private:
  StepTarget stepTarget;
};

} // namespace
