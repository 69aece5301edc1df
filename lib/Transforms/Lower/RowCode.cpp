//===- RowCode.cpp - code of launches with sums of rows -------------------===//
//
// A row is visited in passes: each computes the sums whose operands depend on
// no other sum, then on those of the passes before. The last pass writes the
// results. What has one value for a row is computed once, between passes.
//
// Sums have the order of the lane sum of Kernels.td, as `row_sum` does. On a
// GPU, a warp computes a row, of which each thread has runs of consecutive
// elements. Short rows stay in registers between passes; others are read again.
//
//===----------------------------------------------------------------------===//

#include "CodeEmitter.h"

#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/GeneratedBody.h"

using namespace mlir;
using namespace mlir::te;

/// The lanes of a sum, and how many of them a thread of a warp has.
static constexpr int64_t kLanes = 256, kWarp = 32, kLanesOfThread = 8;
/// A block of the GPU has a warp for each of these rows.
static constexpr int64_t kRowsOfBlock = 4;
/// The most bits of a row that a thread keeps in registers.
static constexpr int64_t kKeptBits = 128 * 32;
/// The most code for the elements that a thread has at a time, as a multiple of
/// one addition. It bounds the time to compile.
static constexpr int64_t kMostCode = 1536;
/// The runs of a longer row that a thread loads before it uses the first, less
/// if their code is too large.
static constexpr int64_t kRunsAtATime = 4;

namespace {

class RowCode final : public CodeEmitter {
public:
  RowCode(func::FuncOp step, tert::LaunchOp launch, StringRef name);

  int32_t getBlock() const override { return kRowsOfBlock * kWarp; }
  int32_t getBlockElements() const override { return kRowsOfBlock * cols; }

private:
  /// The values of the body for one element.
  struct Element {
    explicit Element(Value index) : index(index) {}
    Value index;
    DenseMap<Value, Value> values;
  };
  /// Consecutive elements that a thread loads together. `inRow` is null if the
  /// row has all of them.
  struct Run {
    Value index, inRow;
    SmallVector<Value> loaded;
  };

  void emitHostBody(Value begin, Value end) override;
  void emitDeviceBody(Value count, Value aligned) override;

  /// Whether `value` has one value in a row.
  bool isOfRow(Value value) const { return ofRow.contains(value); }
  bool isOutputOfRow(unsigned i) const {
    return !maps[inputs.size() + i].isIdentity();
  }
  /// The sums of pass `pass`.
  SmallVector<tert::RowSumOp> sumsOf(unsigned pass);
  /// Computes what has one value for the row from `base` on, and depends on the
  /// sums of the passes before `pass` and on no others.
  void computeRowValues(unsigned pass, Value base);
  void storeRowOutputs(Value base);
  /// The value of `value` for an element.
  Value valueOf(Value value, Element &element);

  void emitHostRow(Value base, ValueRange lanes);
  /// Emits the code of a warp, with runs of `length` elements.
  void emitWarp(Value base, Value thread, int64_t length);
  /// The runs of the thread among the next `runs` runs from column `begin` on,
  /// of which the first `known` columns are in the row.
  SmallVector<Run> loadRuns(Value base, Value begin, Value thread,
                            int64_t length, int64_t runs, int64_t known);
  /// Adds the elements of `runs` to the lanes of the sums of `pass`, and writes
  /// the results of the last pass.
  void useRuns(ArrayRef<Run> runs, unsigned pass, int64_t length,
               SmallVectorImpl<Value> &lanes);
  /// The sum of the lanes of all threads of a warp.
  Value sumOfWarp(MutableArrayRef<Value> lanes, int64_t length);

  int64_t cols;
  /// The bits that are read for an element, and the size of its code.
  int64_t elementBits = 0, elementCode = 0;
  /// The pass after which each value of the body can be computed.
  DenseMap<Value, unsigned> passes;
  unsigned lastPass = 0;
  DenseSet<Value> ofRow;
  /// The values of those in `ofRow` that are computed.
  DenseMap<Value, Value> rowValues;
};

} // namespace

