//===- RematPlan.cpp - which values the backward recomputes ---------------===//

#include "RematPlan.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/TERT/RuntimeTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

#include <queue>

using namespace mlir;
using namespace mlir::te;

FailureOr<RematPolicy> RematPolicy::parse(StringRef text, std::string &error) {
  RematPolicy policy;
  if (text == "nothing")
    return policy;
  if (text == "everything") {
    policy.kind = Kind::Everything;
    return policy;
  }
  if (text.consume_front("ops:")) {
    policy.kind = Kind::Ops;
    for (StringRef name : llvm::split(text, ','))
      policy.names.push_back(name.trim().str());
    if (!llvm::is_contained(policy.names, ""))
      return policy;
    error = "expected a name of an op or layer at every place of 'ops:" +
            text.str() + "'";
    return failure();
  }
  if (text.consume_front("budget:")) {
    policy.kind = Kind::Budget;
    if (!text.getAsInteger(10, policy.budget) && policy.budget >= 0)
      return policy;
    error = "expected 'budget:' to have a number of bytes, but got '" +
            text.str() + "'";
    return failure();
  }
  error = "expected 'nothing', 'everything', 'ops:<names>' or "
          "'budget:<bytes>', but got '" +
          text.str() + "'";
  return failure();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static bool isView(Operation *op) {
  return isa_and_present<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op);
}

Value te::castOperand(Operation *op) {
  if (isa_and_present<QuantizeOpInterface, DequantizeOp, TransposeOp,
                      HadamardOp, SwizzleScalesOp, arith::TruncFOp,
                      arith::ExtFOp>(op) ||
      isView(op))
    return op->getOperand(0);
  return {};
}

Value te::storageOf(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

bool te::isAlwaysThere(Value value) {
  value = storageOf(value);
  return isa<BlockArgument>(value) || matchPattern(value, m_Constant());
}

bool te::isScalar(Value value) {
  // One value for each group of rows or block counts as a scalar.
  if (isa_and_present<GroupedAmaxOp, ComputeScaleOp, PartialAmaxOp,
                      AmaxReduceOp>(value.getDefiningOp()))
    return true;
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && tensor.getRank() == 0;
}

bool te::isFree(Value value) {
  Value amax = value;
  if (auto reduce = amax.getDefiningOp<AmaxReduceOp>())
    amax = reduce.getAmaxes()[cast<OpResult>(value).getResultNumber()];
  // Amaxes of 1x32 blocks have an eighth of the bytes of the cast, and those of
  // 1x16 blocks have half.
  auto partial = amax.getDefiningOp<PartialAmaxOp>();
  return isScalar(value) &&
         !(partial && partial.getBlocks()[0] * partial.getBlocks()[1] <= 32);
}

Value te::sourceOf(Value value) {
  while (Value operand = castOperand(value.getDefiningOp()))
    value = operand;
  return value;
}

static int64_t bytesOf(Type type) {
  int64_t bytes = 0;
  for (const tert::BufferLayout &layout : tert::getBufferLayouts(type))
    bytes += layout.bytes;
  return bytes;
}

static int64_t trafficOf(Operation *op) {
  int64_t bytes = 0;
  if (!isView(op))
    for (auto types :
         {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
      for (Type type : types)
        bytes += bytesOf(type);
  return bytes;
}

/// Number of multiplications and additions of a GEMM; 0 for other ops, whose
/// time depends on the bytes they move.
static int64_t flopsOf(Operation *op) {
  if (!isa<MatmulOp, ScaledMatmulOp, GroupedMatmulOp, GroupedScaledMatmulOp>(
          op))
    return 0;
  Type a = op->getOperand(0).getType();
  auto scaled = dyn_cast<ScaledType>(a);
  auto shape = scaled ? scaled.getShape() : cast<ShapedType>(a).getShape();
  // a is [M, K] or [K, M].
  return 2 * shape[0] * shape[1] *
         cast<ShapedType>(op->getResult(0).getType()).getDimSize(1);
}

//===----------------------------------------------------------------------===//
// The forward
//===----------------------------------------------------------------------===//

RematPlan::RematPlan(Block &block) : block(block) {
  findLosses();
  findForward();
  nameForward();
  findLayerInputs();
  makeUnits();
}

void RematPlan::findLosses() {
  SmallVector<Value> open;
  for (auto loss : block.getOps<CrossEntropyOp>()) {
    ofLoss.insert(loss);
    open.push_back(loss.getLogits());
  }
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    const bool isBetween = op && !matchPattern(op, m_Constant()) &&
                           (op->hasTrait<OpTrait::Elementwise>() ||
                            isa<tensor::ExtractSliceOp, tensor::ConcatOp>(op));
    if ((isBetween || isa_and_present<MatmulOp, ScaledMatmulOp>(op)) &&
        ofLoss.insert(op).second && isBetween)
      llvm::append_range(open, op->getOperands());
  }
}

void RematPlan::findForward() {
  for (Operation &op : llvm::reverse(block)) {
    if (auto residual = dyn_cast<ResidualOp>(op))
      residuals.push_back(residual);
    if (!isa<ResidualOp>(op) && !inForward.contains(&op))
      continue;
    if (!isa<ResidualOp>(op))
      forward.push_back(&op);
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp();
          producer && !isa<ResidualOp>(producer))
        inForward.insert(producer);
  }
  std::reverse(residuals.begin(), residuals.end());
  std::reverse(forward.begin(), forward.end());
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          Operation *producer = operand.getDefiningOp();
          return isa_and_present<ResidualOp>(producer) ||
                 readsHeld.contains(producer);
        }))
      readsHeld.insert(&op);
}

