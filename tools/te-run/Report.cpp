//===- Report.cpp - what te-run tells and writes --------------------------===//

#include "Report.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

using namespace te::run;

namespace {

/// Lets `write` make a file beside `path`, then puts it in place.
bool writeAtomically(const std::string &path, std::string &error,
                     llvm::function_ref<bool(const std::string &)> write) {
  const std::string temporary =
      path + ".tmp" + std::to_string(llvm::sys::Process::getProcessId());
  if (!write(temporary)) {
    llvm::sys::fs::remove(temporary);
    return false;
  }
  if (std::error_code code = llvm::sys::fs::rename(temporary, path)) {
    llvm::sys::fs::remove(temporary);
    error = "cannot write '" + path + "': " + code.message();
    return false;
  }
  return true;
}

} // namespace

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

bool te::run::writeSummary(const std::string &path, const RunSummary &summary,
                           int64_t steps, std::string &error) {
  return writeAtomically(path, error, [&](const std::string &temporary) {
    std::error_code code;
    llvm::raw_fd_ostream stream(temporary, code);
    if (!code) {
      stream << llvm::formatv("{0:2}\n",
                              llvm::json::Value(llvm::json::Object{
                                  {"steps", steps},
                                  {"ms_per_step", summary.msPerStep},
                                  {"ms_first_step", summary.msFirstStep},
                                  {"arena_bytes", summary.arenaBytes},
                                  {"argument_bytes", summary.argumentBytes},
                                  {"backend", summary.backend},
                                  {"device", summary.device}}));
      stream.close();
      code = stream.error();
      stream.clear_error();
    }
    if (code)
      error = "cannot write '" + path + "': " + code.message();
    return !code;
  });
}

bool te::run::writeOutputs(const std::string &path,
                           const support::NpzArchive &outputs,
                           std::string &error) {
  return writeAtomically(path, error, [&](const std::string &temporary) {
    return support::writeNpz(temporary, outputs, /*deflate=*/false, error);
  });
}
