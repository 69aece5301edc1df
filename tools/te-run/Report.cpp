//===- Report.cpp - what te-run tells and writes --------------------------===//

#include "Report.h"

#include "TEDialect/Support/Printable.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <set>

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
               << (scalars.empty() ? "" : ", ") << mlir::te::printable(scalars)
               << "\n";
}

/// A GEMM of a library, or one of this project that stands for it.
static bool isGemm(const mlir::te::LaunchInfo &launch) {
  return launch.kernel == "matmul" || launch.kernel == "scaled_matmul";
}

void TuningProgress::begin(const mlir::te::CompiledStep &step) {
  numbers.clear();
  count = 0;
  for (const mlir::te::LaunchInfo &launch : step.launches())
    numbers.push_back(isGemm(launch) ? ++count : 0);
  next = std::chrono::steady_clock::now() + std::chrono::seconds(2);
}

void TuningProgress::update(int32_t slot, llvm::StringRef gemm) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next)
    return;
  next = now + std::chrono::seconds(1);
  llvm::errs() << "tuning GEMM " << numbers[slot] << " of " << count << ", "
               << mlir::te::printable(gemm) << "\n";
}

static const char *originText(int32_t origin) {
  switch (origin) {
  case TE_RT_GEMM_ORIGIN_SMALL:
    return "small";
  case TE_RT_GEMM_ORIGIN_FIRST:
    return "first";
  case TE_RT_GEMM_ORIGIN_MEASURED:
    return "measured";
  case TE_RT_GEMM_ORIGIN_FILE:
    return "file";
  default:
    return "none";
  }
}

std::string te::run::tuningSentence(llvm::ArrayRef<GemmLaunch> gemms,
                                    llvm::StringRef file) {
  std::map<int32_t, std::set<llvm::StringRef>> found;
  for (const GemmLaunch &launch : gemms)
    found[launch.origin].insert(launch.gemm);
  const auto number = [&](te_rt_gemm_origin origin) {
    return std::to_string(found[origin].size());
  };
  std::string text =
      "tuned " + number(TE_RT_GEMM_ORIGIN_MEASURED) + " GEMMs, " +
      number(TE_RT_GEMM_ORIGIN_FILE) + " were in " +
      (file.empty() ? "the tuning file" : "'" + file.str() + "'") +
      " already, " + number(TE_RT_GEMM_ORIGIN_SMALL) + " are too small to tune";
  if (!found[TE_RT_GEMM_ORIGIN_FIRST].empty())
    text += ", " + number(TE_RT_GEMM_ORIGIN_FIRST) +
            " are left because time or memory was short";
  return text;
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
  std::map<int32_t, size_t> origins;
  for (const GemmLaunch &launch : summary.gemms)
    ++origins[launch.origin];
  if (!summary.gemms.empty())
    llvm::errs() << "algorithms of " << summary.gemms.size() << " GEMMs:";
  for (auto [origin, count] : origins)
    llvm::errs() << (origin == origins.begin()->first ? " " : ", ") << count
                 << " " << originText(origin);
  if (!summary.gemms.empty())
    llvm::errs() << "\n";
  if (workspaces.empty())
    return;
  // Outside the arena, one region for all launches.
  constexpr size_t kMostRows = 10;
  llvm::errs() << "workspace " << summary.workspaceBytes << " bytes, planned "
               << plannedBytes(workspaces) << "\n";
  for (const Workspace &row : workspaces.take_front(kMostRows))
    llvm::errs() << "  " << row.kernel << " '" << mlir::te::printable(row.name)
                 << "': " << row.bytes << " bytes, planned " << row.planned
                 << "\n";
  if (workspaces.size() > kMostRows)
    llvm::errs() << "  and " << workspaces.size() - kMostRows
                 << " that need no more\n";
}

bool te::run::writeSummary(OutputFile &file, const RunSummary &summary,
                           int64_t steps, const mlir::te::CompiledStep &step,
                           llvm::ArrayRef<Workspace> workspaces,
                           std::string &error) {
  llvm::json::Array gemms;
  for (const GemmLaunch &launch : summary.gemms) {
    const mlir::te::LaunchInfo &info = step.launches()[launch.slot];
    gemms.push_back(llvm::json::Object{{"kernel", info.kernel},
                                       {"name", info.name},
                                       {"gemm", launch.gemm},
                                       {"chosen", originText(launch.origin)},
                                       {"algorithm", launch.algorithm}});
  }
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
                     {"gemms", std::move(gemms)},
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