void RematPlan::nameForward() {
  llvm::StringMap<unsigned> counts;
  for (Operation *op : forward) {
    Names own;
    std::optional<GemmOrigin> origin = GemmOrigin::find(op->getLoc());
    own.mnemonic = !origin ? op->getName().stripDialect().str()
                   : isa<GroupedMatmulOp, GroupedScaledMatmulOp>(op)
                       ? "grouped_linear"
                       : "linear";
    own.numbered = own.mnemonic + std::to_string(counts[own.mnemonic]++);
    std::string name = innermostName(op->getLoc());
    own.layer = origin ? origin->layer : !name.empty() ? name : own.numbered;
    names[op] = std::move(own);
  }
}

void RematPlan::findLayerInputs() {
  // Scalars, and values that casts and elementwise ops compute from arguments,
  // do not count.
  DenseSet<Value> cheap;
  auto counts = [&](Value value) {
    return !isScalar(value) && !isAlwaysThere(value) && !cheap.contains(value);
  };
  // Casts that only the backward reads are not part of the forward.
  DenseSet<Operation *> heldOnly;
  for (Operation &op : llvm::reverse(block))
    if ((castOperand(&op) ||
         isa<AmaxOp, AmaxRowsOp, PartialAmaxOp, ComputeScaleOp>(op)) &&
        llvm::all_of(op.getUsers(), [&](Operation *user) {
          return isa<ResidualOp>(user) || readsHeld.contains(user) ||
                 heldOnly.contains(user);
        }))
      heldOnly.insert(&op);
  struct Use {
    unsigned first, last, numReaders;
    bool isCast;
  };
  DenseMap<Value, Use> uses;
  SmallVector<Value> values;
  unsigned position = 0;
  for (Operation &here : block.without_terminator()) {
    Operation *op = &here;
    if (readsHeld.contains(op) || heldOnly.contains(op) || isa<ResidualOp>(op))
      continue;
    ++position;
    for (Value operand : llvm::SmallSetVector<Value, 4>(op->operand_begin(),
                                                        op->operand_end())) {
      auto use = uses.find(operand);
      if (use == uses.end())
        continue;
      use->second.last = position;
      // All casts of a value count as one reader.
      const bool isCast =
          castOperand(op) || isa<AmaxOp, AmaxRowsOp, PartialAmaxOp>(op);
      use->second.numReaders += !isCast || !use->second.isCast;
      use->second.isCast |= isCast;
    }
    const bool isCheap =
        (castOperand(op) || op->hasTrait<OpTrait::Elementwise>()) &&
        llvm::none_of(op->getOperands(), counts);
    for (Value result : op->getResults()) {
      if (isCheap)
        cheap.insert(result);
      if (!counts(result))
        continue;
      uses[result] = {position, position, 0, false};
      values.push_back(result);
    }
  }

  // Count the values that are alive after each op. The sum of their numbers
  // identifies the value if there is only one.
  struct Alive {
    int64_t count = 0, sum = 0;
  };
  std::vector<Alive> change(position + 1);
  for (auto [number, value] : llvm::enumerate(values)) {
    const Use &use = uses[value];
    ++change[use.first].count;
    change[use.first].sum += number;
    --change[use.last].count;
    change[use.last].sum -= number;
  }
  Alive alive;
  for (const Alive &here : change) {
    alive.count += here.count;
    alive.sum += here.sum;
    if (alive.count != 1)
      continue;
    Value only = values[alive.sum];
    if (uses[only].numReaders > 1)
      layerInputs.insert(storageOf(only));
  }
}

