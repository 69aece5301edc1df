//===- LaunchSchedule.cpp - places of launches, and what moving one costs -===//

#include "LaunchSchedule.h"

#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/KernelTable.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::te;
using tert::LaunchOp;

size_t te::findFirstOfBackward(func::FuncOp function,
                               ArrayRef<LaunchOp> launches) {
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

static int64_t bytesOf(Value buffer) {
  return cast<tert::BufferType>(buffer.getType()).getBytes();
}

int64_t te::getBytes(LaunchOp launch) {
  int64_t bytes = 0;
  for (Value buffer : launch.getBuffers())
    bytes += bytesOf(buffer);
  return bytes;
}

LaunchSchedule::LaunchSchedule(func::FuncOp function)
    : launches(function.getOps<LaunchOp>()) {
  for (auto [number, each] : llvm::enumerate(launches)) {
    LaunchOp launch = each;
    places.push_back(number);
    SmallVector<std::pair<Value, bool>, 8> &buffers = buffersOf.emplace_back();
    for (auto [row, part] :
         llvm::zip(tert::lookupKernel(launch.getKernel())->buffers,
                   launch.getBuffers())) {
      if (part.getDefiningOp<tert::NullOp>())
        continue;
      Value buffer = tert::lookThroughSlice(part);
      buffers.push_back({buffer, row.isOutput});
      accesses[buffer].push_back({unsigned(number), row.isOutput});
    }
  }
  backward = findFirstOfBackward(function, launches);
  alive.assign(launches.size(), 0);
  for (auto &[buffer, all] : accesses)
    if (buffer.getDefiningOp<tert::AllocOp>()) {
      const auto [first, last] = rangeOf(buffer);
      for (unsigned at = first; at <= last; ++at)
        alive[at] += bytesOf(buffer);
    }
  for (int64_t bytes : alive)
    peak = std::max(peak, bytes);
}

LaunchSchedule::Range LaunchSchedule::rangeOf(Value buffer) const {
  Range range{~0u, 0};
  for (const Access &access : accesses.find(buffer)->second) {
    range.first = std::min(range.first, places[access.launch]);
    range.last = std::max(range.last, places[access.launch]);
  }
  return range;
}

bool LaunchSchedule::mayMove(unsigned launch, unsigned place) const {
  const unsigned from = places[launch];
  auto isPassed = [&](unsigned other) {
    const unsigned at = places[other];
    return place > from ? at > from && at <= place : at >= place && at < from;
  };
  return llvm::all_of(buffersOf[launch], [&](std::pair<Value, bool> used) {
    return llvm::none_of(
        accesses.find(used.first)->second, [&](const Access &access) {
          return (used.second || access.isWrite) && isPassed(access.launch);
        });
  });
}

void LaunchSchedule::forEachRange(
    ArrayRef<unsigned> moved, unsigned place,
    function_ref<void(int64_t, Range, Range)> visit) const {
  llvm::SmallSetVector<Value, 8> temporaries;
  for (unsigned launch : moved)
    for (auto [buffer, isWrite] : buffersOf[launch])
      if (buffer.getDefiningOp<tert::AllocOp>())
        temporaries.insert(buffer);
  for (Value buffer : temporaries) {
    Range after{place, place};
    for (const Access &access : accesses.find(buffer)->second)
      if (!llvm::is_contained(moved, access.launch)) {
        after.first = std::min(after.first, places[access.launch]);
        after.last = std::max(after.last, places[access.launch]);
      }
    visit(bytesOf(buffer), rangeOf(buffer), after);
  }
}

LaunchSchedule::Growth LaunchSchedule::growthOf(ArrayRef<unsigned> moved,
                                                unsigned place) const {
  const unsigned from = places[moved.front()];
  const unsigned first = std::min(from, place), last = std::max(from, place);
  // Nothing changes outside of the places that launches move across.
  SmallVector<int64_t> more(last - first + 1, 0);
  auto add = [&](int64_t bytes, Range range) {
    for (unsigned at = std::max(range.first, first);
         at <= std::min(range.last, last); ++at)
      more[at - first] += bytes;
  };
  forEachRange(moved, place, [&](int64_t bytes, Range before, Range after) {
    add(-bytes, before);
    add(bytes, after);
  });
  Growth growth;
  for (auto [at, bytes] : llvm::enumerate(more)) {
    growth.held += bytes;
    if (bytes > 0)
      growth.abovePeak =
          std::max(growth.abovePeak, alive[first + at] + bytes - peak);
  }
  return growth;
}

void LaunchSchedule::move(ArrayRef<unsigned> moved, unsigned place) {
  forEachRange(moved, place, [&](int64_t bytes, Range before, Range after) {
    for (unsigned at = before.first; at <= before.last; ++at)
      alive[at] -= bytes;
    for (unsigned at = after.first; at <= after.last; ++at)
      alive[at] += bytes;
  });
  for (unsigned launch : moved)
    places[launch] = place;
}