std::unique_ptr<CodeEmitter>
te::createRowCode(func::FuncOp step, tert::LaunchOp launch, StringRef name) {
  return std::make_unique<RowCode>(step, launch, name);
}

RowCode::RowCode(func::FuncOp step, tert::LaunchOp launch, StringRef name)
    : CodeEmitter(step, launch, name) {
  cols = tert::getColsOfSums(body);
  ofRow = tert::getValuesOfRows(body, maps);
  for (BlockArgument argument : body.getArguments())
    if (!isOfRow(argument))
      elementBits += argument.getType().getIntOrFloatBitWidth();
  for (Operation &op : body.without_terminator()) {
    unsigned pass = 0;
    for (Value operand : op.getOperands())
      pass = std::max(pass, passes.lookup(operand));
    const bool isSum = isa<tert::RowSumOp>(op);
    if (!isOfRow(op.getResult(0)))
      elementCode += tert::getCodeSize(op.getName().getStringRef());
    if (isSum)
      lastPass = std::max(lastPass, pass);
    passes[op.getResult(0)] = pass + isSum;
  }
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (!isOutputOfRow(i))
      lastPass = std::max(lastPass, passes.lookup(value));
}

SmallVector<tert::RowSumOp> RowCode::sumsOf(unsigned pass) {
  return llvm::filter_to_vector(
      body.getOps<tert::RowSumOp>(),
      [&](tert::RowSumOp sum) { return passes.lookup(sum.getX()) == pass; });
}

void RowCode::computeRowValues(unsigned pass, Value base) {
  for (auto [i, argument] : llvm::enumerate(body.getArguments()))
    if (pass == 0 && isOfRow(argument))
      rowValues[argument] = load(i, base);
  for (Operation &op : body.without_terminator()) {
    Value result = op.getResult(0);
    if (isa<tert::RowSumOp>(op) || !isOfRow(result) ||
        passes.lookup(result) != pass)
      continue;
    auto operands = llvm::map_to_vector(op.getOperands(), [&](Value operand) {
      return rowValues.lookup(operand);
    });
    rowValues[result] = computeOp(op, operands, base);
  }
}

void RowCode::storeRowOutputs(Value base) {
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (isOutputOfRow(i))
      store(i, base, rowValues.lookup(value));
}

Value RowCode::valueOf(Value value, Element &element) {
  if (Value known = rowValues.lookup(value))
    return known;
  if (Value known = element.values.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  auto operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) {
    return valueOf(operand, element);
  });
  return element.values[value] = computeOp(*op, operands, element.index);
}

void RowCode::emitHostBody(Value begin, Value end) {
  const Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  SmallVector<Value> lanes;
  for ([[maybe_unused]] auto sum : body.getOps<tert::RowSumOp>())
    lanes.push_back(
        LLVM::AllocaOp::create(b, loc, ptr, b.getF32Type(), wide(kLanes)));
  emitLoop(begin, end, cols, {},
           [&](Value base, ValueRange) -> SmallVector<Value> {
             emitHostRow(base, lanes);
             return {};
           });
}

