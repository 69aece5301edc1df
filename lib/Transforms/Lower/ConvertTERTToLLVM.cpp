//===- ConvertTERTToLLVM.cpp - launches as calls of the runtime -----------===//
//
// Every launch has a plan of its own, even if parameters are equal, because a
// plan may cache what it derives from the buffers of the last call (a tensor
// map, a scale pointer), and in a planned step a launch always has the same
// buffers. The step is straight-line code: it fills one array of pointers,
// calls te_rt_launch, and so on. Errors are sticky in the runtime, so there are
// no branches. A long step is split into functions of some hundred launches,
// because at every call the register allocator visits all values of the block
// before the call.
//
//===----------------------------------------------------------------------===//

#include "GeneratedCode.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/Runtime/te_runtime_types.h"
#include "TEDialect/Support/KernelRows.h"
#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/Streams.h"
#include "TEDialect/TERT/TERT.h"
#include "TEDialect/Transforms/Lower/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::te {
#define GEN_PASS_DEF_CONVERTTERTTOLLVMPASS
#include "TEDialect/Transforms/Lower/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;
using tert::LaunchOp;

/// How many launches one function plans or enqueues.
static constexpr size_t kLaunchesPerFunction = 256;

namespace {

class ModuleLowering {
public:
  ModuleLowering(func::FuncOp function, bool forDevice, int32_t flags)
      : function(function), generated(function, forDevice), flags(flags),
        context(function.getContext()), builder(context),
        ptr(LLVM::LLVMPointerType::get(context)), i32(builder.getI32Type()),
        i64(builder.getI64Type()) {}

  /// Adds te_module_load, te_module_step and te_module after the function.
  void run();

  /// One dictionary for each slot: its kernel, the layer or buffer it is for,
  /// and its source line.
  ArrayAttr getDescriptions() const { return descriptions; }

  /// For each argument, the slots of the first and the last launch that use it
  /// as a buffer; -1 twice if there is none.
  ArrayAttr describeUses();

  unsigned numLaunches() const { return launches.size(); }
  unsigned numGenerated() const { return generated.numGenerated(); }

private:
  /// Emits the launches from slot `begin` to before slot `end`, and the return,
  /// with the builder at the end of `function`'s body.
  using EmitBody = void (ModuleLowering::*)(LLVM::LLVMFuncOp function,
                                            size_t begin, size_t end);
  void emitFunction(StringRef name, Type result, ArrayRef<Type> inputs,
                    EmitBody emitBody);
  void emitPlans(LLVM::LLVMFuncOp load, size_t begin, size_t end);
  void emitLaunches(LLVM::LLVMFuncOp step, size_t begin, size_t end);
  ArrayAttr describeLaunches();
  Value emitOrigins();
  std::pair<Value, int32_t> emitKernels();
  void emitModule();
  LLVM::LLVMFuncOp declare(StringRef name, Type result, ArrayRef<Type> inputs);
  LLVM::LLVMFuncOp define(StringRef name, Type result, ArrayRef<Type> inputs);
  Value constantI32(Location loc, int64_t value) {
    return LLVM::ConstantOp::create(builder, loc, i32,
                                    builder.getI32IntegerAttr(value));
  }

  func::FuncOp function;
  GeneratedCode generated;
  /// Of the te_rt_module.
  int32_t flags;
  MLIRContext *context;
  OpBuilder builder;
  Type ptr, i32, i64;
  /// The launches in order; the position of a launch is the slot of its plan.
  SmallVector<LaunchOp> launches;
  std::optional<tert::StreamOrder> order;
  ArrayAttr descriptions;
  llvm::StringMap<LLVM::LLVMFuncOp> declarations;
};

} // namespace

/// Returns the runtime function `name`, which is declared once in a module.
LLVM::LLVMFuncOp ModuleLowering::declare(StringRef name, Type result,
                                         ArrayRef<Type> inputs) {
  LLVM::LLVMFuncOp &declared = declarations[name];
  if (declared)
    return declared;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(function);
  return declared = LLVM::LLVMFuncOp::create(
             builder, function.getLoc(), name,
             LLVM::LLVMFunctionType::get(result, inputs));
}

/// Creates a function and moves the builder to the start of its body.
LLVM::LLVMFuncOp ModuleLowering::define(StringRef name, Type result,
                                        ArrayRef<Type> inputs) {
  builder.setInsertionPoint(function);
  auto defined =
      LLVM::LLVMFuncOp::create(builder, function.getLoc(), name,
                               LLVM::LLVMFunctionType::get(result, inputs));
  builder.setInsertionPointToStart(defined.addEntryBlock(builder));
  return defined;
}

