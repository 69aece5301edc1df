//===- SliceArguments.cpp - read parts of arguments -----------------------===//
//
// A weight that several layers share, such as that of queries, keys and values,
// is an argument of which each layer reads a slice. Slices whose elements
// follow one another are read in place. Others are copied just before their
// first reader, slices of equal sizes by one launch.
//
//===----------------------------------------------------------------------===//

#include "Regions.h"
#include "StridedView.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::te;

/// What kernels expect of an address.
static constexpr int64_t kAlignment = 16;

/// Adds the ops of `block` that read `value` or a view of it.
static void collectReaders(Value value, Block &block,
                           SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers())
    if (getSourceOfView(user) == value)
      collectReaders(user->getResult(0), block, readers);
    else
      readers.push_back(block.findAncestorOpInBlock(*user));
}

/// `count` elements of `flat` from `first` on, which are read where they are.
static Value createPart(OpBuilder &b, Location loc, Value flat, int64_t first,
                        int64_t count) {
  auto part = tensor::ExtractSliceOp::create(
      b, loc, flat, OpFoldResult(b.getIndexAttr(first)),
      OpFoldResult(b.getIndexAttr(count)), OpFoldResult(b.getIndexAttr(1)));
  part->setAttr(kInPlace, b.getUnitAttr());
  return part;
}

static StridedView viewOf(tensor::ExtractSliceOp slice) {
  std::optional<StridedView> view =
      StridedView(slice.getSourceType().getShape()).of(slice);
  assert(view && "a slice of a whole tensor has one stride for each dimension");
  return *view;
}

/// Whether the elements of `slice` follow one another from an address on that
/// kernels take.
static bool isRun(tensor::ExtractSliceOp slice) {
  const StridedView view = viewOf(slice);
  const int64_t bits = slice.getType().getElementTypeBitWidth();
  return view.getMap(slice.getContext()).isIdentity() &&
         view.getOffset() * bits % (8 * kAlignment) == 0;
}

/// Reads `slice` in place.
static void readInPlace(tensor::ExtractSliceOp slice) {
  OpBuilder b(slice);
  Location loc = slice.getLoc();
  Value part =
      createPart(b, loc, flatten(b, loc, slice.getSource()),
                 viewOf(slice).getOffset(), slice.getType().getNumElements());
  slice.replaceAllUsesWith(reshapeFlat(b, loc, part, slice.getType()));
  slice.erase();
}

/// Copies `slices` of one argument, which have one type, before `reader`, the
/// first op that reads one of them.
static void copyTogether(ArrayRef<tensor::ExtractSliceOp> slices,
                         Operation *reader) {
  OpBuilder b(reader);
  tensor::ExtractSliceOp first = slices.front();
  const RankedTensorType type = first.getType();
  Location loc = b.getFusedLoc(llvm::map_to_vector(
      slices, [](tensor::ExtractSliceOp slice) { return slice.getLoc(); }));
  SmallVector<Value> inputs, outputs;
  SmallVector<AffineMap> maps;
  Value flat = flatten(b, loc, first.getSource());
  for (tensor::ExtractSliceOp slice : slices) {
    const StridedView view = viewOf(slice);
    inputs.push_back(createPart(b, slice.getLoc(), flat, view.getOffset(),
                                view.getExtent()));
    maps.push_back(view.getMap(b.getContext()));
  }
  for (unsigned i = 0, e = slices.size(); i < e; ++i) {
    outputs.push_back(tensor::EmptyOp::create(b, loc, type.getNumElements(),
                                              type.getElementType()));
    maps.push_back(b.getMultiDimIdentityMap(1));
  }
  auto copy = linalg::GenericOp::create(
      b, loc, TypeRange(ValueRange(outputs)), inputs, outputs, maps,
      utils::IteratorType::parallel,
      [&](OpBuilder &b, Location loc, ValueRange elements) {
        linalg::YieldOp::create(b, loc, elements.take_front(slices.size()));
      });
  for (auto [each, result] : llvm::zip_equal(slices, copy.getResults())) {
    tensor::ExtractSliceOp slice = each;
    slice.replaceAllUsesWith(reshapeFlat(b, slice.getLoc(), result, type));
    slice.erase();
  }
}

void te::sliceArguments(Block &block, unsigned mostTogether) {
  if (!isa<func::FuncOp>(block.getParentOp()))
    return;
  using Group = std::pair<SmallVector<tensor::ExtractSliceOp>, Operation *>;
  llvm::MapVector<std::tuple<Value, Type>, SmallVector<Group>> groups;
  for (auto slice :
       llvm::make_early_inc_range(block.getOps<tensor::ExtractSliceOp>())) {
    if (!isa<BlockArgument>(slice.getSource()) || slice->hasAttr(kInPlace) ||
        slice.getType().getNumElements() == 0)
      continue;
    SmallVector<Operation *> readers;
    collectReaders(slice.getResult(), block, readers);
    // Regions read any slice in place. What is returned has memory of its own.
    if (llvm::all_of(readers, [](Operation *op) { return isFusible(*op); }) ||
        llvm::is_contained(readers, block.getTerminator()))
      continue;
    if (isRun(slice)) {
      readInPlace(slice);
      continue;
    }
    Operation *first = block.getTerminator();
    for (Operation *user : slice->getUsers())
      if (Operation *reader = block.findAncestorOpInBlock(*user);
          reader->isBeforeInBlock(first))
        first = reader;
    auto &found = groups[{slice.getSource(), slice.getType()}];
    if (found.empty() || found.back().first.size() == mostTogether)
      found.push_back({{}, first});
    Group &group = found.back();
    group.first.push_back(slice);
    if (first->isBeforeInBlock(group.second))
      group.second = first;
  }
  for (auto &[key, found] : groups)
    for (auto &[slices, reader] : found)
      copyTogether(slices, reader);
}
