//===- StepConstraints.cpp - what every GEMM of a step demands ------------===//
//
// Which backward GEMMs a layer will have follows from data flow alone: dgrad
// where its input depends on a differentiated argument, wgrad where its weight
// does. Of each axis of a layer the strictest rule is shown.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/StepConstraints.h"

#include "TEDialect/Analysis/CallSites.h"
#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TEMoe.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

namespace {
/// Axis `axis` of the tensor `value`.
struct TensorAxis {
  Value value;
  unsigned axis;

  /// "rows" or "columns": the matrices of a stack have the last two axes.
  StringRef name() const {
    const int64_t rank = cast<ShapedType>(value.getType()).getRank();
    return axis + 2 == rank ? "rows" : "columns";
  }
};

class Collector {
public:
  Collector(ModuleOp module, StepTarget target)
      : module(module), target(target), sites(module) {}

  StepConstraints collect() {
    module.walk([&](VjpOp vjp) { markDifferentiated(vjp); });
    module.walk([&](Operation *op) {
      if (auto linear = dyn_cast<LinearOp>(op))
        addLinear(linear);
      else if (auto dgrad = dyn_cast<LinearDgradOp>(op))
        add(op, {Gemm::Dgrad}, sizesOf(dgrad.getDy(), dgrad.getDx()),
            weightAxes(dgrad.getDy(), dgrad.getW(),
                       dgrad.getTransposedWeight()));
      else if (auto wgrad = dyn_cast<LinearWgradOp>(op))
        add(op, {Gemm::Wgrad}, sizesOf(wgrad.getDy(), wgrad.getX()),
            {{wgrad.getX(), 0}, {wgrad.getDy(), 1}, {wgrad.getX(), 1}});
      else if (auto grouped = dyn_cast<GroupedLinearOp>(op))
        addGroupedLinear(grouped);
      else if (auto dgrad = dyn_cast<GroupedLinearDgradOp>(op))
        add(op, {Gemm::Dgrad}, groupedSizes(dgrad.getAlignment(), dgrad.getW()),
            {{dgrad.getDy(), 0}, {dgrad.getW(), 1}, {dgrad.getW(), 2}},
            /*isGrouped=*/true);
      else if (auto wgrad = dyn_cast<GroupedLinearWgradOp>(op))
        add(op, {Gemm::Wgrad},
            groupedSizes(wgrad.getAlignment(), wgrad.getDw()),
            {{wgrad.getX(), 0}, {wgrad.getDy(), 1}, {wgrad.getX(), 1}},
            /*isGrouped=*/true);
    });
    return std::move(constraints);
  }

private:
  /// Tensors to name for the axes M, N, K.
  struct AxisTensors {
    TensorAxis m, n, k;
  };

  /// `rows` has the axis M; the weight `w` is [N, K], or `transposed`.
  static AxisTensors weightAxes(Value rows, Value w, bool transposed) {
    const unsigned n = transposed ? 1 : 0;
    return {{rows, 0}, {w, n}, {w, 1 - n}};
  }

  /// Whether `op` is of a layer whose weight is [K, N].
  static bool isTransposed(Operation *op) {
    return llvm::TypeSwitch<Operation *, bool>(op)
        .Case<LinearOp, LinearDgradOp, LinearWgradOp>(
            [](auto layer) { return layer.getTransposedWeight(); })
        .Default(false);
  }

  /// `dy` is [M, N]; `other` is [?, K].
  static LinearSizes sizesOf(Value dy, Value other) {
    ArrayRef<int64_t> shape = cast<ShapedType>(dy.getType()).getShape();
    return {shape[0], shape[1],
            cast<ShapedType>(other.getType()).getShape()[1]};
  }

  /// Every group has a multiple of the alignment of rows; `w` is a stack.
  static LinearSizes groupedSizes(int64_t alignment, Value w) {
    ArrayRef<int64_t> shape = cast<ShapedType>(w.getType()).getShape();
    return {alignment, shape[1], shape[2]};
  }

  /// Marks every value of the callee that depends on an argument in `wrt`.
  void markDifferentiated(VjpOp vjp) {
    auto callee = module.lookupSymbol<func::FuncOp>(vjp.getCallee());
    if (!callee || callee.isExternal())
      return;
    for (int64_t index : vjp.getWrt())
      if (index >= 0 && index < callee.getNumArguments())
        dependent.insert(callee.getArgument(index));
    callee.walk([&](Operation *op) {
      if (llvm::any_of(op->getOperands(),
                       [&](Value v) { return dependent.contains(v); }))
        dependent.insert(op->result_begin(), op->result_end());
    });
  }

  /// Of a layer of input `x` and weight `w`.
  SmallVector<Gemm> gemmsOf(Value x, Value w) const {
    SmallVector<Gemm> gemms = {Gemm::Fprop};
    if (dependent.contains(x))
      gemms.push_back(Gemm::Dgrad);
    if (dependent.contains(w))
      gemms.push_back(Gemm::Wgrad);
    return gemms;
  }

