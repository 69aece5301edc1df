//===- Report.h - what te-run tells and writes ----------------------------===//

#ifndef TE_TOOLS_TE_RUN_REPORT_H
#define TE_TOOLS_TE_RUN_REPORT_H

#include "Frontend.h"
#include "OutputFile.h"
#include "Runner.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace te::run {

/// One line on the standard error at most every second, and at the last step:
/// 'step 12/100, 85.1 ms, loss 3.1240'.
class Progress {
public:
  explicit Progress(int64_t steps);
  void update(int64_t step, double ms, const std::string &scalars);

private:
  int64_t steps;
  std::chrono::steady_clock::time_point shown;
};

/// 'tuning GEMM 12 of 40, m=4096 ...' on the standard error, at most every
/// second, once loading has taken two.
class TuningProgress {
public:
  /// Starts the clock for the GEMMs of `step`.
  void begin(const mlir::te::CompiledStep &step);
  void update(int32_t slot, llvm::StringRef gemm);

private:
  /// By slot: the number of a GEMM, from 1.
  std::vector<size_t> numbers;
  size_t count = 0;
  std::chrono::steady_clock::time_point next;
};

/// What --tune did with different GEMMs, in one sentence; `file` is that of the
/// user, or empty.
std::string tuningSentence(llvm::ArrayRef<GemmLaunch> gemms,
                           llvm::StringRef file);

/// What a graph will use, on one line of the standard error.
void printCapture(const RunSummary &summary);

/// One line on the standard error.
void printSummary(const RunSummary &summary, int64_t steps,
                  llvm::ArrayRef<Workspace> workspaces);

// On failure these return false and say why in `error`.

bool writeSummary(OutputFile &file, const RunSummary &summary, int64_t steps,
                  const mlir::te::CompiledStep &step,
                  llvm::ArrayRef<Workspace> workspaces, std::string &error);
bool writeOutputs(OutputFile &file, const support::NpzArchive &outputs,
                  std::string &error);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_REPORT_H
