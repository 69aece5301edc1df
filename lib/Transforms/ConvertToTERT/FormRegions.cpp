//===- FormRegions.cpp - form launches of elementwise ops -----------------===//
//
// A region is a set of elementwise ops with one number of elements that are
// computed together, at the position of the last of them. The ops are visited
// in program order, and each is merged with the regions of its operands where
// `mayJoin` allows it. Merging delays the earlier region, so it must not break
// an earlier use of its results and must not increase the memory in use.
//
// Reshapes, transposes, slices and broadcasts are not computed: a region reads
// their operand in place. What another op reads of them is stored.
//
// A comparison has no memory: each select has one of its own, in its region.
//
//===----------------------------------------------------------------------===//

#include "LaunchEmitter.h"
#include "StridedView.h"

#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/Transforms/ConvertToTERT/Kernels.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

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
  return isa<math::TanhOp, math::Log1pOp, DropoutOp>(op) ? 16
         : isa<math::ExpOp, math::LogOp>(op)             ? 8
         : isa<math::SqrtOp, arith::DivFOp>(op)          ? 4
                                                         : 1;
}

/// The operands of an elementwise op of which it reads one element for each of
/// its result: all but the random state of a dropout.
static OperandRange elementsOf(Operation *op) {
  return isa<DropoutOp>(op) ? op->getOperands().take_front(1)
                            : op->getOperands();
}

/// Whether `op` is elementwise and the code generator supports it.
static bool isFusible(Operation &op) {
  auto type = op.getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(op.getResult(0).getType())
                  : RankedTensorType();
  if (!type || !type.hasStaticShape() ||
      !(isa<DropoutOp>(op) ||
        tert::isElementwiseOp(op.getName().getStringRef())))
    return false;
  auto isFloat = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isF32() || element.isBF16() || element.isF16();
  };
  if (isa<arith::CmpFOp>(op))
    return llvm::all_of(op.getOperandTypes(), isFloat);
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return isFloat(type) &&
           select.getCondition().getDefiningOp<arith::CmpFOp>();
  return isFloat(type) && llvm::all_of(elementsOf(&op).getTypes(), isFloat);
}

/// Gives each select a comparison that only it reads, directly before it.
static void separateComparisons(Block &block) {
  for (auto select :
       llvm::make_early_inc_range(block.getOps<arith::SelectOp>())) {
    auto comparison = select.getCondition().getDefiningOp<arith::CmpFOp>();
    if (!comparison)
      continue;
    if (!comparison->hasOneUse())
      comparison = cast<arith::CmpFOp>(OpBuilder(select).clone(*comparison));
    comparison->moveBefore(select);
    select.getConditionMutable().assign(comparison);
  }
}

/// Writes each te.zero_unused as a select.
static void expandZeroUnused(Block &block) {
  for (auto op : llvm::make_early_inc_range(block.getOps<ZeroUnusedOp>())) {
    OpBuilder b(op);
    Location loc = op.getLoc();
    auto type = op.getX().getType();
    auto masks = RankedTensorType::get(type.getShape(),
                                       getElementTypeOrSelf(op.getUsed()));
    Value none = tensor::EmptyOp::create(b, loc, masks.getShape(),
                                         masks.getElementType());
    Value used = linalg::BroadcastOp::create(b, loc, op.getUsed(), none,
                                             /*dimensions=*/1)
                     ->getResult(0);
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(masks));
    Value isUsed =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, used, zero);
    Value zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    op.replaceAllUsesWith(
        arith::SelectOp::create(b, loc, isUsed, op.getX(), zeros).getResult());
    op.erase();
  }
}

/// The value of all elements if `value` is a splat constant.
static std::optional<APFloat> splatOf(Value value) {
  DenseFPElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)) && constant.isSplat())
    return constant.getSplatValue<APFloat>();
  return std::nullopt;
}

/// Whether no launch computes `op`: constants, views, and what regions read
/// from other places.
static bool isFree(Operation &op) {
  return isa<arith::ConstantOp, tensor::EmptyOp>(op) || movesElements(&op) ||
         llvm::any_of(op.getResults(), [](Value result) {
           return lookThroughViews(result) != result;
         });
}

