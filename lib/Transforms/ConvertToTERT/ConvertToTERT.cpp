//===- ConvertToTERT.cpp - replace tensors with buffers -------------------===//
//
// The conversion of a function has three steps. Emit: ops become launches on
// new temporaries, in program order (LaunchEmitter). Return: every result is
// copied to its destination; old values of arguments are read before any of
// them is overwritten. Elide: if the producer of a copied temporary can write
// to the destination directly, the copy and the temporary are erased. Only the
// last step deals with writing in place. It looks only at launches and does not
// depend on the meaning of ops.
//
//===----------------------------------------------------------------------===//

#include "LaunchEmitter.h"

#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/Groups.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/RuntimeTypes.h"
#include "TEDialect/Transforms/ConvertToTERT/Kernels.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::te {
#define GEN_PASS_DEF_CONVERTTOTERTPASS
#include "TEDialect/Transforms/ConvertToTERT/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;
using tert::AllocOp;
using tert::BufferType;
using tert::LaunchOp;

namespace {

class FunctionConversion {
public:
  explicit FunctionConversion(func::FuncOp function)
      : function(function), block(function.getBody().front()),
        builder(block.getTerminator()), emitter(builder, block) {}

  LogicalResult run();

  unsigned numInPlace = 0, numCopies = 0;

private:
  LogicalResult declareArguments();
  LogicalResult declareResults();
  FailureOr<Buffers> addBuffers(Location loc, Type type, StringAttr name,
                                StringRef role, int64_t carried,
                                NamedAttrList extra = {});
  LogicalResult returnResults();
  bool elideCopy(LaunchOp copy);
  void hoistCopy(LaunchOp copy);
  void accumulateInPlace(LaunchOp launch, Value destination);
  void describeGroupSizes();
  void finish();

  func::FuncOp function;
  Block &block;
  OpBuilder builder;
  LaunchEmitter emitter;
  SmallVector<Attribute> signature;
  /// Index in the new signature of the first buffer of the argument with a
  /// name.
  llvm::StringMap<unsigned> argumentBuffers;
  /// The buffers that each result is written to.
  SmallVector<Buffers> destinations;
  /// Number of arguments in the old signature, and of their buffers in the new
  /// one.
  unsigned numOldArguments = 0, numArgumentBuffers = 0;
};

} // namespace

/// The value of `te.init` as an f32.
static FloatAttr initAsF32(Builder &builder, Attribute init) {
  if (auto splat = dyn_cast<SplatElementsAttr>(init))
    init = splat.getSplatValue<Attribute>();
  if (auto integer = dyn_cast<IntegerAttr>(init))
    return builder.getF32FloatAttr(integer.getValue().signedRoundToDouble());
  return builder.getF32FloatAttr(cast<FloatAttr>(init).getValueAsDouble());
}

/// Appends buffer arguments for a value of `type` and describes them.
FailureOr<Buffers> FunctionConversion::addBuffers(Location loc, Type type,
                                                  StringAttr name,
                                                  StringRef role,
                                                  int64_t carried,
                                                  NamedAttrList extra) {
  Buffers buffers;
  for (const tert::BufferLayout &layout : tert::getBufferLayouts(type)) {
    NamedAttrList entry;
    entry.append("name", name);
    entry.append("type", TypeAttr::get(type));
    entry.append("role", builder.getStringAttr(role));
    entry.append("part", builder.getStringAttr(layout.part));
    entry.append("carried", builder.getI64IntegerAttr(
                                carried < 0 ? -1 : carried + buffers.size()));
    entry.append(extra.begin(), extra.end());
    signature.push_back(entry.getDictionary(builder.getContext()));
    buffers.push_back(block.addArgument(
        BufferType::get(builder.getContext(), layout.bytes), loc));
  }
  if (buffers.empty())
    return emitError(loc) << "the runtime has no buffer for " << role << " '"
                          << name.getValue() << "' of type " << type;
  return buffers;
}

LogicalResult FunctionConversion::declareArguments() {
  numOldArguments = block.getNumArguments();
  LogicalResult result = success();
  for (unsigned index = 0; index < numOldArguments; ++index) {
    BlockArgument argument = block.getArgument(index);
    auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttr);
    if (name)
      argumentBuffers[name.getValue()] = signature.size();
    else
      name = builder.getStringAttr("arg" + Twine(index));
    NamedAttrList extra;
    if (Attribute init = function.getArgAttr(index, kInitAttr))
      extra.append("init", initAsF32(builder, init));
    if (function.getArgAttr(index, kWeightAttr))
      extra.append("weight", builder.getUnitAttr());
    if (function.getArgAttr(index, kRecipeStateAttr))
      extra.append("recipe_state", builder.getUnitAttr());
    FailureOr<Buffers> buffers = addBuffers(
        argument.getLoc(), argument.getType(), name, "argument", -1, extra);
    if (succeeded(buffers))
      emitter.bind(argument, *buffers);
    else
      result = failure();
  }
  return result;
}

