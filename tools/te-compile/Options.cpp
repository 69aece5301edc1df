//===- Options.cpp - the command line of te-compile -----------------------===//

#include "Options.h"

#include "TEDialect/Runtime/te_runtime.h"

#include "TEDialect/Pipelines/Pipelines.h"
#include "TEDialect/Support/Printable.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace te::compile;
using mlir::te::ExitCode;
using mlir::te::kOk;
using mlir::te::kUsage;
namespace cl = llvm::cl;

namespace {

constexpr llvm::StringLiteral kHelp =
    R"(OVERVIEW: te-compile, makes a training step a file that needs only libte_runtime

USAGE: te-compile FILE --entry=NAME -o OUTPUT [options]      (FILE '-' is standard input)

Program:
  --entry=NAME        function to compile; names of arguments are its te.name's
  --vjp               differentiate it: it then takes 'grad.<result>' and gives
                      'grad.<argument>'
  --pipeline="OPTS"   options of te-opt's --te-training-pipeline, e.g.
                      "recipe=float8_block_scaling target=reference"; the target
                      is sm_90 unless they name one
Output:
  -o F.so             a shared object, linked with libte_runtime
  -o F.o              an object; F.h, its header, is written beside it
  -o F.s, -o F.ll     the same as assembly or LLVM IR
  --header=F.h        write the header here
  --symbol=NAME       name of the te_rt_module and, followed by '_signature', of
                      the table of arguments (default: te_module); steps of one
                      program need different ones
  --linker=PROGRAM    what links F.so (default: the first found on the PATH of
                      ld.lld, ld.lld-22, ld, clang, cc)
Debugging:
  --mlir-print-ir-after-all
  --help, --help-hidden (every option of MLIR and LLVM), --version

EXAMPLES:
  te-compile train.mlir --entry=train_step -o step.so \
             --pipeline="recipe=float8_current_scaling"
  te-compile mlp.mlir --entry=mlp --vjp --symbol=mlp_grad -o mlp_grad.o

EXIT CODES: 0 ok, 1 diagnostics, 2 usage, 3 internal error
)";

ExitCode usageError(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "te-compile")
      << mlir::te::printable(message.str())
      << "; 'te-compile --help' shows every option\n";
  return kUsage;
}

bool isIdentifier(llvm::StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

} // namespace

std::optional<ExitCode> te::compile::parseOptions(int argc, char **argv,
                                                  Options &options) {
  for (int i = 1; i < argc; ++i) {
    const llvm::StringRef argument = argv[i];
    if (argument == "--help" || argument == "-help" || argument == "-h") {
      llvm::outs() << kHelp;
      return kOk;
    }
    if (argument == "--version" || argument == "-version") {
      llvm::outs() << "te-compile " << TE_VERSION << " (runtime ABI "
                   << te_rt_version() << ", LLVM " << LLVM_VERSION_STRING
                   << ")\n";
      return kOk;
    }
  }

  const auto ofLLVM =
      llvm::to_vector(llvm::make_second_range(cl::getRegisteredOptions()));
  cl::opt<std::string, true> file(cl::Positional, cl::location(options.file));
  cl::opt<std::string, true> entry("entry", cl::location(options.entry));
  cl::opt<std::string, true> pipeline("pipeline",
                                      cl::location(options.pipeline));
  cl::opt<std::string, true> output("o", cl::location(options.output));
  cl::opt<std::string, true> header("header", cl::location(options.header));
  cl::opt<std::string> symbol("symbol", cl::init("te_module"));
  cl::opt<std::string, true> linker("linker", cl::location(options.linker));
  cl::opt<bool, true> vjp("vjp", cl::location(options.vjp));
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
  options.symbol = symbol;

  if (options.file.empty())
    return usageError("expected a file");
  if (options.entry.empty())
    return usageError("expected '--entry' to name the function to compile");
  if (options.output.empty())
    return usageError("expected '-o' to name the file to write");
  const std::pair<llvm::StringRef, Kind> kinds[] = {{".so", Kind::SharedObject},
                                                    {".o", Kind::Object},
                                                    {".s", Kind::Assembly},
                                                    {".ll", Kind::LLVMIR}};
  const llvm::StringRef ending = llvm::sys::path::extension(options.output);
  const auto *kind = llvm::find_if(
      kinds, [&](const auto &known) { return known.first == ending; });
  if (kind == std::end(kinds))
    return usageError("expected the name after '-o' to end in .so, .o, .s or "
                      ".ll, but got '" +
                      options.output + "'");
  options.kind = kind->second;
  if (!isIdentifier(options.symbol))
    return usageError("expected '--symbol' to be a C identifier, but got '" +
                      options.symbol + "'");
  if (options.kind == Kind::Object && options.header.empty()) {
    llvm::SmallString<128> beside(options.output);
    llvm::sys::path::replace_extension(beside, ".h");
    options.header = beside.str();
  }
  return std::nullopt;
}
