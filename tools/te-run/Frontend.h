//===- Frontend.h - te-run's calls of the compiler ------------------------===//

#ifndef TE_TOOLS_TE_RUN_FRONTEND_H
#define TE_TOOLS_TE_RUN_FRONTEND_H

#include "TEDialect/JIT/JIT.h"

#include "Runner.h"
#include "Trace.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <vector>

namespace te::run {

/// Adds a span to `trace` for every phase of the pipeline in `manager`.
void tracePhases(mlir::PassManager &manager, Trace &trace);

/// What the trace calls the launches of `step`, by slot.
std::vector<LaunchLabel> labelsOf(const mlir::te::CompiledStep &step);

/// Scratch memory of the launches of one kernel under one name: what was
/// planned for them, without a device, and what their loaded plans take, each
/// for the launch that needs most.
struct Workspace {
  std::string kernel, name;
  int64_t planned = 0, bytes = 0;
};

/// The launches that need some, largest first; `taken` is by slot.
std::vector<Workspace> workspacesOf(const mlir::te::CompiledStep &step,
                                    llvm::ArrayRef<int64_t> taken);

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