LogicalResult FunctionConversion::declareResults() {
  LogicalResult result = success();
  Operation *terminator = block.getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    auto name = function.getResultAttrOfType<StringAttr>(index, kNameAttr);
    int64_t carried = -1;
    if (!name)
      name = builder.getStringAttr("result" + Twine(index));
    else if (auto found = argumentBuffers.find(name.getValue());
             found != argumentBuffers.end())
      carried = found->second;
    NamedAttrList extra;
    if (Attribute probe = function.getResultAttr(index, kProbeAttr))
      extra.append("probe", probe);
    FailureOr<Buffers> buffers = addBuffers(
        terminator->getLoc(), value.getType(), name, "result", carried, extra);
    if (failed(buffers)) {
      result = failure();
      continue;
    }
    if (carried >= 0)
      for (auto [part, buffer] : llvm::enumerate(*buffers)) {
        Value next = buffer;
        buffer = block.getArgument(numOldArguments + carried + part);
        if (buffer.getType() != next.getType())
          return emitError(terminator->getLoc())
                 << "expected result '" << name.getValue()
                 << "' to have the type of the argument it is named after";
      }
    destinations.push_back(*buffers);
  }
  return result;
}

LogicalResult FunctionConversion::returnResults() {
  Location loc = block.getTerminator()->getLoc();
  struct PendingCopy {
    Value from, to;
  };
  SmallVector<PendingCopy> early, late;
  auto isArgument = [](Value buffer) { return isa<BlockArgument>(buffer); };
  for (auto [value, destination] :
       llvm::zip_equal(block.getTerminator()->getOperands(), destinations)) {
    FailureOr<Buffers> buffers = emitter.lookup(value);
    if (failed(buffers))
      return failure();
    for (auto [from, to] : llvm::zip_equal(*buffers, destination)) {
      if (from == to)
        continue;
      bool isCarried = cast<BlockArgument>(to).getArgNumber() <
                       numOldArguments + numArgumentBuffers;
      if (!isArgument(from)) {
        late.push_back({from, to});
        continue;
      }
      unsigned number = cast<BlockArgument>(from).getArgNumber();
      bool isCotangent = tert::isCotangent(
          cast<DictionaryAttr>(signature[number - numOldArguments]));
      if (!isCarried && !isCotangent) {
        // A result that is an argument of the forward. Copy it first, because
        // host programs may split the step before a backward.
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(&block);
        emitter.copy(loc, from, to);
        ++numCopies;
        continue;
      }
      // This is the old value of an argument. The copies below may overwrite
      // it, or the argument that it is copied to.
      Value staged = to;
      if (isCarried) {
        staged = emitter.alloc(loc, "carried", tert::Cause::Activation,
                               cast<BufferType>(to.getType()).getBytes());
        late.push_back({staged, to});
      }
      early.push_back({from, staged});
    }
  }
  for (PendingCopy &pending : early)
    emitter.copy(loc, pending.from, pending.to);
  SmallVector<LaunchOp> copies;
  for (PendingCopy &pending : late)
    copies.push_back(emitter.copy(loc, pending.from, pending.to));
  numCopies += early.size();
  llvm::erase_if(copies, [&](LaunchOp copy) { return elideCopy(copy); });
  numInPlace += late.size() - copies.size();
  numCopies += copies.size();
  for (LaunchOp copy : copies)
    hoistCopy(copy);
  return success();
}

/// Moves `copy` behind the last launch that writes its source, because host
/// programs may split the step before a backward: a value that is two results
/// of the forward. Other launches must not use the destination.
void FunctionConversion::hoistCopy(LaunchOp copy) {
  Value source = copy.getBuffers()[0];
  Operation *last = nullptr;
  SmallVector<Value> pending = {source};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (auto slice = dyn_cast<tert::SliceOp>(user)) {
        pending.push_back(slice.getResult());
        continue;
      }
      auto launch = dyn_cast<LaunchOp>(user);
      if (!launch)
        return;
      const tert::KernelInfo *kernel = tert::lookupKernel(launch.getKernel());
      if (kernel->buffers[use.getOperandNumber()].isOutput &&
          (!last || last->isBeforeInBlock(launch)))
        last = launch;
    }
  if (last && copy.getBuffers()[1].hasOneUse())
    copy->moveAfter(last);
}

