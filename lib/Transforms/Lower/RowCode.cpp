//===- RowCode.cpp - code of launches with reductions of rows -------------===//
//
// A row is visited in the passes of RowPasses. What has one value for a row is
// computed once, between passes.
//
// Sums have the order of the lane sum of Kernels.td, as `row_sum` does. On a
// GPU, a warp computes a row, of which each thread has runs of consecutive
// elements, and keeps it in registers between passes if it is short. A block
// computes a longer row, of which each thread has one or two lanes, and keeps
// it in shared memory. Even longer rows are read again in each pass, by a warp.
//
//===----------------------------------------------------------------------===//

#include "CodeEmitter.h"
#include "RowPasses.h"

#include "TEDialect/TERT/GeneratedBody.h"

using namespace mlir;
using namespace mlir::te;

/// The lanes of a reduction, and how many of them a thread of a warp has.
static constexpr int64_t kLanes = 256, kWarp = 32, kLanesOfThread = 8;
/// The longest row of a block whose threads have two neighbouring lanes each;
/// in the block of a longer one, twice as many threads have one.
static constexpr int64_t kMostColsOfPairs = 8192;
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
/// The most runs that a thread of such a block loads before it uses the first.
static constexpr int64_t kMostRunsOfBlock = 8;

namespace {

class RowCode final : public CodeEmitter {
public:
  RowCode(func::FuncOp step, tert::LaunchOp launch, StringRef name);

