//===- Artefact.cpp - a lowered step as machine code ----------------------===//
//
// The lowering calls its symbols te_module, te_module_load and te_module_step.
// Here the first takes the name the user gave, the others become the file's
// own, so that several steps can be linked into one program; the signature is
// added as constants of LLVM IR, next to the code it describes.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/JIT/Artefact.h"

#include "GeneratedCode.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// Adds a te_rt_signature to a module.
class SignatureWriter {
public:
  explicit SignatureWriter(llvm::Module &module)
      : module(module), context(module.getContext()),
        ptr(llvm::PointerType::getUnqual(context)),
        i32(llvm::Type::getInt32Ty(context)),
        i64(llvm::Type::getInt64Ty(context)) {}

  void write(ArrayRef<ArgumentInfo> arguments, const ArtefactInfo &info);

private:
  llvm::GlobalVariable *add(llvm::Constant *value, const llvm::Twine &name,
                            llvm::GlobalValue::LinkageTypes linkage) {
    return new llvm::GlobalVariable(module, value->getType(),
                                    /*isConstant=*/true, linkage, value, name);
  }
  llvm::Constant *number(int32_t value) {
    return llvm::ConstantInt::getSigned(i32, value);
  }
  llvm::Constant *text(StringRef value) {
    llvm::Constant *&known = texts[value];
    if (!known) {
      auto *global = add(llvm::ConstantDataArray::getString(context, value),
                         "text", llvm::GlobalValue::PrivateLinkage);
      global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
      known = global;
    }
    return known;
  }
  llvm::Constant *describe(const ArgumentInfo &argument);

  llvm::Module &module;
  llvm::LLVMContext &context;
  llvm::Type *ptr, *i32, *i64;
  llvm::StringMap<llvm::Constant *> texts;
};

} // namespace

/// The fields of te_rt_argument_info, in order.
llvm::Constant *SignatureWriter::describe(const ArgumentInfo &argument) {
  auto *shape = add(llvm::ConstantDataArray::get(
                        context, ArrayRef(reinterpret_cast<const uint64_t *>(
                                              argument.shape.data()),
                                          argument.shape.size())),
                    "shape", llvm::GlobalValue::PrivateLinkage);
  const int32_t flags = (argument.isWeight ? TE_RT_IS_WEIGHT : 0) |
                        (argument.init ? TE_RT_HAS_INIT : 0) |
                        (argument.isRecipeState ? TE_RT_IS_RECIPE_STATE : 0);
  return llvm::ConstantStruct::getAnon(
      {text(argument.qualifiedName()), text(argument.valueType), shape,
       llvm::ConstantInt::getSigned(i64, argument.bytes),
       number(argument.shape.size()), number(argument.type),
       number(static_cast<te_rt_role>(argument.role)),
       number(static_cast<te_rt_part>(argument.part)),
       number(argument.carriedInput), number(flags),
       llvm::ConstantFP::get(llvm::Type::getFloatTy(context),
                             llvm::APFloat(argument.init.value_or(0.0f))),
       number(0), llvm::ConstantInt::getSigned(i64, argument.arenaOffset)});
}

void SignatureWriter::write(ArrayRef<ArgumentInfo> arguments,
                            const ArtefactInfo &info) {
  SmallVector<llvm::Constant *> rows;
  for (const ArgumentInfo &argument : arguments)
    rows.push_back(describe(argument));
  llvm::Constant *table =
      llvm::ConstantPointerNull::get(llvm::PointerType::getUnqual(context));
  if (!rows.empty())
    table = add(
        llvm::ConstantArray::get(
            llvm::ArrayType::get(rows.front()->getType(), rows.size()), rows),
        "arguments", llvm::GlobalValue::PrivateLinkage);
  // The fields of te_rt_signature, in order.
  add(llvm::ConstantStruct::getAnon(
          {number(TE_RT_SIGNATURE_MAGIC), number(TE_RT_VERSION),
           text(info.entry), text(info.recipe), text(info.pipeline),
           number(rows.size()), number(sizeof(te_rt_argument_info)), table}),
      info.symbol + "_signature", llvm::GlobalValue::ExternalLinkage);
}