/// True if `producer`, which writes `alloc` first, and all ops up to `end` may
/// use `destination` as the memory of `alloc`: in between, nothing reads the
/// old value of `destination` except an input that the kernel may overwrite.
static bool mayTakePlace(AllocOp alloc, Value destination, LaunchOp producer,
                         Operation *end) {
  for (OpOperand &use : destination.getUses()) {
    Operation *user = use.getOwner();
    // A slice of the buffer may be used by later ops that are not visible here.
    if (!isa<LaunchOp>(user))
      return false;
    if (user == end || user->isBeforeInBlock(producer) ||
        (end && end->isBeforeInBlock(user)))
      continue;
    if (user != producer)
      return false;
    for (OpOperand &written : alloc.getBuffer().getUses())
      if (written.getOwner() == producer &&
          !producer.mayShare(use.getOperandNumber(),
                             written.getOperandNumber()))
        return false;
  }
  return true;
}

/// The first and the last launch that use `alloc`; nulls if a slice of it is
/// used.
static std::pair<LaunchOp, LaunchOp> findEnds(AllocOp alloc) {
  if (!llvm::all_of(alloc->getUsers(), llvm::IsaPred<LaunchOp>))
    return {};
  Operation *first = *alloc->user_begin(), *last = first;
  for (Operation *user : alloc->getUsers()) {
    if (user->isBeforeInBlock(first))
      first = user;
    if (last->isBeforeInBlock(user))
      last = user;
  }
  return {cast<LaunchOp>(first), cast<LaunchOp>(last)};
}

/// Returns the launch that fills `alloc` with the old value of `destination`,
/// which a cached cast may keep, provided that nothing uses `destination` from
/// there to `end`, which writes it; else null. If `alloc` becomes
/// `destination`, the value is there already.
static LaunchOp findRefill(AllocOp alloc, Value destination, LaunchOp end) {
  LaunchOp refill;
  for (Operation *user : alloc->getUsers())
    if (auto launch = dyn_cast<LaunchOp>(user);
        launch && (!refill || launch->isBeforeInBlock(refill)))
      refill = launch;
  if (refill == end || refill.getKernel() != "copy" ||
      refill.getBuffers()[0] != destination)
    return {};
  bool isFree = llvm::all_of(destination.getUsers(), [&](Operation *user) {
    return isa<LaunchOp>(user) &&
           (user == refill || user == end || user->isBeforeInBlock(refill) ||
            end->isBeforeInBlock(user));
  });
  return isFree ? refill : LaunchOp();
}

/// Lets the first writer of the source of `copy` write to its destination, if
/// nothing else uses the destination from then on.
bool FunctionConversion::elideCopy(LaunchOp copy) {
  auto alloc = copy.getBuffers()[0].getDefiningOp<AllocOp>();
  if (!alloc)
    return false;
  Value destination = copy.getBuffers()[1];
  if (llvm::any_of(destination.getUsers(), [&](Operation *user) {
        return user != copy && copy->isBeforeInBlock(user);
      }))
    return false;
  if (LaunchOp refill = findRefill(alloc, destination, copy)) {
    alloc.getBuffer().replaceAllUsesWith(destination);
    refill.erase();
    copy.erase();
    alloc.erase();
    return true;
  }
  LaunchOp producer = findEnds(alloc).first;
  if (!producer) {
    if (!destination.hasOneUse())
      return false;
    // Slices of the source are used, but only this copy uses the destination.
    copy.erase();
    alloc.getBuffer().replaceAllUsesWith(destination);
    alloc.erase();
    return true;
  }
  if (!mayTakePlace(alloc, destination, producer, copy))
    return false;
  alloc.getBuffer().replaceAllUsesWith(destination);
  // Without another launch that uses the source, `copy` is its first user.
  const bool isProduced = producer != copy;
  copy.erase();
  alloc.erase();
  if (isProduced)
    accumulateInPlace(producer, destination);
  return true;
}

/// `launch` writes `destination`. If it adds to a temporary whose last use this
/// is, and may do so in place, that temporary becomes `destination`. This is
/// repeated back to the first summand.
void FunctionConversion::accumulateInPlace(LaunchOp launch, Value destination) {
  for (bool isSum = true; isSum;) {
    isSum = false;
    unsigned output = llvm::find(launch.getBuffers(), destination) -
                      launch.getBuffers().begin();
    for (auto [input, buffer] : llvm::enumerate(launch.getBuffers())) {
      auto alloc = buffer.getDefiningOp<AllocOp>();
      if (!alloc || !launch.mayShare(input, output) ||
          buffer.getType() != destination.getType() ||
          llvm::count(launch.getBuffers(), buffer) != 1 ||
          llvm::count(launch.getBuffers(), destination) != 1)
        continue;
      auto [first, last] = findEnds(alloc);
      if (!first || last != launch || first == launch)
        continue;
      if (LaunchOp refill = findRefill(alloc, destination, launch)) {
        buffer.replaceAllUsesWith(destination);
        refill.erase();
        alloc.erase();
        return;
      }
      if (!mayTakePlace(alloc, destination, first, launch))
        continue;
      buffer.replaceAllUsesWith(destination);
      alloc.erase();
      launch = first;
      isSum = true;
      break;
    }
  }
}

