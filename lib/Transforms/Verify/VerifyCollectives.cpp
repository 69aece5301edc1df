//===- VerifyCollectives.cpp - te-verify-collectives ----------------------===//
//
// The pass checks three things. Shardings.cpp checks that layers agree on how
// values are split. For values, it checks that a scale or amax that belongs to
// the parts of all ranks is the same on each, by following it back to its
// origin. For programs, it checks that all ranks meet: it lists each rank's
// collectives by walking its program with the rank's number, and runs all ranks
// against each other. A rank stops at each collective until the other ranks of
// the group arrive there. A rank that waits forever, or that meets another
// collective, is an error.
//
//===----------------------------------------------------------------------===//

#include "RankProgram.h"
#include "Shardings.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Verify/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::te {
#define GEN_PASS_DEF_VERIFYCOLLECTIVESPASS
#include "TEDialect/Transforms/Verify/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

//===----------------------------------------------------------------------===//
// Values that must be the same on all ranks of a group
//===----------------------------------------------------------------------===//

/// Why a value may differ between the ranks of a group.
struct Difference {
  Location loc;
  std::string text;
};

class ReplicationCheck {
public:
  explicit ReplicationCheck(GroupAttr group) : group(group) {}

  /// The place that makes `value` differ between ranks, if there is one.
  std::optional<Difference> find(Value value) {
    if (!seen.insert(value).second)
      return std::nullopt;
    if (auto argument = dyn_cast<BlockArgument>(value))
      return findInArgument(argument);
    Operation *op = value.getDefiningOp();
    if (auto reduce = dyn_cast<AmaxReduceOp>(op)) {
      GroupAttr over = lookupGroup(op, reduce.getGroupId());
      if (over && over.getAxis() == group.getAxis())
        return std::nullopt;
      return find(reduce.getAmaxes()[cast<OpResult>(value).getResultNumber()]);
    }
    if (isa<ResidualOp, ComputeScaleOp>(op))
      return find(op->getOperand(0));
    if (auto update = dyn_cast<DelayedScalingUpdateOp>(op))
      return find(update.getAmax());
    if (op->getNumOperands() == 0 && !isa<RankOp>(op))
      return std::nullopt;
    return Difference{op->getLoc(), ("'" + op->getName().getStringRef() +
                                     "' of this rank's part is here")
                                        .str()};
  }

private:
  std::optional<Difference> findInArgument(BlockArgument argument) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (!function)
      return std::nullopt;
    const unsigned number = argument.getArgNumber();
    if (auto sharding =
            function.getArgAttrOfType<ArrayAttr>(number, kShardingAttr))
      for (Attribute shard : sharding)
        if (lookupGroup(function, cast<ShardAttr>(shard).getGroup())
                .getAxis() == group.getAxis())
          return Difference{argument.getLoc(),
                            "an argument that is split over the group is here"};
    // The value of a state is the result of the last step.
    auto name = function.getArgAttrOfType<StringAttr>(number, kNameAttr);
    Operation *end = argument.getOwner()->getTerminator();
    for (OpOperand &result : end->getOpOperands())
      if (name && function.getResultAttrOfType<StringAttr>(
                      result.getOperandNumber(), kNameAttr) == name)
        return find(result.get());
    return std::nullopt;
  }

  GroupAttr group;
  DenseSet<Value> seen;
};

/// The scale or amax that belongs to all of `scaled`; null if it has none, or
/// if `scaled` is an argument.
Value sharedFactor(Value scaled) {
  auto type = cast<ScaledType>(scaled.getType());
  // The blocks of a shard may be split between ranks.
  if (type.getScheme() != Scheme::PerTensor && !type.isShard() &&
      (!type.isNv() || type.is(ScaleVariant::RowScaled)))
    return {};
  while (Operation *op = scaled.getDefiningOp()) {
    if (auto cast = dyn_cast<QuantizeOpInterface>(op))
      return cast.getScale() ? cast.getScale() : cast.getGivenAmax();
    if (!isa<ResidualOp, TransposeOp, AllGatherOp, AllToAllOp>(op))
      return {};
    scaled = op->getOperand(0);
  }
  return {};
}

/// Checks the scale of a gather or an exchange; `what` is "gathered" or
/// "exchanged".
template <typename CollectiveOp>
LogicalResult checkMovedScale(CollectiveOp op, StringRef what) {
  if (!isa<ScaledType>(op.getX().getType()))
    return success();
  Value factor = sharedFactor(op.getX());
  GroupAttr group = lookupGroup(op, op.getGroup());
  if (!factor || group.getSize() == 1)
    return success();
  std::optional<Difference> difference = ReplicationCheck(group).find(factor);
  if (!difference)
    return success();
  InFlightDiagnostic diagnostic =
      op.emitError() << "expected all ranks of group " << group.getId() << " ('"
                     << group.getName() << "') to cast the " << what
                     << " tensor with one scale, but it comes from an amax "
                        "that is not reduced over the group (te.amax_reduce)";
  diagnostic.attachNote(difference->loc) << difference->text;
  return diagnostic;
}

