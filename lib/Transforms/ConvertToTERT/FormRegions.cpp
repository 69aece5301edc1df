//===- FormRegions.cpp - form launches of elementwise ops -----------------===//
//
// A region is a set of elementwise ops with one number of elements that are
// computed together, at the position of the last of them. If it also sums rows,
// ops with an element for each row belong to it, too. The ops are visited in
// program order, and each is merged with the regions of its operands where
// `mayJoin` allows it. Merging delays the earlier region, so it must not break
// an earlier use of its results and must not increase the memory in use.
//
// Reshapes, transposes, slices and broadcasts are not computed: a region reads
// their operand in place. What another op reads of them is stored. A comparison
// has no memory: each select has one of its own, in its region. The amax of a
// value is measured in the region that computes the value.
//
//===----------------------------------------------------------------------===//

#include "LaunchEmitter.h"
#include "Regions.h"
#include "StridedView.h"

#include "TEDialect/IR/OpMeaning.h"
#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/GeneratedBody.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/Transforms/ConvertToTERT/Kernels.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::te {
#define GEN_PASS_DEF_FORMREGIONSPASS
#include "TEDialect/Transforms/ConvertToTERT/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The lengths of rows that are summed in a region. A warp computes a row:
/// shorter ones leave most of its threads without work.
static constexpr int64_t kFewestCols = 32,
                         kMostCols = tert::kMostColsOfReduction;

OperandRange te::elementsOf(Operation *op) {
  const bool isFirst = isa<DropoutOp, linalg::ReduceOp, AmaxOp>(op);
  return op->getOperands().take_front(isFirst ? 1 : op->getNumOperands());
}

int64_t te::countOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

int64_t te::countOf(Operation *op) {
  return countOf(isa<linalg::ReduceOp, AmaxOp>(op) ? op->getOperand(0)
                                                   : op->getResult(0));
}

/// Whether `op` is a reduction of rows that may be part of a region.
static bool isFusibleReduction(linalg::ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getInputs().front().getType());
  const int64_t rows = countOf(op->getResult(0));
  if (!type.hasStaticShape() || rows == 0 ||
      op.getDimensions().back() != type.getRank() - 1)
    return false;
  const int64_t cols = type.getNumElements() / rows;
  return (cols >= kFewestCols || op->hasAttr(kInRegion)) && cols <= kMostCols;
}

bool te::isFusible(Operation &op) {
  if (auto sum = dyn_cast<linalg::ReduceOp>(op))
    return isFusibleReduction(sum);
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

/// Whether the region that computes the operand of `op` may measure its amax.
static bool isMeasurable(Operation &op) {
  auto amax = dyn_cast<AmaxOp>(op);
  return amax && !amax.getSkip() && !amax.getRounded() &&
         !isa<ByRowsOp>(amax->getParentOp()) &&
         amax.getX().getType().hasStaticShape() && countOf(amax.getX()) != 0;
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

static int64_t bytesOf(Value value) {
  return countOf(value) * getElementTypeOrSelf(value).getIntOrFloatBitWidth() /
         8;
}

namespace {

using Region = llvm::SmallSetVector<Operation *, 4>;

/// The elements of a region, and the length of the rows that it sums, 0 if it
/// sums none.
struct Extent {
  int64_t count, cols;

  /// Whether the elements of `op` are those of a row each.
  bool isOfRows(Operation *op) const {
    return cols != 0 && countOf(op) * cols == count;
  }
};

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
  Extent extent;
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
    for (Block &block : getOperation().getBody()) {
      for (auto chain : block.getOps<ByRowsOp>())
        form(chain.getBody().front());
      form(block);
    }
  }

private:
  using EmitBody = function_ref<void(OpBuilder &, Location, ValueRange)>;

  void form(Block &block);
  void findSources(Block &block);
  void store(Value value);
  void findChains(Block &block);
  unsigned costOf(const Region &earlier, const Region &later) const;
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
  Input readOf(Operation *op, const Input &input, Extent extent) const;
  bool readsElsewhere(const Region &readers, const Region &makers,
                      Extent extent) const;
  Interface interfaceOf(const Region &region);
  void replace(const Region &region);
  SmallVector<Value> createGeneric(OpBuilder &b, Location loc,
                                   const Interface &interface,
                                   EmitBody emitBody);

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
  /// The ops of the same softmax as each op of one.
  DenseMap<Operation *, std::shared_ptr<OpsOfChain>> chains;
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
    // A sum that joins no region reads memory.
    auto needsMemory = [](Operation *reader) {
      return isa<linalg::ReduceOp>(reader) || !isFusible(*reader);
    };
    if (movesElements(&op) && !op.hasAttr(kInPlace) &&
        isRead(result, /*followMoves=*/false, needsMemory))
      store(result);
  }
}