/// Records for each argument that has sizes of groups the number of rows and
/// the alignment that they must fit, so that a host program can check them.
void FunctionConversion::describeGroupSizes() {
  for (auto [index, entry] : llvm::enumerate(signature))
    for (OpOperand &use :
         block.getArgument(numOldArguments + index).getUses()) {
      auto launch = dyn_cast<LaunchOp>(use.getOwner());
      if (!launch)
        continue;
      const tert::KernelInfo *kernel = tert::lookupKernel(launch.getKernel());
      DictionaryAttr parameters = launch.getParameters();
      Attribute rows = parameters.get("rows");
      if (kernel->buffers[use.getOperandNumber()].name != "group_sizes" ||
          !rows)
        continue;
      NamedAttrList extended(cast<DictionaryAttr>(entry));
      extended.set("rows", rows);
      extended.set("alignment", parameters.get("alignment"));
      entry = extended.getDictionary(builder.getContext());
      break;
    }
}

void FunctionConversion::finish() {
  Operation *terminator = block.getTerminator();
  terminator->setOperands({});
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (&op != terminator && !isa<tert::TERTDialect>(op.getDialect()))
      op.erase();
  block.eraseArguments(0, numOldArguments);
  // Erase temporaries without launches, for example of constants that were
  // elided.
  for (auto alloc : llvm::make_early_inc_range(block.getOps<AllocOp>()))
    if (alloc->use_empty())
      alloc.erase();

  function.setFunctionType(
      builder.getFunctionType(block.getArgumentTypes(), {}));
  function.removeArgAttrsAttr();
  function.removeResAttrsAttr();
  function->removeAttr(kRecipeAttr);
  function->setAttr(tert::kSignatureAttr, builder.getArrayAttr(signature));
}

LogicalResult FunctionConversion::run() {
  if (failed(declareArguments()))
    return failure();
  numArgumentBuffers = signature.size();
  if (failed(declareResults()))
    return failure();

  // Launches are appended after the ops they come from.
  LogicalResult result = success();
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : ops)
    if (failed(emitter.emit(op)))
      result = failure();
  if (failed(result) || failed(returnResults()))
    return failure();
  describeGroupSizes();
  finish();
  return success();
}

namespace {

class ConvertToTERT final
    : public te::impl::ConvertToTERTPassBase<ConvertToTERT> {
public:
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registerTEKernels(registry);
  }

  void runOnOperation() override {
    for (auto nested : getOperation().getOps<ModuleOp>()) {
      nested.emitError()
          << "expected a module without modules in it, because groups are "
             "removed; run 'te-convert-to-tert' on each of them";
      return signalPassFailure();
    }
    eraseUnusedFunctions();
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (!function.getBody().hasOneBlock()) {
        function.emitError()
            << "expected function '" << function.getName()
            << "' to be one block, but it has "
            << llvm::range_size(function.getBody()) << " blocks";
        return signalPassFailure();
      }
      FunctionConversion conversion(function);
      if (failed(conversion.run()))
        return signalPassFailure();
      numLaunches += llvm::range_size(function.getOps<LaunchOp>());
      numInPlace += conversion.numInPlace;
      numCopies += conversion.numCopies;
    }
    getOperation()->removeAttr(kRecipeAttr);
    describeGroups();
  }

private:
  /// Describes the groups in attributes that tools without this dialect can
  /// read.
  void describeGroups() {
    Builder b(&getContext());
    SmallVector<Attribute> entries;
    for (GroupAttr group : getGroups(getOperation()))
      entries.push_back(b.getDictionaryAttr(
          {b.getNamedAttr("id", b.getI64IntegerAttr(group.getId())),
           b.getNamedAttr("name", b.getStringAttr(group.getName())),
           b.getNamedAttr("axis", b.getStringAttr(group.getAxis())),
           b.getNamedAttr("size", b.getI64IntegerAttr(group.getSize()))}));
    if (!entries.empty())
      getOperation()->setAttr(tert::kGroupsAttr, b.getArrayAttr(entries));
    getOperation()->removeAttr(kGroupsAttr);
  }

  /// Private functions have no callers after inlining, and their layers may not
  /// have been replaced.
  void eraseUnusedFunctions() {
    SymbolTableCollection tables;
    SymbolUserMap users(tables, getOperation());
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (function.isPrivate() && users.useEmpty(function))
        function.erase();
  }
};

} // namespace
