//===- MergeLaunches.cpp - small launches that become one -----------------===//
//
// A GPU needs about two microseconds from one launch to the next, as long as it
// takes to move 8 MB. So launches that do the same to other tensors, and that
// move little, become one. Launches are visited in program order. Each joins
// the last group of launches that it can be merged with: it moves up to the
// group, or the group moves down to it, whichever holds fewer bytes for longer.
// A group that cannot take a launch is closed, and the launch begins the next
// one.
//
//===----------------------------------------------------------------------===//

#include "LaunchSchedule.h"
#include "MergedLaunches.h"

#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/TERT.h"
#include "TEDialect/Transforms/Schedule/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

#include <map>

namespace mlir::te {
#define GEN_PASS_DEF_MERGELAUNCHESPASS
#include "TEDialect/Transforms/Schedule/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;
using tert::LaunchOp;

/// A launch whose buffers have more bytes does not move across more than
/// `kNear` launches: what it reads or writes may be in the cache there.
static constexpr int64_t kSmall = int64_t(1) << 20;
static constexpr unsigned kNear = 12;

/// By how much the most bytes that are alive may grow: these, or a part of what
/// they were.
static constexpr int64_t kGrowth = int64_t(1) << 16, kPartOfPeak = 1000;

namespace {

/// Launches that become one, by number.
struct Group {
  const LaunchMerger *merger;
  SmallVector<unsigned> members;
};

class MergeLaunches final
    : public te::impl::MergeLaunchesPassBase<MergeLaunches> {
public:
  using Base::Base;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock())
        merge(function);
  }

private:
  void merge(func::FuncOp function);
  bool join(LaunchSchedule &schedule, Group &group, unsigned launch);
  void replace(const LaunchSchedule &schedule, const Group &group);
};

} // namespace

/// Adds `launch` to `group` and moves one of the two, if that is possible.
bool MergeLaunches::join(LaunchSchedule &schedule, Group &group,
                         unsigned launch) {
  ArrayRef<LaunchOp> launches = schedule.getLaunches();
  auto of = [&](unsigned number) { return launches[number]; };
  auto together = llvm::map_to_vector(group.members, of);
  together.push_back(launches[launch]);
  const unsigned here = schedule.placeOf(launch),
                 there = schedule.placeOf(group.members.front());
  if (!group.merger->fit(together) || !schedule.areInOnePart(here, there))
    return false;
  std::string why = "launches between them need their order";
  const ArrayRef<unsigned> up(launch), down(group.members);
  ArrayRef<unsigned> best;
  int64_t least = 0;
  for (auto [moved, place] : {std::pair(up, there), {down, here}}) {
    if (!llvm::all_of(moved, [&](unsigned each) {
          return schedule.mayMove(each, place);
        }))
      continue;
    const bool isSmall = llvm::all_of(moved, [&](unsigned each) {
      return getBytes(launches[each]) <= kSmall;
    });
    if (!isSmall && here - there > kNear) {
      why = "they are more than " + std::to_string(kNear) + " launches apart";
      continue;
    }
    const LaunchSchedule::Growth growth = schedule.growthOf(moved, place);
    if (growth.abovePeak >
        std::max(kGrowth, schedule.getPeak() / kPartOfPeak)) {
      why = "the step would need more memory";
      continue;
    }
    if (best.empty() || growth.held < least) {
      best = moved;
      least = growth.held;
    }
  }
  if (best.empty()) {
    LaunchOp missed = launches[launch];
    remark::missed(
        missed.getLoc(),
        remark::RemarkOpts::name("merge")
            .category("te-merge-launches")
            .function(missed->getParentOfType<func::FuncOp>().getName()))
        << remark::add("two launches of '{0}' are not merged",
                       missed.getKernel())
        << remark::reason("{0}", why);
    return false;
  }
  schedule.move(best, best == up ? there : here);
  group.members.push_back(launch);
  return true;
}

void MergeLaunches::merge(func::FuncOp function) {
  LaunchSchedule schedule(function);
  ArrayRef<LaunchOp> launches = schedule.getLaunches();
  SmallVector<Group> groups;
  // By what launches of one group have in common, the last group.
  std::map<LaunchMerger::Key, size_t> last;
  for (unsigned number = 0; number < launches.size(); ++number) {
    for (const LaunchMerger *merger : getLaunchMergers()) {
      std::optional<LaunchMerger::Key> key = merger->keyOf(launches[number]);
      if (!key)
        continue;
      auto [found, isNew] = last.try_emplace(std::move(*key), groups.size());
      if (!isNew && join(schedule, groups[found->second], number))
        break;
      found->second = groups.size();
      groups.push_back({merger, {number}});
      break;
    }
  }
  for (const Group &group : groups)
    if (group.members.size() > 1)
      replace(schedule, group);
}

/// Creates the launch of a group before the launch that has its place.
void MergeLaunches::replace(const LaunchSchedule &schedule,
                            const Group &group) {
  ArrayRef<LaunchOp> launches = schedule.getLaunches();
  Operation *place = launches[schedule.placeOf(group.members.front())];
  auto members = llvm::map_to_vector(
      group.members, [&](unsigned each) { return launches[each]; });
  auto moveUp = [&](Operation *op) {
    if (op && place->isBeforeInBlock(op))
      op->moveBefore(place);
  };
  for (LaunchOp member : members)
    for (Value part : member.getBuffers()) {
      moveUp(tert::lookThroughSlice(part).getDefiningOp());
      moveUp(part.getDefiningOp());
    }
  OpBuilder builder(place);
  auto locs = llvm::map_to_vector(
      members, [](LaunchOp member) { return member.getLoc(); });
  group.merger->merge(builder, builder.getFusedLoc(locs), members);
  for (LaunchOp member : members)
    member.erase();
  numMerged += members.size();
  ++numGroups;
}
