//===- Frontend.cpp - from a file to a compiled step ----------------------===//

#include "Frontend.h"

#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace te::run {

OwningOpRef<ModuleOp> parseModule(llvm::SourceMgr &sources,
                                  MLIRContext *context) {
  // The parser's own verification stops at the first violation of a region.
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(
      sources, ParserConfig(context, /*verifyAfterParse=*/false));
  if (!module)
    return nullptr;
  bool valid = true;
  module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    valid &= succeeded(verify(op, /*verifyRecursively=*/false));
  });
  return valid ? std::move(module) : nullptr;
}

LogicalResult selectEntry(ModuleOp module, StringRef entry) {
  auto function = module.lookupSymbol<func::FuncOp>(entry);
  if (function && !function.isExternal()) {
    for (auto other : module.getOps<func::FuncOp>())
      other.setPrivate();
    function.setPublic();
    return success();
  }
  InFlightDiagnostic diagnostic = module.emitError()
                                  << "expected '--entry' to name a function "
                                     "with a body, but got '"
                                  << entry << "'; there ";
  SmallVector<StringRef> names;
  for (auto other : module.getOps<func::FuncOp>())
    if (!other.isExternal() && other.isPublic())
      names.push_back(other.getName());
  if (names.empty())
    return diagnostic << "is none";
  diagnostic << (names.size() == 1 ? "is " : "are ");
  llvm::interleaveComma(names, diagnostic, [&](StringRef name) {
    diagnostic << "'" << name << "'";
  });
  return diagnostic;
}

llvm::StringSet<> weightsOf(ModuleOp module, StringRef entry) {
  llvm::StringSet<> names;
  auto function = module.lookupSymbol<func::FuncOp>(entry);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, mlir::te::kWeightAttr))
      if (auto name =
              function.getArgAttrOfType<StringAttr>(i, mlir::te::kNameAttr))
        names.insert(name.getValue());
  return names;
}

LogicalResult
populatePipeline(PassManager &manager, Location loc,
                 const mlir::te::TrainingPipelineOptions &options) {
  // Functions the entry does not use are not this step's business.
  manager.addPass(createSymbolDCEPass());
  if (failed(applyPassManagerCLOptions(manager)))
    return failure();
  return mlir::te::populateTETrainingPipeline(manager, options,
                                              [&] { return emitError(loc); });
}

std::vector<StepArgument> argumentsOf(const mlir::te::CompiledStep &step,
                                      const llvm::StringSet<> &weights) {
  using mlir::te::ArgumentInfo;
  std::vector<StepArgument> arguments;
  for (const ArgumentInfo &info : step.arguments())
    arguments.push_back({{info.qualifiedName(), info.type, info.shape,
                          weights.contains(info.name)},
                         info.role == ArgumentInfo::Role::Result,
                         info.carriedInput});
  return arguments;
}

} // namespace te::run
