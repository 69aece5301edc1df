//===- PlanMemory.cpp - place temporaries in one arena --------------------===//
//
// Results that the caller wants there become temporaries first. Lifetimes come
// from the order of launches, sharing from the kernel table, and offsets from
// MemoryPlanner. A plan for two streams is checked afterwards by
// bytes and not by lifetimes.
//
//===----------------------------------------------------------------------===//

#include "MemoryPlanner.h"

#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/IR/Support.h"
#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/Streams.h"
#include "TEDialect/TERT/TERT.h"
#include "TEDialect/TERT/Workspaces.h"
#include "TEDialect/Transforms/Schedule/Passes.h"
#include "TEDialect/Transforms/TargetOption.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::te {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "TEDialect/Transforms/Schedule/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;
using tert::AllocOp;
using tert::LaunchOp;

namespace {

class PlanMemory final : public te::impl::PlanMemoryPassBase<PlanMemory> {
public:
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTargetOption(context, getArgument(), target.getValue());
  }

  void runOnOperation() override {
    // A function with tensors is not lowered and has no buffers to place.
    auto isLowered = llvm::IsaPred<tert::BufferType>;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          llvm::all_of(function.getArgumentTypes(), isLowered) &&
          failed(plan(function)))
        return signalPassFailure();
  }

private:
  LogicalResult plan(func::FuncOp function);
  LogicalResult placeResults(func::FuncOp function);
  LogicalResult checkSum(func::FuncOp function,
                         ArrayRef<tert::BufferLifetime> lifetimes);
  LogicalResult checkBudget(func::FuncOp function, const MemoryPlanner &planner,
                            ArrayRef<tert::BufferLifetime> lifetimes);
};

} // namespace

/// The name of the buffer that an entry of a signature describes.
static std::string nameOf(DictionaryAttr entry) {
  StringRef name = entry.getAs<StringAttr>("name"),
            part = entry.getAs<StringAttr>("part");
  return part == "value" ? name.str() : (name + "." + part).str();
}

/// Replaces the arguments of results that the patterns select by temporaries
/// with `of_result`.
LogicalResult PlanMemory::placeResults(func::FuncOp function) {
  if (results.empty())
    return success();
  // The results that the caller reads, by number, and their names.
  SmallVector<std::pair<unsigned, DictionaryAttr>> known;
  llvm::SetVector<StringRef> names;
  if (auto signature = function->getAttrOfType<ArrayAttr>(tert::kSignatureAttr))
    for (auto [index, entry] :
         llvm::enumerate(signature.getAsRange<DictionaryAttr>()))
      if (index < function.getNumArguments() &&
          entry.getAs<StringAttr>("role") == "result" &&
          entry.getAs<IntegerAttr>("carried").getInt() < 0) {
        known.push_back({index, entry});
        names.insert(entry.getAs<StringAttr>("name"));
      }
  DenseSet<unsigned> selected;
  for (const std::string &text : results) {
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      return function.emitError()
             << "expected 'results-in-arena' to be patterns, but got '" << text
             << "': " << llvm::toString(pattern.takeError());
    bool selectsAny = false;
    for (auto [index, entry] : known)
      if (pattern->match(entry.getAs<StringAttr>("name"))) {
        selected.insert(index);
        selectsAny = true;
      }
    if (selectsAny)
      continue;
    InFlightDiagnostic error = function.emitError();
    error << "expected 'results-in-arena' to name results of '"
          << function.getName() << "' that are no states, but got '" << text
          << "'";
    if (names.empty())
      return error << "; there are none";
    error << "; there are ";
    llvm::interleaveComma(names, error,
                          [&](StringRef name) { error << "'" << name << "'"; });
    return error;
  }
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  for (auto [index, entry] : known) {
    BlockArgument argument = function.getArgument(index);
    // What no launch writes has no place.
    if (!selected.contains(index) || argument.use_empty())
      continue;
    std::string name = nameOf(entry);
    auto cause = StringRef(name).starts_with("grad.") ? tert::Cause::Gradient
                                                      : tert::Cause::Activation;
    auto alloc = AllocOp::create(
        builder, argument.getLoc(), cast<tert::BufferType>(argument.getType()),
        builder.getStringAttr(name), tert::CauseAttr::get(&getContext(), cause),
        /*offset=*/IntegerAttr(), builder.getI64IntegerAttr(index));
    argument.replaceAllUsesWith(alloc.getBuffer());
    ++numResults;
  }
  return success();
}

