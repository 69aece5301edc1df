//===- te-opt.cpp - the opt tool of the te dialect ------------------------===//
//
// An ordinary opt tool. The three flags of our own, --te-compile-to,
// --te-report and --te-report-format, are spellings of options of
// --te-training-pipeline and are merged into it before parsing. What is also
// ours is the exit code: MlirOptMain of a command line would end the program
// itself, so its parts are called one by one, with a guard around the passes.
//
//===----------------------------------------------------------------------===//

#include "ToolMain.h"

#include "TEDialect/InitAllTE.h"
#include "TEDialect/Pipelines/CheckSource.h"
#include "TEDialect/Pipelines/PipelineGuard.h"
#include "TEDialect/Pipelines/Pipelines.h"
#include "TEDialect/Pipelines/PrintableDiagnostics.h"
#include "TEDialect/Support/Printable.h"
#include "TEDialect/Transforms/Report/ReportStream.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <utility>
#include <vector>

static constexpr llvm::StringLiteral kHelp =
    R"(OVERVIEW: te-opt, the opt tool of quantised training graphs

USAGE: te-opt [options] <input file, or - for standard input>

Compile:
  --te-training-pipeline="OPTIONS"  run every phase; OPTIONS, separated by spaces:
      recipe=NAME             high_precision, delayed_scaling, mxfp8_block_scaling,
                              float8_current_scaling, float8_block_scaling,
                              nvfp4_block_scaling (replaces te.recipe)
      backward-override=MODE  none, high_precision, dequantized
      target=MACHINE          sm_90 (default), sm_100, reference
      emulate                 GEMMs of MXFP8 and NVFP4 in bf16
      strict                  a fall-back to higher precision is an error
      deterministic           launches that may have other bits in another
                              process are errors; no algorithm is chosen by time
      vjp=FUNCTION            differentiate FUNCTION: takes 'grad.<result>',
                              returns 'grad.<argument>'
      main-grad, cache-weights, capture       for micro-batches: add gradients in
                              f32, keep casts, check that a step may be recorded
      remat=WHAT              the backward computes again: nothing (default),
                              everything, ops:<names>, budget:<bytes>
      transpose-policy=WHEN   on-demand (default), cached, eager, or budget
                              with transpose-budget=BYTES
      memory-budget=BYTES     error if the arena needs more
      results-in-arena=NAMES  place these results in the arena
      logits-budget=BYTES     the most logits of a loss at a time (default
                              268435456; 0: all of them)
      overlap=WHEN            collectives beside GEMMs: auto (default), always,
                              never
      fuse=BOOL               fuse ops and merge launches (default true; no bit changes)
      code-cache=BOOL         store and find machine code on disk (default true)
      calibrate               measure amaxes, but multiply in high precision
      check-finite, probes=NAMES, expose-casts    count NaN, collect statistics of
                              operands, return casts
      compile-to=PHASE, report=LIST, report-format=FORMAT    as below
  --te-compile-to=PHASE       stop after import, autodiff, quantize, fuse,
                              schedule or lower (default)
Report (to standard output, instead of the IR):
  --te-report=LIST            constraints, capture, precision, schedule, time,
                              determinism, memory
  --te-report-format=FORMAT   text (default), json, or html of memory
Passes:
  --te-<pass>                 run one pass; --help-list shows all of them
  --pass-pipeline="..."       run passes given as text
Input and output:
  -o FILE                     write the IR to FILE (default: standard output)
  --split-input-file          treat chunks between // ----- as modules
  --verify-diagnostics        check diagnostics against expected-* comments
  --mlir-print-ir-after-all   print the IR after every pass
  --help-hidden               every option of MLIR and LLVM
  --version

EXAMPLES:
  te-opt step.mlir --te-training-pipeline="recipe=float8_block_scaling" --te-compile-to=quantize
  te-opt step.mlir --te-report=memory,precision

EXIT CODES: 0 ok, 1 diagnostics, 2 usage, 3 internal error
)";

namespace cl = llvm::cl;

/// Opens the files and runs what `config` and the command line say.
static llvm::LogicalResult process(llvm::StringRef inputName,
                                   llvm::StringRef outputName,
                                   mlir::DialectRegistry &registry,
                                   const mlir::MlirOptMainConfig &config) {
  std::string error;
  auto input = mlir::te::readSource(inputName, error);
  auto output = input ? mlir::openOutputFile(outputName, &error) : nullptr;
  if (!output) {
    llvm::WithColor::error(llvm::errs(), "te-opt")
        << mlir::te::printable(error) << "\n";
    return llvm::failure();
  }
  llvm::StringRef text = input->getBuffer();
  const auto problem = mlir::te::isBytecode(text)
                           ? std::nullopt
                           : mlir::te::findSourceProblem(text);
  if (problem) {
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(std::move(input), llvm::SMLoc());
    mlir::te::PrintableStream os(llvm::errs());
    sources.PrintMessage(os, llvm::SMLoc::getFromPointer(problem->place),
                         llvm::SourceMgr::DK_Error, problem->message);
    return llvm::failure();
  }
  mlir::te::OneJsonReport reports;
  if (failed(
          mlir::MlirOptMain(output->os(), std::move(input), registry, config)))
    return llvm::failure();
  output->keep();
  return llvm::success();
}

