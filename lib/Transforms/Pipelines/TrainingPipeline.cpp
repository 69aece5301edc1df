//===- TrainingPipeline.cpp - the compiler's table of contents ------------===//
//
// One function per phase, each ending in the check of what may still exist.
// Every addPass line says why the pass stands where it does.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Pipelines/Pipelines.h"

#include "TEDialect/IR/Support.h"
#include "TEDialect/Transforms/Autodiff/Passes.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"
#include "TEDialect/Transforms/Distribute/Passes.h"
#include "TEDialect/Transforms/Fuse/Passes.h"
#include "TEDialect/Transforms/Import/Passes.h"
#include "TEDialect/Transforms/Instrument/Passes.h"
#include "TEDialect/Transforms/Lower/Passes.h"
#include "TEDialect/Transforms/Quantize/Passes.h"
#include "TEDialect/Transforms/Report/Passes.h"
#include "TEDialect/Transforms/Residuals/Passes.h"
#include "TEDialect/Transforms/Schedule/Passes.h"
#include "TEDialect/Transforms/Verify/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::te;

namespace {

struct PhaseInfo {
  Phase phase;
  StringLiteral name;
  void (*populate)(OpPassManager &, const TrainingPipelineOptions &);
};

bool reports(const TrainingPipelineOptions &options, StringRef what) {
  return llvm::is_contained(options.report, what);
}

void populateImport(OpPassManager &manager,
                    const TrainingPipelineOptions &options) {
  // First, because everything after it asks for the recipe.
  manager.addPass(
      createAssignRecipePass({options.recipe, options.backwardOverride}));
  // Ranks that would wait for each other for ever, in the user's words.
  manager.addPass(createVerifyCollectivesPass());
  // Before inlining, so that the user's function is what is differentiated.
  if (!options.vjp.empty())
    manager.addPass(createWrapVjpPass({options.vjp}));
  // Calls inlined: every later pass sees one straight line per function.
  // Modules of several functions can be looked at, but not compiled.
  manager.addPass(createLegalizeInputPass(
      {options.compileTo == "lower", options.target, options.emulate}));
  // Reported before it is enforced, so that the report shows all of it.
  if (reports(options, "constraints"))
    manager.addPass(createReportConstraintsPass(
        {options.reportFormat, options.target, options.emulate}));
  // Before anything is rewritten, so that messages speak of the user's ops.
  manager.addPass(createCheckConstraintsPass(
      {/*warnOnly=*/false, options.target, options.emulate}));
}

void populateAutodiff(OpPassManager &manager, const TrainingPipelineOptions &) {
  manager.addPass(createDifferentiatePass());
}

void populateQuantize(OpPassManager &manager,
                      const TrainingPipelineOptions &options) {
  OpPassManager &casts = manager.nest<func::FuncOp>();
  // While the product of a gradient is one op, whatever the recipe makes of it.
  if (options.mainGrad)
    casts.addPass(createAccumulateMainGradsPass());
  // Before casts, which go before gathers where that changes no bit.
  casts.addPass(createInsertCollectivesPass());
  casts.addPass(createInsertCastsPass(
      {/*strict=*/false, options.calibrate, options.target}));
  // Merges the casts that consumers of one tensor share.
  casts.addPass(createCSEPass());
  // Once all readers of what is exchanged are known, each of them once.
  casts.addPass(createCastBeforeExchangePass());
  // Before pairing, which would tie a weight's transpose to its forward cast.
  // No cse from here on: it would merge what is made again for each use.
  casts.addPass(createMaterializeTransposesPass(
      {options.transposePolicy, options.transposeBudget, options.target}));
  // Once what is held is final, and before usages of forward and backward pair.
  // With one budget it is also that of the columns, which took what is left.
  manager.addPass(createRematerializePass(
      {options.transposePolicy == "budget"
           ? "budget:" + std::to_string(options.transposeBudget)
           : options.remat.getValue()}));
  OpPassManager &function = manager.nest<func::FuncOp>();
  function.addPass(createPairCastLayoutsPass());
  // While each product has its casts as operands.
  if (options.exposeCasts)
    function.addPass(createExposeCastsPass());
  // After the casts are final: it decides by their types alone.
  if (options.emulate)
    function.addPass(createEmulateProductsPass());
  // Only here: elsewhere scales stay in the order that casts write.
  if (options.target == "sm_100")
    function.addPass(createSwizzleScalesPass());
  // Drops casts nobody uses: the residual set is exactly what the mode needs.
  function.addPass(createCanonicalizerPass());
  // Last, so that no cast can be added or merged behind it.
  if (options.cacheWeights)
    function.addPass(
        createInsertSkipFlagsPass({options.transposePolicy == "cached"}));
  if (options.cacheWeights || options.capture)
    function.addPass(
        createVerifyCapturePass({/*freshCasts=*/!options.cacheWeights}));
  // Where states, and the flags that keep them, are still values.
  if (reports(options, "capture"))
    manager.addPass(createReportCapturePass({options.reportFormat}));
  // After every cast is there, and before fusions give amaxes to other ops.
  manager.addPass(createVerifyCollectivesPass());
}

void populateFuse(OpPassManager &manager,
                  const TrainingPipelineOptions &options) {
  OpPassManager &function = manager.nest<func::FuncOp>();
  // Before the fusions, while every value is there to be looked at.
  if (options.checkFinite)
    function.addPass(createCheckFinitePass());
  if (!options.probes.empty())
    function.addPass(createInsertProbesPass(
        {llvm::to_vector_of<std::string>(options.probes)}));
  if (options.fuse) {
    // Before the amax fusion: a block cast needs no amax.
    function.addPass(createFuseActivationQuantizePass());
    function.addPass(createFuseAmaxPass());
    function.addPass(createFuseResidualAddPass());
  }
  // Once it is known which op measures what.
  function.addPass(createBatchReductionsPass());
  // Last point at which every GEMM and cast is one op.
  if (reports(options, "precision") || options.strict)
    manager.addPass(createReportPrecisionPass(
        {options.reportFormat, options.strict, !reports(options, "precision"),
         options.target}));
}

void populateSchedule(OpPassManager &manager,
                      const TrainingPipelineOptions &options) {
  // Before order is memory, and after the last pass that places ops.
  manager.addNestedPass<func::FuncOp>(createHoistSumsPass());
  manager.addPass(createConvertToTERTPass());
  // Once the order is that of launches, and before memory depends on it.
  if (options.overlap != "never")
    manager.addPass(createOverlapCommunicationPass(
        {options.overlap == "always", options.target}));
  manager.addPass(createPlanMemoryPass({options.memoryBudget, options.target}));
  if (reports(options, "schedule"))
    manager.addPass(createReportSchedulePass({options.reportFormat}));
  if (reports(options, "memory"))
    manager.addPass(createReportMemoryPass({options.reportFormat}));
}

void populateLower(OpPassManager &manager, const TrainingPipelineOptions &) {
  manager.addPass(createConvertTERTToLLVMPass());
}

constexpr PhaseInfo phases[] = {
    {Phase::Import, "import", populateImport},
    {Phase::Autodiff, "autodiff", populateAutodiff},
    {Phase::Quantize, "quantize", populateQuantize},
    {Phase::Fuse, "fuse", populateFuse},
    {Phase::Schedule, "schedule", populateSchedule},
    {Phase::Lower, "lower", populateLower},
};

/// `value` is one of `accepted`, else an error that lists them.
LogicalResult checkOption(StringRef name, StringRef value,
                          ArrayRef<StringRef> accepted,
                          function_ref<InFlightDiagnostic()> emitError) {
  if (llvm::is_contained(accepted, value))
    return success();
  InFlightDiagnostic diagnostic = emitError();
  diagnostic << "expected '" << name << "' to be one of ";
  llvm::interleaveComma(accepted, diagnostic);
  return diagnostic << ", but got '" << value << "'";
}

} // namespace