/// Machine code of `module`, for this architecture and any of its processors.
static LogicalResult emitCode(ModuleOp lowered, llvm::Module &module,
                              ArtefactKind kind, llvm::raw_pwrite_stream &os) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  const llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return lowered.emitError() << "cannot compile the step: " << error;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, /*CPU=*/"", /*Features=*/"", llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt,
      hasDeviceCode(lowered) ? llvm::CodeGenOptLevel::None
                             : llvm::CodeGenOptLevel::Default));
  module.setPICLevel(llvm::PICLevel::BigPIC);
  if (kind == ArtefactKind::LLVMIR) {
    module.setTargetTriple(triple);
    module.setDataLayout(machine->createDataLayout());
    if (llvm::Error failure =
            linkGeneratedCode(module, !hasDeviceCode(lowered)))
      return lowered.emitError() << llvm::toString(std::move(failure));
    module.print(os, nullptr);
    return success();
  }
  llvm::Expected<std::string> code = compileHostCode(
      lowered, module, *machine,
      kind == ArtefactKind::Object ? llvm::CodeGenFileType::ObjectFile
                                   : llvm::CodeGenFileType::AssemblyFile);
  if (!code)
    return lowered.emitError()
           << "cannot compile the step: " << llvm::toString(code.takeError());
  os << *code;
  return success();
}

LogicalResult mlir::te::writeArtefact(ModuleOp lowered,
                                      const ArtefactInfo &info,
                                      ArtefactKind kind,
                                      llvm::raw_pwrite_stream &os) {
  FailureOr<std::vector<ArgumentInfo>> arguments = readArguments(lowered);
  if (failed(arguments))
    return failure();
  if (failed(compileDeviceCode(lowered)))
    return failure();
  registerBuiltinDialectTranslation(*lowered.getContext());
  registerLLVMDialectTranslation(*lowered.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(lowered, context, info.symbol);
  if (!module)
    return lowered.emitError() << "expected a module of the llvm dialect only";
  for (llvm::Function &function : *module)
    if (!function.isDeclaration())
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
    else if (function.getName().starts_with("te_rt_plan_"))
      // A runtime without the kernel refuses the module by name: the file has
      // to be loaded for that.
      function.setLinkage(llvm::GlobalValue::ExternalWeakLinkage);
  module->getNamedGlobal("te_module")->setName(info.symbol);
  SignatureWriter(*module).write(*arguments, info);
  return emitCode(lowered, *module, kind, os);
}

/// `text` as part of a name of a macro.
static std::string upperIdentifier(StringRef text) {
  std::string name;
  for (char c : text)
    name += llvm::isAlnum(c) ? llvm::toUpper(c) : '_';
  return name;
}

/// `text` so that it ends no comment.
static std::string inComment(StringRef text) {
  std::string safe;
  for (char c : text) {
    if (c == '/' && !safe.empty() && safe.back() == '*')
      safe += ' ';
    safe += c == '\n' ? ' ' : c;
  }
  return safe;
}

void mlir::te::writeArtefactHeader(ArrayRef<ArgumentInfo> arguments,
                                   const ArtefactInfo &info, raw_ostream &os) {
  const std::string prefix = upperIdentifier(info.symbol);
  // Names that differ in punctuation only get their index.
  llvm::StringMap<int> uses;
  auto base = [&](const ArgumentInfo &argument) {
    return prefix +
           (argument.role == ArgumentInfo::Role::Result ? "_OUT_" : "_IN_") +
           upperIdentifier(argument.qualifiedName());
  };
  for (const ArgumentInfo &argument : arguments)
    ++uses[base(argument)];

  os << "/* The step '" << inComment(info.entry) << "' under "
     << inComment(info.recipe) << ".\n * Written by te-compile. */\n\n#ifndef "
     << prefix << "_STEP_H\n#define " << prefix
     << "_STEP_H\n\n#include \"TEDialect/Runtime/te_runtime.h\"\n\n#ifdef "
        "__cplusplus\nextern \"C\" {\n#endif\n\nextern const te_rt_module "
     << info.symbol << ";\n/* The table below as data. */\nextern const "
     << "te_rt_signature " << info.symbol
     << "_signature;\n\n/* Places in the list of pointers that "
        "te_rt_instance_run takes. */\nenum {\n";
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    std::string name = base(argument);
    if (uses[name] > 1)
      name += "_" + std::to_string(index);
    os << "  " << name << " = " << index << ", /* " << argument.typeName
       << " [";
    llvm::interleaveComma(argument.shape, os);
    os << "], " << argument.bytes << " bytes";
    if (argument.carriedInput >= 0)
      os << "; the next state of argument " << argument.carriedInput
         << ", at its address";
    else if (argument.arenaOffset >= 0)
      os << "; in the arena, at byte " << argument.arenaOffset;
    else if (argument.isWeight)
      os << "; a parameter";
    if (argument.init)
      os << "; starts as " << *argument.init;
    os << " */\n";
  }
  os << "  " << prefix << "_NUM_ARGUMENTS = " << arguments.size()
     << "\n};\n\n#ifdef __cplusplus\n} /* extern \"C\" */\n#endif\n\n#endif "
        "/* "
     << prefix << "_STEP_H */\n";
}
