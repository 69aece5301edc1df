//===- RankProgram.cpp - the collectives of one rank, in order ------------===//
//
// This is a small interpreter. Only integers that are computed from constants
// and te.rank have values, which the folders of their ops compute.
//
//===----------------------------------------------------------------------===//

#include "RankProgram.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::te;

/// More collectives, more ops in all passes of loops, and deeper calls are an
/// error.
static constexpr size_t kMaxEvents = 1 << 20, kMaxVisits = 1 << 22;
static constexpr unsigned kMaxDepth = 64;

bool CollectiveEvent::matches(const CollectiveEvent &other) const {
  return op->getName() == other.op->getName() && group == other.group &&
         payload == other.payload && result == other.result && how == other.how;
}

std::string CollectiveEvent::describe() const {
  std::string text;
  llvm::raw_string_ostream(text)
      << "'" << op->getName() << "' of '" << payload << "'";
  if (auto axis = dyn_cast_if_present<IntegerAttr>(how))
    text += " along axis " + std::to_string(axis.getInt());
  if (auto axes = dyn_cast_if_present<ArrayAttr>(how))
    llvm::raw_string_ostream(text)
        << " from axis " << cast<IntegerAttr>(axes[0]).getInt() << " to axis "
        << cast<IntegerAttr>(axes[1]).getInt();
  if (auto parallel = dyn_cast_if_present<ParallelAttr>(how))
    text += (" as '" + stringifyParallelMode(parallel.getMode()) + "'").str();
  return text;
}

/// The collective that `op` is, or that it contains as a parallel layer; if
/// any.
static std::optional<CollectiveEvent> asCollective(Operation *op) {
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  std::optional<CollectiveCall> call =
      collective ? collective.getCollectiveCall() : std::nullopt;
  if (!call)
    return std::nullopt;
  return CollectiveEvent{op, lookupGroup(op, call->group), call->payload,
                         call->result, call->how};
}