/// True if `launch` reads the buffer of `input` only as inputs whose memory
/// `output` may reuse.
static bool isReadOnlyAs(LaunchOp launch, unsigned input, unsigned output) {
  for (auto [index, buffer] : llvm::enumerate(launch.getBuffers()))
    if (buffer == launch.getBuffers()[input] && !launch.mayShare(index, output))
      return false;
  return true;
}

/// True if the caller reads `buffer` after the step.
static bool isResult(Value buffer) {
  return buffer.getDefiningOp<AllocOp>().getOfResult().has_value();
}

/// True if all other launches that use `buffer` have ended when `launch`
/// starts. Launches of both streams may still read a buffer at that time.
static bool isLastOn(const tert::StreamOrder &order,
                     const DenseMap<Operation *, unsigned> &positions,
                     Value buffer, LaunchOp launch) {
  const unsigned self = positions.lookup(launch);
  return llvm::all_of(buffer.getUsers(), [&](Operation *user) {
    if (auto slice = dyn_cast<tert::SliceOp>(user))
      return isLastOn(order, positions, slice.getPart(), launch);
    return user == launch || order.isBefore(positions.lookup(user), self);
  });
}

LogicalResult PlanMemory::plan(func::FuncOp function) {
  if (failed(placeResults(function)))
    return failure();
  Block &block = function.getBody().front();
  const tert::StreamOrder order(block);
  ArrayRef<LaunchOp> launches = order.getLaunches();
  DenseMap<Operation *, unsigned> positions;
  for (LaunchOp launch : launches)
    positions.try_emplace(launch, positions.size());
  SmallVector<tert::BufferLifetime> lifetimes = tert::collectLifetimes(block);

  if (failed(checkSum(function, lifetimes)))
    return failure();
  MemoryPlanner planner(tert::kArenaAlignment);
  DenseMap<Value, unsigned> numbers;
  for (tert::BufferLifetime &life : lifetimes)
    numbers[life.alloc.getBuffer()] = planner.add(
        life.alloc.getBuffer().getType().getBytes(), life.first, life.last);
  numBuffers += lifetimes.size();

  for (LaunchOp launch : launches) {
    for (auto [output, written] : llvm::enumerate(launch.getBuffers()))
      for (auto [input, read] : llvm::enumerate(launch.getBuffers())) {
        auto from = numbers.find(read), to = numbers.find(written);
        // The sizes must be equal to the byte, because a wider element would
        // overwrite the next one that is read; the planner compares rounded
        // sizes.
        if (from != numbers.end() && to != numbers.end() && !isResult(read) &&
            read.getType() == written.getType() &&
            launch.mayShare(input, output) &&
            isReadOnlyAs(launch, input, output) &&
            isLastOn(order, positions, read, launch) &&
            planner.share(from->second, to->second))
          ++numShared;
      }
  }

  if (target != "reference") {
    LaunchOp largest;
    for (LaunchOp launch : launches)
      if (!largest ||
          tert::workspaceBytes(launch) > tert::workspaceBytes(largest))
        largest = launch;
    function->setAttr(
        tert::kWorkspaceBytesAttr,
        Builder(&getContext())
            .getI64IntegerAttr(largest ? tert::workspaceBytes(largest) : 0));
  }
  planner.plan();
  if (failed(checkBudget(function, planner, lifetimes)))
    return failure();
  Builder builder(&getContext());
  SmallVector<Attribute> signature;
  if (auto entries = function->getAttrOfType<ArrayAttr>(tert::kSignatureAttr))
    llvm::append_range(signature, entries);
  for (tert::BufferLifetime &life : lifetimes) {
    const int64_t offset = planner.offset(numbers[life.alloc.getBuffer()]);
    life.alloc.setOffset(offset);
    if (std::optional<int64_t> result = life.alloc.getOfResult();
        result && *result < int64_t(signature.size())) {
      NamedAttrList entry(cast<DictionaryAttr>(signature[*result]));
      entry.set(tert::kOffsetEntry, builder.getI64IntegerAttr(offset));
      signature[*result] = entry.getDictionary(&getContext());
    }
  }
  if (!signature.empty())
    function->setAttr(tert::kSignatureAttr, builder.getArrayAttr(signature));
  if (failed(tert::verifyStreams(block)))
    return failure();
  function->setAttr(tert::kArenaBytesAttr,
                    builder.getI64IntegerAttr(planner.arenaBytes()));
  function->setAttr(tert::kMaxLiveBytesAttr,
                    builder.getI64IntegerAttr(planner.maxLiveBytes()));
  return success();
}