/// Copies `value`, a view, to memory of its own.
void FormRegions::store(Value value) {
  OpBuilder b(&getContext());
  b.setInsertionPointAfterValue(value);
  Value copy =
      createGeneric(b, value.getLoc(),
                    {{countOf(value), 0}, {inputOf(value)}, {value}},
                    [](OpBuilder &b, Location loc, ValueRange elements) {
                      linalg::YieldOp::create(b, loc, elements.front());
                    })
          .front();
  value.replaceAllUsesWith(copy);
  ++numRegions;
}

/// The extent of a region of `ops`; none if they are no region.
static std::optional<Extent> extentOf(ArrayRef<Operation *> ops) {
  Extent extent{0, 0};
  for (Operation *op : ops)
    if (isa<linalg::ReduceOp>(op)) {
      const int64_t count = countOf(op),
                    cols = count / countOf(op->getResult(0));
      if (extent.cols != 0 && (extent.cols != cols || extent.count != count))
        return std::nullopt;
      extent = {count, cols};
    }
  if (extent.cols == 0)
    extent.count = countOf(ops.front());
  auto belongs = [&](Operation *op) {
    return countOf(op) == extent.count || extent.isOfRows(op);
  };
  return llvm::all_of(ops, belongs) ? std::optional(extent) : std::nullopt;
}

/// What a region reads of `input`, an input of its op `op`.
Input FormRegions::readOf(Operation *op, const Input &input,
                          Extent extent) const {
  Input read = input;
  if (extent.isOfRows(op))
    read.map =
        read.map.compose(tert::getMapOfRows(extent.cols, op->getContext()));
  return read;
}

/// Whether an op of `readers` reads another element of a value of `makers` than
/// that which the region has computed.
bool FormRegions::readsElsewhere(const Region &readers, const Region &makers,
                                 Extent extent) const {
  return llvm::any_of(readers, [&](Operation *reader) {
    return llvm::any_of(elementsOf(reader), [&](Value operand) {
      Input input = inputOf(operand);
      Operation *maker = input.tensor.getDefiningOp();
      if (!makers.contains(maker) ||
          (input.isWhole(operand) && !isa<AmaxOp>(maker)))
        return false;
      const bool isOfItsRow =
          extent.cols != 0 && countOf(reader) == extent.count &&
          countOf(input.tensor) * extent.cols == extent.count &&
          input.map == tert::getMapOfRows(extent.cols, reader->getContext());
      return !isOfItsRow;
    });
  });
}

