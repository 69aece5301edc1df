//===- GeneratedCode.cpp - compile the code of fused regions --------------===//

#include "GeneratedCode.h"

#include "CodeCache.h"
#include "ScalarLibrary.h"
#include "Support/Sha256.h"

#include "TEDialect/TERT/TERT.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"

// Declared here because llvm/Support/TargetSelect.h declares the functions of
// every target that LLVM was built with.
extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace mlir;
using namespace mlir::te;

static bool isGenerated(const llvm::Function &function) {
  return function.getName().starts_with("te_generated_");
}

/// Calls `run` with a pass builder and registered analysis managers.
template <typename Run>
static void withPasses(llvm::TargetMachine *machine, Run run) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  run(builder, functions, modules);
}

/// Replaces the intrinsics that LLVM lowers to calls of libm on processors
/// without the instruction.
static void makePortable(llvm::Module &module) {
  for (auto [intrinsic, name] :
       {std::pair(llvm::Intrinsic::fma, "te_scalar_fma"),
        std::pair(llvm::Intrinsic::rint, "te_scalar_rint")}) {
    llvm::Function *found = llvm::Intrinsic::getDeclarationIfExists(
        &module, intrinsic, {llvm::Type::getFloatTy(module.getContext())});
    if (!found)
      continue;
    llvm::FunctionCallee own =
        module.getOrInsertFunction(name, found->getFunctionType());
    found->replaceAllUsesWith(own.getCallee());
  }
}

llvm::Error mlir::te::linkGeneratedCode(llvm::Module &module, bool optimise) {
  if (llvm::none_of(module, isGenerated))
    return llvm::Error::success();
  if (llvm::Error error = linkScalarMath(module))
    return error;
  defineReciprocal(module, /*isGpu=*/false);
  makePortable(module);
  if (llvm::Error error = linkScalarMath(module))
    return error;
  if (!optimise)
    return llvm::Error::success();
  withPasses(nullptr, [&](llvm::PassBuilder &builder,
                          llvm::FunctionAnalysisManager &functions,
                          llvm::ModuleAnalysisManager &modules) {
    llvm::ModulePassManager inliner;
    inliner.addPass(llvm::AlwaysInlinerPass());
    inliner.run(module, modules);
    llvm::FunctionPassManager passes =
        builder.buildFunctionSimplificationPipeline(
            llvm::OptimizationLevel::O2, llvm::ThinOrFullLTOPhase::None);
    for (llvm::Function &function : module)
      if (isGenerated(function)) {
        // A step is linked with no library that has memset.
        function.addFnAttr("no-builtin-memset");
        passes.run(function, functions);
      }
  });
  return llvm::Error::success();
}

/// Moves `kernel` to a module of its own, with the symbols that it uses and
/// under a name that does not depend on the step.
static OwningOpRef<ModuleOp> takeKernel(LLVM::LLVMFuncOp kernel,
                                        SymbolTable &symbols) {
  OwningOpRef<ModuleOp> module(ModuleOp::create(kernel.getLoc()));
  llvm::SetVector<StringAttr> used;
  std::optional<SymbolTable::UseRange> uses =
      SymbolTable::getSymbolUses(kernel);
  for (SymbolTable::SymbolUse use : *uses)
    used.insert(use.getSymbolRef().getRootReference());
  for (StringAttr name : used) {
    Operation *copy = symbols.lookup(name)->clone();
    copy->removeAttr(tert::kDeviceAttr);
    module->push_back(copy);
  }
  symbols.remove(kernel);
  kernel->remove();
  kernel->removeAttr(tert::kDeviceAttr);
  kernel.setName("te_generated");
  module->push_back(kernel);
  return module;
}

/// Equal calls are merged before they are inlined.
static constexpr llvm::StringLiteral kMergeCalls =
    "function(instcombine<no-verify-fixpoint>,early-cse)";
/// The code is straight lines that the emitter has unrolled, for which O3 takes
/// up to twice the time. Loops of one iteration are gone before licm, which
/// would move their stores behind all computation.
static constexpr llvm::StringLiteral kOptimize =
    "always-inline,globaldce,function(sroa,early-cse<memssa>,"
    "instcombine<no-verify-fixpoint>,simplifycfg,loop(loop-rotate,indvars),"
    "simplifycfg,loop-mssa(licm),instcombine<no-verify-fixpoint>,simplifycfg)";

/// Compiles `module`, in which the only defined function is a kernel, to PTX.
static llvm::Expected<std::string> emitPtx(llvm::Module &module,
                                           llvm::StringRef gpu) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  const llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  // No fused multiply-add is formed, so that results have the bits of the CPU.
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, gpu, /*Features=*/gpu == "sm_100" ? "+ptx86" : "+ptx80", options,
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      function.setCallingConv(llvm::CallingConv::PTX_Kernel);
  if (llvm::Error failure = linkScalarMath(module))
    return failure;
  defineReciprocal(module, /*isGpu=*/true);
  withPasses(machine.get(),
             [&](llvm::PassBuilder &builder, llvm::FunctionAnalysisManager &,
                 llvm::ModuleAnalysisManager &modules) {
               llvm::ModulePassManager passes;
               llvm::cantFail(builder.parsePassPipeline(passes, kMergeCalls));
               llvm::cantFail(builder.parsePassPipeline(passes, kOptimize));
               passes.run(module, modules);
             });
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("'" + gpu + "' has no writer of PTX");
  passes.run(module);
  return text.str().str();
}

