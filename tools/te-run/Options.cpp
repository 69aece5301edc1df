//===- Options.cpp - the command line of te-run ---------------------------===//
//
// The help text is written by hand: LLVM's own would bury ours under the
// options of its libraries, which stay usable (--help-hidden lists them).
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "TEDialect/Support/Printable.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace te::run;
namespace cl = llvm::cl;

namespace {

constexpr llvm::StringLiteral kHelp =
    R"(OVERVIEW: te-run, compiles a training step and runs it

USAGE: te-run FILE --entry=NAME [options]      (FILE '-' is standard input)

Program:
  --entry=NAME        function to run; names of arrays are its te.name's
  --vjp               differentiate it: cotangents are read as 'grad.<result>'
                      (absent: ones), gradients written as 'grad.<argument>'
  --pipeline="OPTS"   options of te-opt's --te-training-pipeline, e.g.
                      "recipe=float8_block_scaling backward-override=dequantized"
Run:
  --backend=NAME      auto (default: cuda if there is a GPU), reference, cuda
  --steps=N           run N steps; a result called like an argument is carried
  --graph             capture the step once and replay it
GEMMs on a GPU (processes that choose algorithms alike have the same bits):
  --gemm-choice=NAME  tuned (default: of the file, or measured and added to it),
                      first (what the library suggests), file (of the file only)
  --gemm-file=F       the tuning file (default: one in the user's cache folder)
  --tune              tune into the file, and run nothing
  --tune-seconds=S    the rest takes what the library suggests; not into the file
Arrays:
  --inputs=F.npz      one array per argument, or '<name>.steps' with a leading
                      dimension of N, one value a step; bf16 as 'bfloat16' or
                      uint16, 8-bit floats as ml_dtypes names or uint8
  --seed=N            draw arrays that F.npz does not have: floats normal(0, 1),
                      weights normal(0, 0.02), integers uniform in [0, 256)
  --outputs=F.npz     every result after the last step; a rank-0 result also as
                      '<name>.steps', one value a step
  --digests           with it, '<name>.digests' of every result: 64 bits that
                      distinguish its bytes, one value a step
States:
  --save=F.safetensors  write what the last step carries to the next one
  --load=F.safetensors  start from that; it wins over --inputs, with a warning
  --load-weights=F.safetensors  read only the parameters (te.weight) from F
Comparison:
  --compare=NAME      run this entry too, on the same arrays, and compare quantised
                      values of linear layers and results of one name by bytes
  --compare-file=F, --compare-pipeline="OPTS", --compare-vjp  how that differs
Processes (mpirun -n N te-run ...): each compiles and runs the step
  '{rank}' in the name of a file is the process's number; --outputs and --save
  need it; --summary and --trace without it are those of process 0
  --timeout=S         wait S seconds for other processes (default 600)
Debugging:
  --check-finite      end at the first value with NaN or infinities, with an error
  --probes[=PATTERN]  print statistics of the operands of GEMMs and of their casts
Report:
  --summary=F.json    ms per step, planned bytes, backend, device
  --trace=F.json      when each phase, step, and launch of the last step ran,
                      for Perfetto or chrome://tracing; that step is slower
  --quiet             no progress and no summary line
  --mlir-print-ir-after-all
  --help, --help-hidden (every option of MLIR and LLVM), --version

EXAMPLES:
  te-run mlp.mlir --entry=mlp --vjp --seed=0 --outputs=gradients.npz
  te-run train.mlir --entry=train_step --steps=100 --inputs=in.npz \
         --pipeline="recipe=float8_current_scaling" --outputs=out.npz

EXIT CODES: 0 ok, 1 diagnostics, 2 usage, 3 internal error
)";

ExitCode usageError(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "te-run")
      << mlir::te::printable(message.str())
      << "; 'te-run --help' shows every option\n";
  return kUsage;
}

/// A comparison writes no file, as there are two steps it could be of.
std::optional<ExitCode> checkComparison(const Options &options) {
  const std::pair<const char *, bool> needs[] = {
      {"--compare-file", !options.compareFile.empty()},
      {"--compare-pipeline", options.comparePipeline.has_value()},
      {"--compare-vjp", options.compareVjp}};
  const std::pair<const char *, bool> refused[] = {
      {"--outputs", !options.outputs.empty()},
      {"--save", !options.save.empty()},
      {"--load", !options.load.empty()},
      {"--summary", !options.summary.empty()},
      {"--trace", !options.trace.empty()}};
  if (options.compare.empty()) {
    for (auto [name, given] : needs)
      if (given)
        return usageError(llvm::Twine("expected '--compare' with '") + name +
                          "'");
    return std::nullopt;
  }
  for (auto [name, given] : refused)
    if (given)
      return usageError(llvm::Twine("expected no '") + name +
                        "' with '--compare'");
  return std::nullopt;
}

