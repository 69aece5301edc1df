//===- MemoryPlanner.cpp - place buffers in one arena ---------------------===//
//
// The placed slots are kept sorted by birth, next to a segment tree that finds
// those alive at one event. What is alive during [first, last] is what is alive
// at `first` plus what is born in (first, last], so a placement costs
// O(log n + k log k) for k slots alive together with it.
//
//===----------------------------------------------------------------------===//

#include "MemoryPlanner.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <random>
#include <set>
#include <tuple>
#include <vector>

using namespace mlir::te;

/// The search ends within 1 / kClose of what no arena can beat, and the part of
/// it that costs most is for arenas that are not within 1 / kNear.
static constexpr int64_t kClose = 500, kNear = 100;
/// Rounds of the first part; of the second, slots looked at, which bounds the
/// time.
static constexpr int kRounds = 20;
static constexpr size_t kWork = 300'000'000;

namespace {

/// Closed intervals of events, for "which contain this event".
class StabbingTree {
public:
  explicit StabbingTree(unsigned numEvents)
      : leaves(llvm::bit_ceil(numEvents)), nodes(2 * leaves) {}

  /// Stores `item` in the O(log n) nodes that make up [first, last].
  void insert(unsigned first, unsigned last, unsigned item) {
    unsigned low = first + leaves, high = last + leaves + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low & 1)
        nodes[low++].push_back(item);
      if (high & 1)
        nodes[--high].push_back(item);
    }
  }

  template <typename Function> void visit(unsigned event, Function function) {
    for (unsigned node = event + leaves; node != 0; node /= 2)
      llvm::for_each(nodes[node], function);
  }

private:
  unsigned leaves;
  std::vector<llvm::SmallVector<unsigned, 2>> nodes;
};

} // namespace

unsigned MemoryPlanner::add(int64_t bytes, unsigned first, unsigned last) {
  buffers.push_back({static_cast<unsigned>(slots.size())});
  // An empty buffer still gets an address of its own while it lives.
  slots.push_back(
      {std::max(alignment, int64_t(llvm::alignTo(bytes, alignment))), first,
       last});
  return buffers.size() - 1;
}

bool MemoryPlanner::share(unsigned buffer, unsigned successor) {
  Buffer &from = buffers[buffer], &to = buffers[successor];
  if (from.hasSuccessor || to.isSuccessor || to.hasSuccessor ||
      from.slot == to.slot)
    return false;
  Slot &slot = slots[from.slot], &taken = slots[to.slot];
  if (slot.last != taken.first || slot.bytes != taken.bytes)
    return false;
  slot.last = taken.last;
  // The emptied slot stays, without bytes, and is never placed.
  taken.bytes = 0;
  to.slot = from.slot;
  from.hasSuccessor = to.isSuccessor = true;
  return true;
}

void MemoryPlanner::measure() {
  // Bytes born at, minus bytes that died before, every event.
  std::vector<int64_t> change;
  for (const Slot &slot : slots) {
    if (change.size() < slot.last + 2u)
      change.resize(slot.last + 2u);
    change[slot.first] += slot.bytes;
    change[slot.last + 1] -= slot.bytes;
  }
  int64_t live = 0;
  for (auto [event, bytes] : llvm::enumerate(change)) {
    live += bytes;
    if (live > maxLive) {
      maxLive = live;
      peak = event;
    }
  }
}

int64_t MemoryPlanner::findOffset(int64_t bytes,
                                  llvm::ArrayRef<const Slot *> alive) const {
  int64_t end = 0, best = -1, bestGap = 0;
  for (const Slot *slot : alive) {
    int64_t gap = slot->offset - end;
    if (gap >= bytes && (best < 0 || gap < bestGap)) {
      best = end;
      bestGap = gap;
    }
    end = std::max(end, slot->offset + slot->bytes);
  }
  return best < 0 ? end : best;
}

llvm::SmallVector<unsigned> MemoryPlanner::sorted(Order order) const {
  // Negated keys, so that ascending order puts the largest first and keeps ties
  // in the order of `add`.
  llvm::SmallVector<std::tuple<double, int64_t, unsigned>> queue;
  for (auto [index, slot] : llvm::enumerate(slots)) {
    if (slot.bytes == 0)
      continue;
    int64_t life = slot.last - slot.first + 1;
    double key = order == Order::Size   ? double(slot.bytes)
                 : order == Order::Area ? double(slot.bytes) * life
                                        : double(life);
    queue.push_back({-key, order == Order::Size ? -life : -slot.bytes, index});
  }
  llvm::sort(queue);
  return llvm::map_to_vector(queue,
                             [](auto &entry) { return std::get<2>(entry); });
}

/// Places every slot in the given order, and keeps the result if it is the
/// best.
void MemoryPlanner::tryOrder(llvm::ArrayRef<unsigned> order) {
  unsigned numEvents = 1;
  for (const Slot &slot : slots)
    numEvents = std::max(numEvents, slot.last + 1);
  int64_t size = 0;
  StabbingTree tree(numEvents);
  std::set<std::pair<unsigned, unsigned>> births;
  llvm::SmallVector<const Slot *> alive;
  for (unsigned index : order) {
    Slot &slot = slots[index];
    alive.clear();
    tree.visit(slot.first,
               [&](unsigned other) { alive.push_back(&slots[other]); });
    for (auto birth = births.lower_bound({slot.first + 1, 0});
         birth != births.end() && birth->first <= slot.last; ++birth)
      alive.push_back(&slots[birth->second]);
    work += alive.size() + 1;
    llvm::sort(alive, [](const Slot *a, const Slot *b) {
      return a->offset < b->offset;
    });
    slot.offset = findOffset(slot.bytes, alive);
    size = std::max(size, slot.offset + slot.bytes);
    tree.insert(slot.first, slot.last, index);
    births.insert({slot.first, index});
  }
  keepIfBest(size);
}

