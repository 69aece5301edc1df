//===- RowCode.cpp - code of launches with sums of rows -------------------===//
//
// A row is visited in passes: each computes the sums whose operands depend on
// no other sum, then on those of the passes before. The last pass writes the
// results. What has one value for a row is computed once, between passes.
//
// Sums have the order of the lane sum of Kernels.td, as `row_sum` does. On a
// GPU, a warp computes a row, of which each thread has runs of consecutive
// elements, and keeps it in registers between passes if it is short. A block
// computes a longer row, of which each thread has one lane, and keeps it in
// shared memory. Even longer rows are read again in each pass, by a warp.
//
//===----------------------------------------------------------------------===//

#include "CodeEmitter.h"

#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/GeneratedBody.h"

using namespace mlir;
using namespace mlir::te;

/// The lanes of a sum, and how many of them a thread of a warp has.
static constexpr int64_t kLanes = 256, kWarp = 32, kLanesOfThread = 8;
/// A block of warps has one for each of these rows.
static constexpr int64_t kRowsOfBlock = 4;
/// The most bits of a row that a thread keeps in registers.
static constexpr int64_t kKeptBits = 128 * 32;
/// The most code for the elements that a thread has at a time, as a multiple of
/// one addition. It bounds the time to compile.
static constexpr int64_t kMostCode = 1536;
/// The runs of a longer row that a thread loads before it uses the first, less
/// if their code is too large.
static constexpr int64_t kRunsAtATime = 4;
/// The shortest row that has a block of its own, and the most shared memory for
/// it: three blocks run on a multiprocessor.
static constexpr int64_t kFewestColsOfBlock = 2048;
static constexpr int64_t kMostSharedBytes = 72 * 1024;
/// The exponents of divisors and dividends for which no step of a division by
/// way of the inverse is subnormal or overflows.
static constexpr int64_t kMildDivisor = 24, kMildDividend = 100;
/// The most runs that a thread of such a block loads before it uses the first.
static constexpr int64_t kMostRunsOfBlock = 8;

namespace {

class RowCode final : public CodeEmitter {
public:
  RowCode(func::FuncOp step, tert::LaunchOp launch, StringRef name);

  int32_t getBlock() const override {
    return rowHasBlock() ? kLanes : kRowsOfBlock * kWarp;
  }
  int32_t getBlockElements() const override {
    return rowHasBlock() ? cols : kRowsOfBlock * cols;
  }
  int32_t getSharedBytes() const override { return sharedBytes; }

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
    Value index, col, inRow;
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

  /// Whether `op` divides elements by a value of the row, which a GPU does
  /// without a branch for each.
  bool dividesByRow(Operation &op) const {
    return isa<arith::DivFOp>(op) && isOfRow(op.getOperand(1)) &&
           !isOfRow(op.getResult(0));
  }
  /// Computes what divisions of `pass` by one value of the row share.
  void prepareDivisors(unsigned pass);
  void divideByRow(arith::DivFOp op, MutableArrayRef<Element> elements);
  Value isMild(Value bits, int64_t limit);
  /// The bits of an f32 without its sign.
  Value magnitudeOf(Value value);

  void emitHostRow(Value base, ValueRange lanes);

  /// The most elements in a run of `threads` threads.
  int64_t getRunLength(int64_t threads) const;
  /// Whether a warp keeps its row in registers, in runs of `length` elements.
  bool isKeptByWarp(int64_t length) const;
  /// Finds out whether a block is to compute a row, and which inputs it then
  /// keeps in shared memory.
  void planBlock();
  bool rowHasBlock() const { return sharedBytes != 0; }

