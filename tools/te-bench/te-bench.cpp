//===- te-bench.cpp - kernels, an MLP block and memory ----------------===//
//
// Prints a table and, with --json, writes every row with the versions of what
// was measured. Speed is only meaningful on the cuda backend; elsewhere
// `--quick --suite=mlp` with a small block shows that everything runs. Ends
// with 1 when the forward of a recipe depends on its backward override, or a
// result on the transpose policy or the streams, or a loss is not finite.
//
//===----------------------------------------------------------------------===//

#include "Bench.h"
#include "ToolMain.h"

#include "TEDialect/Pipelines/PipelineGuard.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace te::bench;

namespace {
bool isOneOf(llvm::StringRef option, const std::string &value,
             llvm::ArrayRef<llvm::StringRef> accepted) {
  if (llvm::is_contained(accepted, value))
    return true;
  llvm::WithColor::error(llvm::errs(), "te-bench")
      << "expected '" << option << "' to be one of "
      << llvm::join(accepted, ", ") << ", but got '" << value << "'\n";
  return false;
}

/// Has a default of `option` name a file also where this folder is not that of
/// the sources: an installation has the files, too.
void findFile(llvm::cl::opt<std::string> &option, const char *program) {
  if (option.getNumOccurrences() || llvm::sys::fs::exists(option))
    return;
  const std::string binary = llvm::sys::fs::getMainExecutable(
      program, reinterpret_cast<void *>(&findFile));
  llvm::SmallString<128> path = llvm::sys::path::parent_path(binary);
  llvm::sys::path::append(path, "..", "share", "te-mlir");
  llvm::sys::path::append(path, "bench", llvm::sys::path::filename(option));
  if (llvm::sys::fs::exists(path))
    option = path.str().str();
}

/// What the command line says. Options of a process would be those of every
/// tool that shares a library with this one.
struct Program {
  int run(int argc, char **argv);

private:
  bool hasOnlyOwnOptions() const;
  bool areValid() const;

