//===- te-lsp-server.cpp - diagnostics and navigation for editors ---------===//
//
// MLIR's language server with the te dialects. Editors start it over the
// standard streams; upstream's VS Code extension takes its path in the setting
// 'mlir.server_path'.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/LogicalResult.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
