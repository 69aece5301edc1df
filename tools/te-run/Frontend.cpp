//===- Frontend.cpp - from a file to a compiled step ----------------------===//

#include "Frontend.h"
#include "Probes.h"

#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace te::run {
namespace {

/// Every phase ends with its te-verify-stage.
class PhaseClock final : public PassInstrumentation {
public:
  explicit PhaseClock(Trace &trace)
      : trace(trace), phases(mlir::te::getPhaseNames()) {}

  void runAfterPass(Pass *pass, Operation *) override {
    if (pass->getArgument() != "te-verify-stage" || next == phases.size())
      return;
    trace.span(phases[next++].str(), begin);
    begin = Trace::Clock::now();
  }

private:
  Trace &trace;
  SmallVector<StringRef> phases;
  size_t next = 0;
  Trace::Clock::time_point begin = Trace::Clock::now();
};

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
        llvm::raw_string_ostream(recipe)
            << mlir::te::RecipeAttr::lookup(function);
      }
  }

private:
  std::string &recipe;
};

llvm::json::Value toJson(Attribute value) {
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return integer.getInt();
  if (auto number = dyn_cast<FloatAttr>(value);
      number && number.getValue().isFinite())
    return number.getValueAsDouble();
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

} // namespace

void tracePhases(PassManager &manager, Trace &trace) {
  manager.addInstrumentation(std::make_unique<PhaseClock>(trace));
}

void recordRecipe(PassManager &manager, std::string &recipe) {
  manager.addInstrumentation(std::make_unique<RecipeObserver>(recipe));
}

std::vector<LaunchLabel> labelsOf(const mlir::te::CompiledStep &step) {
  std::vector<LaunchLabel> labels;
  for (const mlir::te::LaunchInfo &launch : step.launches()) {
    llvm::json::Object parameters;
    for (NamedAttribute parameter : launch.parameters)
      parameters[parameter.getName().getValue()] = toJson(parameter.getValue());
    llvm::json::Object details{{"kernel", launch.kernel},
                               {"location", launch.location},
                               {"parameters", std::move(parameters)}};
    labels.push_back({launch.kernel + " " + launch.name, std::move(details)});
  }
  return labels;
}

std::string locationOf(const mlir::te::CompiledStep &step, StringRef layer) {
  auto find = [&](const Twine &name, size_t skip) -> std::string {
    const std::string wanted = (name + " fprop").str();
    for (const mlir::te::LaunchInfo &launch : step.launches())
      // A cast of what a product made has the product's location.
      if (StringRef(launch.kernel).ends_with("matmul") &&
          launch.name == wanted && skip-- == 0)
        return launch.location;
    return {};
  };
  if (std::string exact = find(layer, 0); !exact.empty())
    return exact;
  auto [base, number] = layer.rsplit('.');
  size_t skip = 0;
  return number.getAsInteger(10, skip) ? "" : find(base, skip);
}

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
  // What the ops do not know of themselves, such as dominance.
  return valid && succeeded(verify(*module)) ? std::move(module) : nullptr;
}

bool selectEntry(ModuleOp module, StringRef entry, std::string &error) {
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
populatePipeline(PassManager &manager,
                 const mlir::te::TrainingPipelineOptions &options) {
  // Functions the entry does not use are not this step's business.
  manager.addPass(createSymbolDCEPass());
  if (failed(applyPassManagerCLOptions(manager)))
    return failure();
  return mlir::te::populateTETrainingPipeline(manager, options, [&] {
    return emitError(UnknownLoc::get(manager.getContext()));
  });
}

std::vector<StepArgument> argumentsOf(const mlir::te::CompiledStep &step,
                                      const llvm::StringSet<> &weights) {
  using mlir::te::ArgumentInfo;
  std::vector<StepArgument> arguments;
  for (const ArgumentInfo &info : step.arguments())
    arguments.push_back({{info.qualifiedName(), info.type, info.shape,
                          weights.contains(info.name), info.init},
                         info.role == ArgumentInfo::Role::Result,
                         info.carriedInput,
                         isFiniteCheck(info),
                         isStatistics(info)});
  return arguments;
}

} // namespace te::run
