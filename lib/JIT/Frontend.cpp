//===- Frontend.cpp - from source text to a compiled step -----------------===//

#include "TEDialect/JIT/Frontend.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/Pipelines/CheckSource.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// Looks when the options of the pipeline have been applied.
class RecipeObserver final : public PassInstrumentation {
public:
  explicit RecipeObserver(std::string &recipe) : recipe(recipe) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    if (pass->getArgument() != "te-assign-recipe")
      return;
    for (auto function : cast<ModuleOp>(op).getOps<func::FuncOp>())
      if (function.isPublic()) {
        recipe.clear();
        llvm::raw_string_ostream(recipe) << RecipeAttr::lookup(function);
      }
  }

private:
  std::string &recipe;
};

} // namespace

/// Whether the parser may be given the main buffer of `sources`.
static LogicalResult checkSource(llvm::SourceMgr &sources,
                                 MLIRContext *context) {
  const llvm::MemoryBuffer *buffer =
      sources.getMemoryBuffer(sources.getMainFileID());
  const StringRef text = buffer->getBuffer();
  const StringRef name = buffer->getBufferIdentifier();
  if (isBytecode(text)) {
    if (name.ends_with(".mlirbc"))
      return success();
    return emitError(FileLineColLoc::get(context, name, 0, 0))
           << "expected text, but got bytecode; if you trust it, give it a "
              "name that ends with '.mlirbc'";
  }
  const std::optional<SourceProblem> problem = findSourceProblem(text);
  if (!problem)
    return success();
  const auto [line, column] =
      sources.getLineAndColumn(llvm::SMLoc::getFromPointer(problem->place));
  return emitError(FileLineColLoc::get(context, name, line, column))
         << problem->message;
}

/// Verifies each op on its own, so that one run reports everything that is
/// wrong. Null after a diagnostic.
static OwningOpRef<ModuleOp> parseModule(llvm::SourceMgr &sources,
                                         MLIRContext *context) {
  if (failed(checkSource(sources, context)))
    return nullptr;
  // The parser's own verification stops at the first violation of a region.
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(
      sources, ParserConfig(context, /*verifyAfterParse=*/false));
  if (!module)
    return nullptr;
  bool valid = true;
  module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    valid &= succeeded(verify(op, /*verifyRecursively=*/false));
  });
  // What the ops do not know of themselves, such as dominance.
  return valid && succeeded(verify(*module)) ? std::move(module) : nullptr;
}

/// Makes `entry` the one public function, so that it is what is compiled. Where
/// it is not a function with a body, `error` says which functions there are.
static bool selectEntry(ModuleOp module, StringRef entry, std::string &error) {
  auto function = module.lookupSymbol<func::FuncOp>(entry);
  if (function && !function.isExternal()) {
    for (auto other : module.getOps<func::FuncOp>())
      other.setPrivate();
    function.setPublic();
    return true;
  }
  SmallVector<StringRef> names;
  for (auto other : module.getOps<func::FuncOp>())
    if (!other.isExternal() && other.isPublic())
      names.push_back(other.getName());
  error = ("expected the name of a function with a body, but got '" + entry +
           "'; the program has ")
              .str();
  error += names.empty() ? "none" : "'" + llvm::join(names, "', '") + "'";
  return false;
}

static llvm::StringSet<> weightsOf(ModuleOp module, StringRef entry) {
  llvm::StringSet<> names;
  auto function = module.lookupSymbol<func::FuncOp>(entry);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, kWeightAttr))
      if (auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr))
        names.insert(name.getValue());
  return names;
}

/// runPipeline, or with `toCode`, all of it before the machine code.
static CompileOutcome run(llvm::SourceMgr &sources, MLIRContext *context,
                          const CompileRequest &request, bool toCode,
                          CompiledProgram &program, std::string &error) {
  auto ended = [&](StringRef stage) {
    if (request.ended)
      request.ended(stage);
  };
  program.module = parseModule(sources, context);
  if (!program.module)
    return CompileOutcome::Diagnosed;
  TrainingPipelineOptions options;
  // Before the parse, so that a target the user names wins.
  if (request.backend == "reference")
    options.target = "reference";
  if (failed(parseTrainingPipeline(request.pipeline, options, error)))
    return CompileOutcome::BadPipeline;
  if (toCode && options.compileTo != "lower") {
    error = "expected 'compile-to' to be lower, but got '" + options.compileTo +
            "'; 'te-opt' shows the phases before it";
    return CompileOutcome::BadPipeline;
  }
  if (request.vjp)
    options.vjp = request.entry;
  if (request.adjust)
    request.adjust(options);
  if (!selectEntry(*program.module, request.entry, error))
    return CompileOutcome::BadEntry;
  ended("parse");

  program.weights = weightsOf(*program.module, request.entry);
  PassManager manager(program.module.get()->getName());
  if (request.prepare && failed(request.prepare(manager)))
    return CompileOutcome::Diagnosed;
  manager.addInstrumentation(std::make_unique<RecipeObserver>(program.recipe));
  // Functions the entry does not use are not this step's business.
  manager.addPass(createSymbolDCEPass());
  auto report = [&] { return emitError(UnknownLoc::get(context)); };
  if (failed(populateTETrainingPipeline(manager, options, report)) ||
      failed(manager.run(*program.module)))
    return CompileOutcome::Diagnosed;
  ended("passes");
  return CompileOutcome::Ok;
}

CompileOutcome mlir::te::runPipeline(llvm::SourceMgr &sources,
                                     MLIRContext *context,
                                     const CompileRequest &request,
                                     CompiledProgram &program,
                                     std::string &error) {
  return run(sources, context, request, /*toCode=*/false, program, error);
}

CompileOutcome mlir::te::compileProgram(llvm::SourceMgr &sources,
                                        MLIRContext *context,
                                        const CompileRequest &request,
                                        CompiledProgram &program,
                                        std::string &error) {
  const CompileOutcome outcome =
      run(sources, context, request, /*toCode=*/true, program, error);
  if (outcome != CompileOutcome::Ok)
    return outcome;
  FailureOr<std::unique_ptr<CompiledStep>> step =
      CompiledStep::compile(*program.module);
  if (failed(step))
    return CompileOutcome::Internal;
  program.step = std::move(*step);
  if (request.ended)
    request.ended("machine code");
  return CompileOutcome::Ok;
}