void RematPlan::makeUnits() {
  for (ResidualOp residual : residuals) {
    Value value = residual.getValue();
    if (isAlwaysThere(value) || isScalar(value))
      continue;
    Value storage = storageOf(value);
    const bool isNew = held.insert(storage).second;
    if (ofLoss.contains(storage.getDefiningOp()))
      continue;
    if (isNew)
      bytesHeld += bytesOf(storage.getType());
    Value source = sourceOf(value);
    Operation *op = source.getDefiningOp();
    Value key = op ? Value(op->getResult(0)) : source;
    auto [entry, isFirst] = unitOf.try_emplace(key, units.size());
    if (isFirst) {
      Unit unit;
      unit.op = op;
      auto found = names.find(op);
      if (op && found != names.end()) {
        unit.mnemonic = found->second.mnemonic;
        unit.layer = found->second.layer;
      } else {
        unit.mnemonic = "quantize";
        unit.layer = describeValue(source);
      }
      units.push_back(std::move(unit));
    }
    units[entry->second].residuals.push_back(residual);
  }
}

bool RematPlan::isNamed(Operation *op, StringRef name) const {
  auto found = names.find(op);
  return found != names.end() &&
         (found->second.mnemonic == name || found->second.layer == name ||
          found->second.numbered == name ||
          op->getName().getStringRef() == name);
}

bool RematPlan::isKnown(StringRef name) const {
  return llvm::any_of(forward,
                      [&](Operation *op) { return isNamed(op, name); });
}

SmallVector<StringRef> RematPlan::getMnemonics() const {
  SmallVector<StringRef> mnemonics;
  for (auto &[op, own] : names)
    if (!matchPattern(op, m_Constant()))
      mnemonics.push_back(own.mnemonic);
  llvm::sort(mnemonics);
  mnemonics.erase(llvm::unique(mnemonics), mnemonics.end());
  return mnemonics;
}

