//===- FormRegions.cpp - elementwise ops that become one launch -----------===//
//
// A region is a set of elementwise ops of one shape that run together, where
// its last op stands. An op joins the region of an operand unless somebody
// outside needs the operand earlier, or the region would hold more memory until
// then than it frees.
//
//===----------------------------------------------------------------------===//

#include "LaunchEmitter.h"

#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/PointwiseOps.h"
#include "TEDialect/Transforms/ConvertToTERT/Kernels.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::te {
#define GEN_PASS_DEF_FORMREGIONSPASS
#include "TEDialect/Transforms/ConvertToTERT/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// A bound on the time to compile a region, in additions.
static constexpr unsigned kMostCost = 64;

/// What an op costs in additions, of code and so of time to compile it.
static unsigned costOf(Operation *op) {
  return isa<math::TanhOp>(op)                  ? 16
         : isa<math::ExpOp>(op)                 ? 8
         : isa<math::SqrtOp, arith::DivFOp>(op) ? 4
                                                : 1;
}

/// An elementwise op that generated code can compute.
static bool isFusible(Operation &op) {
  auto type = op.getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(op.getResult(0).getType())
                  : RankedTensorType();
  if (!type || !type.hasStaticShape() ||
      !tert::lookupPointwise(op.getName().getStringRef()))
    return false;
  if (auto narrow = dyn_cast<arith::TruncFOp>(op);
      narrow &&
      narrow.getRoundingmode().value_or(arith::RoundingMode::to_nearest_even) !=
          arith::RoundingMode::to_nearest_even)
    return false;
  auto isFloat = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isF32() || element.isBF16() || element.isF16();
  };
  return isFloat(type) && llvm::all_of(op.getOperandTypes(), isFloat);
}

/// The number that every element of `value` is, if it is a constant.
static std::optional<APFloat> splatOf(Value value) {
  DenseFPElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)) && constant.isSplat())
    return constant.getSplatValue<APFloat>();
  return std::nullopt;
}

static int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

namespace {

using Region = llvm::SmallSetVector<Operation *, 4>;

/// What a region reads, constants apart, and what others read of it.
struct Interface {
  llvm::SmallSetVector<Value, 8> inputs;
  SmallVector<Value, 4> outputs;
};

struct FormRegions final : te::impl::FormRegionsPassBase<FormRegions> {
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registerTEKernels(registry);
  }

  void runOnOperation() override {
    const tert::KernelInfo *kernel = tert::lookupKernel("generated");
    for (const tert::KernelBuffer &buffer : kernel->buffers)
      ++(buffer.isOutput ? mostOutputs : mostInputs);
    for (Block &block : getOperation().getBody())
      form(block);
  }

private:
  void form(Block &block);
  bool mayJoin(const Region &earlier, const Region &later, Operation *last);
  void replace(const Region &region);

  static Interface interfaceOf(const Region &region);

  size_t mostInputs = 0, mostOutputs = 0;
  DenseMap<Operation *, unsigned> positions;
  /// How many ops that compute something stand before each position.
  SmallVector<unsigned> launchesBefore;
};

} // namespace

Interface FormRegions::interfaceOf(const Region &region) {
  Interface interface;
  for (Operation *op : region) {
    for (Value operand : op->getOperands())
      if (!region.contains(operand.getDefiningOp()) && !splatOf(operand))
        interface.inputs.insert(operand);
    if (llvm::any_of(op->getUsers(),
                     [&](Operation *user) { return !region.contains(user); }))
      interface.outputs.push_back(op->getResult(0));
  }
  return interface;
}

/// Whether `earlier` may run where `last`, the last op of `later`, stands.
bool FormRegions::mayJoin(const Region &earlier, const Region &later,
                          Operation *last) {
  unsigned cost = 0;
  for (const Region *region : {&earlier, &later})
    for (Operation *op : *region)
      cost += costOf(op);
  if (cost > kMostCost)
    return false;
  auto isOutside = [&](Operation *op) {
    return !earlier.contains(op) && !later.contains(op);
  };
  const unsigned from = positions.lookup(earlier.back()),
                 to = positions.lookup(last);
  for (Operation *op : earlier)
    for (Operation *user : op->getUsers())
      if (isOutside(user) && positions.lookup(user) < to)
        return false;

  unsigned between = launchesBefore[to] - launchesBefore[from] - 1;
  for (Operation *op : later)
    between -= op != last && positions.lookup(op) > from;
  if (between != 0) {
    // What `earlier` reads is alive until `to` instead of what it makes.
    Interface interface = interfaceOf(earlier);
    int64_t held = 0, freed = 0;
    for (Value input : interface.inputs) {
      bool isHeld = true;
      for (Operation *user : input.getUsers()) {
        const unsigned position = positions.lookup(user);
        isHeld &= !isOutside(user) || position < to;
        // An argument may be overwritten with its next value there.
        if (isa<BlockArgument>(input) && isOutside(user) && position > from &&
            position < to)
          return false;
      }
      held += isHeld ? bytesOf(input) : 0;
    }
    for (Value output : interface.outputs)
      freed += bytesOf(output);
    if (held > freed)
      return false;
  }
  Region both(earlier.begin(), earlier.end());
  both.insert(later.begin(), later.end());
  Interface interface = interfaceOf(both);
  return interface.inputs.size() <= mostInputs &&
         interface.outputs.size() <= mostOutputs;
}

