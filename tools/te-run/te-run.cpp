//===- te-run.cpp - compile a step and run it -----------------------------===//
//
// FILE --parse--> module --training pipeline--> llvm --JIT--> step, then N
// steps on the runtime with arrays from and to .npz files. The order of the
// checks is the order in which a user can fix things: command line, backend,
// program, arrays.
//
//===----------------------------------------------------------------------===//

#include "Checkpoint.h"
#include "Frontend.h"
#include "Inputs.h"
#include "Options.h"
#include "Report.h"
#include "Runner.h"

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"

#include <memory>

using namespace te::run;

namespace {

struct ContextDeleter {
  void operator()(te_rt_context *context) const {
    te_rt_context_destroy(context);
  }
};

ExitCode fail(const llvm::Twine &message, ExitCode code = kDiagnostics) {
  llvm::WithColor::error(llvm::errs(), "te-run") << message << "\n";
  return code;
}

ExitCode fail(const RunFailure &failure) {
  return fail(failure.message,
              failure.status == TE_RT_INTERNAL ? kInternal : kDiagnostics);
}

/// Reads and checks every input, reporting all that is wrong. `info` is of this
/// step, and counts the steps of the loaded file on return.
bool readInputs(const Options &options,
                const std::vector<StepArgument> &arguments,
                CheckpointInfo &info, std::vector<StepInput> &inputs) {
  te::support::NpzArchive archive, loaded;
  std::string error;
  if (!options.inputs.empty() &&
      !te::support::readNpz(options.inputs, archive, error)) {
    fail(error);
    return false;
  }
  std::vector<std::string> errors, warnings;
  if (!options.loadWeights.empty())
    readWeights(options.loadWeights, arguments, loaded, errors);
  if (!options.load.empty()) {
    CheckpointInfo saved;
    readCheckpoint(options.load, arguments, loaded, saved, errors);
    info.step = saved.step;
    if (!saved.recipe.empty() && saved.recipe != info.recipe)
      warnings.push_back("'" + options.load + "' was saved under " +
                         saved.recipe + ", but this step has " + info.recipe);
  }
  // What a file should have had is not missed again.
  if (errors.empty())
    inputs = matchInputs(arguments, std::move(loaded), std::move(archive),
                         {options.steps, options.seed, options.vjp}, errors,
                         warnings);
  for (const std::string &warning : warnings)
    llvm::WithColor::warning(llvm::errs(), "te-run") << warning << "\n";
  for (const std::string &message : errors)
    fail(message);
  return errors.empty();
}

/// Opens the files the user asked for.
bool openOutputs(const Options &options, OutputFile &outputs, OutputFile &save,
                 OutputFile &summary, OutputFile &trace, std::string &error) {
  const struct {
    const char *option;
    const std::string &path;
    OutputFile &file;
  } files[] = {{"--outputs", options.outputs, outputs},
               {"--save", options.save, save},
               {"--summary", options.summary, summary},
               {"--trace", options.trace, trace}};
  for (const auto &one : files)
    if (!one.path.empty() && !one.file.open(one.path, error))
      return false;
  for (const auto &one : files)
    for (const auto *other = &one + 1; other != std::end(files); ++other)
      if (one.file.replacesSame(other->file)) {
        error = std::string("expected '") + one.option + "' and '" +
                other->option + "' to be two files, but got '" + one.path +
                "' and '" + other->path + "'";
        return false;
      }
  return true;
}

struct Compilation {
  std::unique_ptr<mlir::te::CompiledStep> step;
  llvm::StringSet<> weights;
  std::string recipe;
};

/// From the file to the step. What fails has been reported, and where it is not
/// the program's fault, through `guard`.
llvm::LogicalResult compile(const Options &options, te_rt_context &runtime,
                            llvm::SourceMgr &sources,
                            mlir::MLIRContext &context,
                            mlir::te::PipelineGuard &guard, Trace &trace,
                            Compilation &result) {
  auto start = Trace::Clock::now();
  mlir::OwningOpRef<mlir::ModuleOp> module = parseModule(sources, &context);
  if (!module)
    return llvm::failure();
  std::string error;
  mlir::te::TrainingPipelineOptions pipeline;
  if (!parsePipeline(options, runtime, pipeline, error))
    return guard.reportUsage("--pipeline: " + error);
  if (!selectEntry(*module, options.entry, error))
    return guard.reportUsage("--entry: " + error);
  trace.span("parse", start);
  result.weights = weightsOf(*module, options.entry);
  mlir::PassManager manager(module.get()->getName());
  guard.watch(manager);
  if (failed(populatePipeline(manager, pipeline)))
    return llvm::failure();
  if (!options.trace.empty())
    tracePhases(manager, trace);
  recordRecipe(manager, result.recipe);
  if (failed(manager.run(*module)))
    return llvm::failure();
  start = Trace::Clock::now();
  auto step = mlir::te::CompiledStep::compile(*module);
  if (failed(step))
    return guard.reportInternal("the lowered program cannot be compiled");
  trace.span("machine code", start);
  result.step = std::move(*step);
  return llvm::success();
}

ExitCode run(const Options &options) {
  Trace trace;
  te_rt_context *rawContext = nullptr;
  if (te_rt_status status =
          te_rt_context_create(options.backend.c_str(), &rawContext))
    return fail(RunFailure{status, te_rt_last_error()});
  std::unique_ptr<te_rt_context, ContextDeleter> runtime(rawContext);

  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(options.file);
  if (!buffer)
    return fail("cannot read '" + options.file +
                "': " + buffer.getError().message());
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());

  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  // The message and the line say it; a printed module would hide them.
  context.printOpOnDiagnostic(false);
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);

  Compilation compiled;
  mlir::te::PipelineGuard guard("te-run", "--pipeline");
  if (ExitCode code = guard.exitCode(
          compile(options, *runtime, sources, context, guard, trace, compiled)))
    return code;
  const mlir::te::CompiledStep &step = *compiled.step;
  const std::vector<StepArgument> arguments =
      argumentsOf(step, compiled.weights);

  std::string error;
  if (!checkNames(arguments, error))
    return fail(error);
  for (const auto &[option, path] :
       {std::pair("--load", &options.load), {"--save", &options.save}})
    if (!path->empty() && !hasStates(arguments))
      return fail(std::string("expected the entry to have a state for '") +
                  option + "': a result named like an argument");
  // Before the first step: a result that cannot be kept is not worth the time.
  OutputFile outputsFile, saveFile, summaryFile, traceFile;
  if (!openOutputs(options, outputsFile, saveFile, summaryFile, traceFile,
                   error))
    return fail(error);

  RunOptions runOptions{options.steps, options.graph, {}, nullptr};
  if (traceFile.isOpen())
    runOptions.trace = &trace;
  Progress progress(options.steps);
  if (!options.quiet)
    runOptions.progress = [&](int64_t step, double ms,
                              const std::string &text) {
      progress.update(step, ms, text);
    };
  te::support::NpzArchive outputs;
  RunSummary summary;
  RunFailure failure;
  CheckpointInfo info{compiled.recipe, 0};
  const InputSource source = [&](std::vector<StepInput> &inputs) {
    return readInputs(options, arguments, info, inputs);
  };
  if (!runSteps(runtime.get(), step.module(), arguments, source, runOptions,
                outputs, summary, failure))
    return failure.status ? fail(failure) : kDiagnostics;

  info.step += options.steps;
  // All are complete before any takes its place.
  if ((outputsFile.isOpen() && !writeOutputs(outputsFile, outputs, error)) ||
      (saveFile.isOpen() &&
       !writeCheckpoint(saveFile, arguments, outputs, info, error)) ||
      (summaryFile.isOpen() &&
       !writeSummary(summaryFile, summary, options.steps, error)) ||
      (traceFile.isOpen() &&
       !trace.write(traceFile, labelsOf(step),
                    llvm::json::Object{{"backend", summary.backend},
                                       {"device", summary.device}},
                    error)) ||
      (outputsFile.isOpen() && !outputsFile.commit(error)) ||
      (saveFile.isOpen() && !saveFile.commit(error)) ||
      (summaryFile.isOpen() && !summaryFile.commit(error)) ||
      (traceFile.isOpen() && !traceFile.commit(error)))
    return fail(error);
  if (!options.quiet)
    printSummary(summary, options.steps);
  return kOk;
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  mlir::te::registerAllTEPasses();
  Options options;
  if (std::optional<ExitCode> code = parseOptions(argc, argv, options))
    return *code;
  return run(options);
}