  /// Emits the code of a warp, with runs of `length` elements.
  void emitWarp(Value base, Value thread, int64_t length);
  /// Emits the code of a block for one row.
  void emitBlock(Value base, Value thread, int64_t length);
  /// Stores the inputs that a block keeps in shared memory.
  void keepInputs(Value base, Value thread, int64_t length);
  /// How many runs of a row that is not in registers a thread has at a time.
  int64_t getRunsAtATime(int64_t length) const;
  /// Emits a loop over the runs of the thread. `use` takes those of an
  /// iteration and the values that the one before left, and returns those that
  /// it leaves.
  SmallVector<Value>
  emitRuns(Value base, Value thread, int64_t length, ValueRange initial,
           function_ref<SmallVector<Value>(ArrayRef<Run>, ValueRange)> use);
  /// The runs of the thread among the next `runs` runs from column `begin` on,
  /// of which the first `known` columns are in the row.
  SmallVector<Run> loadRuns(Value base, Value begin, Value thread,
                            int64_t length, int64_t runs, int64_t known);
  /// Adds the elements of `runs` to the lanes of the sums of `pass`, and writes
  /// the results of the last pass.
  void useRuns(ArrayRef<Run> runs, unsigned pass, int64_t length,
               SmallVectorImpl<Value> &lanes);
  /// Computes and stores what is left after the last pass.
  void finishRow(Value base, Value thread);
  /// Element `index` of those that begin at `bytes` in shared memory.
  Value sharedAt(int64_t bytes, Type type, Value index);
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
  /// Of the values of the row that elements are divided by.
  struct Divisor {
    Value inverse, negated, isMild;
  };
  DenseMap<Value, Divisor> divisors;
  /// The values of elements that each pass computes.
  SmallVector<DenseSet<Value>> usedBy;

  /// The threads that compute a row together.
  int64_t threads = kWarp;
  /// Of a block with one row: the bytes of its shared memory, where it keeps
  /// each input, or -1, and where the lanes of the sums begin.
  int64_t sharedBytes = 0, lanesAt = 0;
  SmallVector<int64_t> keptAt;
  /// The address of the shared memory, and whether it has the inputs.
  Value shared;
  bool hasKeptInputs = false;
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
  for (unsigned pass = 0; pass <= lastPass; ++pass) {
    DenseSet<Value> &used = usedBy.emplace_back();
    for (tert::RowSumOp sum : sumsOf(pass))
      used.insert(sum.getX());
    if (pass == lastPass)
      used.insert_range(body.getTerminator()->getOperands());
    for (Operation &op : llvm::reverse(body.without_terminator()))
      if (!isa<tert::RowSumOp>(op) && used.contains(op.getResult(0)))
        used.insert_range(op.getOperands());
  }
  planBlock();
}

/// Runs have 16 bytes in the widest type of an element, less if there would be
/// threads without any.
int64_t RowCode::getRunLength(int64_t threads) const {
  unsigned widest = 16;
  for (auto [i, type] : llvm::enumerate(inputs))
    if (!isOfRow(body.getArgument(i)))
      widest = std::max(widest, type.getIntOrFloatBitWidth());
  for (auto [i, type] : llvm::enumerate(outputs))
    if (!isOutputOfRow(i))
      widest = std::max(widest, type.getIntOrFloatBitWidth());
  int64_t length = 128 / widest;
  while (length > 1 && (cols % length != 0 || cols < threads * length))
    length /= 2;
  return length;
}

bool RowCode::isKeptByWarp(int64_t length) const {
  const int64_t elements = llvm::divideCeil(cols, kWarp * length) * length;
  return lastPass > 0 && length > 1 && elements * elementBits <= kKeptBits &&
         elements * elementCode <= kMostCode;
}

void RowCode::planBlock() {
  keptAt.assign(inputs.size(), -1);
  if (lastPass == 0 || cols < kFewestColsOfBlock ||
      isKeptByWarp(getRunLength(kWarp)))
    return;
  int64_t bytes = 0;
  for (auto [i, type] : llvm::enumerate(inputs)) {
    // All rows read the same elements of a vector along the row.
    auto map = dyn_cast<AffineBinaryOpExpr>(maps[i].getResult(0));
    if (isOfRow(body.getArgument(i)) ||
        (map && map.getKind() == AffineExprKind::Mod &&
         map.getRHS() == getAffineConstantExpr(cols, b.getContext())))
      continue;
    keptAt[i] = bytes;
    bytes += llvm::alignTo(cols * type.getIntOrFloatBitWidth() / 8, 16);
  }
  lanesAt = bytes;
  for ([[maybe_unused]] auto sum : body.getOps<tert::RowSumOp>())
    bytes += kLanes * 4;
  if (lanesAt != 0 && bytes <= kMostSharedBytes)
    sharedBytes = bytes;
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

/// Whether the exponent of the f32 with `bits` is from -`limit` to before
/// `limit`.
Value RowCode::isMild(Value bits, int64_t limit) {
  const Type i32 = b.getI32Type();
  Value above =
      LLVM::SubOp::create(b, loc, bits, number(i32, (127 - limit) << 23));
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ult, above,
                              number(i32, 2 * limit << 23));
}

Value RowCode::magnitudeOf(Value value) {
  const Type i32 = b.getI32Type();
  return LLVM::AndOp::create(b, loc,
                             LLVM::BitcastOp::create(b, loc, i32, value),
                             number(i32, 0x7fffffff));
}

void RowCode::prepareDivisors(unsigned pass) {
  for (Operation &op : body.without_terminator()) {
    if (!dividesByRow(op) || !usedBy[pass].contains(op.getResult(0)))
      continue;
    Value value = rowValues.lookup(op.getOperand(1));
    auto [place, isNew] = divisors.try_emplace(op.getOperand(1));
    if (!isNew)
      continue;
    Value one = LLVM::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0f));
    place->second = {LLVM::FDivOp::create(b, loc, one, value),
                     LLVM::FNegOp::create(b, loc, value),
                     isMild(magnitudeOf(value), kMildDivisor)};
  }
}