/// Creates function `name` with `emitBody` of all launches. If there are many,
/// it calls functions with parts of them in order and returns the result of the
/// last.
void ModuleLowering::emitFunction(StringRef name, Type result,
                                  ArrayRef<Type> inputs, EmitBody emitBody) {
  LLVM::LLVMFuncOp whole = define(name, result, inputs);
  if (launches.size() <= kLaunchesPerFunction)
    return (this->*emitBody)(whole, 0, launches.size());
  Location loc = function.getLoc();
  LLVM::CallOp last;
  for (size_t begin = 0; begin < launches.size();
       begin += kLaunchesPerFunction) {
    OpBuilder::InsertionGuard guard(builder);
    LLVM::LLVMFuncOp part =
        define((name + "_" + Twine(begin)).str(), result, inputs);
    part.setLinkage(LLVM::Linkage::Internal);
    (this->*emitBody)(part, begin,
                      std::min(begin + kLaunchesPerFunction, launches.size()));
    builder.setInsertionPointToEnd(&whole.getBody().front());
    last = LLVM::CallOp::create(builder, loc, part, whole.getArguments());
  }
  builder.setInsertionPointToEnd(&whole.getBody().front());
  LLVM::ReturnOp::create(builder, loc, last.getResults());
}

void ModuleLowering::emitPlans(LLVM::LLVMFuncOp load, size_t begin,
                               size_t end) {
  Value instance = load.getArgument(0);
  Value status = constantI32(function.getLoc(), TE_RT_OK);
  for (size_t slot = begin; slot < end; ++slot) {
    LaunchOp launch = launches[slot];
    Location loc = launch.getLoc();
    const tert::KernelInfo *kernel = tert::lookupKernel(launch.getKernel());
    SmallVector<Value> operands = {instance, constantI32(loc, slot)};
    for (const tert::KernelParameter &parameter : kernel->parameters) {
      if (!launch.getBody().empty() && parameter.name == "function") {
        Value record = LLVM::AddressOfOp::create(
            builder, loc, ptr, generated.get(launch).getSymName());
        operands.push_back(LLVM::PtrToIntOp::create(builder, loc, i64, record));
        continue;
      }
      auto value = cast<TypedAttr>(launch.getParameters().get(parameter.name));
      operands.push_back(
          LLVM::ConstantOp::create(builder, loc, value.getType(), value));
    }
    LLVM::LLVMFuncOp plan =
        declare(("te_rt_plan_" + kernel->name).str(), i32,
                llvm::to_vector(ValueRange(operands).getTypes()));
    status = LLVM::CallOp::create(builder, loc, plan, operands).getResult();
    const int wait = order->waitOf(slot);
    if (!launch.getSide() && wait < 0)
      continue;
    Value placed[] = {instance, constantI32(loc, slot),
                      constantI32(loc, launch.getSide()),
                      constantI32(loc, wait)};
    status = LLVM::CallOp::create(
                 builder, loc,
                 declare("te_rt_order", i32,
                         llvm::to_vector(ValueRange(placed).getTypes())),
                 placed)
                 .getResult();
  }
  LLVM::ReturnOp::create(builder, function.getLoc(), status);
}

