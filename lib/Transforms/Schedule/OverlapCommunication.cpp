//===- OverlapCommunication.cpp - collectives beside products -------------===//
//
// Launches become what OverlapPlanner knows: a time and what has to end before.
// Then they are put in the order it found, and all collectives on the side
// stream, so that those of one communicator stay in one order and none waits
// behind another rank's product. Whatever order it is, a launch still follows
// all those of the given program that it shares a buffer with, unless both only
// read it: the same bits come out.
//
//===----------------------------------------------------------------------===//

#include "LaunchCosts.h"
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

/// What a step has to gain: below that, what is not in the model decides.
static constexpr double kLeastGain = 10;

static bool isCollective(LaunchOp launch) {
  return tert::lookupKernel(launch.getKernel())->isCollective();
}

/// Whether `launch` has other ranks to talk to, as far as is known.
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

/// The first launch that reads a cotangent. Host programs run a step in two
/// parts, cut there: the results of a forward are there before.
static size_t findCut(func::FuncOp function, ArrayRef<LaunchOp> launches) {
  auto signature = function->getAttrOfType<ArrayAttr>(tert::kSignatureAttr);
  auto isCotangent = [&](Value buffer) {
    auto argument = dyn_cast<BlockArgument>(tert::lookThroughSlice(buffer));
    return argument && signature &&
           argument.getArgNumber() < signature.size() &&
           tert::isCotangent(
               cast<DictionaryAttr>(signature[argument.getArgNumber()]));
  };
  return llvm::find_if(launches,
                       [&](LaunchOp launch) {
                         return llvm::any_of(launch.getBuffers(), isCotangent);
                       }) -
         launches.begin();
}

/// The launches as the planner sees them.
static SmallVector<OverlapPlanner::Launch>
describe(func::FuncOp function, ArrayRef<LaunchOp> launches, StringRef target) {
  struct LastUses {
    std::optional<unsigned> write;
    SmallVector<unsigned> reads;
  };
  DenseMap<Value, LastUses> uses;
  const size_t cut = findCut(function, launches);
  SmallVector<OverlapPlanner::Launch> described;
  for (auto [index, each] : llvm::enumerate(launches)) {
    LaunchOp launch = each;
    const unsigned number = index;
    OverlapPlanner::Launch entry = {expectedMicroseconds(launch, target),
                                    isCollective(launch),
                                    unsigned(number >= cut),
                                    {}};
    auto rows = tert::lookupKernel(launch.getKernel())->buffers;
    // Buffers by whether the launch writes them; what is absent is shared by
    // nobody.
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

/// Puts the launches in `order`, and before each what it names.
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
    // Where ranks run programs of their own, all keep the order in which they
    // were found to meet.
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
          << remark::reason("{0} of {1} microseconds would be gained, and {2} "
                            "are wanted",
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
