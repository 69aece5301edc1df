//===- MemoryPlanner.cpp - place buffers in one arena ---------------------===//
//
// A slot is placed by the bytes that are taken while it is alive, and not by
// the slots that are alive at the same time. A deep model has many of those,
// but they are adjacent to each other. A placement costs O(r log n) for the r
// ranges that they form in a segment tree over events.
//
//===----------------------------------------------------------------------===//

#include "MemoryPlanner.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <random>
#include <tuple>
#include <vector>

using namespace mlir::te;

/// The search ends if the arena is within 1 / kClose of the lower bound. The
/// most expensive part of the search runs only if the arena is not within 1 /
/// kNear.
static constexpr int64_t kClose = 500, kNear = 100;
/// The number of rounds of the first part, and the number of slots that the
/// second part visits, which bounds its time.
static constexpr int kRounds = 20;
static constexpr size_t kWork = 300'000'000;
/// The slots and ranges that an order may visit if it is not the only one: so
/// many, or so many for each slot. The latter grow with the layers in deep
/// models under NVFP4; the former take about 0.1 s.
static constexpr size_t kFewRanges = 4'000'000, kRangesOfSlot = 128;

namespace {

/// The bytes that are taken at each event, as a segment tree over events. A
/// node stores the bytes that are taken during all of its events, and those
/// that are taken at any of them, as ascending ranges that do not touch. A well
/// packed arena has few ranges, so a query visits O(log n) nodes instead of all
/// slots that are alive.
class TakenBytes {
public:
  struct Range {
    int64_t begin, end;
  };

  explicit TakenBytes(unsigned numEvents)
      : leaves(llvm::bit_ceil(numEvents)), always(2 * leaves),
        ever(2 * leaves) {}

  /// Takes the bytes of `range` from event `first` to `last`.
  void insert(unsigned first, unsigned last, Range range) {
    visit(
        1, 0, leaves - 1, first, last,
        [&](unsigned node) { add(ever[node], range); },
        [&](unsigned node) {
          add(ever[node], range);
          add(always[node], range);
        });
  }

  /// Appends ranges whose union is what is taken at any event from `first` to
  /// `last`.
  void collect(unsigned first, unsigned last,
               llvm::SmallVectorImpl<Range> &ranges) const {
    visit(
        1, 0, leaves - 1, first, last,
        [&](unsigned node) { llvm::append_range(ranges, always[node]); },
        [&](unsigned node) { llvm::append_range(ranges, ever[node]); });
  }

private:
  using Ranges = llvm::SmallVector<Range, 2>;

  /// Calls `inside` for the nodes that form [first, last], and `above` for
  /// their ancestors.
  template <typename Above, typename Inside>
  static void visit(unsigned node, unsigned begin, unsigned end, unsigned first,
                    unsigned last, Above above, Inside inside) {
    if (last < begin || end < first)
      return;
    if (first <= begin && end <= last)
      return inside(node);
    above(node);
    unsigned middle = begin + (end - begin) / 2;
    visit(2 * node, begin, middle, first, last, above, inside);
    visit(2 * node + 1, middle + 1, end, first, last, above, inside);
  }

  static void add(Ranges &ranges, Range range) {
    auto from = llvm::partition_point(
        ranges, [&](const Range &r) { return r.end < range.begin; });
    auto to = from;
    for (; to != ranges.end() && to->begin <= range.end; ++to)
      range = {std::min(range.begin, to->begin), std::max(range.end, to->end)};
    if (from == to) {
      ranges.insert(from, range);
      return;
    }
    *from = range;
    ranges.erase(from + 1, to);
  }

  unsigned leaves;
  std::vector<Ranges> always, ever;
};

} // namespace

unsigned MemoryPlanner::add(int64_t bytes, unsigned first, unsigned last) {
  buffers.push_back({static_cast<unsigned>(slots.size())});
  // An empty buffer has an address of its own while it is alive, too.
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
  // The slot that became empty is never placed.
  taken.bytes = 0;
  to.slot = from.slot;
  from.hasSuccessor = to.isSuccessor = true;
  return true;
}