void ModuleLowering::emitLaunches(LLVM::LLVMFuncOp step, size_t begin,
                                  size_t end) {
  Location loc = function.getLoc();
  LLVM::LLVMFuncOp launchFunction =
      declare("te_rt_launch", i32, {ptr, i32, ptr});
  Value instance = step.getArgument(0), arena = step.getArgument(1),
        arguments = step.getArgument(2);

  size_t mostBuffers = 1;
  for (LaunchOp launch : ArrayRef(launches).slice(begin, end - begin))
    mostBuffers = std::max<size_t>(mostBuffers, launch.getBuffers().size());
  Value array = LLVM::AllocaOp::create(builder, loc, ptr, ptr,
                                       constantI32(loc, mostBuffers));
  Value null = LLVM::ZeroOp::create(builder, loc, ptr);

  DenseMap<Value, Value> pointers;
  auto pointerOf = [&](Value buffer) -> Value {
    Value &pointer = pointers[buffer];
    if (pointer)
      return pointer;
    assert(!buffer.getDefiningOp<tert::SliceOp>() && "a part has no address");
    if (auto alloc = buffer.getDefiningOp<tert::AllocOp>()) {
      Value offset = LLVM::ConstantOp::create(builder, alloc.getLoc(), i64,
                                              alloc.getOffsetAttr());
      pointer =
          LLVM::GEPOp::create(builder, alloc.getLoc(), ptr, builder.getI8Type(),
                              arena, ArrayRef<LLVM::GEPArg>{offset});
    } else if (auto argument = dyn_cast<BlockArgument>(buffer)) {
      Value address = LLVM::GEPOp::create(
          builder, argument.getLoc(), ptr, ptr, arguments,
          ArrayRef<LLVM::GEPArg>{int32_t(argument.getArgNumber())});
      pointer = LLVM::LoadOp::create(builder, argument.getLoc(), ptr, address);
    } else {
      pointer = null;
    }
    return pointer;
  };

  // The address of a slice is an offset in its buffer.
  auto placeOf = [&](Value buffer) -> Value {
    auto slice = buffer.getDefiningOp<tert::SliceOp>();
    Value pointer = pointerOf(tert::lookThroughSlice(buffer));
    if (!slice || slice.getOffset() == 0)
      return pointer;
    Value offset = LLVM::ConstantOp::create(builder, slice.getLoc(), i64,
                                            slice.getOffsetAttr());
    return LLVM::GEPOp::create(builder, slice.getLoc(), ptr,
                               builder.getI8Type(), pointer,
                               ArrayRef<LLVM::GEPArg>{offset});
  };

  for (size_t slot = begin; slot < end; ++slot) {
    LaunchOp launch = launches[slot];
    Location loc = launch.getLoc();
    for (auto [index, buffer] : llvm::enumerate(launch.getBuffers())) {
      Value pointer = placeOf(buffer);
      Value element =
          LLVM::GEPOp::create(builder, loc, ptr, ptr, array,
                              ArrayRef<LLVM::GEPArg>{int32_t(index)});
      LLVM::StoreOp::create(builder, loc, pointer, element);
    }
    LLVM::CallOp::create(builder, loc, launchFunction,
                         ValueRange{instance, constantI32(loc, slot), array});
  }
  LLVM::ReturnOp::create(builder, loc, ValueRange());
}

/// Emits the texts of te_rt_module's `origins` and returns their address.
Value ModuleLowering::emitOrigins() {
  Location loc = function.getLoc();
  if (descriptions.empty())
    return LLVM::ZeroOp::create(builder, loc, ptr);
  std::string texts;
  for (auto row : descriptions.getAsRange<DictionaryAttr>()) {
    StringRef name = row.getAs<StringAttr>("name"),
              place = row.getAs<StringAttr>("location");
    if (!name.empty())
      texts += ("'" + name + "'").str();
    if (!place.empty())
      texts += ((name.empty() ? "at " : " at ") + place).str();
    texts += '\0';
  }
  LLVM::GlobalOp global;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    global = LLVM::GlobalOp::create(
        builder, loc,
        LLVM::LLVMArrayType::get(builder.getI8Type(), texts.size()),
        /*isConstant=*/true, LLVM::Linkage::Private, "te_module_origins",
        builder.getStringAttr(texts));
  }
  return LLVM::AddressOfOp::create(builder, loc, global);
}

