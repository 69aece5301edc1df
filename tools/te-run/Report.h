//===- Report.h - what te-run tells and writes ----------------------------===//

#ifndef TE_TOOLS_TE_RUN_REPORT_H
#define TE_TOOLS_TE_RUN_REPORT_H

#include "Runner.h"

#include <chrono>
#include <cstdint>
#include <string>

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

/// One line on the standard error.
void printSummary(const RunSummary &summary, int64_t steps);

// Files appear complete or not at all: they are written beside their place and
// renamed. On failure these return false and say why in `error`.

bool writeSummary(const std::string &path, const RunSummary &summary,
                  int64_t steps, std::string &error);
bool writeOutputs(const std::string &path, const support::NpzArchive &outputs,
                  std::string &error);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_REPORT_H
