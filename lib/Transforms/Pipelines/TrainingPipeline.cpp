//===- TrainingPipeline.cpp - the compiler's table of contents ------------===//
//
// Each phase is a function that ends with the check of what may still exist
// after it. A comment says why each pass runs at its place.
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
  // First, because all later passes look up the recipe.
  manager.addPass(
      createAssignRecipePass({options.recipe, options.backwardOverride}));
  // On the user's program, so that errors about ranks that would wait forever
  // name the user's ops.
  manager.addPass(createVerifyCollectivesPass());
  // Before inlining, so that the user's function is what is differentiated.
  if (!options.vjp.empty())
    manager.addPass(createWrapVjpPass({options.vjp}));
  // Inlines calls: every later pass sees one straight line per function. Only
  // modules with a single entry can be compiled to the end.
  manager.addPass(createLegalizeInputPass(
      {options.compileTo == "lower", options.target, options.emulate}));
  // Before the check, so that the report is printed also if the check fails.
  if (reports(options, "constraints"))
    manager.addPass(createReportConstraintsPass(
        {options.reportFormat, options.target, options.emulate}));
  // Before anything is rewritten, so that messages name the user's ops.
  manager.addPass(createCheckConstraintsPass(
      {/*warnOnly=*/false, options.target, options.emulate}));
  // Before the derivative, which repeats what is inserted for cotangents.
  manager.nest<func::FuncOp>().addPass(createZeroUnusedPass());
  // Before the derivative, so that gradients are of the slice, too, and after
  // unused rows are zeros, which are followed from the input.
  manager.nest<func::FuncOp>().addPass(createHoistSlicesPass());
}

void populateAutodiff(OpPassManager &manager, const TrainingPipelineOptions &) {
  manager.addPass(createDifferentiatePass());
}

void populateQuantize(OpPassManager &manager,
                      const TrainingPipelineOptions &options) {
  OpPassManager &casts = manager.nest<func::FuncOp>();
  // While the GEMM of a gradient is one op, before the recipe may change that.
  if (options.mainGrad)
    casts.addPass(createAccumulateMainGradsPass());
  // While each GEMM of a head is one op, so that chunks are cast by themselves.
  casts.addPass(createChunkRowsPass({options.logitsBudget}));
  // Before casts, which are placed before gathers if that changes no bit.
  casts.addPass(createInsertCollectivesPass());
  casts.addPass(createInsertCastsPass(
      {/*strict=*/false, options.calibrate, options.target}));
  // Merges the casts that consumers of one tensor share.
  casts.addPass(createCSEPass());
  // After cse, so that every reader of an exchanged tensor is there once.
  casts.addPass(createCastBeforeExchangePass());
  // Before pairing, which would compute a weight's columns in its forward cast.
  // No cse runs from here on: it would merge ops that are repeated on purpose.
  casts.addPass(createMaterializeTransposesPass(
      {options.transposePolicy, options.transposeBudget,
       /*rowsAreKept=*/options.cacheWeights, options.target}));
  // After the pass that decides what is saved, and before usages of forward and
  // backward are paired. The columns used only what this budget leaves.
  manager.addPass(createRematerializePass(
      {options.transposePolicy == "budget"
           ? "budget:" + std::to_string(options.transposeBudget)
           : options.remat.getValue()}));
  OpPassManager &function = manager.nest<func::FuncOp>();
  function.addPass(createPairCastLayoutsPass());
  // While GEMMs of quantised operands are one op.
  function.addPass(createAccumulateGradientsPass());
  // While the casts are still the operands of the GEMMs.
  if (options.exposeCasts)
    function.addPass(createExposeCastsPass());
  // After the casts are final, because their types decide what is emulated.
  if (options.emulate)
    function.addPass(createEmulateProductsPass());
  // After every GEMM in high precision is there.
  if (options.target != "reference")
    function.addPass(createAlignProductsPass());
  // Late, so that no other pass needs to know the order of swizzled scales.
  if (options.target == "sm_100")
    function.addPass(createSwizzleScalesPass());
  // Erases unused casts, so that exactly what the backward needs is saved.
  function.addPass(createCanonicalizerPass());
  // Last, so that no cast is added or merged afterwards.
  if (options.cacheWeights)
    function.addPass(
        createInsertSkipFlagsPass({options.transposePolicy == "cached"}));
  if (options.cacheWeights || options.capture)
    function.addPass(
        createVerifyCapturePass({/*freshCasts=*/!options.cacheWeights}));
  // While states and the flags that keep them are still values.
  if (reports(options, "capture"))
    manager.addPass(createReportCapturePass({options.reportFormat}));
  // After all casts are inserted, and before fusions move amaxes to other ops.
  manager.addPass(createVerifyCollectivesPass());
}

