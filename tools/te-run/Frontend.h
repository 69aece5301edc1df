//===- Frontend.h - from a file to a compiled step ------------------------===//

#ifndef TE_TOOLS_TE_RUN_FRONTEND_H
#define TE_TOOLS_TE_RUN_FRONTEND_H

#include "TEDialect/JIT/JIT.h"
#include "TEDialect/Pipelines/Pipelines.h"

#include "Runner.h"
#include "Trace.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SourceMgr.h"

#include <vector>

namespace te::run {

/// Parses the buffer in `sources` and verifies each op on its own, so that one
/// run reports everything that is wrong. Null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> parseModule(llvm::SourceMgr &sources,
                                              mlir::MLIRContext *context);

/// Makes `entry` the one public function, so that it is what is compiled. Where
/// it is not a function with a body, `error` says which functions there are.
bool selectEntry(mlir::ModuleOp module, llvm::StringRef entry,
                 std::string &error);

/// Names of the arguments of `entry` that are parameters (`te.weight`).
llvm::StringSet<> weightsOf(mlir::ModuleOp module, llvm::StringRef entry);

/// Fills `manager` with the whole training pipeline, for what `selectEntry`
/// selected. Fails after a diagnostic without a location where an option has a
/// value that is not one of the accepted ones.
llvm::LogicalResult
populatePipeline(mlir::PassManager &manager,
                 const mlir::te::TrainingPipelineOptions &options);

/// Adds a span to `trace` for every phase of the pipeline in `manager`.
void tracePhases(mlir::PassManager &manager, Trace &trace);

/// Sets `recipe` to the text of the recipe that the pipeline in `manager` puts
/// in force for the functions of the module. It must outlive the run.
void recordRecipe(mlir::PassManager &manager, std::string &recipe);

/// What the trace calls the launches of `step`, by slot.
std::vector<LaunchLabel> labelsOf(const mlir::te::CompiledStep &step);

/// Where the user's op of `layer` is, as "file:line:column"; may be empty. Of
/// layers of one name, `<layer>.1` is the second.
std::string locationOf(const mlir::te::CompiledStep &step,
                       llvm::StringRef layer);

/// The step's pointers as the runner sees them; those of scaled values are
/// called `<name>.data` and `<name>.scale`.
std::vector<StepArgument> argumentsOf(const mlir::te::CompiledStep &step,
                                      const llvm::StringSet<> &weights);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_FRONTEND_H
