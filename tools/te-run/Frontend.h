//===- Frontend.h - from a file to a compiled step ------------------------===//

#ifndef TE_TOOLS_TE_RUN_FRONTEND_H
#define TE_TOOLS_TE_RUN_FRONTEND_H

#include "TEDialect/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SourceMgr.h"

namespace te::run {

/// Parses the buffer in `sources` and verifies each op on its own, so that one
/// run reports everything that is wrong. Null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> parseModule(llvm::SourceMgr &sources,
                                              mlir::MLIRContext *context);

/// Checks that `entry` is a function with a body; otherwise reports which
/// functions there are.
llvm::LogicalResult checkEntry(mlir::ModuleOp module, llvm::StringRef entry);

/// Runs the training pipeline to its end.
llvm::LogicalResult
compileModule(mlir::ModuleOp module,
              const mlir::te::TrainingPipelineOptions &options);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_FRONTEND_H