bool mlir::te::hasDeviceCode(ModuleOp lowered) {
  return lowered->hasAttr(tert::kTargetAttr);
}

/// The PTX of `kernel`, which is removed from its module, and the name that the
/// kernel has in it.
static llvm::Expected<std::pair<std::string, std::string>>
compileKernel(LLVM::LLVMFuncOp kernel, SymbolTable &symbols, StringRef gpu,
              bool usesCache) {
  OwningOpRef<ModuleOp> taken = takeKernel(kernel, symbols);
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(*taken, context, "te_device");
  if (!module)
    return llvm::createStringError("expected code of the llvm dialect");
  const llvm::SmallString<0> bitcode = bitcodeOf(*module);
  // For profilers: a kernel has one name in all steps, and others have others.
  const std::string name =
      "te_generated_" +
      ::te::support::hexOf(
          ::te::support::sha256(bitcode.data(), bitcode.size()))
          .substr(0, 12);
  module->getFunction("te_generated")->setName(name);
  llvm::Expected<std::string> ptx = findOrMake(
      usesCache, {"ptx", gpu, bitcode}, [&] { return emitPtx(*module, gpu); });
  if (!ptx)
    return ptx.takeError();
  return std::pair(std::move(*ptx), name);
}

LogicalResult mlir::te::compileDeviceCode(ModuleOp lowered) {
  auto gpu = lowered->getAttrOfType<StringAttr>(tert::kTargetAttr);
  if (!gpu)
    return success();
  registerBuiltinDialectTranslation(*lowered.getContext());
  registerLLVMDialectTranslation(*lowered.getContext());
  SymbolTable symbols(lowered);
  Builder b(lowered.getContext());
  auto setText = [&](const Twine &name, std::string text) {
    auto constant = symbols.lookup<LLVM::GlobalOp>(name.str());
    text.push_back('\0');
    constant.setGlobalType(
        LLVM::LLVMArrayType::get(b.getI8Type(), text.size()));
    constant.setValueAttr(b.getStringAttr(text));
  };
  // There are none if an earlier call has compiled them.
  for (auto kernel :
       llvm::make_early_inc_range(lowered.getOps<LLVM::LLVMFuncOp>())) {
    if (!kernel->hasAttr(tert::kDeviceAttr))
      continue;
    const std::string symbol = kernel.getName().str();
    auto code =
        compileKernel(kernel, symbols, gpu.getValue(), usesCodeCache(lowered));
    if (!code)
      return lowered.emitError()
             << "cannot compile generated code for '" << gpu.getValue()
             << "': " << llvm::toString(code.takeError());
    setText(symbol + tert::kCodeSuffix, std::move(code->first));
    setText(symbol + tert::kNameSuffix, std::move(code->second));
  }
  // Each kernel has its own of what several use.
  for (auto shared :
       llvm::make_early_inc_range(lowered.getOps<LLVM::GlobalOp>()))
    if (shared->hasAttr(tert::kDeviceAttr))
      symbols.erase(shared);
  return success();
}

bool mlir::te::usesCodeCache(ModuleOp lowered) {
  return !lowered->hasAttr(tert::kNoCodeCacheAttr);
}

/// Links the generated code of a module with the host functions of `lowered`
/// and writes it as `kind`.
static llvm::Expected<std::string> emitHostCode(ModuleOp lowered,
                                                llvm::Module &module,
                                                llvm::TargetMachine &machine,
                                                llvm::CodeGenFileType kind) {
  if (llvm::Error error = linkGeneratedCode(module, !hasDeviceCode(lowered)))
    return error;
  llvm::SmallString<0> code;
  llvm::raw_svector_ostream os(code);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr, kind))
    return llvm::createStringError("'" + machine.getTargetTriple().str() +
                                   "' has no writer of this kind of file");
  passes.run(module);
  return code.str().str();
}

llvm::Expected<std::string>
mlir::te::compileHostCode(ModuleOp lowered, llvm::Module &module,
                          llvm::TargetMachine &machine,
                          llvm::CodeGenFileType kind) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  auto make = [&] { return emitHostCode(lowered, module, machine, kind); };
  const std::string options = llvm::formatv(
      "host {0} {1} {2} {3} {4}", static_cast<int>(kind),
      static_cast<int>(machine.getOptLevel()),
      static_cast<int>(machine.getRelocationModel()),
      static_cast<int>(machine.getCodeModel()), hasDeviceCode(lowered));
  return findOrMake(usesCodeCache(lowered),
                    {options, machine.getTargetTriple().str(),
                     machine.getTargetCPU(), machine.getTargetFeatureString(),
                     bitcodeOf(module)},
                    make);
}
