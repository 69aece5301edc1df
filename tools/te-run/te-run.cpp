//===- te-run.cpp - compile a step and run it -----------------------------===//
//
// FILE --parse--> module --training pipeline--> llvm --JIT--> step, then N
// steps on the runtime with arrays from and to .npz files. The order of the
// checks is the order in which a user can fix things: command line, backend,
// program, arrays. A comparison does this for two steps and writes no file.
//
//===----------------------------------------------------------------------===//

#include "Checkpoint.h"
#include "Compare.h"
#include "Frontend.h"
#include "Inputs.h"
#include "Job.h"
#include "Options.h"
#include "Probes.h"
#include "Report.h"
#include "Runner.h"
#include "ToolMain.h"

#include "TEDialect/InitAllTE.h"
#include "TEDialect/Pipelines/CheckSource.h"
#include "TEDialect/Pipelines/PrintableDiagnostics.h"
#include "TEDialect/Support/Printable.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"

#include <functional>
#include <memory>

using namespace te::run;

namespace {

struct ContextDeleter {
  void operator()(te_rt_context *context) const {
    te_rt_context_destroy(context);
  }
};

/// "rank 2: " if there are several processes.
std::string &rankPrefix() {
  static std::string prefix;
  return prefix;
}

ExitCode fail(const llvm::Twine &what, ExitCode code = kDiagnostics) {
  const std::string message = mlir::te::printable(what.str());
  if (rankPrefix().empty()) {
    llvm::WithColor::error(llvm::errs(), "te-run") << message << "\n";
    return code;
  }
  // In one write, so that the lines of several processes do not mix.
  llvm::errs() << "te-run: error: " + rankPrefix() + message + "\n";
  return code;
}

/// Whether a collective timed out. The processes are then asked who still
/// answers, because NCCL does not say who is missing.
bool timedOut = false;
std::function<std::string()> rollCall;

ExitCode fail(const RunFailure &failure) {
  std::string message = failure.message;
  if (failure.status == TE_RT_TIMED_OUT) {
    timedOut = true;
    if (rollCall)
      message += "; " + rollCall();
  }
  return fail(message,
              failure.status == TE_RT_INTERNAL ? kInternal : kDiagnostics);
}

/// Prints all; whether there are no errors.
bool print(const Remarks &remarks) {
  const auto warn = [](const std::string &warning) {
    llvm::WithColor::warning(llvm::errs(), "te-run")
        << mlir::te::printable(warning) << "\n";
  };
  if (!remarks.resumed.empty())
    warn(remarks.resumed);
  llvm::for_each(remarks.warnings, warn);
  for (const std::string &message : remarks.errors)
    fail(message);
  return remarks.errors.empty();
}

/// Reads and checks every input. `info` is of this step, and counts the steps
/// of the loaded file on return.
std::vector<StepInput> readInputs(const Options &options,
                                  const std::vector<StepArgument> &arguments,
                                  CheckpointInfo &info, Remarks &remarks) {
  te::support::NpzArchive archive, loaded;
  te::support::NpzSelection selection;
  for (const StepArgument &argument : arguments)
    if (!argument.isResult)
      selection.names.insert(
          {argument.spec.name, argument.spec.name + ".steps"});
  std::string error;
  if (!options.inputs.empty() &&
      !te::support::readNpz(options.inputs, archive, error, &selection))
    remarks.errors.push_back(std::move(error));
  if (!options.loadWeights.empty())
    readWeights(options.loadWeights, arguments, loaded, remarks.errors);
  if (!options.load.empty()) {
    readCheckpoint(options.load, arguments, loaded, info, remarks);
    if (int64_t last; __builtin_add_overflow(info.step, options.steps, &last) ||
                      last == INT64_MAX)
      remarks.errors.push_back(
          "expected '--steps' and the " + std::to_string(info.step) +
          " steps of '" + options.load + "' to be below " +
          std::to_string(INT64_MAX) + " together, but got " +
          std::to_string(options.steps));
  }
  // What a file should have had is not missed again.
  if (!remarks.errors.empty())
    return {};
  std::vector<StepInput> inputs =
      matchInputs(arguments, std::move(loaded), std::move(archive),
                  {options.steps, options.seed, options.vjp}, remarks.errors,
                  remarks.warnings);
  for (const std::string &name : selection.others)
    remarks.warnings.push_back("array " + te::support::inQuotes(name) +
                               " is not an argument of the entry");
  return inputs;
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

/// A file, in a context of its own, and the step it became.
struct Program {
  explicit Program(const mlir::DialectRegistry &registry)
      : context(registry, mlir::MLIRContext::Threading::DISABLED),
        os(llvm::errs()), handler(sources, &context, os) {
    mlir::te::makeDiagnosticsPrintable(context);
    // The message and the line say it; a printed module would hide them.
    context.printOpOnDiagnostic(false);
  }

  llvm::SourceMgr sources;
  mlir::MLIRContext context;
  mlir::te::PrintableStream os;
  mlir::SourceMgrDiagnosticHandler handler;
  mlir::te::CompiledProgram compiled;
};

/// From the file to the step. `entryOption` named the entry. What fails has
/// been reported, and where it is not the program's fault, through `guard`.
llvm::LogicalResult compile(const Options &options,
                            const llvm::Twine &entryOption,
                            te_rt_context &runtime,
                            mlir::te::PipelineGuard &guard, Trace &trace,
                            Program &program) {
  auto start = Trace::Clock::now();
  mlir::te::CompileRequest request = requestOf(options, runtime);
  request.prepare = [&](mlir::PassManager &manager) {
    guard.watch(manager);
    if (!options.trace.empty())
      tracePhases(manager, trace);
    return mlir::applyPassManagerCLOptions(manager);
  };
  request.ended = [&](llvm::StringRef stage) {
    // The phases are spans of their own.
    if (stage != "passes")
      trace.span(stage.str(), start);
    start = Trace::Clock::now();
  };
  std::string error;
  switch (compileProgram(program.sources, &program.context, request,
                         program.compiled, error)) {
  case mlir::te::CompileOutcome::Ok:
    return llvm::success();
  case mlir::te::CompileOutcome::Diagnosed:
    return llvm::failure();
  case mlir::te::CompileOutcome::BadPipeline:
    return guard.reportUsage("--pipeline: " + error);
  case mlir::te::CompileOutcome::BadEntry:
    return guard.reportUsage(entryOption + ": " + error);
  case mlir::te::CompileOutcome::Internal:
    return guard.reportInternal("the lowered program cannot be compiled");
  }
  llvm_unreachable("every outcome is handled above");
}

/// Runs the step of `program` and writes what the user asked for.
ExitCode runProgram(const Options &options, te_rt_context &runtime,
                    const Program &program, Trace &trace) {
  const mlir::te::CompiledStep &step = *program.compiled.step;
  const std::vector<StepArgument> arguments =
      argumentsOf(step, program.compiled.weights);

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

  RunOptions runOptions;
  runOptions.steps = options.steps;
  runOptions.graph = options.graph;
  runOptions.digests = options.digests;
  if (traceFile.isOpen())
    runOptions.trace = &trace;
  Progress progress(options.steps);
  if (!options.quiet)
    runOptions.progress = [&](int64_t step, double ms,
                              const std::string &text) {
      progress.update(step, ms, text);
    };
  if (!options.quiet)
    runOptions.beforeCapture = printCapture;
  runOptions.inspect = FiniteCheck(step);
  te::support::NpzArchive outputs;
  RunSummary summary;
  RunFailure failure;
  CheckpointInfo info{program.compiled.recipe, 0};
  const InputSource source = [&](std::vector<StepInput> &inputs) {
    Remarks remarks;
    inputs = readInputs(options, arguments, info, remarks);
    return print(remarks);
  };
  if (!runSteps(&runtime, step.module(), arguments, source, runOptions, outputs,
                summary, failure))
    return failure.status ? fail(failure) : kDiagnostics;

  const std::vector<Workspace> workspaces =
      workspacesOf(step, summary.workspaceOf);
  info.step += options.steps;
  // All are complete before any takes its place.
  if ((outputsFile.isOpen() && !writeOutputs(outputsFile, outputs, error)) ||
      (saveFile.isOpen() &&
       !writeCheckpoint(saveFile, arguments, outputs, info, error)) ||
      (summaryFile.isOpen() &&
       !writeSummary(summaryFile, summary, options.steps, step, workspaces,
                     error)) ||
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
  if (!options.probes.empty() && options.rank == 0)
    printStatistics(step, outputs, options.steps, llvm::outs());
  if (!options.quiet)
    printSummary(summary, options.steps, workspaces);
  return kOk;
}

/// Tunes the GEMMs of the step of `program`.
ExitCode tuneProgram(const Options &options, te_rt_context &runtime,
                     const Program &program) {
  if (llvm::StringRef backend = te_rt_context_backend(&runtime);
      backend != "cuda")
    return fail("expected '--tune' to have a GPU, but got the backend '" +
                backend + "', which has no algorithms to choose from");
  std::vector<GemmLaunch> gemms;
  RunFailure failure;
  if (!planGemms(&runtime, program.compiled.step->module(), gemms, failure))
    return fail(failure);
  if (!options.quiet)
    llvm::errs() << tuningSentence(gemms, options.gemmFile) << "\n";
  return kOk;
}

/// The step that `options` compares with.
Options otherOf(const Options &options) {
  Options other = options;
  other.entry = options.compare;
  other.vjp = options.compareVjp;
  if (!options.compareFile.empty())
    other.file = options.compareFile;
  if (options.comparePipeline)
    other.pipeline = *options.comparePipeline;
  return other;
}

/// How `options` differs from `other`, for messages.
std::string labelOf(const Options &options, const Options &other) {
  std::string label = "'" + options.entry + "'";
  if (options.vjp)
    label += " differentiated";
  if (options.file != other.file)
    label += " of '" + options.file + "'";
  if (options.pipeline != other.pipeline)
    label += " under \"" + options.pipeline + "\"";
  return label;
}

/// Runs both steps on the same arrays and compares what they make.
ExitCode comparePrograms(const Options &options, te_rt_context &runtime,
                         const Program &first, const Program &second,
                         TuningProgress &tuning) {
  const Options other = otherOf(options);
  // Drawn alike where only one of them knows that it is a parameter.
  llvm::StringSet<> weights = first.compiled.weights;
  for (const auto &weight : second.compiled.weights)
    weights.insert(weight.getKey());

  struct Side {
    const Options &options;
    const Program &program;
    std::vector<StepArgument> arguments;
    te::support::NpzArchive outputs;
    Remarks remarks;
  };
  Side sides[] = {{options, first, {}, {}, {}}, {other, second, {}, {}, {}}};
  for (Side &side : sides) {
    side.arguments = argumentsOf(*side.program.compiled.step, weights);
    std::string error;
    if (!checkNames(side.arguments, error))
      return fail(error);
    const InputSource source = [&](std::vector<StepInput> &inputs) {
      CheckpointInfo info{side.program.compiled.recipe, 0};
      inputs = readInputs(side.options, side.arguments, info, side.remarks);
      return side.remarks.errors.empty() || print(side.remarks);
    };
    RunOptions runOptions;
    runOptions.steps = options.steps;
    runOptions.graph = options.graph;
    runOptions.inspect = FiniteCheck(*side.program.compiled.step);
    RunSummary summary;
    RunFailure failure;
    tuning.begin(*side.program.compiled.step);
    if (!runSteps(&runtime, side.program.compiled.step->module(),
                  side.arguments, source, runOptions, side.outputs, summary,
                  failure))
      return failure.status ? fail(failure) : kDiagnostics;
  }
  // An array that one of them takes is not superfluous.
  std::erase_if(sides[0].remarks.warnings, [&](const std::string &warning) {
    return !llvm::is_contained(sides[1].remarks.warnings, warning);
  });
  sides[1].remarks.warnings.clear();
  for (const Side &side : sides)
    print(side.remarks);

  const Comparison comparison = compareSteps(
      {labelOf(options, other), sides[0].arguments, sides[0].outputs},
      {labelOf(other, options), sides[1].arguments, sides[1].outputs});
  if (comparison.equal) {
    if (options.rank == 0)
      llvm::outs() << mlir::te::printable(comparison.text) << "\n";
    return kOk;
  }
  std::string where;
  if (!comparison.layer.empty()) {
    where = "; layer '" + comparison.layer + "'";
    std::string location = locationOf(*first.compiled.step, comparison.layer);
    if (location.empty())
      location = locationOf(*second.compiled.step, comparison.layer);
    if (!location.empty())
      where += " at " + location;
  }
  return fail(comparison.text + where);
}

ExitCode run(const Options &options, Job &job) {
  Trace trace;
  te_rt_context *rawContext = nullptr;
  std::string jobError;
  if (te_rt_status status = job.createContext(options, &rawContext, jobError))
    return fail(RunFailure{status, jobError});
  std::unique_ptr<te_rt_context, ContextDeleter> runtime(rawContext);
  TuningProgress tuning;
  te_rt_gemm_options gemms = {};
  gemms.choice = options.gemmChoice;
  gemms.file = options.gemmFile.empty() ? nullptr : options.gemmFile.c_str();
  gemms.budget_ms = options.tuneSeconds * 1000;
  gemms.user = &tuning;
  if (!options.quiet)
    gemms.tuning = [](void *user, int32_t slot, const char *gemm) {
      static_cast<TuningProgress *>(user)->update(slot, gemm);
    };
  if (te_rt_status status = te_rt_context_set_gemm_options(rawContext, &gemms))
    return fail(RunFailure{status, te_rt_last_error()});
  if (llvm::StringRef(te_rt_context_backend(rawContext)) == "cuda")
    rollCall = [&job] { return job.rollCall(); };

  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  mlir::te::PipelineGuard guard("te-run", "--pipeline");
  std::unique_ptr<Program> programs[2];
  for (int i = 0; i < (options.compare.empty() ? 1 : 2); ++i) {
    const Options side = i == 0 ? options : otherOf(options);
    Program &program = *(programs[i] = std::make_unique<Program>(registry));
    std::unique_ptr<llvm::MemoryBuffer> buffer;
    if (i == 1 && side.file == options.file) {
      // Standard input is read once.
      const llvm::MemoryBuffer *same = programs[0]->sources.getMemoryBuffer(1);
      buffer = llvm::MemoryBuffer::getMemBuffer(same->getMemBufferRef());
    } else {
      std::string error;
      buffer = mlir::te::readSource(side.file, error);
      if (!buffer)
        return fail(error);
    }
    program.sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
    if (ExitCode code =
            guard.exitCode(compile(side, i == 0 ? "--entry" : "--compare",
                                   *runtime, guard, trace, program)))
      return code;
    if (i == 0)
      if (te_rt_status status =
              job.bindGroups(*program.compiled.step, *runtime, jobError))
        return fail(RunFailure{status, jobError});
  }
  tuning.begin(*programs[0]->compiled.step);
  const ExitCode code =
      programs[1]    ? comparePrograms(options, *runtime, *programs[0],
                                       *programs[1], tuning)
      : options.tune ? tuneProgram(options, *runtime, *programs[0])
                     : runProgram(options, *runtime, *programs[0], trace);
  if (!timedOut)
    return code;
  // Others may wait for this process, and what it has on the GPU may not end.
  job.end(code);
  return code;
}

} // namespace

int TE_TOOL_MAIN(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  mlir::te::registerAllTEPasses();
  Options options;
  if (std::optional<ExitCode> code = parseOptions(argc, argv, options))
    return *code;
  Job job;
  std::string error;
  if (!job.join(options.timeout, error))
    return fail(error);
  if (job.size() > 1)
    rankPrefix() = "rank " + std::to_string(job.rank()) + ": ";
  ExitCode code = placeInJob(job.rank(), job.size(), options, error)
                      ? run(options, job)
                      : fail(error, kUsage);
  if (code == kOk && !job.leave(error))
    code = fail(error);
  // Others may wait for this process, and would for as long as they may.
  if (code != kOk)
    job.end(code);
  return code;
}