static int64_t countOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static int64_t bytesOf(Value value) {
  return countOf(value) * getElementTypeOrSelf(value).getIntOrFloatBitWidth() /
         8;
}

/// Reshapes `value`, which has one dimension or becomes one.
static Value reshape(OpBuilder &b, Location loc, Value value,
                     RankedTensorType type) {
  auto from = cast<RankedTensorType>(value.getType());
  if (from == type)
    return value;
  SmallVector<ReassociationIndices> all;
  const int64_t rank = std::max(from.getRank(), type.getRank());
  if (std::min(from.getRank(), type.getRank()) > 0)
    all.push_back(llvm::to_vector(llvm::seq<int64_t>(rank)));
  return from.getRank() > type.getRank()
             ? tensor::CollapseShapeOp::create(b, loc, type, value, all)
                   .getResult()
             : tensor::ExpandShapeOp::create(b, loc, type, value, all)
                   .getResult();
}

/// `value` as a tensor of one dimension.
static Value flatten(OpBuilder &b, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return reshape(
      b, loc, value,
      RankedTensorType::get(type.getNumElements(), type.getElementType()));
}

namespace {

using Region = llvm::SmallSetVector<Operation *, 4>;

/// What a region reads of a tensor: the `extent` elements from `offset` on, and
/// from the number of an element of the region to its number among these.
struct Input {
  Value tensor;
  int64_t offset, extent;
  AffineMap map;

  bool operator==(const Input &other) const {
    return tensor == other.tensor && offset == other.offset &&
           extent == other.extent && map == other.map;
  }
  /// Whether `reader` has the elements of the tensor, in order.
  bool isWhole(Value reader) const {
    return map.isIdentity() && countOf(reader) == countOf(tensor);
  }
};

/// What a region reads, except splat constants, and its results that ops
/// outside of it read.
struct Interface {
  SmallVector<Input, 8> inputs;
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
  using EmitBody = function_ref<void(OpBuilder &, Location, ValueRange)>;

  void form(Block &block);
  void findSources(Block &block);
  void store(Value value);
  bool mayJoin(const Region &earlier, const Region &later, Operation *last);
  ArrayRef<Operation *> usersOf(Value value) const {
    auto found = users.find(value);
    return found == users.end() ? ArrayRef<Operation *>() : found->second;
  }
  Input inputOf(Value value) const {
    auto found = sources.find(value);
    return found != sources.end() ? found->second
                                  : Input{value, 0, countOf(value),
                                          AffineMap::getMultiDimIdentityMap(
                                              1, value.getContext())};
  }
  /// The seed and the offset that a dropout reads for each element.
  std::array<Input, 2> wordsOf(DropoutOp op) const {
    auto wordOf = [&](int64_t word) {
      Input input = inputOf(op.getRng());
      input.map = input.map.replaceDimsAndSymbols(
          getAffineConstantExpr(word, op.getContext()), {}, 1, 0);
      input.extent =
          cast<AffineConstantExpr>(input.map.getResult(0)).getValue() + 1;
      return input;
    };
    return {wordOf(0), wordOf(1)};
  }
  bool readsElsewhere(const Region &readers, const Region &makers) const;
  Interface interfaceOf(const Region &region);
  void replace(const Region &region);
  SmallVector<Value> createGeneric(OpBuilder &b, Location loc,
                                   ArrayRef<Input> inputs,
                                   ArrayRef<Value> outputs, EmitBody emitBody);

  size_t mostInputs = 0, mostOutputs = 0;
  /// What the results of reshapes, transposes, slices and broadcasts are read
  /// from.
  DenseMap<Value, Input> sources;
  /// The regions' results by the results of the ops that they replace.
  llvm::MapVector<Value, Value> replaced;
  DenseMap<Operation *, unsigned> positions;
  /// The ops of the block that read each value or a view of it, in program
  /// order. An op that contains a reader counts as the reader.
  DenseMap<Value, SmallVector<Operation *, 2>> users;
  /// For each position, the number of earlier ops that are launched: all except
  /// constants and views.
  SmallVector<unsigned> launchesBefore;
};

} // namespace