/// A quotient is that of the dividend and the inverse, corrected twice by what
/// is left of the dividend. The last step is rounded correctly if the inverse
/// is and nothing was subnormal (Markstein's theorem). Else all elements are
/// divided again.
void RowCode::divideByRow(arith::DivFOp op, MutableArrayRef<Element> elements) {
  const Type f32 = b.getF32Type();
  const Divisor &divisor = divisors.find(op.getRhs())->second;
  auto multiplyAdd = [&](Value x, Value y, Value z) {
    return intrinsic("llvm.fma.f32", f32, {x, y, z});
  };
  SmallVector<Value> dividends, quotients;
  Value areMild = divisor.isMild;
  for (Element &element : elements) {
    Value dividend = valueOf(op.getLhs(), element);
    Value first = LLVM::FMulOp::create(b, loc, dividend, divisor.inverse);
    Value quotient = first;
    for (int step = 0; step < 2; ++step) {
      Value rest = multiplyAdd(divisor.negated, quotient, dividend);
      quotient = multiplyAdd(rest, divisor.inverse, quotient);
    }
    // The corrections lose the sign of a zero.
    Value magnitude = magnitudeOf(dividend);
    Value isZero = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq,
                                        magnitude, number(b.getI32Type(), 0));
    quotients.push_back(
        LLVM::SelectOp::create(b, loc, isZero, first, quotient));
    areMild = LLVM::AndOp::create(
        b, loc, areMild,
        LLVM::OrOp::create(b, loc, isZero, isMild(magnitude, kMildDividend)));
    dividends.push_back(dividend);
  }
  quotients = emitUnless(areMild, quotients, [&] {
    return llvm::map_to_vector(dividends, [&](Value dividend) -> Value {
      return LLVM::FDivOp::create(b, loc, dividend,
                                  rowValues.lookup(op.getRhs()));
    });
  });
  for (auto [element, quotient] : llvm::zip(elements, quotients))
    element.values[op] = quotient;
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
  Value thread = special("tid.x"), block = special("ctaid.x");
  threads = rowHasBlock() ? kLanes : kWarp;
  const int64_t length = getRunLength(threads);
  auto emitRow = [&](Value base, Value thread, int64_t length) {
    rowHasBlock() ? emitBlock(base, thread, length)
                  : emitWarp(base, thread, length);
  };
  auto emitEither = [&](Value base, Value thread) {
    if (length == 1)
      return emitRow(base, thread, 1);
    emitIfElse(
        aligned, [&] { emitRow(base, thread, length); },
        [&] { emitRow(base, thread, 1); });
  };
  if (rowHasBlock())
    return emitEither(multiply(block, cols), thread);
  Value lane = LLVM::AndOp::create(b, loc, thread, wide(kWarp - 1));
  Value warp = LLVM::LShrOp::create(b, loc, thread, wide(5));
  Value base = multiply(add(multiply(block, kRowsOfBlock), warp), cols);
  emitIf(isLess(base, count), [&] { emitEither(base, lane); });
}

