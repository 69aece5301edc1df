//===- OverlapPlanner.cpp - an order that hides collectives ---------------===//
//
// Only the launches around a move are simulated, so that the time of planning
// is linear in the number of collectives and not quadratic.
//
//===----------------------------------------------------------------------===//

#include "OverlapPlanner.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>

using namespace mlir::te;

/// kHop is the time from the end of a launch to the start of one on the other
/// stream that waits for it. kContention is how much longer a launch takes
/// while a collective runs, relative to the time that both run.
static constexpr double kHop = 3, kContention = 0.15;
/// The least gain of a move in microseconds.
static constexpr double kGain = 1;
/// The distance that a launch may move, the number of collectives that may move
/// together, and the number of launches around a move that are simulated.
static constexpr size_t kReach = 48, kRun = 4, kAround = 96;
/// A collective moves across launches that together take at most this many
/// times as long as the collective.
static constexpr double kEnough = 1.5;

OverlapPlanner::OverlapPlanner(llvm::ArrayRef<Launch> launches, bool mayReorder)
    : launches(launches), mayReorder(mayReorder) {
  order = llvm::to_vector(llvm::seq<unsigned>(0, launches.size()));
}

double OverlapPlanner::serialMicroseconds() const {
  double sum = 0;
  for (const Launch &launch : launches)
    sum += launch.microseconds;
  return sum;
}

double OverlapPlanner::simulate(llvm::ArrayRef<unsigned> order, size_t begin,
                                size_t end) const {
  double free[2] = {0, 0};
  llvm::SmallDenseMap<unsigned, double, 256> ends;
  // The times at which collectives ran, in order.
  llvm::SmallVector<std::pair<double, double>> busy;
  for (unsigned number : order.slice(begin, end - begin)) {
    const Launch &launch = launches[number];
    double start = free[launch.isCollective];
    for (unsigned needed : launch.needs)
      if (auto done = ends.find(needed);
          done != ends.end() &&
          launches[needed].isCollective != launch.isCollective)
        start = std::max(start, done->second + kHop);
    double stop = start + launch.microseconds;
    if (launch.isCollective) {
      busy.push_back({start, stop});
    } else {
      double beside = 0;
      for (auto [from, to] : llvm::reverse(busy)) {
        if (to <= start)
          break;
        beside += std::max(0.0, std::min(to, stop) - std::max(from, start));
      }
      stop += kContention * beside;
    }
    free[launch.isCollective] = ends[number] = stop;
  }
  return std::max(free[0], free[1]);
}

bool OverlapPlanner::needs(unsigned launch, unsigned other) const {
  return llvm::binary_search(launches[launch].needs, other);
}

/// Whether `below` may move across `above`, which is directly before it.
bool OverlapPlanner::mayPass(unsigned below, unsigned above) const {
  return launches[below].segment == launches[above].segment &&
         !needs(below, above) &&
         (mayReorder || !launches[below].isCollective ||
          !launches[above].isCollective);
}

bool OverlapPlanner::keepIfShorter(Order &changed, size_t position) {
  const size_t begin = position > kAround ? position - kAround : 0;
  const size_t end = std::min(order.size(), position + kAround);
  if (simulate(changed, begin, end) + kGain > simulate(order, begin, end))
    return false;
  order = std::move(changed);
  return true;
}

/// Moves the collective at `position` up, and following collectives if needed.
void OverlapPlanner::hoist(size_t position) {
  llvm::SmallVector<size_t> run;
  for (size_t next = position;
       next < order.size() && next < position + kReach && run.size() < kRun;
       ++next) {
    if (!launches[order[next]].isCollective)
      continue;
    run.push_back(next);
    // Try targets from the bottom up, each above one more launch.
    double passed = 0, wanted = 0;
    for (size_t each : run)
      wanted += launches[order[each]].microseconds;
    Order best;
    for (size_t target = position;
         target-- > 0 && position - target < kReach;) {
      const unsigned above = order[target];
      if (!llvm::all_of(
              run, [&](size_t each) { return mayPass(order[each], above); }))
        break;
      if (launches[above].isCollective)
        continue;
      passed += launches[above].microseconds;
      // A short launch hides nothing.
      if (launches[above].microseconds < kHop && passed < kEnough * wanted)
        continue;
      Order changed = order;
      size_t to = target;
      bool isLegal = true;
      for (size_t each : run) {
        for (size_t at = each; at > to; --at) {
          isLegal &= mayPass(changed[at], changed[at - 1]);
          std::swap(changed[at], changed[at - 1]);
        }
        ++to;
      }
      if (isLegal && keepIfShorter(changed, position)) {
        moved += run.size();
        return;
      }
      if (passed >= kEnough * wanted)
        break;
    }
  }
}

/// Moves launches from below before the first launch that needs the collective
/// at `position`.
void OverlapPlanner::fill(size_t position) {
  const unsigned collective = order[position];
  size_t waiting = position + 1;
  while (waiting < order.size() && waiting < position + kReach &&
         (launches[order[waiting]].isCollective ||
          !needs(order[waiting], collective)))
    ++waiting;
  const size_t end = std::min(order.size(), position + kReach);
  for (size_t from = waiting + 1; from < end; ++from) {
    if (launches[order[from]].isCollective)
      continue;
    Order changed = order;
    size_t at = from;
    while (at > waiting && mayPass(changed[at], changed[at - 1])) {
      std::swap(changed[at], changed[at - 1]);
      --at;
    }
    if (at != waiting || !keepIfShorter(changed, position))
      continue;
    ++waiting;
    ++moved;
  }
}

void OverlapPlanner::plan() {
  for (unsigned number = 0; number < launches.size(); ++number) {
    if (!launches[number].isCollective)
      continue;
    auto position = [&] {
      return size_t(llvm::find(order, number) - order.begin());
    };
    hoist(position());
    fill(position());
  }
}
