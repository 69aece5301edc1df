//===- RowCode.cpp - code of launches with reductions of rows -------------===//

#include "RowCode.h"

#include "TEDialect/TERT/GeneratedBody.h"

using namespace mlir;
using namespace mlir::te;

/// The lanes of a reduction.
static constexpr int64_t kLanes = 256, kWarp = 32;
/// A block of warps has one for each of these rows.
static constexpr int64_t kRowsOfBlock = 4;
/// The shortest row that has a block of its own, and the most threads of it.
static constexpr int64_t kFewestColsOfBlock = 1024, kMostThreads = 1024;
/// The most bits of a row that a thread of a warp and that a block keep in
/// registers.
static constexpr int64_t kBitsOfThread = 128 * 32,
                         kBitsOfBlock = 24 * 1024 * 32;
/// The most code for the elements that a thread has at a time, as a multiple of
/// one addition. It bounds the time to compile. A long row with more than
/// kLittleCode for a thread of a warp has a block, and one with more than
/// kCodeOfGroups for a thread of a block has more groups. Those are few,
/// because they add in turn.
static constexpr int64_t kMostCode = 1536, kLittleCode = 512,
                         kCodeOfGroups = 1024, kMostCodeOfBlock = 3072;
/// The runs of a longer row that a thread loads before it uses the first, less
/// if their code is too large.
static constexpr int64_t kRunsAtATime = 4;

std::unique_ptr<CodeEmitter>
te::createRowCode(func::FuncOp step, tert::LaunchOp launch, StringRef name) {
  return std::make_unique<RowCode>(step, launch, name);
}

RowCode::RowCode(func::FuncOp step, tert::LaunchOp launch, StringRef name)
    : CodeEmitter(step, launch, name), cols(tert::getColsOfReductions(body)),
      keeping(body, maps, /*keepsValues=*/true),
      plain(body, maps, /*keepsValues=*/false), threads(kWarp) {
  if (plain.getLast() == 0)
    return;
  if (fitsInWarp(kLittleCode))
    planned = &keeping;
  else if (cols >= kFewestColsOfBlock)
    planBlock();
  if (!planned && fitsInWarp(kMostCode))
    planned = &keeping;
}

int32_t RowCode::getBlock() const {
  return hasBlock ? groups * threads : kRowsOfBlock * kWarp;
}
int32_t RowCode::getBlockElements() const {
  return hasBlock ? cols : kRowsOfBlock * cols;
}
int32_t RowCode::getSharedBytes() const {
  auto reductions = body.getOps<tert::RowReduceOp>();
  return hasBlock ? llvm::range_size(reductions) * kLanes * 4 : 0;
}
int64_t RowCode::getLanesOfThread() const { return kLanes / threads; }

bool RowCode::dividesByRow(Operation &op) const {
  return isa<arith::DivFOp>(op) && isOfRow(op.getOperand(1)) &&
         !isOfRow(op.getResult(0));
}

/// Runs have 16 bytes in the widest type of an element, less if there would be
/// threads without any.
int64_t RowCode::getRunLength() const {
  unsigned widest = 16;
  for (auto [i, type] : llvm::enumerate(inputs))
    if (!isOfRow(body.getArgument(i)))
      widest = std::max(widest, type.getIntOrFloatBitWidth());
  for (auto [i, type] : llvm::enumerate(outputs))
    if (isOutputOfAll(i))
      widest = std::max(widest, type.getIntOrFloatBitWidth());
  int64_t length = 128 / widest;
  while (length > 1 && (cols % length != 0 || cols < kWarp * length))
    length /= 2;
  return length;
}

bool RowCode::fitsInWarp(int64_t mostCode) const {
  const int64_t length = getRunLength();
  const int64_t elements = llvm::divideCeil(cols, kWarp * length) * length;
  return length > 1 && elements * keeping.getKeptBits() <= kBitsOfThread &&
         elements * keeping.getCode() <= mostCode;
}