  int32_t getBlock() const override {
    return rowHasBlock() ? getThreadsOfBlock() : kRowsOfBlock * kWarp;
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
  /// Consecutive elements, from column `col` on, that a thread loads together.
  /// `inRow` is null if the row has all of them.
  struct Run {
    Value index, col, inRow;
    SmallVector<Element> elements;
  };
  using UseRuns =
      function_ref<SmallVector<Value>(MutableArrayRef<Run>, ValueRange)>;

  void emitHostBody(Value begin, Value end) override;
  void emitDeviceBody(Value count, Value aligned) override;

  bool isOfRow(Value value) const { return plain.isOfRow(value); }
  bool isOutputOfRow(unsigned i) const {
    return !isOutputOfAll(i) && !amaxOf(i);
  }
  /// What the lanes of a reduction begin with, and what an element makes them.
  Value startOf(tert::RowReduceOp op);
  Value combine(tert::RowReduceOp op, Value lane, Value value);
  auto combinerOf(tert::RowReduceOp op) {
    return [this, op](Value a, Value b) { return combine(op, a, b); };
  }
  /// Computes what has one value for the row from `base` on, and depends on the
  /// reductions of the passes before `pass` and on no others.
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

  void emitHostRow(Value base, ValueRange lanes);

  /// The most elements in a run of `threads` threads.
  int64_t getRunLength(int64_t threads) const;
  /// Whether a warp keeps its row in registers, in runs of `length` elements.
  bool isKeptByWarp(int64_t length) const;
  /// Has a block compute a row with these passes, if its shared memory has room
  /// for what it keeps. Inputs that only the first pass uses can be left out.
  void planBlock(const RowPasses &of, bool keepsFirstInputs);
  bool rowHasBlock() const { return sharedBytes != 0; }
  int64_t getThreadsOfBlock() const {
    return cols <= kMostColsOfPairs ? kLanes / 2 : kLanes;
  }

  /// Emits the code of a warp, with runs of `length` elements.
  void emitWarp(Value base, Value thread, int64_t length);
  /// Emits the code of a block for one row.
  void emitBlock(Value base, Value thread, int64_t length);
  /// Stores what a block keeps of `value` in shared memory.
  void storeKept(Run &run, Value value);
  /// Stores the inputs that a block keeps.
  void keepInputs(Value base, Value thread, int64_t length);
  /// How many runs of a row that is not in registers a thread has at a time.
  int64_t getRunsAtATime(int64_t length) const;
  /// Emits a loop over the runs of the thread. `use` takes those of an
  /// iteration and the values that the one before left, and returns those that
  /// it leaves.
  SmallVector<Value> emitRuns(Value base, Value thread, int64_t length,
                              ValueRange initial, UseRuns use);
  /// The runs of the thread among the next `runs` runs from column `begin` on,
  /// of which the first `known` columns are in the row, without what is in
  /// shared memory.
  SmallVector<Run> loadRuns(Value base, Value begin, Value thread,
                            int64_t length, int64_t runs, int64_t known);
  void setValues(Run &run, Value value, Value vector);
  /// Loads what `pass` needs of `run` from shared memory.
  void loadKept(Run &run);
  /// Computes the elements of `runs` in `pass`: the lanes of its reductions,
  /// and the results of the last pass.
  void useRuns(MutableArrayRef<Run> runs, int64_t length,
               SmallVectorImpl<Value> &lanes);
  /// Rotates the lanes that a thread has of each reduction, so that the first
  /// one is that of the next iteration with one element. The tree of
  /// reduceLanes has the same pairs afterwards.
  void turnLanes(MutableArrayRef<Value> lanes) const;
  int64_t getLanesOfThread() const { return kLanes / threads; }
  /// Keeps values of `run` for the passes after this one.
  void keepValues(Run &run);
  /// Computes and stores what is left after the last pass.
  void finishRow(Value base, Value thread);
  /// Element `index` of those that begin at `bytes` in shared memory.
  Value sharedAt(int64_t bytes, Type type, Value index);

  int64_t cols;
  /// The passes that keep values and those that do not, and which are emitted.
  RowPasses keeping, plain;
  const RowPasses *passes = &plain;
  unsigned pass = 0;
  /// The values of the row that are computed.
  DenseMap<Value, Value> rowValues;
  /// Of the values of the row that elements are divided by.
  DenseMap<Value, Divisor> divisors;

  /// The threads that compute a row together.
  int64_t threads = kWarp;
  /// Of a block with one row: its passes, the bytes of its shared memory, where
  /// it keeps inputs and values, and where the lanes begin.
  const RowPasses *ofBlock = nullptr;
  int64_t sharedBytes = 0, lanesAt = 0;
  llvm::MapVector<Value, int64_t> keptAt;
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
    : CodeEmitter(step, launch, name), cols(tert::getColsOfReductions(body)),
      keeping(body, maps, /*keepsValues=*/true),
      plain(body, maps, /*keepsValues=*/false) {
  if (plain.getLast() == 0 || cols < kFewestColsOfBlock ||
      isKeptByWarp(getRunLength(kWarp)))
    return;
  // A run of neighbouring lanes has one or two elements, so that inputs are
  // loaded faster by longer runs to shared memory than by the first pass.
  for (const RowPasses *of : {&keeping, &plain})
    for (bool keepsFirstInputs : {true, false})
      if (!rowHasBlock())
        planBlock(*of, keepsFirstInputs);
}

/// Runs have 16 bytes in the widest type of an element, less if there would be
/// threads without any.
int64_t RowCode::getRunLength(int64_t threads) const {
  unsigned widest = 16;
  for (auto [i, type] : llvm::enumerate(inputs))
    if (!isOfRow(body.getArgument(i)))
      widest = std::max(widest, type.getIntOrFloatBitWidth());
  for (auto [i, type] : llvm::enumerate(outputs))
    if (isOutputOfAll(i))
      widest = std::max(widest, type.getIntOrFloatBitWidth());
  int64_t length = 128 / widest;
  while (length > 1 && (cols % length != 0 || cols < threads * length))
    length /= 2;
  return length;
}

bool RowCode::isKeptByWarp(int64_t length) const {
  const int64_t elements = llvm::divideCeil(cols, kWarp * length) * length;
  return keeping.getLast() > 0 && length > 1 &&
         elements * keeping.getKeptBits() <= kKeptBits &&
         elements * keeping.getCode() <= kMostCode;
}

void RowCode::planBlock(const RowPasses &of, bool keepsFirstInputs) {
  keptAt.clear();
  int64_t bytes = 0;
  auto keep = [&](Value value) {
    keptAt[value] = bytes;
    bytes +=
        llvm::alignTo(cols * value.getType().getIntOrFloatBitWidth() / 8, 16);
  };
  for (auto [argument, map] : llvm::zip(body.getArguments(), maps)) {
    // All rows read the same elements of a vector along the row, and the last
    // pass loads what only it uses.
    auto binary = dyn_cast<AffineBinaryOpExpr>(map.getResult(0));
    const bool isOfCols =
        binary && binary.getKind() == AffineExprKind::Mod &&
        binary.getRHS() == getAffineConstantExpr(cols, b.getContext());
    auto isUsedBy = [&](unsigned pass) { return of.uses(pass, argument); };
    const bool isKept = keepsFirstInputs ||
                        llvm::any_of(llvm::seq(1u, of.getLast() + 1), isUsedBy);
    if (isKept && !isOfRow(argument) && !isOfCols &&
        (of.firstUseOf(argument) != of.getLast() ||
         !of.reductionsOf(of.getLast()).empty()))
      keep(argument);
  }
  llvm::for_each(of.getKept(), keep);
  lanesAt = bytes;
  for ([[maybe_unused]] auto each : body.getOps<tert::RowReduceOp>())
    bytes += kLanes * 4;
  if (lanesAt == 0 || bytes > kMostSharedBytes)
    return;
  ofBlock = &of;
  sharedBytes = bytes;
}

Value RowCode::startOf(tert::RowReduceOp op) {
  const bool isSum = op.getKind() == tert::RowReduction::Sum;
  return LLVM::ConstantOp::create(
      b, loc,
      b.getF32FloatAttr(isSum ? 0.0f
                              : -std::numeric_limits<float>::infinity()));
}

Value RowCode::combine(tert::RowReduceOp op, Value lane, Value value) {
  if (op.getKind() == tert::RowReduction::Sum)
    return LLVM::FAddOp::create(b, loc, lane, value);
  return intrinsic("llvm.maximum.f32", b.getF32Type(), {lane, value});
}

void RowCode::computeRowValues(unsigned pass, Value base) {
  for (auto [i, argument] : llvm::enumerate(body.getArguments()))
    if (pass == 0 && isOfRow(argument))
      rowValues[argument] = load(i, base);
  for (Operation &op : body.without_terminator()) {
    Value result = op.getResult(0);
    if (isa<tert::RowReduceOp>(op) || !isOfRow(result) ||
        passes->readyAfter(result) != pass)
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

void RowCode::prepareDivisors(unsigned pass) {
  for (Operation &op : body.without_terminator())
    if (dividesByRow(op) && passes->uses(pass, op.getResult(0)) &&
        !divisors.contains(op.getOperand(1)))
      divisors[op.getOperand(1)] =
          prepareDivisor(rowValues.lookup(op.getOperand(1)));
}

void RowCode::divideByRow(arith::DivFOp op, MutableArrayRef<Element> elements) {
  SmallVector<Value> dividends =
      llvm::map_to_vector(elements, [&](Element &element) {
        return valueOf(op.getLhs(), element);
      });
  SmallVector<Value> quotients =
      divide(dividends, divisors.lookup(op.getRhs()));
  for (auto [element, quotient] : llvm::zip_equal(elements, quotients))
    element.values[op] = quotient;
}

void RowCode::emitHostBody(Value begin, Value end) {
  const Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  SmallVector<Value> lanes;
  for ([[maybe_unused]] auto each : body.getOps<tert::RowReduceOp>())
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
  passes = &plain;
  for (unsigned pass = 0; pass <= passes->getLast(); ++pass) {
    computeRowValues(pass, base);
    SmallVector<tert::RowReduceOp> reductions = passes->reductionsOf(pass);
    for (auto [op, lane] : llvm::zip(reductions, lanes))
      call("te_scalar_set_lanes", LLVM::LLVMVoidType::get(b.getContext()),
           {lane, startOf(op)});
    emitLoop(wide(0), wide(cols), 1, {},
             [&](Value col, ValueRange) -> SmallVector<Value> {
               Element element(add(base, col));
               for (auto [i, argument] : llvm::enumerate(body.getArguments()))
                 if (!isOfRow(argument))
                   element.values[argument] = load(i, element.index);
               Value lane = LLVM::URemOp::create(b, loc, col, wide(kLanes));
               for (auto [op, first] : llvm::zip(reductions, lanes)) {
                 Value place = at(first, f32, lane);
                 Value before = LLVM::LoadOp::create(b, loc, f32, place);
                 LLVM::StoreOp::create(
                     b, loc, combine(op, before, valueOf(op.getX(), element)),
                     place);
               }
               if (pass == passes->getLast()) {
                 for (auto op : body.getOps<tert::AmaxOp>())
                   raise(op, valueOf(op.getX(), element));
                 for (auto [i, value] :
                      llvm::enumerate(body.getTerminator()->getOperands()))
                   if (isOutputOfAll(i))
                     store(i, element.index, valueOf(value, element));
               }
               return {};
             });
    for (auto [op, lane] : llvm::zip(reductions, lanes))
      rowValues[op] = call(op.getKind() == tert::RowReduction::Sum
                               ? "te_scalar_sum_of_lanes"
                               : "te_scalar_max_of_lanes",
                           f32, lane);
  }
  computeRowValues(passes->getLast() + 1, base);
  storeRowOutputs(base);
}

void RowCode::emitDeviceBody(Value count, Value aligned) {
  Value thread = special("tid.x"), block = special("ctaid.x");
  threads = rowHasBlock() ? getThreadsOfBlock() : kWarp;
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
        [&] {
          isCompact = true;
          emitRow(base, thread, 1);
        });
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
    for (int64_t k = 0; k < length; ++k)
      run.elements.emplace_back(add(run.index, wide(k)));
    for (auto [i, argument] : llvm::enumerate(body.getArguments()))
      if (!isOfRow(argument) && !(hasKeptInputs && keptAt.contains(argument)))
        setValues(run, argument, loadVector(i, run.index, length));
  }
  return loaded;
}

void RowCode::setValues(Run &run, Value value, Value vector) {
  for (auto [k, element] : llvm::enumerate(run.elements))
    element.values[value] = extract(vector, k);
}

void RowCode::loadKept(Run &run) {
  const int64_t length = run.elements.size();
  for (auto [value, place] : keptAt)
    if (isa<BlockArgument>(value) || passes->firstUseOf(value) < pass) {
      const Type type = value.getType();
      setValues(run, value,
                LLVM::LoadOp::create(b, loc, VectorType::get(length, type),
                                     sharedAt(place, type, run.col),
                                     alignmentOf(length, type)));
    }
}

void RowCode::useRuns(MutableArrayRef<Run> runs, int64_t length,
                      SmallVectorImpl<Value> &lanes) {
  SmallVector<tert::RowReduceOp> reductions = passes->reductionsOf(pass);
  const int64_t lanesOfThread = getLanesOfThread();
  for (auto [r, run] : llvm::enumerate(runs)) {
    // One run at a time, so that they take fewer registers.
    if (hasKeptInputs)
      loadKept(run);
    for (Operation &op : body.without_terminator())
      if (dividesByRow(op) && passes->uses(pass, op.getResult(0)))
        divideByRow(cast<arith::DivFOp>(op), run.elements);
    SmallVector<Value> results = emptyVectors(length);
    Value noAmax = LLVM::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
    auto inRowOr = [&](Value other, Value value) -> Value {
      return run.inRow ? LLVM::SelectOp::create(b, loc, run.inRow, value, other)
                       : value;
    };
    for (auto [k, element] : llvm::enumerate(run.elements)) {
      for (auto [s, op] : llvm::enumerate(reductions)) {
        Value &lane =
            lanes[s * lanesOfThread + (r * length + k) % lanesOfThread];
        // A lane is never -0, so that adding 0 does not change it.
        lane = combine(op, lane,
                       inRowOr(startOf(op), valueOf(op.getX(), element)));
      }
      if (pass != passes->getLast())
        continue;
      // Behind the row, elements are the last ones, or what another thread has
      // made them if an output is an input.
      for (auto op : body.getOps<tert::AmaxOp>())
        raise(op, inRowOr(noAmax, valueOf(op.getX(), element)));
      for (auto [i, value] :
           llvm::enumerate(body.getTerminator()->getOperands()))
        if (isOutputOfAll(i))
          results[i] = insert(results[i], valueOf(value, element), k);
    }
    keepValues(run);
    if (pass != passes->getLast())
      continue;
    auto storeResults = [&] {
      for (auto [i, vector] : llvm::enumerate(results))
        if (isOutputOfAll(i))
          storeVector(i, run.index, vector, length);
    };
    if (run.inRow)
      emitIf(run.inRow, storeResults);
    else
      storeResults();
  }
}

/// Behind the row, a run is the last one again, with the same values.
void RowCode::keepValues(Run &run) {
  for (Value value : passes->getKept())
    if (hasKeptInputs && passes->firstUseOf(value) == pass)
      storeKept(run, value);
  for (Element &element : run.elements)
    // Other values are computed again, so that they take no registers.
    for (Operation &op : body.without_terminator())
      if (!passes->isKept(op.getResult(0)))
        element.values.erase(op.getResult(0));
}

int64_t RowCode::getRunsAtATime(int64_t length) const {
  if (isCompact)
    return 1;
  auto isSmall = [&](int64_t runs) {
    return runs * length * passes->getCode() <= kMostCode;
  };
  // A lane of a thread has the same number in each iteration.
  const int64_t fewest = std::max<int64_t>(1, getLanesOfThread() / length);
  if (rowHasBlock() && cols % (fewest * threads * length) == 0) {
    const int64_t all = cols / (threads * length);
    int64_t runs = length > getLanesOfThread() ? kMostRunsOfBlock
                                               : kMostRunsOfBlock / length;
    while (runs > fewest && (all % runs != 0 || !isSmall(runs)))
      runs -= fewest;
    return runs;
  }
  int64_t runs = kRunsAtATime;
  while (runs > 1 && !isSmall(runs))
    runs /= 2;
  return std::max(runs, fewest);
}

SmallVector<Value> RowCode::emitRuns(Value base, Value thread, int64_t length,
                                     ValueRange initial, UseRuns use) {
  const int64_t runs = getRunsAtATime(length),
                together = runs * threads * length;
  return emitLoop(wide(0), wide(cols), together, initial,
                  [&](Value begin, ValueRange before) {
                    SmallVector<Run> loaded =
                        loadRuns(base, begin, thread, length, runs,
                                 cols % together == 0 ? together : 0);
                    return use(loaded, before);
                  });
}

void RowCode::turnLanes(MutableArrayRef<Value> lanes) const {
  const int64_t own = getLanesOfThread();
  for (; !lanes.empty(); lanes = lanes.drop_front(own))
    std::rotate(lanes.begin(), lanes.begin() + 1, lanes.begin() + own);
}

void RowCode::emitWarp(Value base, Value thread, int64_t length) {
  const bool isKept = isKeptByWarp(length);
  passes = isKept ? &keeping : &plain;
  rowValues.clear();
  divisors.clear();
  SmallVector<Run> kept;
  if (isKept)
    kept = loadRuns(base, wide(0), thread, length,
                    llvm::divideCeil(cols, kWarp * length), cols);
  for (pass = 0; pass <= passes->getLast(); ++pass) {
    computeRowValues(pass, base);
    prepareDivisors(pass);
    SmallVector<Value> lanes;
    for (tert::RowReduceOp op : passes->reductionsOf(pass))
      lanes.append(kLanesOfThread, startOf(op));
    auto use = [&](MutableArrayRef<Run> runs, ValueRange before) {
      SmallVector<Value> after(before);
      useRuns(runs, length, after);
      if (isCompact)
        turnLanes(after);
      return after;
    };
    lanes =
        isKept ? use(kept, lanes) : emitRuns(base, thread, length, lanes, use);
    for (auto [s, op] : llvm::enumerate(passes->reductionsOf(pass)))
      rowValues[op] = reduceLanes(
          MutableArrayRef(lanes).slice(s * kLanesOfThread, kLanesOfThread),
          thread, length, combinerOf(op));
  }
  finishRow(base, thread);
}

Value RowCode::sharedAt(int64_t bytes, Type type, Value index) {
  const Type byte = b.getI8Type();
  return at(at(shared, byte, wide(bytes)), type, index);
}

void RowCode::storeKept(Run &run, Value value) {
  const Type type = value.getType();
  const int64_t length = run.elements.size();
  Value vector = LLVM::PoisonOp::create(b, loc, VectorType::get(length, type));
  for (auto [k, element] : llvm::enumerate(run.elements))
    vector = insert(vector, element.values.lookup(value), k);
  LLVM::StoreOp::create(b, loc, vector,
                        sharedAt(keptAt.lookup(value), type, run.col),
                        alignmentOf(length, type));
}

void RowCode::keepInputs(Value base, Value thread, int64_t length) {
  emitRuns(base, thread, length, {},
           [&](MutableArrayRef<Run> runs, ValueRange) -> SmallVector<Value> {
             for (Run &run : runs) {
               auto keep = [&] {
                 for (auto [value, place] : keptAt)
                   if (isa<BlockArgument>(value))
                     storeKept(run, value);
               };
               run.inRow ? emitIf(run.inRow, keep) : keep();
             }
             return {};
           });
}

void RowCode::emitBlock(Value base, Value thread, int64_t length) {
  passes = ofBlock;
  rowValues.clear();
  divisors.clear();
  shared = getSharedArray(tert::kSharedMemory, b.getI8Type(), 0);
  hasKeptInputs = false;
  pass = 0;
  if (llvm::any_of(keptAt, [](const auto &kept) {
        return isa<BlockArgument>(kept.first);
      })) {
    keepInputs(base, thread, length);
    emitBarrier();
  }
  hasKeptInputs = true;
  const Type f32 = b.getF32Type();
  int64_t lanesOfOp = lanesAt;
  for (; pass <= passes->getLast(); ++pass) {
    computeRowValues(pass, base);
    prepareDivisors(pass);
    SmallVector<tert::RowReduceOp> reductions = passes->reductionsOf(pass);
    // A thread has the elements of its lanes, or runs if nothing is reduced.
    const int64_t lanesOfThread = getLanesOfThread();
    const int64_t lengthOfPass =
        reductions.empty() ? length : std::min(length, lanesOfThread);
    SmallVector<Value> lanes;
    for (tert::RowReduceOp op : reductions)
      lanes.append(lanesOfThread, startOf(op));
    lanes = emitRuns(base, thread, lengthOfPass, lanes,
                     [&](MutableArrayRef<Run> runs, ValueRange before) {
                       SmallVector<Value> after(before);
                       useRuns(runs, lengthOfPass, after);
                       if (isCompact)
                         turnLanes(after);
                       return after;
                     });
    for (auto [i, lane] : llvm::enumerate(lanes)) {
      const int64_t s = i / lanesOfThread, k = i % lanesOfThread;
      Value number = add(
          multiply(thread, lengthOfPass),
          wide(k / lengthOfPass * threads * lengthOfPass + k % lengthOfPass));
      LLVM::StoreOp::create(b, loc, lane,
                            sharedAt(lanesOfOp + s * kLanes * 4, f32, number));
    }
    if (!reductions.empty())
      emitBarrier();
    // Each warp reduces all lanes, of which a thread has every 32nd.
    Value first = LLVM::AndOp::create(b, loc, thread, wide(kWarp - 1));
    for (tert::RowReduceOp op : reductions) {
      SmallVector<Value> all;
      for (int64_t k = 0; k < kLanesOfThread; ++k)
        all.push_back(LLVM::LoadOp::create(
            b, loc, f32,
            sharedAt(lanesOfOp, f32, add(first, wide(k * kWarp)))));
      rowValues[op] = reduceLanes(all, first, 1, combinerOf(op));
      lanesOfOp += kLanes * 4;
    }
  }
  hasKeptInputs = false;
  finishRow(base, thread);
}

void RowCode::finishRow(Value base, Value thread) {
  computeRowValues(passes->getLast() + 1, base);
  Value isFirst =
      LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, thread, wide(0));
  if (llvm::any_of(llvm::seq<unsigned>(0, outputs.size()),
                   [&](unsigned i) { return isOutputOfRow(i); }))
    emitIf(isFirst, [&] { storeRowOutputs(base); });
}
