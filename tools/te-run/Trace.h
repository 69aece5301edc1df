//===- Trace.h - where the time of a run goes -----------------------------===//
//
// Collects spans while te-run works and writes them as trace events, the JSON
// that Perfetto and chrome://tracing open. Knows neither the compiler nor the
// runtime: launches are numbers until `write` gets their names.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_TRACE_H
#define TE_TOOLS_TE_RUN_TRACE_H

#include "OutputFile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace te::run {

/// What a launch is, by slot.
struct LaunchLabel {
  std::string name;
  llvm::json::Object details;
};

class Trace {
public:
  using Clock = std::chrono::steady_clock;

  /// Adds a span of the host from `begin` to now.
  void span(std::string name, Clock::time_point begin);
  /// Adds a launch of `slot` that has just ended.
  void launch(int32_t slot, const char *kernel, float milliseconds);

  /// Launches of slots without a label are called after their kernel.
  bool write(OutputFile &file, std::vector<LaunchLabel> labels,
             llvm::json::Object properties, std::string &error) const;

private:
  struct Span {
    std::string name;
    /// Of a launch, else -1.
    int32_t slot;
    /// In microseconds.
    double begin, duration;
  };
  double since(Clock::time_point time) const;

  Clock::time_point origin = Clock::now();
  std::vector<Span> spans;
  double lastLaunchEnd = 0;
};

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_TRACE_H