/// The choice called `name`, and whether the other options of GEMMs fit.
std::optional<ExitCode> checkGemms(llvm::StringRef name, bool hasSeconds,
                                   Options &options) {
  constexpr llvm::StringLiteral names[] = {"tuned", "first", "file"};
  static_assert(TE_RT_GEMM_TUNED == 0 && TE_RT_GEMM_FIRST == 1 &&
                TE_RT_GEMM_FILE == 2);
  const auto *found = llvm::find(names, name);
  if (found == std::end(names))
    return usageError("expected '--gemm-choice' to be one of tuned, first, "
                      "file, but got '" +
                      name + "'");
  options.gemmChoice = static_cast<int32_t>(found - names);
  if (options.gemmChoice == TE_RT_GEMM_FIRST && !options.gemmFile.empty())
    return usageError("expected no '--gemm-file' with '--gemm-choice=first'");
  for (const auto &[option, given] :
       {std::pair("--tune", options.tune), {"--tune-seconds", hasSeconds}})
    if (given && options.gemmChoice != TE_RT_GEMM_TUNED)
      return usageError(llvm::Twine("expected '--gemm-choice=tuned' with '") +
                        option + "'");
  if (hasSeconds && (options.tuneSeconds < 1 || options.tuneSeconds > 1000000))
    return usageError("expected '--tune-seconds' to be from 1 to 1000000, but "
                      "got " +
                      llvm::Twine(options.tuneSeconds));
  const std::pair<const char *, bool> refused[] = {
      {"--inputs", !options.inputs.empty()},
      {"--outputs", !options.outputs.empty()},
      {"--save", !options.save.empty()},
      {"--load", !options.load.empty()},
      {"--load-weights", !options.loadWeights.empty()},
      {"--compare", !options.compare.empty()},
      {"--summary", !options.summary.empty()},
      {"--trace", !options.trace.empty()}};
  for (auto [option, given] : refused)
    if (given && options.tune)
      return usageError(llvm::Twine("expected no '") + option +
                        "' with '--tune', which runs nothing");
  return std::nullopt;
}

} // namespace

std::optional<ExitCode> te::run::parseOptions(int argc, char **argv,
                                              Options &options) {
  for (int i = 1; i < argc; ++i) {
    const llvm::StringRef argument = argv[i];
    if (argument == "--help" || argument == "-help" || argument == "-h") {
      llvm::outs() << kHelp;
      return kOk;
    }
    if (argument == "--version" || argument == "-version") {
      llvm::outs() << "te-run " << TE_VERSION << " (runtime ABI "
                   << te_rt_version() << ", LLVM " << LLVM_VERSION_STRING
                   << ")\n";
      return kOk;
    }
  }

  const auto ofLLVM =
      llvm::to_vector(llvm::make_second_range(cl::getRegisteredOptions()));
  cl::opt<std::string, true> file(cl::Positional, cl::location(options.file));
  cl::opt<std::string, true> entry("entry", cl::location(options.entry));
  cl::opt<std::string, true> backend("backend", cl::location(options.backend));
  cl::opt<std::string, true> pipeline("pipeline",
                                      cl::location(options.pipeline));
  cl::opt<std::string, true> inputs("inputs", cl::location(options.inputs));
  cl::opt<std::string, true> outputs("outputs", cl::location(options.outputs));
  cl::opt<std::string, true> load("load", cl::location(options.load));
  cl::opt<std::string, true> loadWeights("load-weights",
                                         cl::location(options.loadWeights));
  cl::opt<std::string, true> save("save", cl::location(options.save));
  cl::opt<std::string, true> compare("compare", cl::location(options.compare));
  cl::opt<std::string, true> compareFile("compare-file",
                                         cl::location(options.compareFile));
  cl::opt<std::string> comparePipeline("compare-pipeline");
  cl::opt<bool, true> compareVjp("compare-vjp",
                                 cl::location(options.compareVjp));
  cl::opt<std::string, true> summary("summary", cl::location(options.summary));
  cl::opt<std::string, true> trace("trace", cl::location(options.trace));
  cl::opt<int64_t> steps("steps", cl::init(1));
  cl::opt<uint64_t> seed("seed");
  cl::opt<int64_t> timeout("timeout", cl::init(600));
  cl::opt<std::string> gemmChoice("gemm-choice", cl::init("tuned"));
  cl::opt<std::string, true> gemmFile("gemm-file",
                                      cl::location(options.gemmFile));
  cl::opt<bool, true> tune("tune", cl::location(options.tune));
  cl::opt<int64_t> tuneSeconds("tune-seconds");
  cl::opt<bool, true> vjp("vjp", cl::location(options.vjp));
  cl::opt<bool, true> graph("graph", cl::location(options.graph));
  cl::opt<bool, true> digests("digests", cl::location(options.digests));
  cl::opt<bool, true> quiet("quiet", cl::location(options.quiet));
  cl::opt<bool, true> checkFinite("check-finite",
                                  cl::location(options.checkFinite));
  cl::opt<std::string> probes("probes", cl::ValueOptional);
  mlir::registerPassManagerCLOptions();
  mlir::registerMLIRContextCLOptions();
  if (std::string misplaced =
          mlir::te::findMisplacedOption({argv, size_t(argc)}, "--pipeline");
      !misplaced.empty())
    return usageError(misplaced);
  // With a stream for the errors LLVM returns instead of exiting with 1.
  if (!cl::ParseCommandLineOptions(argc, argv, "", &llvm::errs()))
    return kUsage;
  options.usesCodeCache = llvm::none_of(ofLLVM, [](cl::Option *option) {
    return option->getNumOccurrences() != 0;
  });
  options.steps = steps;
  options.timeout = timeout;
  options.tuneSeconds = tuneSeconds;
  if (probes.getNumOccurrences())
    options.probes = probes.empty() ? "*" : probes.getValue();
  if (seed.getNumOccurrences())
    options.seed = seed;
  if (comparePipeline.getNumOccurrences())
    options.comparePipeline = comparePipeline;

  if (options.file.empty())
    return usageError("expected a file");
  // Of a script, a variable without a value: without this, the run would go on
  // from nothing, or write nothing.
  for (const auto *name : {&inputs, &outputs, &load, &loadWeights, &save,
                           &compare, &compareFile, &summary, &trace, &gemmFile})
    if (name->getNumOccurrences() && name->getValue().empty())
      return usageError("expected '--" + name->ArgStr + "' not to be empty");
  if (options.entry.empty())
    return usageError("expected '--entry' to name the function to run");
  if (options.steps < 1)
    return usageError("expected '--steps' to be positive, but got " +
                      llvm::Twine(options.steps));
  if (options.timeout < 1 || options.timeout > 1000000)
    return usageError(
        "expected '--timeout' to be from 1 to 1000000 seconds, but "
        "got " +
        llvm::Twine(options.timeout));
  if (!llvm::is_contained({"auto", "reference", "cuda"}, options.backend))
    return usageError("expected '--backend' to be one of auto, reference, "
                      "cuda, but got '" +
                      options.backend + "'");
  if (options.digests && options.outputs.empty())
    return usageError("expected '--outputs' with '--digests'");
  if (!options.load.empty() && !options.loadWeights.empty())
    return usageError("expected one of '--load' and '--load-weights', but got "
                      "both");
  if (std::optional<ExitCode> code =
          checkGemms(gemmChoice, tuneSeconds.getNumOccurrences() != 0, options))
    return code;
  return checkComparison(options);
}