SmallVector<StringRef> te::getPhaseNames() {
  SmallVector<StringRef> names;
  for (const PhaseInfo &info : phases)
    names.push_back(info.name);
  return names;
}

SmallVector<StringRef> TrainingPipelineOptions::names() const {
  auto names = llvm::to_vector(llvm::make_first_range(OptionsMap));
  llvm::sort(names);
  return names;
}

std::string te::findMisplacedOption(ArrayRef<char *> commandLine,
                                    StringRef flag) {
  const TrainingPipelineOptions options;
  for (StringRef argument : commandLine.drop_front()) {
    if (!argument.consume_front("-"))
      continue;
    argument.consume_front("-");
    StringRef name = argument.split('=').first;
    if (llvm::is_contained(options.names(), name) &&
        !llvm::cl::getRegisteredOptions().contains(name))
      return ("expected '" + name + "' among the options of the pipeline, " +
              flag + "=\"" + argument + "\", but got '--" + argument + "'")
          .str();
  }
  return "";
}

/// What to say of an option that does not exist: the nearest one, or all.
static std::string unknownOption(StringRef name, ArrayRef<StringRef> known) {
  std::string text =
      ("expected an option of the pipeline, but got '" + name + "'; ").str();
  auto distance = [&](StringRef option) {
    return name.edit_distance(option, /*AllowReplacements=*/true);
  };
  StringRef nearest = *llvm::min_element(known, [&](StringRef a, StringRef b) {
    return distance(a) < distance(b);
  });
  if (distance(nearest) <= std::max<size_t>(1, name.size() / 3))
    return text + ("the nearest is '" + nearest + "'").str();
  return text + "there are '" + llvm::join(known, "', '") + "'";
}

