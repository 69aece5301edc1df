//===- PipelineGuard.h - exit codes of tools that run passes --------------===//
//
// A tool that runs passes can fail for three reasons, which its exit code tells
// apart: the program (a diagnostic says what), the command line, or a defect of
// this project. A defect is a crash, a pass that fails without an error
// message, or a program that no longer verifies after a pass. For a defect, the
// guard writes the program as it was before the first pass, with the pipeline,
// to a file that `te-opt --run-reproducer` runs again.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_PIPELINES_PIPELINEGUARD_H
#define TEDIALECT_PIPELINES_PIPELINEGUARD_H

#include "mlir/Pass/PassManager.h"

#include <memory>
#include <string>

namespace mlir::te {

/// What every tool ends with.
enum ExitCode {
  kOk = 0,
  /// The program, the files or the machine are at fault; a message says how.
  kDiagnostics = 1,
  /// The command line is at fault.
  kUsage = 2,
  /// This project is at fault; there is a reproducer.
  kInternal = 3,
};

/// As long as it lives, a crash ends the process with kInternal. One at a time;
/// the program starts with llvm::InitLLVM.
class PipelineGuard {
public:
  /// `tool` begins every message. `option`, where not "", is what a user gives
  /// the options of passes with, and begins messages about them.
  explicit PipelineGuard(StringRef tool, StringRef option = "");
  ~PipelineGuard();

  /// Watches `manager` from now on. Errors before its first pass are about the
  /// values of options, have no place in the program, and are printed as usage
  /// errors. The context has no threads.
  void watch(PassManager &manager);

  /// Prints a message about the command line, and fails.
  LogicalResult reportUsage(const Twine &message);
  /// Prints a message about a defect, with a reproducer where passes of a
  /// living pass manager have run, and fails.
  LogicalResult reportInternal(const Twine &what);

  /// What the tool ends with when its work ended with `result`.
  ExitCode exitCode(LogicalResult result) const;

private:
  class Observer;
  struct State;

  [[noreturn]] void exitCrashed();

  std::shared_ptr<State> state;
};

} // namespace mlir::te

#endif // TEDIALECT_PIPELINES_PIPELINEGUARD_H