/// Emits the table of te_rt_module's `kernels` and returns its address and
/// length.
std::pair<Value, int32_t> ModuleLowering::emitKernels() {
  Location loc = function.getLoc();
  SmallVector<const tert::KernelInfo *> kernels;
  for (LaunchOp launch : launches)
    kernels.push_back(tert::lookupKernel(launch.getKernel()));
  llvm::sort(kernels); // In the order of the kernel list.
  kernels.erase(llvm::unique(kernels), kernels.end());
  if (kernels.empty())
    return {LLVM::ZeroOp::create(builder, loc, ptr), 0};
  LLVM::GlobalOp table;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    SmallVector<LLVM::GlobalOp> names;
    for (const tert::KernelInfo *kernel : kernels) {
      const std::string text = kernel->name.str() + '\0';
      names.push_back(LLVM::GlobalOp::create(
          builder, loc,
          LLVM::LLVMArrayType::get(builder.getI8Type(), text.size()),
          /*isConstant=*/true, LLVM::Linkage::Private,
          ("te_kernel_" + kernel->name).str(), builder.getStringAttr(text)));
    }
    // The fields of te_rt_kernel_use, in order.
    auto row = LLVM::LLVMStructType::getLiteral(context, {ptr, i64});
    auto rows = LLVM::LLVMArrayType::get(row, kernels.size());
    table = LLVM::GlobalOp::create(builder, loc, rows, /*isConstant=*/true,
                                   LLVM::Linkage::Private, "te_module_kernels",
                                   /*value=*/Attribute());
    builder.createBlock(&table.getInitializerRegion());
    Value value = LLVM::PoisonOp::create(builder, loc, rows);
    for (int64_t i = 0; i < int64_t(kernels.size()); ++i) {
      Value name = LLVM::AddressOfOp::create(builder, loc, names[i]);
      Value hash = LLVM::ConstantOp::create(
          builder, loc, i64,
          builder.getI64IntegerAttr(int64_t(kernels[i]->row->hash)));
      value = LLVM::InsertValueOp::create(builder, loc, value, name,
                                          ArrayRef<int64_t>{i, 0});
      value = LLVM::InsertValueOp::create(builder, loc, value, hash,
                                          ArrayRef<int64_t>{i, 1});
    }
    LLVM::ReturnOp::create(builder, loc, value);
  }
  return {LLVM::AddressOfOp::create(builder, loc, table),
          int32_t(kernels.size())};
}

void ModuleLowering::emitModule() {
  Location loc = function.getLoc();
  // The fields of te_rt_module, in order.
  auto type = LLVM::LLVMStructType::getLiteral(
      context, {i32, i32, i64, i32, i32, ptr, ptr, ptr, ptr, i32, i32});
  builder.setInsertionPoint(function);
  auto global = LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                                       LLVM::Linkage::External, "te_module",
                                       /*value=*/Attribute());
  builder.createBlock(&global.getInitializerRegion());
  auto constant = [&](IntegerAttr value) -> Value {
    return LLVM::ConstantOp::create(builder, loc, value.getType(), value);
  };
  auto address = [&](StringRef name) -> Value {
    return LLVM::AddressOfOp::create(builder, loc, ptr, name);
  };
  auto [kernels, numKernels] = emitKernels();
  Value fields[] = {
      constant(builder.getI32IntegerAttr(TE_RT_MODULE_MAGIC)),
      constant(builder.getI32IntegerAttr(TE_RT_VERSION)),
      constant(function->getAttrOfType<IntegerAttr>(tert::kArenaBytesAttr)),
      constant(builder.getI32IntegerAttr(launches.size())),
      constant(builder.getI32IntegerAttr(function.getNumArguments())),
      address("te_module_load"),
      address("te_module_step"),
      emitOrigins(),
      kernels,
      constant(builder.getI32IntegerAttr(numKernels)),
      constant(builder.getI32IntegerAttr(flags))};
  Value value = LLVM::PoisonOp::create(builder, loc, type);
  for (auto [index, field] : llvm::enumerate(fields))
    value = LLVM::InsertValueOp::create(builder, loc, value, field, index);
  LLVM::ReturnOp::create(builder, loc, value);
}

/// The name of a buffer in reports, from the argument or the temporary.
static std::string nameOf(Value buffer, ArrayAttr signature) {
  buffer = tert::lookThroughSlice(buffer);
  if (auto alloc = buffer.getDefiningOp<tert::AllocOp>())
    return alloc.getName().str();
  auto argument = dyn_cast<BlockArgument>(buffer);
  if (!argument || argument.getArgNumber() >= signature.size())
    return "";
  auto entry = cast<DictionaryAttr>(signature[argument.getArgNumber()]);
  auto name = entry.getAs<StringAttr>("name"),
       part = entry.getAs<StringAttr>("part");
  if (!name || !part)
    return "";
  return part == "value" ? name.str()
                         : (name.getValue() + "." + part.getValue()).str();
}

