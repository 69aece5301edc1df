//===- FormRegions.cpp - form launches of elementwise ops -----------------===//
//
// A region is a set of elementwise ops of one shape that are computed together,
// at the position of the last of them. The ops are visited in program order,
// and each is merged with the regions of its operands where `mayJoin` allows
// it. Merging delays the earlier region, so it must not break an earlier use of
// its results and must not increase the memory in use.
//
//===----------------------------------------------------------------------===//

#include "LaunchEmitter.h"

#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/Transforms/ConvertToTERT/Kernels.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"

namespace mlir::te {
#define GEN_PASS_DEF_FORMREGIONSPASS
#include "TEDialect/Transforms/ConvertToTERT/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The largest cost of a region, as a multiple of one addition. It bounds the
/// time to compile the region.
static constexpr unsigned kMostCost = 64;

/// The size of the code of `op`, as a multiple of one addition.
static unsigned costOf(Operation *op) {
  return isa<math::TanhOp>(op)                  ? 16
         : isa<math::ExpOp>(op)                 ? 8
         : isa<math::SqrtOp, arith::DivFOp>(op) ? 4
                                                : 1;
}

/// Whether `op` is elementwise and the code generator supports it.
static bool isFusible(Operation &op) {
  auto type = op.getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(op.getResult(0).getType())
                  : RankedTensorType();
  if (!type || !type.hasStaticShape() ||
      !tert::isElementwiseOp(op.getName().getStringRef()))
    return false;
  auto isFloat = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isF32() || element.isBF16() || element.isF16();
  };
  return isFloat(type) && llvm::all_of(op.getOperandTypes(), isFloat);
}

/// The value of all elements if `value` is a splat constant.
static std::optional<APFloat> splatOf(Value value) {
  DenseFPElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)) && constant.isSplat())
    return constant.getSplatValue<APFloat>();
  return std::nullopt;
}

/// The tensor that is read for `input`: for a broadcast, what it broadcasts.
static Value sourceOf(Value input) {
  auto broadcast = input.getDefiningOp<linalg::BroadcastOp>();
  return broadcast ? broadcast.getInput() : input;
}

/// Where the elements of `sourceOf(input)` are, for each element of a region of
/// `rank` dimensions.
static AffineMap mapOf(Value input, int64_t rank) {
  auto map = AffineMap::getMultiDimIdentityMap(rank, input.getContext());
  auto broadcast = input.getDefiningOp<linalg::BroadcastOp>();
  if (!broadcast)
    return map;
  llvm::SmallBitVector added(rank);
  for (int64_t dimension : broadcast.getDimensions())
    added.set(dimension);
  return map.dropResults(added);
}

/// Whether no launch computes `op`: constants, views, and what regions read
/// from other places.
static bool isFree(Operation &op) {
  return isa<arith::ConstantOp, linalg::BroadcastOp, tensor::EmptyOp>(op) ||
         llvm::any_of(op.getResults(), [](Value result) {
           return lookThroughViews(result) != result;
         });
}

static int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

namespace {

using Region = llvm::SmallSetVector<Operation *, 4>;

/// The tensors that a region reads, except splat constants, and its results
/// that ops outside of it read. A broadcast is an input, of which the region
/// reads the source.
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
  ArrayRef<Operation *> usersOf(Value value) const {
    auto found = users.find(value);
    return found == users.end() ? ArrayRef<Operation *>() : found->second;
  }
  void replace(const Region &region);
  void replace(linalg::BroadcastOp broadcast);

  static Interface interfaceOf(const Region &region);

  size_t mostInputs = 0, mostOutputs = 0;
  DenseMap<Operation *, unsigned> positions;
  /// The ops of the block that use each value or a broadcast of it, in program
  /// order. An op that contains a user counts as the user.
  DenseMap<Value, SmallVector<Operation *, 2>> users;
  /// For each position, the number of earlier ops that are launched: all except
  /// constants and views.
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

/// Whether `earlier` may be delayed to the position of `last`, the last op of
/// `later`, and merged with `later`.
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
  // The scans of users end at the first op outside of the regions, so their
  // length does not depend on the number of users.
  for (Operation *op : earlier)
    for (Operation *user : usersOf(op->getResult(0))) {
      if (positions.lookup(user) >= to)
        break;
      if (isOutside(user))
        return false;
    }