auto RowCode::loadRuns(Value base, Value begin, Value thread, int64_t length,
                       int64_t runs, int64_t known) -> SmallVector<Run> {
  SmallVector<Run> loaded(runs);
  for (auto [r, run] : llvm::enumerate(loaded)) {
    run.col = add(begin, multiply(add(thread, wide(r * threads)), length));
    if (int64_t(r + 1) * threads * length > known) {
      // Elements behind the row are not used: the last ones are read instead.
      run.inRow = isLess(run.col, wide(cols));
      run.col = LLVM::SMinOp::create(b, loc, run.col, wide(cols - length));
    }
    run.index = add(base, run.col);
    for (auto [i, argument] : llvm::enumerate(body.getArguments()))
      run.loaded.push_back(
          isOfRow(argument) ? Value()
          : hasKeptInputs && keptAt[i] >= 0
              ? LLVM::LoadOp::create(b, loc, VectorType::get(length, inputs[i]),
                                     sharedAt(keptAt[i], inputs[i], run.col),
                                     alignmentOf(length, inputs[i]))
              : loadVector(i, run.index, length));
  }
  return loaded;
}

void RowCode::useRuns(ArrayRef<Run> runs, unsigned pass, int64_t length,
                      SmallVectorImpl<Value> &lanes) {
  SmallVector<tert::RowSumOp> sums = sumsOf(pass);
  const int64_t lanesOfThread = kLanes / threads;
  Value zero = LLVM::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  for (auto [r, run] : llvm::enumerate(runs)) {
    SmallVector<Value> results = emptyVectors(length);
    SmallVector<Element> elements;
    for (int64_t k = 0; k < length; ++k) {
      Element &element = elements.emplace_back(add(run.index, wide(k)));
      for (auto [argument, vector] : llvm::zip(body.getArguments(), run.loaded))
        if (vector)
          element.values[argument] = extract(vector, k);
    }
    for (Operation &op : body.without_terminator())
      if (dividesByRow(op) && usedBy[pass].contains(op.getResult(0)))
        divideByRow(cast<arith::DivFOp>(op), elements);
    for (auto [k, element] : llvm::enumerate(elements)) {
      for (auto [s, sum] : llvm::enumerate(sums)) {
        Value &lane =
            lanes[s * lanesOfThread + (r * length + k) % lanesOfThread];
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

int64_t RowCode::getRunsAtATime(int64_t length) const {
  auto isSmall = [&](int64_t runs) {
    return runs * length * elementCode <= kMostCode;
  };
  if (rowHasBlock() && cols % (threads * length) == 0) {
    const int64_t all = cols / (threads * length);
    int64_t runs = kMostRunsOfBlock;
    while (runs > 1 && (all % runs != 0 || !isSmall(runs)))
      --runs;
    return runs;
  }
  int64_t runs = kRunsAtATime;
  while (runs > 1 && !isSmall(runs))
    runs /= 2;
  // A lane of a thread has the same number in each iteration.
  return std::max(runs, kLanes / threads / length);
}

SmallVector<Value> RowCode::emitRuns(
    Value base, Value thread, int64_t length, ValueRange initial,
    function_ref<SmallVector<Value>(ArrayRef<Run>, ValueRange)> use) {
  const int64_t runs = getRunsAtATime(length),
                together = runs * threads * length;
  return emitLoop(wide(0), wide(cols), together, initial,
                  [&](Value begin, ValueRange before) {
                    return use(loadRuns(base, begin, thread, length, runs,
                                        cols % together == 0 ? together : 0),
                               before);
                  });
}

void RowCode::emitWarp(Value base, Value thread, int64_t length) {
  rowValues.clear();
  divisors.clear();
  SmallVector<Run> kept;
  if (isKeptByWarp(length))
    kept = loadRuns(base, wide(0), thread, length,
                    llvm::divideCeil(cols, kWarp * length), cols);
  Value zero = LLVM::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  for (unsigned pass = 0; pass <= lastPass; ++pass) {
    computeRowValues(pass, base);
    prepareDivisors(pass);
    SmallVector<tert::RowSumOp> sums = sumsOf(pass);
    SmallVector<Value> lanes(sums.size() * kLanesOfThread, zero);
    auto use = [&](ArrayRef<Run> runs, ValueRange before) {
      SmallVector<Value> after(before);
      useRuns(runs, pass, length, after);
      return after;
    };
    lanes = kept.empty() ? emitRuns(base, thread, length, lanes, use)
                         : use(kept, lanes);
    for (auto [s, sum] : llvm::enumerate(sums))
      rowValues[sum] = sumOfWarp(
          MutableArrayRef(lanes).slice(s * kLanesOfThread, kLanesOfThread),
          length);
  }
  finishRow(base, thread);
}

Value RowCode::sharedAt(int64_t bytes, Type type, Value index) {
  const Type byte = b.getI8Type();
  return at(at(shared, byte, wide(bytes)), type, index);
}

void RowCode::keepInputs(Value base, Value thread, int64_t length) {
  emitRuns(base, thread, length, {},
           [&](ArrayRef<Run> runs, ValueRange) -> SmallVector<Value> {
             for (const Run &run : runs) {
               auto keep = [&] {
                 for (auto [i, vector] : llvm::enumerate(run.loaded))
                   if (keptAt[i] >= 0)
                     LLVM::StoreOp::create(
                         b, loc, vector,
                         sharedAt(keptAt[i], inputs[i], run.col),
                         alignmentOf(length, inputs[i]));
               };
               run.inRow ? emitIf(run.inRow, keep) : keep();
             }
             return {};
           });
}

void RowCode::emitBlock(Value base, Value thread, int64_t length) {
  rowValues.clear();
  divisors.clear();
  shared = getSharedMemory();
  hasKeptInputs = false;
  keepInputs(base, thread, length);
  emitBarrier();
  hasKeptInputs = true;
  const Type f32 = b.getF32Type();
  Value zero = LLVM::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  int64_t lanesOfSum = lanesAt;
  for (unsigned pass = 0; pass <= lastPass; ++pass) {
    computeRowValues(pass, base);
    prepareDivisors(pass);
    SmallVector<tert::RowSumOp> sums = sumsOf(pass);
    // A thread has the elements of its lane, or runs if nothing is added.
    const int64_t lengthOfPass = sums.empty() ? length : 1;
    SmallVector<Value> lanes = emitRuns(
        base, thread, lengthOfPass, SmallVector<Value>(sums.size(), zero),
        [&](ArrayRef<Run> runs, ValueRange before) {
          SmallVector<Value> after(before);
          useRuns(runs, pass, lengthOfPass, after);
          return after;
        });
    for (auto [s, lane] : llvm::enumerate(lanes))
      LLVM::StoreOp::create(b, loc, lane,
                            sharedAt(lanesOfSum + s * kLanes * 4, f32, thread));
    if (!sums.empty())
      emitBarrier();
    // Each warp adds all lanes, of which a thread has every 32nd.
    Value first = LLVM::AndOp::create(b, loc, thread, wide(kWarp - 1));
    for (tert::RowSumOp sum : sums) {
      SmallVector<Value> all;
      for (int64_t k = 0; k < kLanesOfThread; ++k)
        all.push_back(LLVM::LoadOp::create(
            b, loc, f32,
            sharedAt(lanesOfSum, f32, add(first, wide(k * kWarp)))));
      rowValues[sum] = sumOfWarp(all, 1);
      lanesOfSum += kLanes * 4;
    }
  }
  finishRow(base, thread);
}

void RowCode::finishRow(Value base, Value thread) {
  computeRowValues(lastPass + 1, base);
  Value isFirst =
      LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, thread, wide(0));
  if (llvm::any_of(llvm::seq<unsigned>(0, outputs.size()),
                   [&](unsigned i) { return isOutputOfRow(i); }))
    emitIf(isFirst, [&] { storeRowOutputs(base); });
}
