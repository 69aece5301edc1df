//===- ScalarLibrary.cpp - functions that generated code calls ------------===//

#include "ScalarLibrary.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"

/// The bitcode of ScalarMath.cpp.
extern "C" const char te_embedded_scalar_math[], te_embedded_scalar_math_end[];

using namespace mlir;

llvm::Error te::linkScalarMath(llvm::Module &module) {
  const llvm::StringRef bitcode(te_embedded_scalar_math,
                                te_embedded_scalar_math_end -
                                    te_embedded_scalar_math);
  llvm::Expected<std::unique_ptr<llvm::Module>> library =
      llvm::parseBitcodeFile({bitcode, "scalar_math"}, module.getContext());
  if (!library)
    return library.takeError();
  // The bitcode was compiled for the CPU of the build. It is valid for other
  // targets once the attributes that name the CPU are removed.
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  (*library)->setModuleInlineAsm("");
  std::vector<std::string> defined;
  for (llvm::Function &function : **library) {
    for (llvm::StringRef attribute :
         {"target-cpu", "target-features", "tune-cpu", "frame-pointer"})
      function.removeFnAttr(attribute);
    if (!function.isDeclaration())
      defined.push_back(function.getName().str());
  }
  // Flags of the library, such as its PIC level, would be in `module` twice
  // once that gets its own.
  if (llvm::NamedMDNode *flags = (*library)->getModuleFlagsMetadata())
    flags->eraseFromParent();
  if (llvm::Linker::linkModules(module, std::move(*library),
                                llvm::Linker::LinkOnlyNeeded))
    return llvm::createStringError("cannot link the scalar functions");
  // Also the functions of headers that the compiler of the build did not
  // inline: a call costs a GPU more than what they compute.
  for (const std::string &name : defined)
    if (llvm::Function *function = module.getFunction(name);
        function && !function->isDeclaration()) {
      function->setLinkage(llvm::GlobalValue::InternalLinkage);
      // A linker would drop the group, and this function, of a second object.
      function->setComdat(nullptr);
      function->removeFnAttr(llvm::Attribute::NoInline);
      function->addFnAttr(llvm::Attribute::AlwaysInline);
    }
  return llvm::Error::success();
}

void te::defineReciprocal(llvm::Module &module, bool isGpu) {
  llvm::Function *called =
      module.getFunction("te_scalar_approximate_reciprocal");
  if (!called)
    return;
  if (isGpu) {
    called->replaceAllUsesWith(llvm::Intrinsic::getOrInsertDeclaration(
        &module, llvm::Intrinsic::nvvm_rcp_approx_ftz_f));
    called->eraseFromParent();
    return;
  }
  called->setLinkage(llvm::GlobalValue::InternalLinkage);
  called->addFnAttr(llvm::Attribute::AlwaysInline);
  llvm::IRBuilder<> builder(
      llvm::BasicBlock::Create(module.getContext(), "", called));
  builder.CreateRet(builder.CreateFDiv(
      llvm::ConstantFP::get(called->getReturnType(), 1.0), called->getArg(0)));
}
