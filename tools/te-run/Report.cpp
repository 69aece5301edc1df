//===- Report.cpp - what te-run tells and writes --------------------------===//

#include "Report.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace te::run;

Progress::Progress(int64_t steps)
    : steps(steps), shown(std::chrono::steady_clock::now()) {}

void Progress::update(int64_t step, double ms, const std::string &scalars) {
  const auto now = std::chrono::steady_clock::now();
  if (step != steps && now - shown < std::chrono::seconds(1))
    return;
  shown = now;
  llvm::errs() << "step " << step << "/" << steps << ", "
               << llvm::format("%.3g", ms) << " ms"
               << (scalars.empty() ? "" : ", ") << scalars << "\n";
}

void te::run::printCapture(const RunSummary &summary) {
  llvm::errs() << "capturing a graph that uses arena " << summary.arenaBytes
               << " bytes, workspace " << summary.workspaceBytes
               << " bytes, arguments " << summary.argumentBytes << " bytes\n";
}

void te::run::printSummary(const RunSummary &summary, int64_t steps) {
  // What follows a semicolon is why it is not another device.
  const llvm::StringRef device =
      llvm::StringRef(summary.device).split(';').first;
  llvm::errs() << steps << (steps == 1 ? " step on " : " steps on ")
               << summary.backend << " (" << device
               << "): " << llvm::format("%.4g", summary.msPerStep)
               << " ms per step, arena " << summary.arenaBytes
               << " bytes, arguments " << summary.argumentBytes << " bytes\n";
}

bool te::run::writeSummary(OutputFile &file, const RunSummary &summary,
                           int64_t steps, std::string &error) {
  file.os() << llvm::formatv("{0:2}\n",
                             llvm::json::Value(llvm::json::Object{
                                 {"steps", steps},
                                 {"ms_per_step", summary.msPerStep},
                                 {"ms_first_step", summary.msFirstStep},
                                 {"arena_bytes", summary.arenaBytes},
                                 {"workspace_bytes", summary.workspaceBytes},
                                 {"argument_bytes", summary.argumentBytes},
                                 {"backend", summary.backend},
                                 {"device", summary.device}}));
  return file.flush(error);
}

bool te::run::writeOutputs(OutputFile &file, const support::NpzArchive &outputs,
                           std::string &error) {
  const support::ByteSink sink = [&](const void *bytes, size_t size) {
    file.os().write(static_cast<const char *>(bytes), size);
    return !file.os().has_error();
  };
  const bool written =
      support::writeNpz(sink, outputs, /*deflate=*/false, error);
  // Where it is the sink that failed, the flush says why.
  return (written || error.empty()) && file.flush(error);
}
