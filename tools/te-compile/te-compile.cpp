//===- te-compile.cpp - make a training step a file -----------------------===//
//
// FILE --parse--> module --training pipeline--> llvm --LLVM--> object, and with
// a linker, shared object. Code is made in this process; what is written needs
// libte_runtime and no compiler. Files are complete or absent.
//
//===----------------------------------------------------------------------===//

#include "Link.h"
#include "Options.h"
#include "Support/StepFile.h"
#include "ToolMain.h"

#include "TEDialect/InitAllTE.h"
#include "TEDialect/JIT/Artefact.h"
#include "TEDialect/JIT/Frontend.h"
#include "TEDialect/Pipelines/CheckSource.h"
#include "TEDialect/Pipelines/PrintableDiagnostics.h"
#include "TEDialect/Support/Printable.h"
#include "te-run/OutputFile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

using namespace te::compile;
using mlir::te::ArtefactInfo;
using mlir::te::ArtefactKind;
using mlir::te::CompileOutcome;
using mlir::te::ExitCode;
using te::run::OutputFile;

namespace {

ExitCode fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "te-compile")
      << mlir::te::printable(message.str()) << "\n";
  return mlir::te::kDiagnostics;
}

/// From the file to the module of the llvm dialect.
llvm::LogicalResult runPasses(const Options &options,
                              mlir::te::PipelineGuard &guard,
                              llvm::SourceMgr &sources,
                              mlir::MLIRContext &context,
                              mlir::te::CompiledProgram &program) {
  mlir::te::CompileRequest request;
  request.entry = options.entry;
  request.pipeline = options.pipeline;
  request.vjp = options.vjp;
  std::string phase;
  request.adjust = [&](mlir::te::TrainingPipelineOptions &pipeline) {
    phase = pipeline.compileTo;
    if (!options.usesCodeCache)
      pipeline.codeCache = false;
  };
  request.prepare = [&](mlir::PassManager &manager) -> llvm::LogicalResult {
    if (phase != "lower")
      return guard.reportUsage("--pipeline: expected 'compile-to' to be lower, "
                               "but got '" +
                               phase +
                               "'; 'te-opt' shows the phases before it");
    guard.watch(manager);
    return mlir::applyPassManagerCLOptions(manager);
  };
  std::string error;
  const CompileOutcome outcome =
      mlir::te::runPipeline(sources, &context, request, program, error);
  if (outcome == CompileOutcome::BadPipeline)
    return guard.reportUsage("--pipeline: " + error);
  if (outcome == CompileOutcome::BadEntry)
    return guard.reportUsage("--entry: " + error);
  return llvm::success(outcome == CompileOutcome::Ok);
}

ExitCode compile(const Options &options) {
  std::string error, linker;
  // Before the work: what cannot be linked or kept is not worth the time.
  if (options.kind == Kind::SharedObject) {
    linker = findLinker(options.linker, error);
    if (linker.empty())
      return fail(error);
  }
  OutputFile output, header;
  if (!output.open(options.output, error) ||
      (!options.header.empty() && !header.open(options.header, error)))
    return fail(error);
  if (output.replacesSame(header))
    return fail("expected '-o' and '--header' to be two files, but got '" +
                options.output + "' and '" + options.header + "'");
  auto buffer = mlir::te::readSource(options.file, error);
  if (!buffer)
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
  mlir::te::PipelineGuard guard("te-compile", "--pipeline");
  mlir::te::CompiledProgram program;
  if (ExitCode code =
          guard.exitCode(runPasses(options, guard, sources, context, program)))
    return code;

  const ArtefactInfo info{options.symbol, options.entry, program.recipe,
                          options.pipeline};
  const ArtefactKind kind = options.kind == Kind::LLVMIR ? ArtefactKind::LLVMIR
                            : options.kind == Kind::Assembly
                                ? ArtefactKind::Assembly
                                : ArtefactKind::Object;
  llvm::SmallVector<char> code;
  llvm::raw_svector_ostream os(code);
  auto arguments = mlir::te::readArguments(*program.module);
  if (failed(arguments) ||
      failed(mlir::te::writeArtefact(*program.module, info, kind, os)))
    return guard.exitCode(
        guard.reportInternal("the lowered program cannot be compiled"));
  if (options.kind == Kind::SharedObject) {
    auto linked = linkShared(linker, os.str(),
                             llvm::sys::path::filename(options.output), error);
    if (!linked)
      return fail(error);
    const llvm::StringRef object = linked->getBuffer();
    output.os() << object
                << te::support::stepChecksum(
                       {object.bytes_begin(), object.size()});
  } else {
    output.os() << os.str();
  }
  if (header.isOpen())
    mlir::te::writeArtefactHeader(*arguments, info, header.os());
  // Both are complete before one takes its place.
  if (!output.flush(error) || (header.isOpen() && !header.flush(error)) ||
      !output.commit(error) || (header.isOpen() && !header.commit(error)))
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
  return compile(options);
}