bool te::run::placeInJob(int rank, int size, Options &options,
                         std::string &error) {
  options.rank = rank;
  const struct {
    const char *option;
    std::string &path;
    bool isWritten, isReport;
  } files[] = {{"--inputs", options.inputs, false, false},
               {"--load", options.load, false, false},
               {"--load-weights", options.loadWeights, false, false},
               {"--outputs", options.outputs, true, false},
               {"--save", options.save, true, false},
               {"--summary", options.summary, true, true},
               {"--trace", options.trace, true, true}};
  constexpr llvm::StringLiteral kRank = "{rank}";
  for (const auto &file : files) {
    const size_t place = file.path.find(kRank);
    if (place != std::string::npos) {
      file.path.replace(place, kRank.size(), std::to_string(rank));
    } else if (file.isReport && rank != 0) {
      file.path.clear();
    } else if (file.isWritten && !file.isReport && !file.path.empty() &&
               size > 1) {
      error = std::string("expected '{rank}' in '") + file.option +
              "', which each of the " + std::to_string(size) +
              " processes writes, but got '" + file.path + "'";
      return false;
    }
  }
  if (size > 1 && (options.file == "-" || options.compareFile == "-")) {
    error = "expected a file, but got standard input, which only one of the " +
            std::to_string(size) + " processes has";
    return false;
  }
  if (rank != 0)
    options.quiet = true;
  return true;
}

mlir::te::CompileRequest te::run::requestOf(const Options &options,
                                            const te_rt_context &context) {
  mlir::te::CompileRequest request;
  request.entry = options.entry;
  request.pipeline = options.pipeline;
  request.vjp = options.vjp;
  request.backend = te_rt_context_backend(&context);
  request.adjust = [&](mlir::te::TrainingPipelineOptions &pipeline) {
    // Of a comparison.
    if (!options.compare.empty())
      pipeline.exposeCasts = true;
    if (options.checkFinite)
      pipeline.checkFinite = true;
    if (!options.usesCodeCache)
      pipeline.codeCache = false;
    if (options.graph && !pipeline.capture.hasValue())
      pipeline.capture = true;
    if (!options.probes.empty())
      pipeline.probes.push_back(options.probes);
  };
  return request;
}
