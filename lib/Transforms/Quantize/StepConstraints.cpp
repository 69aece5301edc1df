//===- StepConstraints.cpp - size rules of every GEMM of a step -----------===//
//
// Which backward GEMMs a layer will have follows from data flow alone: dgrad
// where its input depends on a differentiated argument, wgrad where its weight
// does. For each axis only the strictest rule is kept; all multiples are powers
// of two, so it implies the others.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Transforms/Quantize/StepConstraints.h"

#include "TEDialect/Transforms/Quantize/GemmOrigin.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::te;

namespace {
class Collector {
public:
  explicit Collector(ModuleOp module) : module(module) {}

  SmallVector<StepConstraint> collect() {
    module.walk([&](VjpOp vjp) { markDifferentiated(vjp); });
    module.walk([&](Operation *op) {
      if (auto linear = dyn_cast<LinearOp>(op))
        addLinear(linear);
      else if (auto dgrad = dyn_cast<LinearDgradOp>(op))
        add(op, {Gemm::Dgrad}, sizesOf(dgrad.getDy(), dgrad.getW()),
            {dgrad.getDy(), dgrad.getW(), dgrad.getW()});
      else if (auto wgrad = dyn_cast<LinearWgradOp>(op))
        add(op, {Gemm::Wgrad}, sizesOf(wgrad.getDy(), wgrad.getX()),
            {wgrad.getX(), wgrad.getDy(), wgrad.getX()});
    });
    return std::move(constraints);
  }

private:
  /// Tensors to name for the axes M, N, K.
  struct AxisTensors {
    Value m, n, k;
  };

  /// `dy` is [M, N]; `other` is [?, K].
  static LinearSizes sizesOf(Value dy, Value other) {
    ArrayRef<int64_t> shape = cast<ShapedType>(dy.getType()).getShape();
    return {shape[0], shape[1],
            cast<ShapedType>(other.getType()).getShape()[1]};
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

  void addLinear(LinearOp linear) {
    ArrayRef<int64_t> w = linear.getW().getType().getShape();
    SmallVector<Gemm> gemms = {Gemm::Fprop};
    if (dependent.contains(linear.getX()))
      gemms.push_back(Gemm::Dgrad);
    if (dependent.contains(linear.getW()))
      gemms.push_back(Gemm::Wgrad);
    add(linear, gemms, {linear.getX().getType().getShape()[0], w[0], w[1]},
        {linear.getX(), linear.getW(), linear.getW()});
  }

  void add(Operation *op, ArrayRef<Gemm> gemms, LinearSizes sizes,
           AxisTensors tensors) {
    QuantPolicy policy(RecipeAttr::lookup(op));
    // Operand 1 is the weight of a linear and of a dgrad.
    std::string layer = describeLayer(op->getLoc(), op->getOperand(1));
    for (char axis : {'M', 'N', 'K'}) {
      std::optional<SizeRule> strictest;
      for (Gemm gemm : gemms)
        for (SizeRule rule : policy.sizeRules(gemm))
          if (rule.axis == axis &&
              (!strictest || rule.multiple > strictest->multiple))
            strictest = rule;
      if (!strictest)
        continue;
      Value tensor = axis == 'M'   ? tensors.m
                     : axis == 'N' ? tensors.n
                                   : tensors.k;
      bool isDyColumns = isa<LinearWgradOp>(op) && axis == 'N';
      constraints.push_back({op, layer, describeValue(tensor),
                             axis == 'K' || isDyColumns ? "columns" : "rows",
                             sizes, *strictest});
    }
  }

  ModuleOp module;
  DenseSet<Value> dependent;
  SmallVector<StepConstraint> constraints;
};
} // namespace

bool mlir::te::breaksBiasRule(LinearOp linear) {
  return linear.getBias() && linear.getY().getType().getElementType().isF16() &&
         RecipeAttr::lookup(linear).isQuantized();
}

SmallVector<StepConstraint> mlir::te::collectStepConstraints(ModuleOp module) {
  return Collector(module).collect();
}