Interface FormRegions::interfaceOf(const Region &region) {
  Interface interface{*extentOf(region.getArrayRef()), {}, {}};
  for (Operation *op : region) {
    auto add = [&](const Input &input) {
      Input read = readOf(op, input, interface.extent);
      if (!llvm::is_contained(interface.inputs, read))
        interface.inputs.push_back(read);
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

/// Finds each softmax that one region has room for.
void FormRegions::findChains(Block &block) {
  auto getSource = [&](Value value) { return inputOf(value).tensor; };
  auto getUsers = [&](Value value) { return usersOf(value); };
  for (auto reduction : block.getOps<linalg::ReduceOp>()) {
    if (isSum(reduction) || !isFusible(*reduction))
      continue;
    auto chain = std::make_shared<OpsOfChain>(
        findSoftmax(reduction, getSource, getUsers));
    for (Operation *op : *chain)
      chains.try_emplace(op, chain);
  }
}

/// The cost of both regions with what is left of each softmax that they have a
/// part of, so that a softmax begins a region if it has no room in one.
unsigned FormRegions::costOf(const Region &earlier, const Region &later) const {
  llvm::SmallSetVector<Operation *, 16> all(earlier.begin(), earlier.end());
  all.insert(later.begin(), later.end());
  for (unsigned i = 0, e = all.size(); i < e; ++i)
    if (auto found = chains.find(all[i]); found != chains.end())
      all.insert(found->second->begin(), found->second->end());
  unsigned cost = 0;
  for (Operation *op : all)
    cost += tert::getCodeSize(op->getName().getStringRef());
  return cost;
}

/// Whether `earlier` may be delayed to the position of `last`, the last op of
/// `later`, and merged with `later`.
bool FormRegions::mayJoin(const Region &earlier, const Region &later,
                          Operation *last) {
  if (costOf(earlier, later) > kMostCost)
    return false;
  Region both(earlier.begin(), earlier.end());
  both.insert(later.begin(), later.end());
  std::optional<Extent> extent = extentOf(both.getArrayRef());
  if (!extent || readsElsewhere(earlier, later, *extent) ||
      readsElsewhere(later, earlier, *extent))
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
  Interface interface = interfaceOf(both);
  // linalg.generic finds its number of elements in a tensor that has them all.
  auto hasAll = [&](const Input &input) { return input.map.isIdentity(); };
  auto isOfAll = [&](Value output) {
    return countOf(output) == interface.extent.count &&
           !output.getDefiningOp<AmaxOp>();
  };
  return interface.inputs.size() <= mostInputs &&
         interface.outputs.size() <= mostOutputs &&
         (llvm::any_of(interface.inputs, hasAll) ||
          llvm::any_of(interface.outputs, isOfAll));
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
  chains.clear();
  prepareRegions(block, /*movesRounding=*/merge);
  sliceArguments(block, mostOutputs);
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
  findChains(block);
  // The region that ends with each op, and the last op of each op's region.
  DenseMap<Operation *, Region> regions;
  DenseMap<Operation *, Operation *> lastOf;
  for (Operation &op : block) {
    if (!(isFusible(op) || isMeasurable(op)) || isa<arith::CmpFOp>(op))
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
      if (found == lastOf.end() || joined.contains(maker))
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
    if (auto found = regions.find(&op); found != regions.end()) {
      // A sum or an amax that joined no other op has a kernel of its own.
      auto reduction = dyn_cast<linalg::ReduceOp>(op);
      if (found->second.size() == 1 &&
          (isa<AmaxOp>(op) || (reduction && isSum(reduction)))) {
        op.removeAttr(kInRegion);
        lastOf.erase(&op);
      } else
        replace(found->second);
    }
  for (auto [output, result] : replaced) {
    output.replaceAllUsesWith(result);
    moveReshapesBehind(result);
  }
  // The replaced ops, and views that are not read any more.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (lastOf.contains(&op) || (getSourceOfView(&op) && op.use_empty()))
      op.erase();
    else
      op.removeAttr(kInPlace);
}

/// A linalg.generic on flat tensors that computes values of the types of the
/// outputs, which it returns in their shapes.
SmallVector<Value> FormRegions::createGeneric(OpBuilder &b, Location loc,
                                              const Interface &interface,
                                              EmitBody emitBody) {
  SmallVector<Value> operands, inits;
  SmallVector<AffineMap> maps;
  SmallVector<Type> types;
  for (const Input &input : interface.inputs) {
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
  for (Value output : interface.outputs) {
    inits.push_back(tensor::EmptyOp::create(b, loc, countOf(output),
                                            getElementTypeOrSelf(output)));
    types.push_back(inits.back().getType());
    maps.push_back(
        output.getDefiningOp<AmaxOp>() ? tert::getMapOfOne(&getContext())
        : countOf(output) == interface.extent.count
            ? b.getMultiDimIdentityMap(1)
            : tert::getMapOfRows(interface.extent.cols, &getContext()));
  }
  auto generic =
      linalg::GenericOp::create(b, loc, types, operands, inits, maps,
                                utils::IteratorType::parallel, emitBody);
  return llvm::map_to_vector(
      llvm::zip_equal(generic.getResults(), interface.outputs), [&](auto pair) {
        auto [result, output] = pair;
        return reshapeFlat(b, loc, result,
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
    auto widen = [&](Operation *op, Value operand) -> Value {
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
        scalar = elementOf(readOf(op, input, interface.extent));
      if (scalar.getType().isF32() || scalar.getType().isInteger(1))
        return scalar;
      Value &known = wide[scalar];
      if (!known)
        known = arith::ExtFOp::create(b, loc, b.getF32Type(), scalar);
      return known;
    };
    for (Operation *op : ops) {
      auto operands = llvm::map_to_vector(
          elementsOf(op), [&](Value operand) { return widen(op, operand); });
      Value result = operands.front();
      if (auto dropout = dyn_cast<DropoutOp>(op)) {
        auto [seed, offset] = wordsOf(dropout);
        Value factor = tert::DropoutOp::create(
            b, op->getLoc(), b.getF32Type(),
            elementOf(readOf(op, seed, interface.extent)),
            elementOf(readOf(op, offset, interface.extent)),
            dropout.getProbabilityAttr(), dropout.getStreamAttr());
        result = arith::MulFOp::create(b, op->getLoc(), result, factor);
      } else if (auto reduction = dyn_cast<linalg::ReduceOp>(op)) {
        result = tert::RowReduceOp::create(b, op->getLoc(), b.getF32Type(),
                                           isSum(reduction)
                                               ? tert::RowReduction::Sum
                                               : tert::RowReduction::Maximum,
                                           result, interface.extent.cols);
      } else if (isa<AmaxOp>(op)) {
        result = tert::AmaxOp::create(b, op->getLoc(), b.getF32Type(), result);
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
    auto scalarOf = [&](Value output) { return scalars.lookup(output); };
    linalg::YieldOp::create(b, loc,
                            llvm::map_to_vector(interface.outputs, scalarOf));
  };
  SmallVector<Value> results = createGeneric(b, loc, interface, emitBody);
  for (auto [output, result] : llvm::zip_equal(interface.outputs, results))
    replaced[output] = result;
  ++numRegions;
  numOps += ops.size();
}