/// Keeps the offsets of an arena of `size` bytes, if none before was smaller.
void MemoryPlanner::keepIfBest(int64_t size) {
  if (!best.empty() && size >= arena)
    return;
  arena = size;
  best = slots;
}

bool MemoryPlanner::isWithin(int64_t part) const {
  return arena <= maxLive + maxLive / part;
}

void MemoryPlanner::plan() {
  measure();
  llvm::SmallVector<unsigned> order;
  for (Order candidate : {Order::Lifetime, Order::Area, Order::Size}) {
    if (!order.empty() && isWithin(kClose))
      break;
    int64_t before = arena;
    llvm::SmallVector<unsigned> next = sorted(candidate);
    tryOrder(next);
    if (order.empty() || arena < before)
      order = std::move(next);
  }
  slots = best;
  for (int round = 0; !isWithin(kClose) && round < kRounds; ++round) {
    // Whatever ends above the lower bound was placed too late.
    llvm::SmallVector<unsigned> late, others;
    for (unsigned index : order)
      (slots[index].offset + slots[index].bytes > maxLive ? late : others)
          .push_back(index);
    late.append(others);
    order = std::move(late);
    tryOrder(order);
  }
  improve();
  slots = std::move(best);
}

/// Fills the arena from below: at the lowest stretch of events, of the slots
/// that live inside it, the one of the highest priority is placed; where there
/// is none the stretch rises to its lower neighbour. Returns the size.
int64_t MemoryPlanner::trySkyline(llvm::ArrayRef<double> priorities) {
  struct Stretch {
    unsigned begin, end;
    int64_t height;
  };
  unsigned numEvents = 1;
  llvm::SmallVector<unsigned> left;
  for (auto [index, slot] : llvm::enumerate(slots)) {
    numEvents = std::max(numEvents, slot.last + 1);
    if (slot.bytes != 0)
      left.push_back(index);
  }
  llvm::SmallVector<Stretch> skyline = {{0, numEvents, 0}}, next;
  int64_t size = 0;
  while (!left.empty()) {
    work += left.size() + skyline.size();
    auto lowest = llvm::min_element(
        skyline, [](auto &a, auto &b) { return a.height < b.height; });
    unsigned *chosen = nullptr;
    for (unsigned &index : left)
      if (slots[index].first >= lowest->begin &&
          slots[index].last < lowest->end &&
          (!chosen || priorities[index] > priorities[*chosen]))
        chosen = &index;
    next.assign(skyline.begin(), lowest);
    if (chosen) {
      Slot &slot = slots[*chosen];
      slot.offset = lowest->height;
      size = std::max(size, slot.offset + slot.bytes);
      next.push_back({lowest->begin, slot.first, lowest->height});
      next.push_back({slot.first, slot.last + 1, slot.offset + slot.bytes});
      next.push_back({slot.last + 1, lowest->end, lowest->height});
      *chosen = left.back();
      left.pop_back();
    } else {
      // Every slot lives inside all events, so there is a neighbour.
      int64_t height = std::numeric_limits<int64_t>::max();
      if (lowest != skyline.begin())
        height = std::min(height, std::prev(lowest)->height);
      if (std::next(lowest) != skyline.end())
        height = std::min(height, std::next(lowest)->height);
      next.push_back({lowest->begin, lowest->end, height});
    }
    next.append(std::next(lowest), skyline.end());
    // Without empty stretches, and none beside one of its height.
    skyline.clear();
    for (const Stretch &stretch : next)
      if (stretch.begin == stretch.end)
        continue;
      else if (!skyline.empty() && skyline.back().height == stretch.height)
        skyline.back().end = stretch.end;
      else
        skyline.push_back(stretch);
  }
  keepIfBest(size);
  return size;
}

/// Skylines by area, then by priorities that change at random: every change
/// that does not enlarge the arena is kept, and after many that gain nothing
/// all priorities are drawn anew.
void MemoryPlanner::improve() {
  // One skyline looks at every pair of slots, which is too much for large ones.
  if (slots.size() * slots.size() > kWork / 20)
    return;
  llvm::SmallVector<double> areas;
  for (const Slot &slot : slots)
    areas.push_back(double(slot.bytes) * (slot.last - slot.first + 1));
  // The same everywhere, which the distributions of the library are not.
  std::minstd_rand random(1);
  constexpr double factors[] = {0.3, 0.6, 0.8, 1.2, 1.5, 3.0};
  constexpr int kPatience = 300;
  llvm::SmallVector<double> priorities = areas;
  int64_t size = trySkyline(priorities);
  int idle = 0;
  for (size_t end = work + kWork; !isWithin(kNear) && work < end;) {
    llvm::SmallVector<double> changed = priorities;
    bool isRestart = ++idle > kPatience;
    if (isRestart)
      for (auto [priority, area] : llvm::zip_equal(changed, areas))
        priority = area * factors[random() % 6];
    else
      for (unsigned n = 1 + random() % 4; n != 0; --n)
        changed[random() % changed.size()] *= factors[random() % 6];
    int64_t found = trySkyline(changed);
    if (isRestart || found < size)
      idle = 0;
    if (isRestart || found <= size) {
      size = found;
      priorities = std::move(changed);
    }
  }
}

int64_t MemoryPlanner::offset(unsigned buffer) const {
  return slots[buffers[buffer].slot].offset;
}
