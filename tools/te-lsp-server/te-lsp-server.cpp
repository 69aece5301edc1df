//===- te-lsp-server.cpp - diagnostics and navigation for editors ---------===//
//
// MLIR's language server with the te dialects. Editors start it over the
// standard streams; upstream's VS Code extension takes its path in the setting
// 'mlir.server_path'.
//
//===----------------------------------------------------------------------===//

#include "ToolMain.h"

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/LogicalResult.h"
#include "llvm/Support/raw_ostream.h"

static constexpr llvm::StringLiteral kHelp =
    R"(OVERVIEW: te-lsp-server, diagnostics, hover and navigation in editors

USAGE: te-lsp-server [options]      (an editor starts it, and speaks LSP over the standard streams)

  --log=LEVEL         error, info (default) or verbose, to standard error
  --pretty            indent what is sent
  --help, --help-hidden (every option of MLIR and LLVM), --version

VS Code: the extension 'MLIR', with the path of this program in 'mlir.server_path'.
)";

int TE_TOOL_MAIN(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    const llvm::StringRef argument = argv[i];
    if (argument == "--help" || argument == "-help" || argument == "-h") {
      llvm::outs() << kHelp;
      return 0;
    }
    if (argument == "--version" || argument == "-version") {
      llvm::outs() << "te-lsp-server " << TE_VERSION << " (LLVM "
                   << LLVM_VERSION_STRING << ")\n";
      return 0;
    }
  }
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