int TE_TOOL_MAIN(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // The message and the line say it; a printed op would hide them. Given twice,
  // the flag would be an error, so it is left to the user who gives it.
  constexpr llvm::StringLiteral kPrintOp = "mlir-print-op-on-diagnostic";
  // Messages of other threads come too late to tell whose fault a failure is.
  constexpr llvm::StringLiteral kNoThreads = "mlir-disable-threading";
  auto gives = [&](llvm::StringRef flag) {
    return llvm::any_of(llvm::ArrayRef(argv, argc), [&](char *text) {
      return llvm::StringRef(text).contains(flag);
    });
  };
  std::vector<std::string> arguments;
  std::string pipeline, extra;
  bool hasPipeline = false, reports = false, hasOutput = false;
  for (int i = 0; i < argc; ++i) {
    llvm::StringRef argument = argv[i], value = argument;
    value.consume_front("-");
    if (value == "-help" || value == "h") {
      llvm::outs() << kHelp;
      return 0;
    }
    if (value == "-version") {
      llvm::outs() << "te-opt " << TE_VERSION << " (LLVM "
                   << LLVM_VERSION_STRING << ")\n";
      return 0;
    }
    if (value.consume_front("-te-training-pipeline")) {
      // The last one would silently win.
      if (std::exchange(hasPipeline, true)) {
        llvm::WithColor::error(llvm::errs(), "te-opt")
            << "expected '--te-training-pipeline' once, with all options, but "
               "got it twice\n";
        return mlir::te::kUsage;
      }
      value.consume_front("=");
      pipeline = value.str();
    } else if (value.consume_front("-te-compile-to=")) {
      extra += (" compile-to=" + value).str();
    } else if (value.consume_front("-te-report-format=")) {
      extra += (" report-format=" + value).str();
    } else if (value.consume_front("-te-report=")) {
      extra += (" report=" + value).str();
      reports = true;
    } else {
      hasOutput |= argument == "-o";
      arguments.push_back(argument.str());
    }
  }
  if (hasPipeline || !extra.empty())
    arguments.push_back("--te-training-pipeline=" + pipeline + extra);
  if (!gives(kPrintOp))
    arguments.push_back(("--" + kPrintOp + "=false").str());
  if (!gives(kNoThreads))
    arguments.push_back(("--" + kNoThreads).str());
  if (reports && !hasOutput)
    arguments.insert(arguments.end(), {"-o", "/dev/null"});

  std::vector<char *> raw;
  for (std::string &argument : arguments)
    raw.push_back(argument.data());
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  mlir::te::makeDiagnosticsPrintable(registry);
  mlir::te::registerAllTEPasses();
  const std::string header = mlir::registerCLIOptions(
      "te-opt, the opt tool of quantised training graphs\n", registry);
  cl::opt<std::string> input(cl::Positional, cl::desc("<input file>"),
                             cl::init("-"));
  cl::opt<std::string> output("o", cl::desc("Output filename"),
                              cl::value_desc("filename"), cl::init("-"));
  if (std::string misplaced =
          mlir::te::findMisplacedOption(raw, "--te-training-pipeline");
      !misplaced.empty()) {
    llvm::WithColor::error(llvm::errs(), "te-opt")
        << mlir::te::printable(misplaced) << "\n";
    return mlir::te::kUsage;
  }
  // With a stream for the errors LLVM returns instead of exiting with 1.
  const int count = static_cast<int>(raw.size());
  if (!cl::ParseCommandLineOptions(count, raw.data(), header, &llvm::errs()))
    return mlir::te::kUsage;
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldListPasses() || config.shouldShowDialects())
    return mlir::asMainReturnCode(
        mlir::MlirOptMain(count, raw.data(), input, output, registry));

  mlir::te::PipelineGuard guard("te-opt");
  const mlir::MlirOptMainConfig plain = config;
  config.setPassPipelineSetupFn([&](mlir::PassManager &manager) {
    guard.watch(manager);
    return plain.setupPassPipeline(manager);
  });
  return guard.exitCode(process(input, output, registry, config));
}