void MemoryPlanner::measure() {
  // For every event, the bytes whose lifetime starts minus those whose lifetime
  // ended before.
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

/// The offset of the smallest gap between `taken`, which is in ascending order,
/// that has `bytes`; the end of `taken` if there is none.
static int64_t findOffset(int64_t bytes,
                          llvm::ArrayRef<TakenBytes::Range> taken) {
  int64_t end = 0, best = -1, bestGap = 0;
  for (const TakenBytes::Range &range : taken) {
    int64_t gap = range.begin - end;
    if (gap >= bytes && (best < 0 || gap < bestGap)) {
      best = end;
      bestGap = gap;
    }
    end = std::max(end, range.end);
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
/// best. Gives up and returns false after `limit` slots and ranges.
bool MemoryPlanner::tryOrder(llvm::ArrayRef<unsigned> order, size_t limit) {
  const size_t start = work;
  unsigned numEvents = 1;
  for (const Slot &slot : slots)
    numEvents = std::max(numEvents, slot.last + 1);
  int64_t size = 0;
  TakenBytes taken(numEvents);
  llvm::SmallVector<TakenBytes::Range> ranges;
  for (unsigned index : order) {
    Slot &slot = slots[index];
    ranges.clear();
    taken.collect(slot.first, slot.last, ranges);
    work += ranges.size() + 1;
    if (work - start > limit)
      return false;
    llvm::sort(ranges, [](auto &a, auto &b) { return a.begin < b.begin; });
    slot.offset = findOffset(slot.bytes, ranges);
    size = std::max(size, slot.offset + slot.bytes);
    taken.insert(slot.first, slot.last,
                 {slot.offset, slot.offset + slot.bytes});
  }
  keepIfBest(size);
  return true;
}

/// Keeps the offsets of an arena of `size` bytes if no earlier one was as
/// small.
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
  const size_t limit = std::max(kFewRanges, kRangesOfSlot * slots.size());
  llvm::SmallVector<unsigned> order;
  for (Order candidate : {Order::Lifetime, Order::Area, Order::Size}) {
    if (!order.empty() && isWithin(kClose))
      break;
    int64_t before = arena;
    llvm::SmallVector<unsigned> next = sorted(candidate);
    // The order by size, which has the fewest ranges, is the last one.
    const bool isOnly = candidate == Order::Size && best.empty();
    if (!tryOrder(next, isOnly ? std::numeric_limits<size_t>::max() : limit))
      continue;
    if (order.empty() || arena < before)
      order = std::move(next);
  }
  slots = best;
  for (int round = 0; !isWithin(kClose) && round < kRounds; ++round) {
    // A slot that ends above the lower bound was placed too late.
    llvm::SmallVector<unsigned> late, others;
    for (unsigned index : order)
      (slots[index].offset + slots[index].bytes > maxLive ? late : others)
          .push_back(index);
    late.append(others);
    order = std::move(late);
    if (!tryOrder(order, limit))
      break;
  }
  improve();
  slots = std::move(best);
}

/// Fills the arena from below. At the lowest stretch of events, the slot with
/// the highest priority is placed, out of those that are alive only within the
/// stretch. If there is none, the stretch rises to its lower neighbour. Returns
/// the size.
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
      // A stretch of all events would have a slot, so there is a neighbour.
      int64_t height = std::numeric_limits<int64_t>::max();
      if (lowest != skyline.begin())
        height = std::min(height, std::prev(lowest)->height);
      if (std::next(lowest) != skyline.end())
        height = std::min(height, std::next(lowest)->height);
      next.push_back({lowest->begin, lowest->end, height});
    }
    next.append(std::next(lowest), skyline.end());
    // Drop empty stretches, and merge neighbours of equal height.
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

/// Tries skylines with the areas as priorities, and then with priorities that
/// change at random. Every change that does not enlarge the arena is kept.
/// After many changes without a gain, all priorities are drawn again.
void MemoryPlanner::improve() {
  // A skyline visits every pair of slots, which takes too long for many slots.
  if (slots.size() * slots.size() > kWork / 20)
    return;
  llvm::SmallVector<double> areas;
  for (const Slot &slot : slots)
    areas.push_back(double(slot.bytes) * (slot.last - slot.first + 1));
  // The results are the same with every standard library, which is not so for
  // its distributions.
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