/// Whether an op that is no view and for which `isReader` holds reads `value`.
/// Readers of elements at other places count if `followMoves` is set.
static bool isRead(Value value, bool followMoves,
                   function_ref<bool(Operation *)> isReader) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (getSourceOfView(user) != value)
      return isReader(user);
    return (followMoves || !movesElements(user)) &&
           isRead(user->getResult(0), followMoves, isReader);
  });
}

/// Brings a sum into a form that has a kernel: over leading or trailing
/// dimensions, of which a sum over all is two. A conversion of the operand to
/// f32 moves into the body.
static void prepareSum(linalg::ReduceOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value x = op.getInputs().front();
  auto dimensions = llvm::to_vector(op.getDimensions());
  const int64_t rank = cast<RankedTensorType>(x.getType()).getRank(),
                sums = dimensions.size();
  auto isRun = [&](int64_t first) {
    return llvm::equal(dimensions, llvm::seq(first, first + sums));
  };
  auto create = [&](Value x, Value init, ArrayRef<int64_t> dimensions) {
    auto widened = x.getDefiningOp<arith::ExtFOp>();
    return linalg::ReduceOp::create(
               b, loc, widened ? widened.getIn() : x, init, dimensions,
               [](OpBuilder &b, Location loc, ValueRange elements) {
                 Value element = elements[0];
                 if (!element.getType().isF32())
                   element =
                       arith::ExtFOp::create(b, loc, b.getF32Type(), element);
                 Value sum =
                     arith::AddFOp::create(b, loc, element, elements[1]);
                 linalg::YieldOp::create(b, loc, sum);
               })
        ->getResult(0);
  };
  if (!isRun(0) && !isRun(rank - sums)) {
    SmallVector<int64_t> order;
    for (int64_t axis : llvm::seq(rank))
      if (!llvm::is_contained(dimensions, axis))
        order.push_back(axis);
    order.append(dimensions);
    dimensions = llvm::to_vector(llvm::seq(rank - sums, rank));
    auto transposed = [&](Value value) -> Value {
      auto shape = cast<RankedTensorType>(value.getType()).getShape();
      Value init = tensor::EmptyOp::create(
          b, loc, applyPermutation(shape, order), getElementTypeOrSelf(value));
      return linalg::TransposeOp::create(b, loc, value, init, order)
          ->getResult(0);
    };
    auto widened = x.getDefiningOp<arith::ExtFOp>();
    x = transposed(widened ? widened.getIn() : x);
  } else if (sums == rank && rank > 1) {
    auto shape = cast<RankedTensorType>(x.getType()).getShape().drop_back();
    auto type = RankedTensorType::get(shape, b.getF32Type());
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    x = create(x, zero, rank - 1);
    dimensions.pop_back();
  }
  Value sum = create(x, op.getInits().front(), dimensions);
  op->getResult(0).replaceAllUsesWith(sum);
  op.erase();
}

/// Finds the source of each view, and stores the views that a region cannot
/// read in place or that other ops read.
void FormRegions::findSources(Block &block) {
  DenseMap<Value, StridedView> views;
  auto viewOf = [&](Value value) {
    auto found = views.find(value);
    return found != views.end()
               ? found->second
               : StridedView(cast<ShapedType>(value.getType()).getShape());
  };
  for (Operation &op : llvm::make_early_inc_range(block)) {
    Value operand = getSourceOfView(&op);
    if (!operand)
      continue;
    std::optional<StridedView> view = viewOf(operand).of(&op);
    if (!view) {
      store(operand);
      operand = op.getOperand(0);
      view = viewOf(operand).of(&op);
    }
    Value result = op.getResult(0);
    views.try_emplace(result, *view);
    sources[result] = {inputOf(operand).tensor, view->getOffset(),
                       view->getExtent(), view->getMap(&getContext())};
    auto needsMemory = [](Operation *reader) { return !isFusible(*reader); };
    if (movesElements(&op) &&
        isRead(result, /*followMoves=*/false, needsMemory))
      store(result);
  }
}

/// Copies `value`, a view, to memory of its own.
void FormRegions::store(Value value) {
  OpBuilder b(&getContext());
  b.setInsertionPointAfterValue(value);
  Value copy =
      createGeneric(b, value.getLoc(), inputOf(value), value,
                    [](OpBuilder &b, Location loc, ValueRange elements) {
                      linalg::YieldOp::create(b, loc, elements.front());
                    })
          .front();
  value.replaceAllUsesWith(copy);
  ++numRegions;
}