LogicalResult te::parseTrainingPipeline(StringRef text,
                                        TrainingPipelineOptions &options,
                                        std::string &error) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (succeeded(options.parseFromString(text, stream)))
    return success();
  StringRef said = StringRef(message).trim();
  said.consume_front("<Pass-Options-Parser>: ");
  if (said.consume_front("no such option ")) {
    error = unknownOption(said, options.names());
    return failure();
  }
  // LLVM has printed what is wrong with a value, and gives no text.
  error = said.empty() ? ("cannot read '" + text + "'").str() : said.str();
  return failure();
}

LogicalResult
te::populateTETrainingPipeline(OpPassManager &manager,
                               const TrainingPipelineOptions &options,
                               function_ref<InFlightDiagnostic()> emitError) {
  if (failed(checkOption("compile-to", options.compileTo, getPhaseNames(),
                         emitError)) ||
      failed(checkOption("target", options.target,
                         llvm::to_vector_of<StringRef>(support::kTargetNames),
                         emitError)) ||
      failed(checkOption("transpose-policy", options.transposePolicy,
                         {"on-demand", "cached", "budget", "eager"},
                         emitError)) ||
      failed(checkOption("overlap", options.overlap,
                         {"auto", "always", "never"}, emitError)) ||
      failed(checkOption("report-format", options.reportFormat,
                         {"text", "json", "html"}, emitError)))
    return failure();
  if (options.memoryBudget < 0)
    return emitError() << "expected 'memory-budget' not to be negative, but "
                          "got "
                       << options.memoryBudget.getValue();
  if ((options.transposePolicy == "budget") != (options.transposeBudget >= 0))
    return emitError() << "expected 'transpose-budget' with "
                          "'transpose-policy=budget' and with no other, but "
                          "'transpose-policy' is '"
                       << options.transposePolicy.getValue()
                       << "' and 'transpose-budget' "
                       << options.transposeBudget.getValue();
  if (options.transposePolicy == "budget" && options.remat != "nothing")
    return emitError() << "expected 'remat' to be nothing with "
                          "'transpose-policy=budget', whose 'transpose-budget' "
                          "decides what is recomputed, too, but got '"
                       << options.remat.getValue() << "'";
  for (const auto *option : {&options.recipe, &options.backwardOverride,
                             &options.vjp, &options.remat})
    if (option->hasValue() && option->empty())
      return emitError() << "expected '" << option->getArgStr()
                         << "' not to be empty";
  for (StringRef report : options.report)
    if (failed(checkOption(
            "report", report,
            {"constraints", "capture", "precision", "schedule", "memory"},
            emitError)))
      return failure();

  for (const PhaseInfo &info : phases) {
    info.populate(manager, options);
    manager.addPass(createVerifyStagePass({info.name.str()}));
    if (options.compileTo == info.name)
      break;
  }
  return success();
}

namespace {
struct DerivativeOptions : PassPipelineOptions<DerivativeOptions> {
  Option<std::string> vjp{
      *this, "vjp",
      llvm::cl::desc("A function of every module with 'te.ranks', of which the "
                     "derivative is looked at too"),
      llvm::cl::init("")};
};
} // namespace

void te::registerTEVerifyDerivatives() {
  PassPipelineRegistration<DerivativeOptions>(
      "te-verify-derivatives",
      "Run te-verify-collectives on programs as they are written and on their "
      "derivatives",
      [](OpPassManager &manager, const DerivativeOptions &options) {
        // In the user's words where they are enough.
        manager.addPass(createVerifyCollectivesPass());
        OpPassManager &ofRanks = manager.nest<ModuleOp>();
        if (!options.vjp.empty())
          ofRanks.addPass(createWrapVjpPass({options.vjp}));
        ofRanks.addPass(createDifferentiatePass());
        // Of one program for all ranks.
        manager.addPass(createDifferentiatePass());
        manager.addPass(createVerifyCollectivesPass());
      });
}

void te::registerTETrainingPipeline() {
  mlir::registerPassPipeline(
      "te-training-pipeline",
      "Compile a training step, phase by phase, up to 'compile-to'",
      [](OpPassManager &manager, StringRef text,
         function_ref<LogicalResult(const Twine &)> error) {
        TrainingPipelineOptions options;
        std::string message;
        if (failed(parseTrainingPipeline(text, options, message)))
          return error("te-training-pipeline: " + message);
        MLIRContext context;
        ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
          message = diagnostic.str();
          return success();
        });
        if (failed(populateTETrainingPipeline(manager, options, [&] {
              return emitError(UnknownLoc::get(&context));
            })))
          return error("te-training-pipeline: " + message);
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> handler) {
        handler(TrainingPipelineOptions());
      });
}