void RowCode::emitHostRow(Value base, ValueRange lanes) {
  const Type f32 = b.getF32Type();
  rowValues.clear();
  for (unsigned pass = 0; pass <= lastPass; ++pass) {
    computeRowValues(pass, base);
    SmallVector<tert::RowSumOp> sums = sumsOf(pass);
    for (auto [sum, lane] : llvm::zip(sums, lanes))
      call("te_scalar_clear_lanes", LLVM::LLVMVoidType::get(b.getContext()),
           lane);
    emitLoop(wide(0), wide(cols), 1, {},
             [&](Value col, ValueRange) -> SmallVector<Value> {
               Element element(add(base, col));
               for (auto [i, argument] : llvm::enumerate(body.getArguments()))
                 if (!isOfRow(argument))
                   element.values[argument] = load(i, element.index);
               Value lane = LLVM::URemOp::create(b, loc, col, wide(kLanes));
               for (auto [sum, first] : llvm::zip(sums, lanes)) {
                 Value place = at(first, f32, lane);
                 Value before = LLVM::LoadOp::create(b, loc, f32, place);
                 LLVM::StoreOp::create(
                     b, loc,
                     LLVM::FAddOp::create(b, loc, before,
                                          valueOf(sum.getX(), element)),
                     place);
               }
               if (pass == lastPass)
                 for (auto [i, value] :
                      llvm::enumerate(body.getTerminator()->getOperands()))
                   if (!isOutputOfRow(i))
                     store(i, element.index, valueOf(value, element));
               return {};
             });
    for (auto [sum, lane] : llvm::zip(sums, lanes))
      rowValues[sum] = call("te_scalar_sum_of_lanes", f32, lane);
  }
  computeRowValues(lastPass + 1, base);
  storeRowOutputs(base);
}

void RowCode::emitDeviceBody(Value count, Value aligned) {
  Value thread = special("tid.x");
  Value lane = LLVM::AndOp::create(b, loc, thread, wide(kWarp - 1));
  Value warp = LLVM::LShrOp::create(b, loc, thread, wide(5));
  Value row = add(multiply(special("ctaid.x"), kRowsOfBlock), warp);
  Value base = multiply(row, cols);
  // Runs have 16 bytes in the widest type of an element, less if a warp would
  // have threads without any.
  unsigned widest = 16;
  for (auto [i, type] : llvm::enumerate(inputs))
    if (!isOfRow(body.getArgument(i)))
      widest = std::max(widest, type.getIntOrFloatBitWidth());
  for (auto [i, type] : llvm::enumerate(outputs))
    if (!isOutputOfRow(i))
      widest = std::max(widest, type.getIntOrFloatBitWidth());
  int64_t length = 128 / widest;
  while (length > 1 && (cols % length != 0 || cols < kWarp * length))
    length /= 2;
  emitIf(isLess(base, count), [&] {
    if (length == 1)
      return emitWarp(base, lane, 1);
    emitIfElse(
        aligned, [&] { emitWarp(base, lane, length); },
        [&] { emitWarp(base, lane, 1); });
  });
}

auto RowCode::loadRuns(Value base, Value begin, Value thread, int64_t length,
                       int64_t runs, int64_t known) -> SmallVector<Run> {
  SmallVector<Run> loaded(runs);
  for (auto [r, run] : llvm::enumerate(loaded)) {
    Value col = add(begin, multiply(add(thread, wide(r * kWarp)), length));
    if (int64_t(r + 1) * kWarp * length > known) {
      // Elements behind the row are not used: the last ones are read instead.
      run.inRow = isLess(col, wide(cols));
      col = LLVM::SMinOp::create(b, loc, col, wide(cols - length));
    }
    run.index = add(base, col);
    for (auto [i, argument] : llvm::enumerate(body.getArguments()))
      run.loaded.push_back(
          isOfRow(argument) ? Value() : loadVector(i, run.index, length));
  }
  return loaded;
}

