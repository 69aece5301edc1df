//===- te-translate.cpp - a step as a page, a graph or JSON ---------------===//

#include "TEDialect/InitAllTE.h"
#include "TEDialect/JIT/Picture.h"
#include "TEDialect/Pipelines/CheckSource.h"
#include "TEDialect/Pipelines/PipelineGuard.h"
#include "TEDialect/Pipelines/PrintableDiagnostics.h"
#include "TEDialect/Support/Printable.h"
#include "ToolMain.h"
#include "te-run/OutputFile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using mlir::te::CompileOutcome;
using mlir::te::ExitCode;
using mlir::te::PictureFormat;

namespace {

constexpr llvm::StringLiteral kHelp =
    R"(OVERVIEW: te-translate, shows a training step and what the compiler makes of it

USAGE: te-translate FILE --te-to-html|--te-to-dot|--te-to-json --entry=NAME [options]

Output:
  --te-to-html        one page without scripts or other files: the graph as written
                      and as it runs, the precision report, memory over launches,
                      and the launches
  --te-to-dot         the graphs, for Graphviz
  --te-to-json        all of it, for programs
  -o FILE             (default: standard output)
Program:
  --entry=NAME        function to compile
  --vjp               differentiate it
  --pipeline="OPTS"   options of te-opt's --te-training-pipeline
Other:
  --help, --help-hidden (every option of MLIR and LLVM), --version

EXAMPLE:
  te-translate mlp.mlir --te-to-html --entry=mlp --vjp -o mlp.html

EXIT CODES: 0 ok, 1 diagnostics, 2 usage, 3 internal error
)";

struct Options {
  std::string file, entry, pipeline, output = "-";
  PictureFormat format = PictureFormat::Html;
  bool vjp = false;
};

ExitCode fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "te-translate")
      << mlir::te::printable(message.str()) << "\n";
  return mlir::te::kDiagnostics;
}

ExitCode usageError(const llvm::Twine &message) {
  fail(message + "; 'te-translate --help' shows every option");
  return mlir::te::kUsage;
}

std::optional<ExitCode> parseOptions(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    const llvm::StringRef argument = argv[i];
    if (argument == "--help" || argument == "-help" || argument == "-h") {
      llvm::outs() << kHelp;
      return mlir::te::kOk;
    }
    if (argument == "--version" || argument == "-version") {
      llvm::outs() << "te-translate " << TE_VERSION << " (LLVM "
                   << LLVM_VERSION_STRING << ")\n";
      return mlir::te::kOk;
    }
  }
  cl::opt<std::string, true> file(cl::Positional, cl::location(options.file));
  cl::opt<std::string, true> entry("entry", cl::location(options.entry));
  cl::opt<std::string, true> pipeline("pipeline",
                                      cl::location(options.pipeline));
  cl::opt<std::string, true> output("o", cl::location(options.output));
  cl::opt<bool, true> vjp("vjp", cl::location(options.vjp));
  cl::opt<bool> html("te-to-html"), dot("te-to-dot"), json("te-to-json");
  if (std::string misplaced =
          mlir::te::findMisplacedOption({argv, size_t(argc)}, "--pipeline");
      !misplaced.empty())
    return usageError(misplaced);
  // With a stream for the errors LLVM returns instead of exiting with 1.
  if (!cl::ParseCommandLineOptions(argc, argv, "", &llvm::errs()))
    return mlir::te::kUsage;
  if (options.file.empty())
    return usageError("expected a file");
  if (html + dot + json != 1)
    return usageError("expected one of '--te-to-html', '--te-to-dot' and "
                      "'--te-to-json'");
  if (options.entry.empty())
    return usageError("expected '--entry' to name the function to show");
  options.format = html  ? PictureFormat::Html
                   : dot ? PictureFormat::Dot
                         : PictureFormat::Json;
  return std::nullopt;
}

/// Writes the picture to `os`.
llvm::LogicalResult draw(const Options &options, mlir::te::PipelineGuard &guard,
                         llvm::SourceMgr &sources, mlir::MLIRContext &context,
                         llvm::raw_ostream &os) {
  mlir::te::CompileRequest request;
  request.entry = options.entry;
  request.pipeline = options.pipeline;
  request.vjp = options.vjp;
  request.prepare = [&](mlir::PassManager &manager) -> llvm::LogicalResult {
    guard.watch(manager);
    return llvm::success();
  };
  std::string error;
  mlir::te::CompiledProgram program;
  const CompileOutcome outcome =
      drawStep(sources, &context, request, options.format, os, program, error);
  if (outcome == CompileOutcome::BadPipeline)
    return guard.reportUsage("--pipeline: " + error);
  if (outcome == CompileOutcome::BadEntry)
    return guard.reportUsage("--entry: " + error);
  return llvm::success(outcome == CompileOutcome::Ok);
}

ExitCode translate(const Options &options) {
  std::string error;
  auto buffer = mlir::te::readSource(options.file, error);
  if (!buffer)
    return fail(error);
  te::run::OutputFile output;
  if (options.output != "-" && !output.open(options.output, error))
    return fail(error);
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  // The message and the line say it; a printed module would hide them.
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  mlir::te::PrintableStream terminal(llvm::errs());
  mlir::SourceMgrDiagnosticHandler handler(sources, &context, terminal);
  mlir::te::makeDiagnosticsPrintable(context);
  mlir::te::PipelineGuard guard("te-translate", "--pipeline");
  if (ExitCode code = guard.exitCode(
          draw(options, guard, sources, context,
               output.isOpen() ? static_cast<llvm::raw_ostream &>(output.os())
                               : llvm::outs())))
    return code;
  if (output.isOpen() && !output.commit(error))
    return fail(error);
  return mlir::te::kOk;
}

} // namespace

int TE_TOOL_MAIN(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  mlir::te::registerAllTEPasses();
  Options options;
  if (std::optional<ExitCode> code = parseOptions(argc, argv, options))
    return *code;
  return translate(options);
}