/// Whether a GEMM of `recipe` uses an amax of a whole tensor.
bool hasTensorAmax(RecipeAttr recipe) {
  const RecipeOptions options = recipe.getOptions();
  switch (recipe.getKind()) {
  case RecipeKind::DelayedScaling:
  case RecipeKind::Float8CurrentScaling:
    return true;
  case RecipeKind::HighPrecision:
  case RecipeKind::Float8BlockScaling:
  case RecipeKind::MxFp8BlockScaling:
    return false;
  case RecipeKind::NvFp4BlockScaling:
    return !options.rowScaledActivation;
  case RecipeKind::Custom:
    return llvm::any_of(
        ArrayRef<Attribute>{options.fprop, options.dgrad, options.wgrad},
        [](Attribute own) {
          return own && hasTensorAmax(cast<RecipeAttr>(own));
        });
  }
  llvm_unreachable("all recipes are listed");
}

bool hasRecipe(Operation *op) {
  while (op && !op->hasAttrOfType<RecipeAttr>(kRecipeAttr))
    op = op->getParentOp();
  return op;
}

LogicalResult checkReduce(AmaxReduceOp reduce) {
  RecipeAttr recipe = RecipeAttr::lookup(reduce);
  // Casts without a recipe were written by the user.
  if (hasTensorAmax(recipe) || !hasRecipe(reduce))
    return success();
  // Blocks that are split between ranks have several amaxes under any recipe.
  if (llvm::all_of(reduce.getAmaxes(), [](Value amax) {
        return amax.getDefiningOp<PartialAmaxOp>() != nullptr;
      }))
    return success();
  return reduce.emitError() << "expected no 'te.amax_reduce' under recipe '"
                            << stringifyRecipeKind(recipe.getKind())
                            << "', which has no scale of a whole tensor";
}

//===----------------------------------------------------------------------===//
// Running the programs of all ranks against each other
//===----------------------------------------------------------------------===//

/// The mesh of ranks, the last axis fastest.
class Mesh {
public:
  explicit Mesh(Operation *module) {
    for (GroupAttr group : getGroups(module))
      axes.insert({group.getAxis(), group.getSize()});
  }

  /// The first of the ranks that `rank` meets in `group`, and the distance
  /// between two of them.
  std::pair<int64_t, int64_t> members(int64_t rank, GroupAttr group) const {
    int64_t stride = 1;
    for (auto &[axis, size] : llvm::reverse(axes)) {
      if (axis == group.getAxis())
        return {rank - numberIn(rank, stride, size) * stride, stride};
      stride *= size;
    }
    llvm_unreachable("the group is declared, so its axis is known");
  }

private:
  static int64_t numberIn(int64_t rank, int64_t stride, int64_t size) {
    return rank / stride % size;
  }
  llvm::MapVector<StringRef, int64_t> axes;
};

/// More ranks are not run against each other.
constexpr int64_t kMaxRanks = 1 << 16;

class Simulation {
public:
  Simulation(Mesh mesh, std::vector<const RankProgram *> programs)
      : mesh(std::move(mesh)), programs(std::move(programs)),
        position(this->programs.size(), 0) {}

  LogicalResult run() {
    std::vector<int64_t> ready(programs.size());
    for (size_t rank = 0; rank < ready.size(); ++rank)
      // Ranks are taken from the back, so the lowest comes first.
      ready[ready.size() - 1 - rank] = rank;
    while (!ready.empty()) {
      const int64_t rank = ready.back();
      ready.pop_back();
      const CollectiveEvent *event = at(rank);
      if (!event)
        continue;
      auto [first, stride] = mesh.members(rank, event->group);
      auto &arrived = meetings[{event->group.getId(), first}];
      if (!arrived.empty() && !at(arrived.front())->matches(*event))
        return reportMismatch(arrived.front(), rank);
      arrived.push_back(rank);
      if (static_cast<int64_t>(arrived.size()) < event->group.getSize())
        continue;
      for (int64_t member : arrived) {
        ++position[member];
        ready.push_back(member);
      }
      arrived.clear();
    }
    return reportWaiting();
  }

private:
  const CollectiveEvent *at(int64_t rank) const {
    const RankProgram &program = *programs[rank];
    return position[rank] < program.events.size()
               ? &program.events[position[rank]]
               : nullptr;
  }