static bool hasCollective(Region &region) {
  return region
      .walk([](Operation *op) {
        return asCollective(op) || isa<CallOpInterface>(op)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

namespace {

class Walker {
public:
  Walker(ModuleOp mesh, int64_t rank, RankProgram &program)
      : mesh(mesh), rank(rank), program(program) {}

  LogicalResult walk(func::FuncOp function, unsigned depth) {
    if (!function.getBody().hasOneBlock() && hasCollective(function.getBody()))
      return function.emitError()
             << "expected collectives in no control flow except 'scf.if', "
                "'scf.for' and calls, but '"
             << function.getName() << "' has them and branches of its own";
    return walk(function.getBody().front(), depth);
  }

  LogicalResult walk(Block &block, unsigned depth) {
    for (Operation &op : block) {
      if (++numVisits > kMaxVisits)
        return op.emitError() << "expected loops with collectives to run at "
                                 "most "
                              << kMaxVisits << " ops";
      if (failed(visit(&op, depth)))
        return failure();
      if (program.events.size() > kMaxEvents)
        return op.emitError() << "expected a step to have at most "
                              << kMaxEvents << " collectives";
    }
    return success();
  }

private:
  std::optional<int64_t> valueOf(Value value) const {
    if (auto known = dyn_cast_or_null<IntegerAttr>(constants.lookup(value)))
      return known.getValue().getSExtValue();
    return std::nullopt;
  }

  LogicalResult visit(Operation *op, unsigned depth) {
    if (std::optional<CollectiveEvent> event = asCollective(op)) {
      if (event->group.getSize() > 1)
        program.events.push_back(*event);
      return success();
    }
    if (auto number = dyn_cast<RankOp>(op)) {
      program.asksForRank = true;
      constants[number.getRank()] =
          Builder(op).getIndexAttr(numberIn(number.getGroup()));
      return success();
    }
    if (auto branch = dyn_cast<scf::IfOp>(op))
      return visitIf(branch, depth);
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitFor(loop, depth);
    if (auto call = dyn_cast<func::CallOp>(op))
      return visitCallee(op, call.getCallee(), depth);
    if (auto vjp = dyn_cast<VjpOp>(op))
      return visitCallee(op, vjp.getCallee(), depth);
    for (Region &region : op->getRegions())
      if (hasCollective(region))
        return op->emitError()
               << "expected collectives in no control flow except 'scf.if', "
                  "'scf.for' and calls, but got them in '"
               << op->getName() << "'";
    fold(op);
    return success();
  }

  /// The number of this rank along the axis of `group`.
  int64_t numberIn(int64_t group) const {
    GroupAttr wanted = lookupGroup(mesh, group);
    SmallVector<GroupAttr> axes;
    for (GroupAttr each : getGroups(mesh))
      if (llvm::none_of(axes, [&](GroupAttr axis) {
            return axis.getAxis() == each.getAxis();
          }))
        axes.push_back(each);
    int64_t stride = 1;
    for (GroupAttr axis : llvm::reverse(axes)) {
      if (axis.getAxis() == wanted.getAxis())
        return rank / stride % axis.getSize();
      stride *= axis.getSize();
    }
    llvm_unreachable("rank-c1: the group is declared");
  }

  void fold(Operation *op) {
    if (op->getNumResults() == 0 ||
        !llvm::all_of(op->getResultTypes(),
                      llvm::IsaPred<IntegerType, IndexType>))
      return;
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands())
      operands.push_back(constants.lookup(operand));
    SmallVector<OpFoldResult> results;
    if (failed(op->fold(operands, results)) || results.empty())
      return;
    for (auto [value, result] : llvm::zip(op->getResults(), results))
      constants[value] = isa<Attribute>(result)
                             ? cast<Attribute>(result)
                             : constants.lookup(cast<Value>(result));
  }

  LogicalResult visitIf(scf::IfOp branch, unsigned depth) {
    if (std::optional<int64_t> condition = valueOf(branch.getCondition())) {
      Region &taken =
          *condition ? branch.getThenRegion() : branch.getElseRegion();
      if (taken.empty())
        return success();
      if (failed(walk(taken.front(), depth)))
        return failure();
      for (auto [result, yielded] :
           llvm::zip(branch.getResults(),
                     taken.front().getTerminator()->getOperands()))
        constants[result] = constants.lookup(yielded);
      return success();
    }
    // The condition is unknown, so it may differ between ranks.
    const size_t begin = program.events.size();
    if (failed(walk(branch.getThenRegion().front(), depth)))
      return failure();
    std::vector<CollectiveEvent> thenEvents(program.events.begin() + begin,
                                            program.events.end());
    program.events.erase(program.events.begin() + begin, program.events.end());
    if (!branch.getElseRegion().empty() &&
        failed(walk(branch.getElseRegion().front(), depth)))
      return failure();
    ArrayRef<CollectiveEvent> elseEvents =
        ArrayRef(program.events).drop_front(begin);
    for (size_t i = 0; i < std::max(thenEvents.size(), elseEvents.size());
         ++i) {
      const CollectiveEvent *a =
          i < thenEvents.size() ? &thenEvents[i] : nullptr;
      const CollectiveEvent *b =
          i < elseEvents.size() ? &elseEvents[i] : nullptr;
      if (a && b && a->matches(*b))
        continue;
      const CollectiveEvent *one = a ? a : b;
      InFlightDiagnostic diagnostic =
          one->op->emitError()
          << "expected both sides of a branch that ranks may take differently "
             "to run the same collectives, but "
          << one->describe() << " is on one side only";
      if (a && b)
        diagnostic.attachNote(b->op->getLoc())
            << "the other side runs " << b->describe() << " here";
      diagnostic.attachNote(branch.getLoc()) << "the branch is here";
      return diagnostic;
    }
    return success();
  }

  LogicalResult visitFor(scf::ForOp loop, unsigned depth) {
    if (!hasCollective(loop.getRegion()))
      return success();
    std::optional<int64_t> lower = valueOf(loop.getLowerBound()),
                           upper = valueOf(loop.getUpperBound()),
                           step = valueOf(loop.getStep());
    if (!lower || !upper || !step || *step < 1)
      return loop.emitError() << "expected a loop with collectives to have "
                                 "bounds that are known of every rank";
    for (int64_t i = *lower, ends = false; !ends && i < *upper;
         ends = llvm::AddOverflow(i, *step, i)) {
      constants[loop.getInductionVar()] =
          Builder(loop).getIntegerAttr(loop.getInductionVar().getType(), i);
      if (failed(walk(*loop.getBody(), depth)))
        return failure();
    }
    return success();
  }

  LogicalResult visitCallee(Operation *op, StringRef name, unsigned depth) {
    auto callee =
        op->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(name);
    if (!callee || callee.isExternal())
      return success();
    if (depth == kMaxDepth)
      return op->emitError()
             << "expected calls not to nest deeper than " << kMaxDepth;
    for (auto [parameter, value] :
         llvm::zip(callee.getArguments(), op->getOperands()))
      constants[parameter] = constants.lookup(value);
    return walk(callee, depth + 1);
  }

  ModuleOp mesh;
  int64_t rank;
  RankProgram &program;
  size_t numVisits = 0;
  DenseMap<Value, Attribute> constants;
};

} // namespace

RankProgramBuilder::RankProgramBuilder(ModuleOp mesh) : mesh(mesh) {}
RankProgramBuilder::~RankProgramBuilder() = default;

FailureOr<const RankProgram *> RankProgramBuilder::get(ModuleOp module,
                                                       int64_t rank) {
  if (auto found = shared.find(module); found != shared.end())
    return found->second;
  programs.push_back(
      std::make_unique<RankProgram>(RankProgram{{}, module.getLoc(), false}));
  RankProgram &program = *programs.back();
  Walker walker(mesh, rank, program);
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || function.isPrivate())
      continue;
    program.end = function.getBody().back().getTerminator()->getLoc();
    if (failed(walker.walk(function, 0)))
      return failure();
  }
  if (!program.asksForRank)
    shared[module] = &program;
  return &program;
}