  unsigned between = launchesBefore[to] - launchesBefore[from] - 1;
  for (Operation *op : later)
    between -= op != last && positions.lookup(op) > from;
  if (between != 0) {
    // Other launches run between the two regions. During these, the inputs of
    // `earlier` are alive in place of its results.
    Interface interface = interfaceOf(earlier);
    int64_t held = 0, freed = 0;
    for (Value input : interface.inputs) {
      input = sourceOf(input);
      ArrayRef<Operation *> readers = usersOf(input);
      held += positions.lookup(readers.back()) <= to ? bytesOf(input) : 0;
      if (!isa<BlockArgument>(input))
        continue;
      // An op in between may update this argument in place.
      auto isBefore = [&](Operation *user) {
        return positions.lookup(user) <= from;
      };
      for (Operation *user : llvm::make_range(
               llvm::partition_point(readers, isBefore), readers.end())) {
        if (positions.lookup(user) >= to)
          break;
        if (isOutside(user))
          return false;
      }
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
  users.clear();
  launchesBefore.clear();
  unsigned launches = 0;
  for (Operation &op : block) {
    positions.try_emplace(&op, positions.size());
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        for (Value used : {operand, sourceOf(operand)})
          if (auto &known = users[used]; known.empty() || known.back() != &op)
            known.push_back(&op);
    });
    launchesBefore.push_back(launches);
    launches += !isFree(op);
  }
  // The region that ends with each op, and the last op of each op's region.
  DenseMap<Operation *, Region> regions;
  DenseMap<Operation *, Operation *> lastOf;
  for (Operation &op : block) {
    if (!isFusible(op))
      continue;
    Region joined;
    joined.insert(&op);
    for (Value operand : op.getOperands()) {
      Operation *maker = operand.getDefiningOp();
      auto found = merge && maker ? lastOf.find(maker) : lastOf.end();
      if (found == lastOf.end() || joined.contains(maker) ||
          cast<ShapedType>(operand.getType()).getShape() !=
              cast<ShapedType>(op.getResult(0).getType()).getShape())
        continue;
      Operation *last = found->second;
      Region &earlier = regions[last];
      if (!mayJoin(earlier, joined, &op))
        continue;
      // The ops of a region are in program order.
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
    if (auto found = regions.find(&op); found != regions.end())
      replace(found->second);
  for (auto broadcast :
       llvm::make_early_inc_range(block.getOps<linalg::BroadcastOp>()))
    replace(broadcast);
}

/// Erases a broadcast that only regions read, or stores it for other readers.
void FormRegions::replace(linalg::BroadcastOp broadcast) {
  Value result = broadcast->getResult(0);
  if (!result.use_empty()) {
    const int64_t rank = cast<ShapedType>(result.getType()).getRank();
    OpBuilder b(broadcast);
    auto copy = linalg::GenericOp::create(
        b, broadcast.getLoc(), result.getType(), broadcast.getInput(),
        broadcast.getInit(),
        {mapOf(result, rank), b.getMultiDimIdentityMap(rank)},
        SmallVector<utils::IteratorType>(rank, utils::IteratorType::parallel),
        [](OpBuilder &b, Location loc, ValueRange elements) {
          linalg::YieldOp::create(b, loc, elements.front());
        });
    result.replaceAllUsesWith(copy.getResult(0));
    ++numRegions;
  }
  broadcast.erase();
}

/// Replaces the ops of `region` with one linalg.generic. It computes in f32 and
/// rounds the result of each op to its type, as the separate ops do.
void FormRegions::replace(const Region &region) {
  SmallVector<Operation *> ops(region.begin(), region.end());
  llvm::sort(ops, [&](Operation *a, Operation *b) {
    return positions.lookup(a) < positions.lookup(b);
  });
  Operation *last = ops.back();
  Interface interface = interfaceOf(region);
  if (interface.outputs.empty()) {
    for (Operation *op : llvm::reverse(ops))
      op->erase();
    return;
  }
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
  SmallVector<Value> sources = llvm::map_to_vector(interface.inputs, sourceOf);
  SmallVector<AffineMap> maps =
      llvm::map_to_vector(interface.inputs, [&](Value input) {
        return mapOf(input, shape.size());
      });
  maps.append(types.size(), b.getMultiDimIdentityMap(shape.size()));
  SmallVector<utils::IteratorType> iterators(shape.size(),
                                             utils::IteratorType::parallel);
  auto emitBody = [&](OpBuilder &b, Location loc, ValueRange elements) {
    IRMapping scalars;
    for (auto [input, element] : llvm::zip(interface.inputs, elements))
      scalars.map(input, element);
    // The values in f32. Each is converted once.
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
  auto generic = linalg::GenericOp::create(b, loc, types, sources, inits, maps,
                                           iterators, emitBody);
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