void populateFuse(OpPassManager &manager,
                  const TrainingPipelineOptions &options) {
  OpPassManager &function = manager.nest<func::FuncOp>();
  // Before the fusions, while every value exists.
  if (options.checkFinite)
    function.addPass(createCheckFinitePass());
  if (!options.probes.empty())
    function.addPass(createInsertProbesPass(
        {llvm::to_vector_of<std::string>(options.probes)}));
  if (options.fuse) {
    function.addPass(createFusePaddingPass());
    function.addPass(createFuseAmaxPass());
    // After no te.amax reads the activation.
    function.addPass(createFuseActivationQuantizePass());
    // After casts measure their amax, and before sums join the dgrad.
    function.addPass(
        createChunkLogitsPass({options.logitsBudget, options.target}));
    function.addPass(createFuseResidualAddPass());
    // After GEMMs took what they can add without another pass over memory.
    function.addPass(createFuseNormAddPass());
    // Again, because what a norm adds to is measured there, too.
    function.addPass(createFuseAmaxPass());
    // After casts measure their amax, so that no te.amax reads what is rounded.
    function.addPass(createFuseRoundingPass());
  }
  // After the fusions decided which op measures which amax.
  function.addPass(createBatchReductionsPass());
  // The last point at which every GEMM and cast is one op.
  if (reports(options, "precision") || options.strict)
    manager.addPass(createReportPrecisionPass(
        {options.reportFormat, options.strict, !reports(options, "precision"),
         options.target}));
}

void populateSchedule(OpPassManager &manager,
                      const TrainingPipelineOptions &options) {
  // Before order decides memory, and after the last pass that places ops.
  manager.addNestedPass<func::FuncOp>(createHoistSumsPass());
  // After sums have their place, which decides what can run together.
  manager.addNestedPass<func::FuncOp>(createFormRegionsPass({options.fuse}));
  manager.addPass(createConvertToTERTPass());
  // While all launches are on one stream, and before memory depends on their
  // order.
  if (options.fuse)
    manager.addPass(createMergeLaunchesPass());
  // After ops became launches, and before memory depends on their order.
  if (options.overlap != "never")
    manager.addPass(createOverlapCommunicationPass(
        {options.overlap == "always", options.target}));
  manager.addPass(createPlanMemoryPass(
      {options.memoryBudget,
       llvm::to_vector_of<std::string>(options.resultsInArena),
       options.target}));
  if (reports(options, "schedule"))
    manager.addPass(createReportSchedulePass({options.reportFormat}));
  if (reports(options, "time")) {
    ReportTimePassOptions time;
    time.format = options.reportFormat;
    manager.addPass(createReportTimePass(time));
  }
  if (reports(options, "determinism") || options.deterministic)
    manager.addPass(createReportDeterminismPass(
        {options.reportFormat, options.deterministic,
         !reports(options, "determinism"), options.target}));
  if (reports(options, "memory"))
    manager.addPass(createReportMemoryPass({options.reportFormat}));
}

void populateLower(OpPassManager &manager,
                   const TrainingPipelineOptions &options) {
  manager.addPass(createConvertTERTToLLVMPass(
      {options.target, options.deterministic, options.codeCache}));
}

constexpr PhaseInfo phases[] = {
    {Phase::Import, "import", populateImport},
    {Phase::Autodiff, "autodiff", populateAutodiff},
    {Phase::Quantize, "quantize", populateQuantize},
    {Phase::Fuse, "fuse", populateFuse},
    {Phase::Schedule, "schedule", populateSchedule},
    {Phase::Lower, "lower", populateLower},
};

/// Checks that `value` is one of `accepted`; the error lists them.
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

/// The message for an unknown option: it names the nearest option, or all.
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
  // LLVM has printed the error of a value, and returns no text.
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
  if (options.logitsBudget < 0)
    return emitError() << "expected 'logits-budget' not to be negative, but "
                          "got "
                       << options.logitsBudget.getValue();
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
                          "decides what is recomputed, but got '"
                       << options.remat.getValue() << "'";
  for (const auto *option : {&options.recipe, &options.backwardOverride,
                             &options.vjp, &options.remat})
    if (option->hasValue() && option->empty())
      return emitError() << "expected '" << option->getArgStr()
                         << "' not to be empty";
  for (StringRef report : options.report)
    if (failed(checkOption("report", report,
                           {"constraints", "capture", "precision", "schedule",
                            "time", "determinism", "memory"},
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
      llvm::cl::desc(
          "A function of every module with 'te.ranks' whose derivative "
          "is checked too"),
      llvm::cl::init("")};
};
} // namespace

void te::registerTEVerifyDerivatives() {
  PassPipelineRegistration<DerivativeOptions>(
      "te-verify-derivatives",
      "Run te-verify-collectives on programs as they are written and on their "
      "derivatives",
      [](OpPassManager &manager, const DerivativeOptions &options) {
        // First on the user's program, so that messages name the user's ops.
        manager.addPass(createVerifyCollectivesPass());
        OpPassManager &ofRanks = manager.nest<ModuleOp>();
        if (!options.vjp.empty())
          ofRanks.addPass(createWrapVjpPass({options.vjp}));
        ofRanks.addPass(createDifferentiatePass());
        // The derivatives of a program that all ranks share.
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