void FormRegions::form(Block &block) {
  positions.clear();
  launchesBefore.clear();
  unsigned launches = 0;
  for (Operation &op : block) {
    positions.try_emplace(&op, positions.size());
    launchesBefore.push_back(launches);
    launches += !isa<arith::ConstantOp>(op) &&
                llvm::none_of(op.getResults(), [](Value result) {
                  return lookThroughViews(result) != result;
                });
  }
  // Regions by their last op, and the region of each op.
  DenseMap<Operation *, Region> regions;
  DenseMap<Operation *, Operation *> lastOf;
  for (Operation &op : block) {
    if (!isFusible(op))
      continue;
    Region joined;
    joined.insert(&op);
    for (Value operand : op.getOperands()) {
      Operation *maker = operand.getDefiningOp();
      auto found = maker ? lastOf.find(maker) : lastOf.end();
      if (found == lastOf.end() || joined.contains(maker) ||
          cast<ShapedType>(operand.getType()).getShape() !=
              cast<ShapedType>(op.getResult(0).getType()).getShape())
        continue;
      Operation *last = found->second;
      Region &earlier = regions[last];
      if (!mayJoin(earlier, joined, &op))
        continue;
      // In the order of the program.
      Region both(earlier.begin(), earlier.end());
      both.insert(joined.begin(), joined.end());
      joined = std::move(both);
      regions.erase(last);
    }
    for (Operation *member : joined)
      lastOf[member] = &op;
    regions[&op] = std::move(joined);
  }
  for (Operation &op : llvm::make_early_inc_range(block))
    if (auto found = regions.find(&op);
        found != regions.end() && found->second.size() > 1)
      replace(found->second);
}

/// Replaces the ops of `region` with one linalg.generic on elements. Arithmetic
/// is in f32, and each result is rounded to its type, as the ops are defined.
void FormRegions::replace(const Region &region) {
  SmallVector<Operation *> ops(region.begin(), region.end());
  llvm::sort(ops, [&](Operation *a, Operation *b) {
    return positions.lookup(a) < positions.lookup(b);
  });
  Operation *last = ops.back();
  Interface interface = interfaceOf(region);
  OpBuilder b(last);
  Location loc = b.getFusedLoc(
      llvm::map_to_vector(ops, [](Operation *op) { return op->getLoc(); }));
  auto shape = cast<RankedTensorType>(last->getResult(0).getType()).getShape();
  SmallVector<Type> types;
  SmallVector<Value> inits;
  for (Value output : interface.outputs) {
    types.push_back(output.getType());
    inits.push_back(tensor::EmptyOp::create(
        b, loc, shape, getElementTypeOrSelf(output.getType())));
  }
  SmallVector<AffineMap> maps(interface.inputs.size() + types.size(),
                              b.getMultiDimIdentityMap(shape.size()));
  SmallVector<utils::IteratorType> iterators(shape.size(),
                                             utils::IteratorType::parallel);
  auto emitBody = [&](OpBuilder &b, Location loc, ValueRange elements) {
    IRMapping scalars;
    for (auto [input, element] : llvm::zip(interface.inputs, elements))
      scalars.map(input, element);
    // Each value as f32; converted once.
    DenseMap<Value, Value> wide;
    auto widen = [&](Value tensor) -> Value {
      Value &known = wide[tensor];
      if (known)
        return known;
      if (std::optional<APFloat> splat = splatOf(tensor)) {
        bool losesInfo = false;
        splat->convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                       &losesInfo);
        return known = arith::ConstantOp::create(
                   b, loc, b.getF32FloatAttr(splat->convertToFloat()));
      }
      Value scalar = scalars.lookup(tensor);
      if (!scalar.getType().isF32())
        scalar = arith::ExtFOp::create(b, loc, b.getF32Type(), scalar);
      return known = scalar;
    };
    for (Operation *op : ops) {
      SmallVector<Value> operands =
          llvm::map_to_vector(op->getOperands(), widen);
      Value result = operands.front();
      if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
        result = b.create(op->getLoc(), op->getName().getIdentifier(), operands,
                          b.getF32Type())
                     ->getResult(0);
      Type type = getElementTypeOrSelf(op->getResult(0).getType());
      if (type.isF32())
        wide[op->getResult(0)] = result;
      else
        result = arith::TruncFOp::create(b, op->getLoc(), type, result);
      scalars.map(op->getResult(0), result);
    }
    linalg::YieldOp::create(
        b, loc, llvm::map_to_vector(interface.outputs, [&](Value output) {
          return scalars.lookup(output);
        }));
  };
  auto generic =
      linalg::GenericOp::create(b, loc, types, interface.inputs.getArrayRef(),
                                inits, maps, iterators, emitBody);
  for (auto [output, result] :
       llvm::zip_equal(interface.outputs, generic.getResults()))
    output.replaceUsesWithIf(result, [&](OpOperand &use) {
      return !region.contains(use.getOwner());
    });
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  ++numRegions;
  numOps += ops.size();
}