/// Checks that no sum of the planner can overflow.
LogicalResult PlanMemory::checkSum(func::FuncOp function,
                                   ArrayRef<tert::BufferLifetime> lifetimes) {
  int64_t sum = 0;
  for (const tert::BufferLifetime &life : lifetimes) {
    tert::AllocOp alloc = life.alloc;
    int64_t bytes = alloc.getBuffer().getType().getBytes();
    if (llvm::AddOverflow(sum, bytes, sum) ||
        llvm::AddOverflow(sum, int64_t(tert::kArenaAlignment), sum))
      return alloc.emitError()
             << "expected the temporaries of '" << function.getName()
             << "' to take fewer than 2^63 bytes together, but '"
             << alloc.getName() << "' of " << bytes << " bytes exceeds that";
  }
  return success();
}

LogicalResult
PlanMemory::checkBudget(func::FuncOp function, const MemoryPlanner &planner,
                        ArrayRef<tert::BufferLifetime> lifetimes) {
  if (budget <= 0 || planner.arenaBytes() <= budget)
    return success();
  InFlightDiagnostic diagnostic =
      withData(function.emitError(), {code::kMemoryBudget})
      << "expected the temporaries of '" << function.getName() << "' to fit in "
      << int64_t(budget) << " bytes, but they need " << planner.arenaBytes();
  diagnostic.attachNote() << "the smallest 'budget' that works is "
                          << planner.arenaBytes();
  if (auto workspace =
          function->getAttrOfType<IntegerAttr>(tert::kWorkspaceBytesAttr);
      workspace && workspace.getInt() != 0)
    diagnostic.attachNote()
        << "outside the arena, scratch memory of kernels takes up to "
        << workspace.getInt() << " bytes more";
  if (llvm::any_of(function.getOps<LaunchOp>(),
                   [](LaunchOp launch) { return launch.getSide(); }))
    diagnostic.attachNote()
        << "buffers of overlapped collectives are alive for longer; "
           "'overlap=never' avoids this";
  // Negative sizes, so that sorting puts the largest first and keeps ties in
  // program order.
  SmallVector<std::pair<int64_t, size_t>> atPeak;
  for (auto [index, life] : llvm::enumerate(lifetimes))
    if (life.first <= planner.peakEvent() && planner.peakEvent() <= life.last)
      atPeak.push_back(
          {-AllocOp(life.alloc).getBuffer().getType().getBytes(), index});
  llvm::sort(atPeak);
  for (auto [negatedBytes, index] : ArrayRef(atPeak).take_front(5)) {
    AllocOp alloc = lifetimes[index].alloc;
    diagnostic.attachNote(alloc.getLoc())
        << "'" << alloc.getName() << "' ("
        << tert::stringifyCause(alloc.getCause()) << ", " << -negatedBytes
        << " bytes) is live at the peak";
  }
  return diagnostic;
}
