//===- te-opt.cpp - the opt tool of the te dialect ------------------------===//
//
// An ordinary opt tool. The three flags of our own, --te-compile-to,
// --te-report and --te-report-format, are spellings of options of
// --te-training-pipeline and are merged into it before parsing.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

static constexpr llvm::StringLiteral kHelp =
    R"(OVERVIEW: te-opt, the opt tool of quantised training graphs

USAGE: te-opt [options] <input file, or - for standard input>

Compile:
  --te-training-pipeline="OPTIONS"  run every phase; OPTIONS, separated by spaces:
      recipe=NAME             high_precision, float8_current_scaling,
                              float8_block_scaling (replaces te.recipe)
      backward-override=MODE  none, high_precision, dequantized
      transpose-policy=WHEN   on-demand (default), eager
      target=MACHINE          sm_90 (default), sm_100, reference
      memory-budget=BYTES     error if the arena needs more
      strict                  a fall-back to higher precision is an error
      fuse=BOOL               run the fuse phase (default true; changes no bit)
      vjp=FUNCTION            differentiate FUNCTION: takes 'grad.<result>',
                              returns 'grad.<argument>'
      compile-to=PHASE        see --te-compile-to
      report=LIST             see --te-report
  --te-compile-to=PHASE       stop after import, autodiff, quantize, fuse,
                              schedule or lower (default)
Report (to standard output, instead of the IR):
  --te-report=LIST            constraints, precision, memory
  --te-report-format=FORMAT   text (default) or json
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

EXIT CODES: 0 ok, 1 diagnostics or a wrong command line
)";

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // The message and the line say it; a printed op would hide them. Given twice,
  // the flag would be an error, so it is left to the user who gives it.
  constexpr llvm::StringLiteral kPrintOp = "mlir-print-op-on-diagnostic";
  bool asksForOp = llvm::any_of(llvm::ArrayRef(argv, argc), [&](char *text) {
    return llvm::StringRef(text).contains(kPrintOp);
  });
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
    if (value.consume_front("-te-training-pipeline")) {
      hasPipeline = true;
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
  if (!asksForOp)
    arguments.push_back(("--" + kPrintOp + "=false").str());
  if (reports && !hasOutput)
    arguments.insert(arguments.end(), {"-o", "/dev/null"});

  std::vector<char *> raw;
  for (std::string &argument : arguments)
    raw.push_back(argument.data());
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  mlir::te::registerAllTEPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      static_cast<int>(raw.size()), raw.data(),
      "te-opt, the opt tool of quantised training graphs\n", registry));
}
