//===- OverlapCommunication.cpp - collectives beside GEMMs ----------------===//
//
// The pass describes launches for OverlapPlanner by their time and by the
// launches that must end before. Then it puts them in the planned order, with
// all collectives on the side stream, so that those of one communicator stay in
// order and none waits behind a GEMM of another rank. In every order, a launch
// follows all launches of the original program that share a buffer with it,
// unless both only read it, so the bits do not change.
//
//===----------------------------------------------------------------------===//

#include "LaunchCosts.h"
#include "LaunchSchedule.h"
#include "OverlapPlanner.h"

#include "TEDialect/IR/Support.h"
#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/Groups.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/TERT.h"
#include "TEDialect/Transforms/Schedule/Passes.h"
#include "TEDialect/Transforms/TargetOption.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace mlir::te {
#define GEN_PASS_DEF_OVERLAPCOMMUNICATIONPASS
#include "TEDialect/Transforms/Schedule/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;
using tert::LaunchOp;

/// The least gain of a step in microseconds. Smaller gains are below the
/// accuracy of the model.
static constexpr double kLeastGain = 10;

static bool isCollective(LaunchOp launch) {
  return tert::lookupKernel(launch.getKernel())->isCollective();
}

/// Whether `launch` communicates with other ranks; true if the group is
/// unknown.
static bool hasPeers(LaunchOp launch) {
  auto id = launch.getParameters().getAs<IntegerAttr>("group_id");
  auto groups = launch->getParentOfType<ModuleOp>()->getAttrOfType<ArrayAttr>(
      tert::kGroupsAttr);
  for (Attribute entry : groups ? groups.getValue() : ArrayRef<Attribute>())
    if (auto group = dyn_cast<DictionaryAttr>(entry);
        group && group.getAs<IntegerAttr>("id").getInt() == id.getInt())
      return group.getAs<IntegerAttr>("size").getInt() > 1;
  return true;
}

/// Describes the launches for the planner.
static SmallVector<OverlapPlanner::Launch>
describe(func::FuncOp function, ArrayRef<LaunchOp> launches, StringRef target) {
  struct LastUses {
    std::optional<unsigned> write;
    SmallVector<unsigned> reads;
  };
  DenseMap<Value, LastUses> uses;
  const size_t cut = findFirstOfBackward(function, launches);
  SmallVector<OverlapPlanner::Launch> described;
  for (auto [index, each] : llvm::enumerate(launches)) {
    LaunchOp launch = each;
    const unsigned number = index;
    OverlapPlanner::Launch entry = {expectedMicroseconds(launch, target),
                                    isCollective(launch),
                                    unsigned(number >= cut),
                                    {}};
    auto rows = tert::lookupKernel(launch.getKernel())->buffers;
    // Each buffer, and whether the launch writes it. Absent buffers are shared
    // by no launches.
    SmallVector<std::pair<Value, bool>> buffers;
    for (auto [row, part] : llvm::zip(rows, launch.getBuffers()))
      if (!part.getDefiningOp<tert::NullOp>())
        buffers.push_back({tert::lookThroughSlice(part), row.isOutput});
    for (auto [buffer, isWrite] : buffers) {
      const LastUses &last = uses[buffer];
      if (last.write)
        entry.needs.push_back(*last.write);
      if (isWrite)
        llvm::append_range(entry.needs, last.reads);
    }
    for (auto [buffer, isWrite] : buffers)
      if (isWrite)
        uses[buffer] = {number, {}};
    for (auto [buffer, isWrite] : buffers)
      if (!isWrite)
        uses[buffer].reads.push_back(number);
    llvm::sort(entry.needs);
    entry.needs.erase(llvm::unique(entry.needs), entry.needs.end());
    described.push_back(std::move(entry));
  }
  return described;
}

/// Puts the launches in `order`, with their operands before each.
static void reorder(Block &block, ArrayRef<LaunchOp> launches,
                    ArrayRef<unsigned> order) {
  Operation *end = block.getTerminator();
  llvm::SmallPtrSet<Operation *, 32> placed;
  auto place = [&](Operation *op) {
    if (op && placed.insert(op).second)
      op->moveBefore(end);
  };
  for (unsigned number : order) {
    LaunchOp launch = launches[number];
    for (Value part : launch.getBuffers()) {
      place(tert::lookThroughSlice(part).getDefiningOp());
      place(part.getDefiningOp());
    }
    place(launch);
  }
}

namespace {

class OverlapCommunication final
    : public te::impl::OverlapCommunicationPassBase<OverlapCommunication> {
public:
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTargetOption(context, getArgument(), target.getValue());
  }

  void runOnOperation() override {
    // If ranks run programs of their own, all keep the order of collectives
    // that te-verify-collectives checked.
    bool isOneProgram = true;
    for (Operation *op = getOperation(); op; op = op->getParentOp())
      isOneProgram &= !op->hasAttr(kRanksAttr);
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        overlap(function, isOneProgram);
  }

private:
  void overlap(func::FuncOp function, bool mayReorder) {
    SmallVector<LaunchOp> launches(function.getOps<LaunchOp>());
    if (llvm::none_of(launches, [](LaunchOp launch) {
          return isCollective(launch) && hasPeers(launch);
        }))
      return;
    SmallVector<OverlapPlanner::Launch> described =
        describe(function, launches, target);
    OverlapPlanner planner(described, mayReorder);
    planner.plan();
    const double before = planner.serialMicroseconds(),
                 after = planner.microseconds();
    auto options = remark::RemarkOpts::name("overlap")
                       .category("te-overlap-communication")
                       .function(function.getName());
    if (!always && before - after < kLeastGain) {
      ++numDeclined;
      remark::missed(function.getLoc(), options)
          << remark::add("the collectives of '{0}' stay on one stream",
                         function.getName())
          << remark::reason("{0} of {1} microseconds would be gained, but {2} "
                            "are required",
                            int64_t(before - after), int64_t(before),
                            int64_t(kLeastGain));
      return;
    }
    remark::passed(function.getLoc(), options) << remark::add(
        "the collectives of '{0}' are on the side stream: {1} of {2} "
        "microseconds are expected to be gained",
        function.getName(), int64_t(before - after), int64_t(before));
    reorder(function.getBody().front(), launches, planner.getOrder());
    numMoved += planner.numMoved();
    for (LaunchOp launch : launches)
      if (isCollective(launch)) {
        launch.setSide(true);
        ++numSide;
      }
  }
};

} // namespace