void RowCode::useRuns(ArrayRef<Run> runs, unsigned pass, int64_t length,
                      SmallVectorImpl<Value> &lanes) {
  SmallVector<tert::RowSumOp> sums = sumsOf(pass);
  Value zero = LLVM::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  for (auto [r, run] : llvm::enumerate(runs)) {
    SmallVector<Value> results = emptyVectors(length);
    for (int64_t k = 0; k < length; ++k) {
      Element element(add(run.index, wide(k)));
      for (auto [argument, vector] : llvm::zip(body.getArguments(), run.loaded))
        if (vector)
          element.values[argument] = extract(vector, k);
      for (auto [s, sum] : llvm::enumerate(sums)) {
        Value &lane =
            lanes[s * kLanesOfThread + (r * length + k) % kLanesOfThread];
        Value value = valueOf(sum.getX(), element);
        // A lane is never -0, so that adding 0 does not change it.
        if (run.inRow)
          value = LLVM::SelectOp::create(b, loc, run.inRow, value, zero);
        lane = LLVM::FAddOp::create(b, loc, lane, value);
      }
      if (pass == lastPass)
        for (auto [i, value] :
             llvm::enumerate(body.getTerminator()->getOperands()))
          if (!isOutputOfRow(i))
            results[i] = insert(results[i], valueOf(value, element), k);
    }
    if (pass != lastPass)
      continue;
    auto storeResults = [&] {
      for (auto [i, vector] : llvm::enumerate(results))
        if (!isOutputOfRow(i))
          storeVector(i, run.index, vector, length);
    };
    if (run.inRow)
      emitIf(run.inRow, storeResults);
    else
      storeResults();
  }
}

/// A halving tree over all lanes. Lane k of a thread is lane
/// (k / length) * 32 * length + thread * length + k % length.
Value RowCode::sumOfWarp(MutableArrayRef<Value> lanes, int64_t length) {
  const Type f32 = b.getF32Type(), i32 = b.getI32Type();
  for (int64_t stride = kLanes / 2; stride != 0; stride /= 2) {
    const bool isInThread = stride >= kWarp * length || stride < length;
    const int64_t distance = stride < length ? stride : stride / kWarp;
    const int64_t sums = isInThread ? distance : length;
    for (int64_t k = 0; k < sums; ++k) {
      Value other =
          isInThread
              ? lanes[k + distance]
              : intrinsic("llvm.nvvm.shfl.sync.bfly.f32", f32,
                          {number(i32, -1), lanes[k],
                           number(i32, stride / length), number(i32, 31)});
      lanes[k] = LLVM::FAddOp::create(b, loc, lanes[k], other);
    }
  }
  return lanes.front();
}

void RowCode::emitWarp(Value base, Value thread, int64_t length) {
  rowValues.clear();
  const int64_t all = llvm::divideCeil(cols, kWarp * length);
  const bool isKept = lastPass > 0 && length > 1 &&
                      all * length * elementBits <= kKeptBits &&
                      all * length * elementCode <= kMostCode;
  // A lane of a thread has the same number in each iteration.
  int64_t runs = kRunsAtATime;
  while (runs > 1 && runs * length * elementCode > kMostCode)
    runs /= 2;
  runs = isKept ? all : std::max(runs, kLanesOfThread / length);
  const int64_t together = runs * kWarp * length, known = isKept ? cols
                                                          : cols % together == 0
                                                              ? together
                                                              : 0;
  SmallVector<Run> kept;
  if (isKept)
    kept = loadRuns(base, wide(0), thread, length, runs, known);
  Value zero = LLVM::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  for (unsigned pass = 0; pass <= lastPass; ++pass) {
    computeRowValues(pass, base);
    SmallVector<tert::RowSumOp> sums = sumsOf(pass);
    SmallVector<Value> lanes(sums.size() * kLanesOfThread, zero);
    if (isKept)
      useRuns(kept, pass, length, lanes);
    else
      lanes =
          emitLoop(wide(0), wide(cols), together, lanes,
                   [&](Value begin, ValueRange before) {
                     SmallVector<Value> after(before);
                     useRuns(loadRuns(base, begin, thread, length, runs, known),
                             pass, length, after);
                     return after;
                   });
    for (auto [s, sum] : llvm::enumerate(sums))
      rowValues[sum] = sumOfWarp(
          MutableArrayRef(lanes).slice(s * kLanesOfThread, kLanesOfThread),
          length);
  }
  computeRowValues(lastPass + 1, base);
  Value isFirst =
      LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, thread, wide(0));
  if (llvm::any_of(llvm::seq<unsigned>(0, outputs.size()),
                   [&](unsigned i) { return isOutputOfRow(i); }))
    emitIf(isFirst, [&] { storeRowOutputs(base); });
}