bool FormRegions::readsElsewhere(const Region &readers,
                                 const Region &makers) const {
  return llvm::any_of(readers, [&](Operation *reader) {
    return llvm::any_of(elementsOf(reader), [&](Value operand) {
      Input input = inputOf(operand);
      return makers.contains(input.tensor.getDefiningOp()) &&
             !input.isWhole(operand);
    });
  });
}

Interface FormRegions::interfaceOf(const Region &region) {
  Interface interface;
  for (Operation *op : region) {
    auto add = [&](const Input &input) {
      if (!llvm::is_contained(interface.inputs, input))
        interface.inputs.push_back(input);
    };
    for (Value operand : elementsOf(op)) {
      Input input = inputOf(operand);
      if (!region.contains(input.tensor.getDefiningOp()) &&
          !splatOf(input.tensor))
        add(input);
    }
    if (auto dropout = dyn_cast<DropoutOp>(op))
      llvm::for_each(wordsOf(dropout), add);
    auto isOutside = [&](Operation *user) { return !region.contains(user); };
    if (isRead(op->getResult(0), /*followMoves=*/true, isOutside))
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
  if (readsElsewhere(earlier, later) || readsElsewhere(later, earlier))
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
    for (const Input &read : interface.inputs) {
      Value input = read.tensor;
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

/// Moves the reshapes of `value` behind it.
static void moveReshapesBehind(Value value) {
  for (Operation *user : value.getUsers())
    if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(user)) {
      user->moveAfter(value.getDefiningOp());
      moveReshapesBehind(user->getResult(0));
    }
}

void FormRegions::form(Block &block) {
  sources.clear();
  replaced.clear();
  positions.clear();
  users.clear();
  launchesBefore.clear();
  expandZeroUnused(block);
  separateComparisons(block);
  for (auto reduce :
       llvm::make_early_inc_range(block.getOps<linalg::ReduceOp>()))
    prepareSum(reduce);
  findSources(block);
  unsigned launches = 0;
  for (Operation &op : block) {
    positions.try_emplace(&op, positions.size());
    if (!getSourceOfView(&op))
      op.walk([&](Operation *nested) {
        for (Value operand : nested->getOperands()) {
          if (!isa<RankedTensorType>(operand.getType()))
            continue;
          auto &known = users[inputOf(operand).tensor];
          if (known.empty() || known.back() != &op)
            known.push_back(&op);
        }
      });
    launchesBefore.push_back(launches);
    launches += !isFree(op);
  }
  // The region that ends with each op, and the last op of each op's region.
  DenseMap<Operation *, Region> regions;
  DenseMap<Operation *, Operation *> lastOf;
  for (Operation &op : block) {
    if (!isFusible(op) || isa<arith::CmpFOp>(op))
      continue;
    Region joined;
    SmallVector<Value> operands(elementsOf(&op));
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      Operation *comparison = select.getCondition().getDefiningOp();
      joined.insert(comparison);
      operands.append(comparison->operand_begin(), comparison->operand_end());
    }
    joined.insert(&op);
    for (Value operand : operands) {
      Input input = inputOf(operand);
      Operation *maker = input.tensor.getDefiningOp();
      auto found = merge && maker ? lastOf.find(maker) : lastOf.end();
      if (found == lastOf.end() || joined.contains(maker) ||
          !input.isWhole(operand))
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
  for (auto [output, result] : replaced) {
    output.replaceAllUsesWith(result);
    moveReshapesBehind(result);
  }
  // The replaced ops, and views that are not read any more.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (lastOf.contains(&op) || (getSourceOfView(&op) && op.use_empty()))
      op.erase();
}

/// A linalg.generic on flat tensors that computes values of the types of
/// `outputs`, which it returns in their shapes.
SmallVector<Value> FormRegions::createGeneric(OpBuilder &b, Location loc,
                                              ArrayRef<Input> inputs,
                                              ArrayRef<Value> outputs,
                                              EmitBody emitBody) {
  SmallVector<Value> operands, inits;
  SmallVector<AffineMap> maps;
  SmallVector<Type> types;
  for (const Input &input : inputs) {
    auto found = replaced.find(input.tensor);
    Value flat =
        flatten(b, loc, found != replaced.end() ? found->second : input.tensor);
    if (input.extent != countOf(flat))
      flat = tensor::ExtractSliceOp::create(
          b, loc, flat, OpFoldResult(b.getIndexAttr(input.offset)),
          OpFoldResult(b.getIndexAttr(input.extent)),
          OpFoldResult(b.getIndexAttr(1)));
    if (flat != input.tensor)
      sources[flat] = input;
    operands.push_back(flat);
    maps.push_back(input.map);
  }
  for (Value output : outputs) {
    inits.push_back(tensor::EmptyOp::create(b, loc, countOf(output),
                                            getElementTypeOrSelf(output)));
    types.push_back(inits.back().getType());
    maps.push_back(b.getMultiDimIdentityMap(1));
  }
  auto generic =
      linalg::GenericOp::create(b, loc, types, operands, inits, maps,
                                utils::IteratorType::parallel, emitBody);
  return llvm::map_to_vector(
      llvm::zip_equal(generic.getResults(), outputs), [&](auto pair) {
        auto [result, output] = pair;
        return reshape(b, loc, result,
                       cast<RankedTensorType>(output.getType()));
      });
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
  if (interface.outputs.empty())
    return;
  OpBuilder b(last);
  Location loc = b.getFusedLoc(
      llvm::map_to_vector(ops, [](Operation *op) { return op->getLoc(); }));
  auto emitBody = [&](OpBuilder &b, Location loc, ValueRange elements) {
    // The element of each result, and the f32 of each element. Each is
    // converted once.
    DenseMap<Value, Value> scalars, wide;
    auto elementOf = [&](const Input &input) {
      return elements[llvm::find(interface.inputs, input) -
                      interface.inputs.begin()];
    };
    auto widen = [&](Value operand) -> Value {
      Input input = inputOf(operand);
      if (std::optional<APFloat> splat = splatOf(input.tensor)) {
        Value &known = wide[input.tensor];
        bool losesInfo = false;
        splat->convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                       &losesInfo);
        if (!known)
          known = arith::ConstantOp::create(
              b, loc, b.getF32FloatAttr(splat->convertToFloat()));
        return known;
      }
      Value scalar = scalars.lookup(input.tensor);
      if (!scalar)
        scalar = elementOf(input);
      if (scalar.getType().isF32() || scalar.getType().isInteger(1))
        return scalar;
      Value &known = wide[scalar];
      if (!known)
        known = arith::ExtFOp::create(b, loc, b.getF32Type(), scalar);
      return known;
    };
    for (Operation *op : ops) {
      SmallVector<Value> operands = llvm::map_to_vector(elementsOf(op), widen);
      Value result = operands.front();
      if (auto dropout = dyn_cast<DropoutOp>(op)) {
        auto [seed, offset] = wordsOf(dropout);
        Value factor = tert::DropoutOp::create(
            b, op->getLoc(), b.getF32Type(), elementOf(seed), elementOf(offset),
            dropout.getProbabilityAttr(), dropout.getStreamAttr());
        result = arith::MulFOp::create(b, op->getLoc(), result, factor);
      } else if (auto comparison = dyn_cast<arith::CmpFOp>(op)) {
        scalars[comparison] =
            arith::CmpFOp::create(b, op->getLoc(), comparison.getPredicate(),
                                  operands[0], operands[1]);
        continue;
      } else if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
        result = b.create(op->getLoc(), op->getName().getIdentifier(), operands,
                          b.getF32Type())
                     ->getResult(0);
      Type type = getElementTypeOrSelf(op->getResult(0).getType());
      if (!type.isF32())
        result = arith::TruncFOp::create(b, op->getLoc(), type, result);
      scalars[op->getResult(0)] = result;
    }
    linalg::YieldOp::create(
        b, loc, llvm::map_to_vector(interface.outputs, [&](Value output) {
          return scalars.lookup(output);
        }));
  };
  SmallVector<Value> results =
      createGeneric(b, loc, interface.inputs, interface.outputs, emitBody);
  for (auto [output, result] : llvm::zip_equal(interface.outputs, results))
    replaced[output] = result;
  ++numRegions;
  numOps += ops.size();
}