  void addGroupedLinear(GroupedLinearOp linear) {
    auto alignment = static_cast<int64_t>(linear.getAlignment());
    int64_t numGroups = linear.getGroupSizes().getType().getDimSize(0);
    StepGroups rows{
        describeLayer(linear.getLoc(), sites.outermost(linear.getW())),
        linear.getX().getType().getDimSize(0),
        numGroups,
        alignment,
        {},
        {}};
    if (auto permute = linear.getGroupSizes().getDefiningOp<PermuteOp>();
        permute && !permute.getPadded()) {
      rows.entries = permute.getRowOf().getType().getDimSize(0);
      // A group without entries has no rows.
      rows.enough = support::padded(
          *rows.entries + std::min(numGroups, *rows.entries) * (alignment - 1),
          alignment);
    }
    constraints.groups.push_back(std::move(rows));
    add(linear, gemmsOf(linear.getX(), linear.getW()),
        groupedSizes(linear.getAlignment(), linear.getW()),
        {{linear.getX(), 0}, {linear.getW(), 1}, {linear.getW(), 2}},
        /*isGrouped=*/true);
  }

  void addLinear(LinearOp linear) {
    ArrayRef<int64_t> w = linear.getW().getType().getShape();
    const bool transposed = linear.getTransposedWeight();
    add(linear, gemmsOf(linear.getX(), linear.getW()),
        {linear.getX().getType().getShape()[0], w[transposed ? 1 : 0],
         w[transposed ? 0 : 1]},
        weightAxes(linear.getX(), linear.getW(), transposed));
  }

  /// What M demands of groups, their alignment meets or nothing does.
  void add(Operation *op, ArrayRef<Gemm> gemms, LinearSizes sizes,
           AxisTensors tensors, bool isGrouped = false) {
    QuantPolicy policy(RecipeAttr::lookup(op));
    // Operand 1 is the weight of a linear and of a dgrad.
    std::string layer =
        describeLayer(op->getLoc(), sites.outermost(op->getOperand(1)));
    for (char axis : {'M', 'N', 'K'}) {
      if (isGrouped && axis == 'M')
        continue;
      TensorAxis tensor = axis == 'M'   ? tensors.m
                          : axis == 'N' ? tensors.n
                                        : tensors.k;
      std::optional<SizeRule> strictest;
      for (Gemm gemm : gemms)
        for (SizeRule rule : policy.sizeRules(gemm, isTransposed(op))) {
          if (rule.axis == axis &&
              (!strictest || rule.multiple > strictest->multiple))
            strictest = rule;
        }
      if (!strictest)
        continue;
      constraints.sizes.push_back({layer,
                                   describeValue(sites.outermost(tensor.value)),
                                   tensor.name(), sizes, *strictest});
    }
    addRefusals(op, gemms, layer, policy,
                isGrouped ? std::optional<int64_t>(sizes.m) : std::nullopt);
  }

  /// GEMMs that no target has, else those that this target does not have.
  void addRefusals(Operation *op, ArrayRef<Gemm> gemms, StringRef layer,
                   const QuantPolicy &policy,
                   std::optional<int64_t> alignment) {
    SmallVector<StepRefusal> refusals;
    auto elementType = [](Value value) {
      return cast<ShapedType>(value.getType()).getElementType();
    };
    Type result = elementType(op->getResult(0));
    auto linear = dyn_cast<LinearOp>(op);
    auto grouped = dyn_cast<GroupedLinearOp>(op);
    const bool runsInHighPrecision =
        !alignment || !target.target ||
        support::refusePlainGroups(
            *target.target,
            getTypeNumber(elementType(op->getOperand(0))).value_or(-1),
            getTypeNumber(result).value_or(-1))
            .empty();
    for (Gemm gemm : gemms) {
      SmallVector<Type, 2> operands = {elementType(op->getOperand(0)),
                                       elementType(op->getOperand(1))};
      // The gradient of a layer has the type of its result.
      if ((linear || grouped) && gemm != Gemm::Fprop)
        operands[gemm == Gemm::Dgrad ? 0 : 1] = result;
      bool bias =
          (linear && linear.getBias()) || (grouped && grouped.getBias());
      std::string reason =
          policy.refusal(gemm, operands, result, gemm == Gemm::Fprop && bias,
                         isTransposed(op));
      if (reason.empty() && alignment)
        reason = policy.alignmentRefusal(gemm, *alignment);
      if (reason.empty() && target.target)
        reason = alignment
                     ? policy.groupsRefusal(gemm, *target.target,
                                            target.emulate, operands[0], result)
                     : policy.targetRefusal(gemm, *target.target,
                                            target.emulate, isTransposed(op));
      if (reason.empty())
        continue;
      auto *known = llvm::find_if(refusals, [&](const StepRefusal &refusal) {
        return refusal.reason == reason;
      });
      if (known == refusals.end())
        refusals.push_back(
            {op, layer.str(), {gemm}, reason, runsInHighPrecision});
      else
        known->gemms.push_back(gemm);
    }
    llvm::append_range(constraints.refusals, refusals);
  }

  ModuleOp module;
  StepTarget target;
  CallSites sites;
  DenseSet<Value> dependent;
  StepConstraints constraints;
};
} // namespace

StepConstraints mlir::te::collectStepConstraints(ModuleOp module,
                                                 StepTarget target) {
  return Collector(module, target).collect();
}
