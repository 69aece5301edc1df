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

/// What was planned for the workspace of a step.
static int64_t plannedBytes(llvm::ArrayRef<Workspace> workspaces) {
  int64_t bytes = 0;
  for (const Workspace &row : workspaces)
    bytes = std::max(bytes, row.planned);
  return bytes;
}

void te::run::printSummary(const RunSummary &summary, int64_t steps,
                           llvm::ArrayRef<Workspace> workspaces) {
  // What follows a semicolon is why it is not another device.
  const llvm::StringRef device =
      llvm::StringRef(summary.device).split(';').first;
  llvm::errs() << steps << (steps == 1 ? " step on " : " steps on ")
               << summary.backend << " (" << device
               << "): " << llvm::format("%.4g", summary.msPerStep)
               << " ms per step, arena " << summary.arenaBytes
               << " bytes, arguments " << summary.argumentBytes << " bytes\n";
  if (workspaces.empty())
    return;
  // Outside the arena, one region for all launches.
  constexpr size_t kMostRows = 10;
  llvm::errs() << "workspace " << summary.workspaceBytes << " bytes, planned "
               << plannedBytes(workspaces) << "\n";
  for (const Workspace &row : workspaces.take_front(kMostRows))
    llvm::errs() << "  " << row.kernel << " '" << row.name << "': " << row.bytes
                 << " bytes, planned " << row.planned << "\n";
  if (workspaces.size() > kMostRows)
    llvm::errs() << "  and " << workspaces.size() - kMostRows
                 << " that need no more\n";
}

bool te::run::writeSummary(OutputFile &file, const RunSummary &summary,
                           int64_t steps, llvm::ArrayRef<Workspace> workspaces,
                           std::string &error) {
  llvm::json::Array rows;
  for (const Workspace &row : workspaces)
    rows.push_back(llvm::json::Object{{"kernel", row.kernel},
                                      {"name", row.name},
                                      {"planned_bytes", row.planned},
                                      {"bytes", row.bytes}});
  file.os() << llvm::formatv(
      "{0:2}\n", llvm::json::Value(llvm::json::Object{
                     {"steps", steps},
                     {"ms_per_step", summary.msPerStep},
                     {"ms_first_step", summary.msFirstStep},
                     {"arena_bytes", summary.arenaBytes},
                     {"workspace_bytes", summary.workspaceBytes},
                     {"planned_workspace_bytes", plannedBytes(workspaces)},
                     {"workspaces", std::move(rows)},
                     {"argument_bytes", summary.argumentBytes},
                     {"backend", summary.backend},
                     {"device", summary.device}}));
  return file.flush(error);
}

bool te::run::writeOutputs(OutputFile &file, const support::NpzArchive &outputs,
                           std::string &error) {
  const support::ByteSink sink = [&](const void *bytes, size_t size) {
    return file.write(bytes, size);
  };
  const bool written =
      support::writeNpz(sink, outputs, /*deflate=*/false, error);
  // Where it is the sink that failed, the flush says why.
  return (written || error.empty()) && file.flush(error);
}
