//===- CompiledStep.cpp - compile a lowered step in this process ----------===//
//
// LLVM dialect to LLVM IR to LLJIT. The functions of the runtime are bound by
// address, from the same list the lowering read, so the process need not export
// any symbol.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/JIT/JIT.h"

#include "GeneratedCode.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"
#include "TEDialect/TERT/Groups.h"
#include "TEDialect/TERT/RuntimeTypes.h"
#include "TEDialect/TERT/Workspaces.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace mlir::te;

CompiledStep::CompiledStep() = default;
CompiledStep::~CompiledStep() = default;

std::string ArgumentInfo::qualifiedName() const {
  switch (part) {
  case Part::Value:
    return name;
  case Part::Data:
    return name + ".data";
  case Part::Scale:
    return name + ".scale";
  case Part::Amax:
    return name + ".amax";
  }
  llvm_unreachable("every part is handled above");
}

template <typename T> static std::string print(T printable) {
  std::string text;
  llvm::raw_string_ostream(text) << printable;
  return text;
}

// They are what `tert.signature` says.
FailureOr<std::vector<ArgumentInfo>> te::readArguments(ModuleOp module) {
  auto signature = module->getAttrOfType<ArrayAttr>(tert::kSignatureAttr);
  if (!signature)
    return module.emitError()
           << "expected a module with '" << tert::kSignatureAttr
           << "'; run te-convert-tert-to-llvm before";
  std::vector<ArgumentInfo> info;
  auto uses = module->getAttrOfType<ArrayAttr>(tert::kUsesAttr);
  for (auto entry : signature.getAsRange<DictionaryAttr>()) {
    auto name = entry.getAs<StringAttr>("name");
    auto type = entry.getAs<TypeAttr>("type");
    auto role = entry.getAs<StringAttr>("role");
    auto part = entry.getAs<StringAttr>("part");
    auto carried = entry.getAs<IntegerAttr>("carried");
    if (!name || !type || !role || !part || !carried)
      return module.emitError()
             << "expected an entry of '" << tert::kSignatureAttr
             << "' to have 'name', 'type', 'role', 'part' and 'carried', but "
                "got "
             << entry;
    auto layouts = tert::getBufferLayouts(type.getValue());
    auto layout = llvm::find_if(layouts, [&](const tert::BufferLayout &layout) {
      return layout.part == part.getValue();
    });
    if (layout == layouts.end())
      return module.emitError() << "a value of type " << type.getValue()
                                << " has no part '" << part.getValue() << "'";
    ArgumentInfo argument;
    argument.name = name.str();
    argument.role = role.getValue() == "result" ? ArgumentInfo::Role::Result
                                                : ArgumentInfo::Role::Argument;
    argument.part = layout->part == "data"    ? ArgumentInfo::Part::Data
                    : layout->part == "scale" ? ArgumentInfo::Part::Scale
                    : layout->part == "amax"  ? ArgumentInfo::Part::Amax
                                              : ArgumentInfo::Part::Value;
    argument.shape.assign(layout->shape.begin(), layout->shape.end());
    // Layouts hold only types the runtime has.
    argument.type =
        static_cast<te_rt_dtype>(*tert::getRuntimeType(layout->elementType));
    argument.typeName = print(layout->elementType);
    argument.valueType = print(type.getValue());
    argument.bytes = layout->bytes;
    argument.carriedInput = carried.getInt();
    auto offset = entry.getAs<IntegerAttr>(tert::kOffsetEntry);
    argument.arenaOffset = offset ? offset.getInt() : -1;
    argument.isWeight = entry.contains("weight");
    argument.isRecipeState = entry.contains("recipe_state");
    if (auto init = entry.getAs<FloatAttr>("init"))
      argument.init = init.getValue().convertToFloat();
    if (auto rows = entry.getAs<IntegerAttr>("rows"),
        alignment = entry.getAs<IntegerAttr>("alignment");
        rows && alignment)
      argument.groups = {rows.getInt(), alignment.getInt()};
    argument.probe = entry.getAs<ArrayAttr>("probe");
    if (uses && info.size() < uses.size())
      if (auto use = dyn_cast<DenseI32ArrayAttr>(uses[info.size()]);
          use && use.size() == 2) {
        argument.firstLaunch = use[0];
        argument.lastLaunch = use[1];
      }
    info.push_back(std::move(argument));
  }
  return info;
}

