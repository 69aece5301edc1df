//===- LayerPadding.cpp - zeros up to the sizes that casts need -----------===//

#include "LayerPadding.h"
#include "ZeroPadding.h"

#include "TEDialect/Transforms/Utils/Padding.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::te;

namespace {
/// What shares casts: a tensor, the recipe, and the alignment of its groups.
using Key = std::tuple<Value, Attribute, int64_t>;
} // namespace

static Key keyOf(const Operand &operand, RecipeAttr recipe) {
  Value tensor = behindResiduals(operand.whole());
  // A rounding of a weight may be repeated for each of its readers.
  while (auto rounded = tensor.getDefiningOp<arith::TruncFOp>())
    tensor = behindResiduals(rounded.getIn());
  return {tensor, recipe, operand.alignment};
}

/// The last two axes of `operand`, as sizes of a layer.
static StringRef axesOf(const Operand &operand) {
  switch (operand.role) {
  case TensorRole::X:
    return "MK";
  case TensorRole::W:
    return operand.isTransposed ? "KN" : "NK";
  case TensorRole::Dy:
    return "MN";
  }
  llvm_unreachable("all roles are listed");
}

LayerPadding::LayerPadding(ArrayRef<Operation *> layers) {
  DenseMap<Key, Multiples> multiples;
  // The GEMMs whose contracted axes have one padding.
  SmallVector<std::pair<LayerGemm, RecipeAttr>> quantized;
  DenseMap<Operation *, std::array<Key, 2>> keys;
  for (Operation *op : layers) {
    const LayerGemm gemm = describeLayerGemm(op);
    const RecipeAttr recipe = RecipeAttr::lookup(op);
    const QuantPolicy policy(recipe);
    const OperandMode mode = policy.operandMode(gemm.gemm);
    if (mode == OperandMode::HighPrecision ||
        !refuseMode(gemm, policy, mode).empty())
      continue;
    const bool isDequantized = mode == OperandMode::Dequantized;
    for (const Operand *operand : {&gemm.a, &gemm.b}) {
      if (isDequantized && operand != &gemm.ofForward())
        continue;
      Multiples &found =
          multiples.try_emplace(keyOf(*operand, recipe), Multiples{1, 1})
              .first->second;
      // What is dequantised is the cast of the forward.
      for (SizeRule rule : policy.sizeRules(
               isDequantized ? Gemm::Fprop : gemm.gemm, gemm.isTransposed)) {
        const size_t axis = axesOf(*operand).find(rule.axis);
        // Groups start at multiples of their alignment already.
        if (axis != StringRef::npos && !(rule.axis == 'M' && gemm.groupSizes))
          found[axis] = std::lcm(found[axis], rule.multiple);
      }
    }
    keys[op] = {keyOf(gemm.a, recipe), keyOf(gemm.b, recipe)};
    if (!isDequantized)
      quantized.push_back({gemm, recipe});
  }
  for (bool changed = true; std::exchange(changed, false);)
    for (const auto &[gemm, recipe] : quantized) {
      int64_t &a = multiples[keyOf(gemm.a, recipe)][gemm.a.contract];
      int64_t &b = multiples[keyOf(gemm.b, recipe)][gemm.b.contract];
      changed |= a != b;
      a = b = std::lcm(a, b);
    }
  for (auto &[op, pair] : keys)
    multiplesOf[op] = {multiples.lookup(pair[0]), multiples.lookup(pair[1])};
}

void LayerPadding::applyTo(LayerGemm &gemm) const {
  auto found = multiplesOf.find(gemm.op);
  if (found == multiplesOf.end())
    return;
  for (auto [operand, multiples] :
       llvm::zip(std::array<Operand *, 2>{&gemm.a, &gemm.b}, found->second)) {
    auto whole = cast<ShapedType>(operand->whole().getType()).getShape();
    for (auto [padding, size, multiple] :
         llvm::zip(operand->padding, whole.take_back(2), multiples))
      // Nothing is known of a tensor that is not cast.
      padding = multiple ? llvm::alignTo(size, multiple) - size : 0;
  }
}

std::string te::describePadding(const LayerGemm &gemm) {
  std::string text;
  for (auto [axis, size] :
       {std::pair('M', gemm.sizes.m), std::pair('N', gemm.sizes.n),
        std::pair('K', gemm.sizes.k)})
    for (const Operand *operand : {&gemm.a, &gemm.b}) {
      const size_t index = axesOf(*operand).find(axis);
      if (index == StringRef::npos)
        continue;
      describePadding(axis, size, size + operand->padding[index], text);
      break;
    }
  return text;
}
