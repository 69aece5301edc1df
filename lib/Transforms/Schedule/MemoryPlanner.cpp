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

#include <set>
#include <tuple>
#include <vector>

using namespace mlir::te;

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
    llvm::sort(alive, [](const Slot *a, const Slot *b) {
      return a->offset < b->offset;
    });
    slot.offset = findOffset(slot.bytes, alive);
    size = std::max(size, slot.offset + slot.bytes);
    tree.insert(slot.first, slot.last, index);
    births.insert({slot.first, index});
  }
  if (best.empty() || size < arena) {
    arena = size;
    best = slots;
  }
}

void MemoryPlanner::plan() {
  measure();
  llvm::SmallVector<unsigned> order;
  for (Order candidate : {Order::Lifetime, Order::Area, Order::Size}) {
    int64_t before = arena;
    llvm::SmallVector<unsigned> next = sorted(candidate);
    tryOrder(next);
    if (order.empty() || arena < before)
      order = std::move(next);
  }
  slots = best;
  // Placements of all rounds together, which keeps large steps cheap.
  constexpr size_t kWork = 20000;
  for (size_t work = 0; arena > maxLive && work < kWork; work += order.size()) {
    // Whatever ends above the lower bound was placed too late.
    llvm::SmallVector<unsigned> late, others;
    for (unsigned index : order)
      (slots[index].offset + slots[index].bytes > maxLive ? late : others)
          .push_back(index);
    late.append(others);
    order = std::move(late);
    tryOrder(order);
  }
  slots = std::move(best);
}

int64_t MemoryPlanner::offset(unsigned buffer) const {
  return slots[buffers[buffer].slot].offset;
}