  llvm::cl::OptionCategory category{"te-bench"};
  llvm::cl::opt<std::string> suite{
      "suite",
      llvm::cl::desc(
          "kernels, regions, head, grouped, mlp, memory, moe, compile, all "
          "(default: those before it), or over several GPUs parallel, a layer, "
          "and model, a whole training step"),
      llvm::cl::init("all"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> backend{
      "backend", llvm::cl::desc("auto (default), cuda or reference"),
      llvm::cl::init("auto"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> mlpFile{
      "mlp", llvm::cl::desc("file with the function @mlp"),
      llvm::cl::init("test/bench/llama_mlp.mlir"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> stackFile{
      "stack", llvm::cl::desc("file of the suites memory and compile"),
      llvm::cl::init("test/bench/llama_stack.mlir"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> moeFile{
      "moe", llvm::cl::desc("file of the suite moe"),
      llvm::cl::init("test/bench/moe.mlir"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> modelFile{
      "model",
      llvm::cl::desc("file of the suite model, as "
                     "scripts/llama_step.py writes it"),
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> filter{
      "filter",
      llvm::cl::desc(
          "of the suites kernels, regions, head and model, only rows or "
          "recipes named so in part"),
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> jsonFile{"json",
                                      llvm::cl::desc("write the rows as JSON"),
                                      llvm::cl::cat(category)};
  llvm::cl::opt<bool> quick{
      "quick", llvm::cl::desc("one short round per row: a smoke test"),
      llvm::cl::cat(category)};

  llvm::cl::opt<int> ranks{
      "ranks",
      llvm::cl::desc("GPUs of the suites parallel (2, 4, ...; default 2) "
                     "and model (default 1)"),
      llvm::cl::cat(category)};

  llvm::cl::opt<int> microBatches{
      "micro-batches",
      llvm::cl::desc("of the suite model, steps of which the last one updates "
                     "the weights (default 1)"),
      llvm::cl::init(1), llvm::cl::cat(category)};
};

/// Others may change machine code, which would be stored as that without them.
bool Program::hasOnlyOwnOptions() const {
  for (auto &[name, option] : llvm::cl::getRegisteredOptions())
    if (option->getNumOccurrences() != 0 &&
        !llvm::is_contained(option->Categories, &category)) {
      llvm::WithColor::error(llvm::errs(), "te-bench")
          << "expected an option of te-bench, but got '--" << name << "'\n";
      return false;
    }
  return true;
}

/// Whether the values of the options are possible; prints the first that is
/// not.
bool Program::areValid() const {
  if (!isOneOf("--suite", suite,
               {"kernels", "regions", "head", "grouped", "mlp", "memory", "moe",
                "compile", "all", "parallel", "model"}) ||
      !isOneOf("--backend", backend, {"auto", "reference", "cuda"}))
    return false;
  for (auto *count : {&ranks, &microBatches})
    if (*count < 1) {
      llvm::WithColor::error(llvm::errs(), "te-bench")
          << "expected '--" << count->ArgStr << "' to be positive, but got "
          << *count << "\n";
      return false;
    }
  if (suite == "model" && modelFile.empty()) {
    llvm::WithColor::error(llvm::errs(), "te-bench")
        << "expected '--model=FILE' with '--suite=model'; "
           "scripts/llama_step.py writes such a file\n";
    return false;
  }
  return true;
}

/// The whole program; returns its exit code.
int Program::run(int argc, char **argv) {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "te-bench " << TE_VERSION << " (runtime ABI " << te_rt_version()
       << ", LLVM " << LLVM_VERSION_STRING << ")\n";
  });
  llvm::cl::HideUnrelatedOptions(category);
  // With a stream for the errors LLVM returns instead of exiting with 1.
  if (!llvm::cl::ParseCommandLineOptions(
          argc, argv,
          "te-bench: times kernels, the Llama-8B MLP block and a "
          "stack of layers on this machine\n",
          &llvm::errs()))
    return mlir::te::kUsage;
  if (!ranks.getNumOccurrences())
    ranks = suite == "model" ? 1 : 2;
  if (!hasOnlyOwnOptions() || !areValid())
    return mlir::te::kUsage;
  for (auto *file : {&mlpFile, &stackFile, &moeFile})
    findFile(*file, argv[0]);
  Effort effort;
  if (quick)
    effort = {1, 0.01, 0, 0.01, 1, 1};

  te_rt_context *context = nullptr;
  check(te_rt_context_create(backend.c_str(), &context), "context");
  llvm::outs() << te_rt_context_description(context) << "\n";
  if (!quick && suite != "compile" &&
      te_rt_context_backend(context) == llvm::StringRef("reference"))
    llvm::WithColor::warning(llvm::errs(), "te-bench")
        << "on the reference backend times mean nothing, and sizes of a GPU "
           "take hours; '--quick' with files of small sizes, as in 'te-bench "
           "--suite=mlp --quick --mlp=test/bench/small_mlp.mlir', shows that "
           "everything runs\n";
  llvm::json::Object report{
      {"device", std::string(te_rt_context_description(context))},
      {"backend", std::string(te_rt_context_backend(context))},
      {"data", "normal random; bf16 sigma 1, weights 0.02"},
      {"timing", "median of burst rounds of 10 ms; sustained over 0.3 s after "
                 "0.3 s of the same work"}};
  bool failed = false;
  const auto hasRows = [&](const char *of) {
    if (!report.getArray(of)->empty())
      return true;
    llvm::WithColor::error(llvm::errs(), "te-bench")
        << "expected '--filter' to be part of the name of a row, but got '"
        << filter << "'\n";
    return false;
  };
  if (suite == "mlp" || suite == "all")
    report["mlp_block"] = runMlpBench(context, effort, mlpFile, failed);
  if (suite == "memory" || suite == "all")
    report["memory"] = runMemoryBench(context, effort, stackFile, failed);
  if (suite == "moe" || suite == "all")
    report["moe"] = runMoeBench(context, effort, moeFile);
  if (suite == "kernels" || suite == "all") {
    report["kernels"] = runKernelBench(context, effort, filter);
    if (!hasRows("kernels"))
      return mlir::te::kUsage;
  }
  if (suite == "regions" || suite == "all") {
    report["regions"] = runRegionBench(context, effort, quick, filter);
    if (!hasRows("regions"))
      return mlir::te::kUsage;
  }
  if (suite == "head" || suite == "all") {
    report["head"] = runHeadBench(context, effort, quick, filter);
    if (!hasRows("head"))
      return mlir::te::kUsage;
  }
  if (suite == "grouped" || suite == "all")
    report["grouped"] = runGroupedBench(context, effort);
  if (suite == "compile" || suite == "all")
    report["compile"] = runCompileBench(stackFile);
  if (suite == "parallel") {
    llvm::json::Array exchanges;
    report["parallel"] =
        runParallelBench(te_rt_context_backend(context), effort, ranks, quick,
                         failed, exchanges);
    report["exchanges"] = std::move(exchanges);
  }
  if (suite == "model") {
    report["model"] =
        runModelBench(te_rt_context_backend(context), effort, modelFile, ranks,
                      microBatches, filter, failed);
    if (!hasRows("model"))
      return mlir::te::kUsage;
  }
  te_rt_context_destroy(context);

  if (!jsonFile.empty()) {
    std::error_code error;
    llvm::raw_fd_ostream stream(jsonFile, error);
    if (error) {
      llvm::WithColor::error(llvm::errs(), "te-bench")
          << "cannot write '" << jsonFile << "': " << error.message() << "\n";
      return mlir::te::kDiagnostics;
    }
    stream << llvm::formatv("{0:2}", llvm::json::Value(std::move(report)))
           << "\n";
  }
  if (failed)
    llvm::WithColor::error(llvm::errs(), "te-bench")
        << "a result differs between override modes, transpose policies or "
           "streams, or a loss is not finite\n";
  return failed;
}

} // namespace

int TE_TOOL_MAIN(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  return Program().run(argc, argv);
}