// They are what `tert.launches` says; absent from modules that were lowered by
// hand.
std::vector<LaunchInfo> te::readLaunches(ModuleOp module) {
  std::vector<LaunchInfo> launches;
  auto rows = module->getAttrOfType<ArrayAttr>(tert::kLaunchesAttr);
  const bool isPlanned = module->hasAttr(tert::kWorkspaceBytesAttr);
  for (Attribute row : rows ? rows.getValue() : ArrayRef<Attribute>()) {
    auto entry = dyn_cast<DictionaryAttr>(row);
    auto text = [&](StringRef name) {
      auto value = entry ? entry.getAs<StringAttr>(name) : StringAttr();
      return value ? value.str() : std::string();
    };
    auto parameters =
        entry ? entry.getAs<DictionaryAttr>("parameters") : DictionaryAttr();
    launches.push_back({text("kernel"), text("name"), text("location"),
                        parameters,
                        isPlanned && parameters
                            ? tert::workspaceBytes(text("kernel"), parameters)
                            : 0,
                        entry && entry.contains("side")});
  }
  return launches;
}

std::vector<GroupInfo> te::readGroups(ModuleOp module) {
  std::vector<GroupInfo> groups;
  auto entries = module->getAttrOfType<ArrayAttr>(tert::kGroupsAttr);
  for (Attribute entry : entries ? entries.getValue() : ArrayRef<Attribute>())
    if (auto group = dyn_cast<DictionaryAttr>(entry)) {
      auto id = group.getAs<IntegerAttr>("id"),
           size = group.getAs<IntegerAttr>("size");
      auto name = group.getAs<StringAttr>("name"),
           axis = group.getAs<StringAttr>("axis");
      if (id && size && name && axis)
        groups.push_back({static_cast<int32_t>(id.getInt()), name.str(),
                          axis.str(), size.getInt()});
    }
  return groups;
}

/// The address of everything compiled code may call.
static llvm::orc::SymbolMap runtimeSymbols(llvm::orc::LLJIT &jit) {
  llvm::orc::SymbolMap symbols;
  auto bind = [&](llvm::StringRef name, auto *function) {
    symbols[jit.mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(function),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  bind("te_rt_launch", &te_rt_launch);
  bind("te_rt_order", &te_rt_order);
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  bind("te_rt_plan_" #name, &te_rt_plan_##name);
#include "TEDialect/Runtime/te_runtime_kernels.inc"
  return symbols;
}

FailureOr<std::unique_ptr<CompiledStep>>
CompiledStep::compile(ModuleOp lowered) {
  FailureOr<std::vector<ArgumentInfo>> info = readArguments(lowered);
  if (failed(info))
    return failure();
  auto fail = [&](llvm::Error error) {
    return lowered.emitError()
           << "cannot compile the step: " << llvm::toString(std::move(error));
  };

  if (failed(compileDeviceCode(lowered)))
    return failure();
  registerBuiltinDialectTranslation(*lowered.getContext());
  registerLLVMDialectTranslation(*lowered.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(lowered, context, "te_step");
  if (!module)
    return lowered.emitError() << "expected a module of the llvm dialect only";

  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Expected<llvm::orc::JITTargetMachineBuilder> machine =
      llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!machine)
    return fail(machine.takeError());
  // One block of calls and stores, of any length: there is nothing to optimise,
  // and only this level takes time in proportion to it.
  machine->setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> target =
      machine->createTargetMachine();
  if (!target)
    return fail(target.takeError());
  llvm::Expected<std::string> code = compileHostCode(
      lowered, *module, **target, llvm::CodeGenFileType::ObjectFile);
  if (!code)
    return fail(code.takeError());
  llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> jit =
      llvm::orc::LLJITBuilder()
          .setJITTargetMachineBuilder(std::move(*machine))
          .create();
  if (!jit)
    return fail(jit.takeError());
  std::unique_ptr<CompiledStep> step(new CompiledStep());
  step->info = std::move(*info);
  step->slots = readLaunches(lowered);
  step->declaredGroups = readGroups(lowered);
  step->jit = std::move(*jit);
  if (llvm::Error error = step->jit->getMainJITDylib().define(
          llvm::orc::absoluteSymbols(runtimeSymbols(*step->jit))))
    return fail(std::move(error));
  if (llvm::Error error = step->jit->addObjectFile(
          llvm::MemoryBuffer::getMemBufferCopy(*code, "te_step")))
    return fail(std::move(error));
  llvm::Expected<llvm::orc::ExecutorAddr> entry =
      step->jit->lookup("te_module");
  if (!entry)
    return fail(entry.takeError());
  step->entry = entry->toPtr<const te_rt_module *>();
  return step;
}