  LogicalResult reportMismatch(int64_t a, int64_t b) const {
    const CollectiveEvent &left = *at(a), &right = *at(b);
    InFlightDiagnostic diagnostic =
        right.op->emitError()
        << "expected all ranks of group " << right.group.getId() << " ('"
        << right.group.getName()
        << "') to run the same collectives in one order, but rank " << b
        << " runs " << right.describe() << " where rank " << a << " runs "
        << left.describe();
    diagnostic.attachNote(left.op->getLoc()) << "rank " << a << " is here";
    return diagnostic;
  }

  /// Reports which rank waits for which other rank, if any.
  LogicalResult reportWaiting() const {
    for (auto &[key, arrived] : meetings) {
      if (arrived.empty())
        continue;
      const int64_t rank = arrived.front();
      const CollectiveEvent &event = *at(rank);
      auto [first, stride] = mesh.members(rank, event.group);
      int64_t missing = first;
      while (llvm::is_contained(arrived, missing))
        missing += stride;
      const CollectiveEvent *elsewhere = at(missing);
      InFlightDiagnostic diagnostic =
          event.op->emitError()
          << "expected all ranks of group " << event.group.getId() << " ('"
          << event.group.getName() << "') to run " << event.describe()
          << ", but rank " << rank << " waits here for rank " << missing;
      if (elsewhere)
        diagnostic.attachNote(elsewhere->op->getLoc())
            << "rank " << missing << " waits in " << elsewhere->describe()
            << " of group " << elsewhere->group.getId() << " ('"
            << elsewhere->group.getName() << "') here";
      else
        diagnostic.attachNote(programs[missing]->end)
            << "rank " << missing << " ends here";
      return diagnostic;
    }
    return success();
  }

  Mesh mesh;
  std::vector<const RankProgram *> programs;
  std::vector<size_t> position;
  /// The waiting ranks, by group and the first rank of those that meet.
  llvm::MapVector<std::pair<int64_t, int64_t>, SmallVector<int64_t, 1>>
      meetings;
};

struct VerifyCollectives final
    : te::impl::VerifyCollectivesPassBase<VerifyCollectives> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    bool failedAny = false;
    module.walk([&](Operation *op) {
      if (auto gather = dyn_cast<AllGatherOp>(op))
        failedAny |= failed(checkMovedScale(gather, "gathered"));
      else if (auto exchange = dyn_cast<AllToAllOp>(op))
        failedAny |= failed(checkMovedScale(exchange, "exchanged"));
      else if (auto reduce = dyn_cast<AmaxReduceOp>(op))
        failedAny |= failed(checkReduce(reduce));
      else
        return;
      ++numChecked;
    });
    for (auto function : module.getOps<func::FuncOp>())
      failedAny |= failed(checkShardings(function));
    if (failedAny || failed(comparePrograms(module)))
      signalPassFailure();
  }

private:
  LogicalResult comparePrograms(ModuleOp module) {
    if (getGroups(module).empty())
      return success();
    auto stages = module.getOps<ModuleOp>();
    if (stages.empty() &&
        !module.walk([](RankOp) { return WalkResult::interrupt(); })
             .wasInterrupted()) {
      // All ranks have one program, and there may be any number of them.
      return failure(failed(RankProgramBuilder(module).get(module, 0)));
    }
    const int64_t numRanks = getNumRanks(module);
    if (numRanks > kMaxRanks)
      return module.emitError()
             << "expected at most " << kMaxRanks
             << " ranks if their programs differ, but the groups have "
             << numRanks;
    // The module that each rank runs.
    std::vector<ModuleOp> modules(numRanks);
    for (auto own : module.getOps<ModuleOp>())
      if (auto ranks = own->getAttrOfType<DenseI64ArrayAttr>(kRanksAttr))
        for (int64_t rank : ranks.asArrayRef()) {
          if (modules[rank]) {
            InFlightDiagnostic diagnostic =
                own.emitError() << "expected each rank to have one module, but "
                                   "rank "
                                << rank << " has two";
            diagnostic.attachNote(modules[rank].getLoc())
                << "the other is here";
            return diagnostic;
          }
          modules[rank] = own;
        }
    const bool hasOwn = llvm::any_of(modules, [](ModuleOp m) { return m; });
    for (auto [rank, own] : llvm::enumerate(modules)) {
      if (hasOwn && !own)
        return module.emitError()
               << "expected every rank from 0 to " << numRanks - 1
               << " to have a module with 'te.ranks', but rank " << rank
               << " has none";
      if (!hasOwn)
        own = module;
    }

    // Ranks with one module share a program unless it depends on the rank.
    RankProgramBuilder builder(module);
    std::vector<const RankProgram *> programs(numRanks);
    for (int64_t rank = 0; rank < numRanks; ++rank) {
      FailureOr<const RankProgram *> program = builder.get(modules[rank], rank);
      if (failed(program))
        return failure();
      programs[rank] = *program;
    }
    if (llvm::all_equal(programs))
      return success();
    return Simulation(Mesh(module), std::move(programs)).run();
  }
};

} // namespace