SmallVector<std::pair<int64_t, ResidualOp>>
RematPlan::getLargestHeld(unsigned count) const {
  SmallVector<std::pair<int64_t, ResidualOp>> largest;
  for (ResidualOp residual : residuals)
    if (isHeld(residual.getValue()))
      largest.push_back({bytesOf(residual.getValue().getType()), residual});
  llvm::sort(largest, [](auto a, auto b) {
    return a.first != b.first ? a.first > b.first
                              : a.second->isBeforeInBlock(b.second);
  });
  largest.truncate(std::min<size_t>(count, largest.size()));
  return largest;
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

bool RematPlan::mayRepeat(Operation *op) const {
  if (!op || ofLoss.contains(op) || !inForward.contains(op) ||
      readsHeld.contains(op) || op->getNumRegions() != 0 ||
      !isMemoryEffectFree(op))
    return false;
  // The operands of an op of only scalars and constants have no residuals, so
  // cse would merge the repeated op with the original.
  if (llvm::all_of(op->getOperands(), [](Value operand) {
        return isFree(operand) || matchPattern(operand, m_Constant());
      }))
    return false;
  return !selected || selected->contains(op) || castOperand(op) ||
         isa<AmaxRowsOp, PartialAmaxOp, AmaxReduceOp>(op);
}

bool RematPlan::mustHold(Value storage) const {
  return !selected && layerInputs.contains(storage);
}

void RematPlan::require(Value value, Chain &chain) const {
  SmallVector<Value> worklist = {value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    Value storage = storageOf(next);
    if (isAlwaysThere(storage) || isFree(next) ||
        chain.newlyHeld.contains(storage) ||
        (held.contains(storage) && !chain.going.contains(storage)))
      continue;
    Operation *op = storage.getDefiningOp();
    if (repeated.contains(op))
      continue;
    if (!mayRepeat(op) || mustHold(storage))
      chain.newlyHeld.insert(storage);
    else if (chain.ops.insert(op))
      llvm::append_range(worklist, op->getOperands());
  }
}

RematPlan::Chain RematPlan::estimate(Unit &unit) const {
  Chain chain;
  auto go = [&](ResidualOp residual) {
    Value storage = storageOf(residual.getValue());
    if (held.contains(storage) && mayRepeat(storage.getDefiningOp()) &&
        !mustHold(storage))
      chain.going.insert(storage);
  };
  llvm::for_each(unit.residuals, go);
  for (unsigned i = 0; i < chain.going.size(); ++i) {
    require(chain.going[i], chain);
    // Casts of a newly saved value can be computed from it.
    for (Value newlyHeld : chain.newlyHeld) {
      Operation *op = newlyHeld.getDefiningOp();
      auto other = unitOf.find(op->getResult(0));
      if (sourceOf(newlyHeld) == newlyHeld && other != unitOf.end())
        for (ResidualOp residual : units[other->second].residuals)
          if (sourceOf(residual.getValue()) == newlyHeld)
            go(residual);
    }
  }
  unit.freed = unit.added = unit.traffic = unit.flops = 0;
  for (Value value : chain.going)
    unit.freed += bytesOf(value.getType());
  for (Value value : chain.newlyHeld)
    unit.added += bytesOf(value.getType());
  for (Operation *op : chain.ops) {
    unit.traffic += trafficOf(op);
    unit.flops += flopsOf(op);
  }
  return chain;
}

bool RematPlan::tryGiveUp(Unit &unit) {
  Chain chain = estimate(unit);
  if (unit.freed <= unit.added)
    return false;
  for (Value value : chain.going)
    held.erase(value);
  held.insert_range(chain.newlyHeld);
  for (Operation *op : chain.ops)
    if (!isAlwaysThere(sourceOf(op->getResult(0))))
      repeated.insert(op);
  bytesHeld += unit.added - unit.freed;
  unit.isGivenUp = true;
  return true;
}

void RematPlan::giveUpEverything() {
  for (Unit &unit : units)
    tryGiveUp(unit);
}

void RematPlan::giveUp(ArrayRef<std::string> wanted) {
  selected.emplace();
  for (Operation *op : forward)
    if (llvm::any_of(wanted, [&](StringRef name) { return isNamed(op, name); }))
      selected->insert(op);
  for (Unit &unit : units) {
    bool isWanted = selected->contains(unit.op);
    for (ResidualOp residual : unit.residuals)
      for (Value value = residual.getValue();
           Value operand = castOperand(value.getDefiningOp()); value = operand)
        isWanted |= selected->contains(value.getDefiningOp());
    if (isWanted)
      tryGiveUp(unit);
  }
}

LogicalResult RematPlan::giveUpUntil(int64_t budget) {
  // Giving up one unit changes the cost of others, so the best is estimated
  // again before it is given up.
  auto gain = [](const Unit &unit) {
    return double(unit.freed - unit.added) / (1.0 + double(unit.cost()));
  };
  // Of equal gains, the first in program order is given up first.
  std::priority_queue<std::pair<double, int64_t>> queue;
  for (auto [index, unit] : llvm::enumerate(units)) {
    estimate(unit);
    queue.push({gain(unit), -int64_t(index)});
  }
  while (bytesHeld > budget && !queue.empty()) {
    Unit &unit = units[-queue.top().second];
    auto [before, key] = queue.top();
    queue.pop();
    estimate(unit);
    if (gain(unit) < before && !queue.empty() &&
        std::pair(gain(unit), key) < queue.top()) {
      queue.push({gain(unit), key});
      continue;
    }
    tryGiveUp(unit);
  }
  return success(bytesHeld <= budget);
}