void RowCode::planBlock() {
  // Four elements of a dropout share their random words.
  const bool draws = !body.getOps<tert::DropoutOp>().empty();
  int64_t lanes = draws ? 4 : 2;
  while (cols % lanes != 0)
    lanes /= 2;
  for (const RowPasses *of : {&keeping, &plain}) {
    if (cols * of->getKeptBits() > kBitsOfBlock)
      continue;
    auto codeOf = [&](int64_t groups) -> int64_t {
      return llvm::divideCeil(cols, groups * kLanes) * lanes * of->getCode();
    };
    int64_t count = 1;
    while (2 * count * kLanes / lanes <= kMostThreads &&
           codeOf(count) > kCodeOfGroups)
      count *= 2;
    if (codeOf(count) > kMostCodeOfBlock)
      continue;
    hasBlock = true;
    groups = count;
    threads = kLanes / lanes;
    planned = of;
    return;
  }
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
  const int64_t length = hasBlock ? getLanesOfThread() : getRunLength();
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
  if (groups > 1) {
    group = LLVM::UDivOp::create(b, loc, thread, wide(threads));
    thread = LLVM::URemOp::create(b, loc, thread, wide(threads));
  }
  if (hasBlock)
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
      if (!isOfRow(argument))
        for (auto [element, value] :
             llvm::zip_equal(run.elements, loadRun(i, run.index, length)))
          element.values[argument] = value;
  }
  return loaded;
}