ArrayAttr ModuleLowering::describeLaunches() {
  auto signature = function->getAttrOfType<ArrayAttr>(tert::kSignatureAttr);
  SmallVector<Attribute> rows;
  for (LaunchOp launch : launches) {
    std::string name;
    if (auto origin = GemmOrigin::find(launch.getLoc()))
      name = origin->layer + " " + origin->gemm;
    const tert::KernelInfo *kernel = tert::lookupKernel(launch.getKernel());
    for (auto [row, buffer] :
         llvm::zip_equal(kernel->buffers, launch.getBuffers()))
      if (row.isOutput && name.empty())
        name = nameOf(buffer, signature);
    SmallVector<NamedAttribute> row = {
        builder.getNamedAttr("kernel", launch.getKernelAttr()),
        builder.getNamedAttr("name", builder.getStringAttr(name)),
        builder.getNamedAttr("parameters", launch.getParametersAttr()),
        builder.getNamedAttr(
            "location", builder.getStringAttr(describePlace(launch.getLoc()))),
    };
    if (launch.getSide())
      row.push_back(builder.getNamedAttr("side", builder.getUnitAttr()));
    rows.push_back(builder.getDictionaryAttr(row));
  }
  return builder.getArrayAttr(rows);
}

ArrayAttr ModuleLowering::describeUses() {
  SmallVector<std::array<int32_t, 2>> uses(function.getNumArguments(),
                                           {-1, -1});
  // The argument that a buffer is, or whose memory it is; -1 for none.
  auto argumentOf = [](Value buffer) -> int64_t {
    if (auto argument = dyn_cast<BlockArgument>(buffer))
      return argument.getArgNumber();
    auto alloc = buffer.getDefiningOp<tert::AllocOp>();
    return alloc ? int64_t(alloc.getOfResult().value_or(-1)) : -1;
  };
  for (auto [slot, launch] : llvm::enumerate(launches))
    for (Value buffer : launch.getBuffers())
      if (int64_t argument = argumentOf(tert::lookThroughSlice(buffer));
          argument >= 0) {
        std::array<int32_t, 2> &use = uses[argument];
        use = {use[0] < 0 ? int32_t(slot) : use[0], int32_t(slot)};
      }
  return builder.getArrayAttr(llvm::map_to_vector(
      uses, [&](const std::array<int32_t, 2> &use) -> Attribute {
        return builder.getDenseI32ArrayAttr(use);
      }));
}

void ModuleLowering::run() {
  order.emplace(function.getBody().front());
  launches = llvm::to_vector(order->getLaunches());
  descriptions = describeLaunches();
  emitFunction("te_module_load", i32, {ptr}, &ModuleLowering::emitPlans);
  emitFunction("te_module_step", LLVM::LLVMVoidType::get(context),
               {ptr, ptr, ptr}, &ModuleLowering::emitLaunches);
  emitModule();
}

namespace {

class ConvertTERTToLLVM final
    : public te::impl::ConvertTERTToLLVMPassBase<ConvertTERTToLLVM> {
public:
  using Base::Base;

  void runOnOperation() override {
    FailureOr<func::FuncOp> step = findStep();
    if (failed(step))
      return signalPassFailure();
    const bool forDevice = target != "reference";
    ModuleLowering lowering(*step, forDevice,
                            deterministic ? TE_RT_IS_DETERMINISTIC : 0);
    lowering.run();
    numLaunches += lowering.numLaunches();
    numGenerated += lowering.numGenerated();
    if (forDevice && lowering.numGenerated() != 0)
      getOperation()->setAttr(tert::kTargetAttr,
                              StringAttr::get(&getContext(), target));
    if (!codeCache)
      getOperation()->setAttr(tert::kNoCodeCacheAttr,
                              UnitAttr::get(&getContext()));
    getOperation()->setAttr(tert::kSignatureAttr,
                            (*step)->getAttr(tert::kSignatureAttr));
    getOperation()->setAttr(tert::kLaunchesAttr, lowering.getDescriptions());
    getOperation()->setAttr(tert::kUsesAttr, lowering.describeUses());
    if (Attribute planned = (*step)->getAttr(tert::kWorkspaceBytesAttr))
      getOperation()->setAttr(tert::kWorkspaceBytesAttr, planned);
    step->erase();
  }

private:
  /// Finds the only function of the module, whose memory must be planned.
  FailureOr<func::FuncOp> findStep() {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    if (functions.size() != 1) {
      emitError(getModuleLoc(module))
          << "expected a module to have one function to compile, but it has "
          << functions.size();
      return failure();
    }
    func::FuncOp step = functions.front();
    if (!step->hasAttr(tert::kArenaBytesAttr) ||
        !step->hasAttr(tert::kSignatureAttr)) {
      step.emitError() << "expected the memory of '" << step.getName()
                       << "' to be planned; run te-convert-to-tert and "
                          "te-plan-memory before";
      return failure();
    }
    if (failed(tert::verifyStreams(step.getBody().front())))
      return failure();
    return step;
  }
};

} // namespace