void RowCode::useRuns(MutableArrayRef<Run> runs, int64_t length,
                      Reduce reduce) {
  SmallVector<tert::RowReduceOp> reductions = passes->reductionsOf(pass);
  const int64_t lanesOfThread = getLanesOfThread();
  for (auto [r, run] : llvm::enumerate(runs)) {
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
      // A lane is never -0, so that adding 0 does not change it.
      for (auto [s, op] : llvm::enumerate(reductions))
        reduce(op, s * lanesOfThread + (r * length + k) % lanesOfThread,
               inRowOr(startOf(op), valueOf(op.getX(), element)));
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
    forgetValues(run);
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

void RowCode::forgetValues(Run &run) {
  for (Element &element : run.elements)
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
  int64_t runs = kRunsAtATime;
  while (runs > 1 && !isSmall(runs))
    runs /= 2;
  // A lane of a thread has the same number in each iteration.
  return std::max(runs, getLanesOfThread() / length);
}

SmallVector<Value> RowCode::emitRuns(Value base, Value thread, int64_t length,
                                     ValueRange initial, UseRuns use) {
  const int64_t runs = getRunsAtATime(length),
                together = runs * threads * length;
  Value first = group ? multiply(group, cols) : wide(0);
  return emitLoop(first, wide(cols), together, initial,
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

void RowCode::emitRow(Value base, Value thread, int64_t length) {
  const bool isKept = planned && !isCompact;
  passes = isKept ? planned : &plain;
  rowValues.clear();
  divisors.clear();
  sharedLanes = 0;
  SmallVector<Run> all;
  if (isKept) {
    const int64_t runs = llvm::divideCeil(cols, groups * threads * length);
    const int64_t colsOfGroup = runs * threads * length;
    all = loadRuns(base, group ? multiply(group, colsOfGroup) : wide(0), thread,
                   length, runs, cols - (groups - 1) * colsOfGroup);
  }
  for (pass = 0; pass <= passes->getLast(); ++pass) {
    computeRowValues(pass, base);
    prepareDivisors(pass);
    SmallVector<Value> lanes;
    for (tert::RowReduceOp op : passes->reductionsOf(pass))
      lanes.append(getLanesOfThread(), startOf(op));
    if (isKept && group) {
      SmallVector<SmallVector<Value>> terms(lanes.size());
      useRuns(all, length, [&](tert::RowReduceOp, int64_t lane, Value value) {
        terms[lane].push_back(value);
      });
      reduceInTurn(terms, thread);
      continue;
    }
    auto use = [&](MutableArrayRef<Run> runs, ValueRange before) {
      SmallVector<Value> after(before);
      useRuns(runs, length,
              [&](tert::RowReduceOp op, int64_t lane, Value value) {
                after[lane] = combine(op, after[lane], value);
              });
      if (isCompact)
        turnLanes(after);
      return after;
    };
    lanes =
        isKept ? use(all, lanes) : emitRuns(base, thread, length, lanes, use);
    if (hasBlock)
      reduceInBlock(lanes, thread, length);
    else
      reduceInWarp(lanes, thread, length);
  }
  finishRow(base, thread);
}

void RowCode::reduceInWarp(MutableArrayRef<Value> lanes, Value thread,
                           int64_t length) {
  const int64_t own = getLanesOfThread();
  for (auto [s, op] : llvm::enumerate(passes->reductionsOf(pass)))
    rowValues[op] =
        reduceLanes(lanes.slice(s * own, own), thread, length, combinerOf(op));
}

void RowCode::emitInGroup(int64_t number, function_ref<void()> emit) {
  if (!group)
    return emit();
  emitIf(LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, group,
                              wide(number)),
         emit);
}

Value RowCode::sharedLaneAt(int64_t first, Value number) {
  Value lanes = getSharedArray(tert::kSharedMemory, b.getI8Type(), 0);
  return at(lanes, b.getF32Type(), add(wide(sharedLanes + first), number));
}

void RowCode::reduceInTurn(ArrayRef<SmallVector<Value>> terms, Value thread) {
  const Type f32 = b.getF32Type();
  const int64_t own = getLanesOfThread();
  SmallVector<tert::RowReduceOp> reductions = passes->reductionsOf(pass);
  if (reductions.empty())
    return;
  for (int64_t g = 0; g < groups; ++g) {
    emitInGroup(g, [&] {
      for (auto [i, values] : llvm::enumerate(terms)) {
        tert::RowReduceOp op = reductions[i / own];
        Value place =
            sharedLaneAt(i / own * kLanes + i % own, multiply(thread, own));
        Value lane =
            g == 0 ? startOf(op) : LLVM::LoadOp::create(b, loc, f32, place);
        for (Value value : values)
          lane = combine(op, lane, value);
        LLVM::StoreOp::create(b, loc, lane, place);
      }
    });
    emitBarrier();
  }
  reduceSharedLanes(thread);
}

void RowCode::reduceInBlock(ArrayRef<Value> lanes, Value thread,
                            int64_t length) {
  if (lanes.empty())
    return;
  emitInGroup(0, [&] {
    const int64_t own = getLanesOfThread();
    for (auto [i, lane] : llvm::enumerate(lanes)) {
      const int64_t s = i / own, k = i % own;
      const int64_t first = k / length * threads * length + k % length;
      LLVM::StoreOp::create(
          b, loc, lane,
          sharedLaneAt(s * kLanes + first, multiply(thread, length)));
    }
  });
  emitBarrier();
  reduceSharedLanes(thread);
}

void RowCode::reduceSharedLanes(Value thread) {
  // Each warp reduces all lanes, of which a thread has every 32nd.
  Value first = LLVM::AndOp::create(b, loc, thread, wide(kWarp - 1));
  for (tert::RowReduceOp op : passes->reductionsOf(pass)) {
    SmallVector<Value> lanes;
    for (int64_t k = 0; k < kLanes / kWarp; ++k)
      lanes.push_back(LLVM::LoadOp::create(b, loc, b.getF32Type(),
                                           sharedLaneAt(k * kWarp, first)));
    rowValues[op] = reduceLanes(lanes, first, 1, combinerOf(op));
    sharedLanes += kLanes;
  }
}

void RowCode::finishRow(Value base, Value thread) {
  computeRowValues(passes->getLast() + 1, base);
  Value isFirst =
      LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, thread, wide(0));
  if (llvm::any_of(llvm::seq<unsigned>(0, outputs.size()),
                   [&](unsigned i) { return isOutputOfRow(i); }))
    emitInGroup(0, [&] { emitIf(isFirst, [&] { storeRowOutputs(base); }); });
}
