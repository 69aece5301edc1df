//===- Trace.cpp - where the time of a run goes ---------------------------===//
//
// Two tracks: what the host does one after another (compiling, loading, steps),
// and below it the launches of the traced step.
//
//===----------------------------------------------------------------------===//

#include "Trace.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace te::run;
namespace json = llvm::json;

namespace {
enum Track : int64_t { kHost = 1, kLaunches = 2 };
} // namespace

double Trace::since(Clock::time_point time) const {
  return std::chrono::duration<double, std::micro>(time - origin).count();
}

void Trace::span(std::string name, Clock::time_point begin) {
  spans.push_back(
      {std::move(name), -1, since(begin), since(Clock::now()) - since(begin)});
}

void Trace::launch(int32_t slot, const char *kernel, float milliseconds) {
  const double duration = 1e3 * milliseconds;
  // The clocks of host and device differ; spans of one track do not overlap.
  const double begin = std::max(lastLaunchEnd, since(Clock::now()) - duration);
  lastLaunchEnd = begin + duration;
  spans.push_back({kernel, slot, begin, duration});
}

static json::Object trackName(Track track, llvm::StringRef name) {
  return json::Object{{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 1},
                      {"tid", int64_t(track)},
                      {"args", json::Object{{"name", name}}}};
}

bool Trace::write(OutputFile &file, std::vector<LaunchLabel> labels,
                  json::Object properties, std::string &error) const {
  json::Array events{trackName(kHost, "te-run"),
                     trackName(kLaunches, "launches of the last step")};
  for (const Span &span : spans) {
    const bool isLaunch = span.slot >= 0;
    json::Object event{{"ph", "X"},
                       {"name", span.name},
                       {"cat", isLaunch ? "launch" : "host"},
                       {"pid", 1},
                       {"tid", int64_t(isLaunch ? kLaunches : kHost)},
                       {"ts", span.begin},
                       {"dur", span.duration}};
    if (isLaunch && span.slot < static_cast<int64_t>(labels.size())) {
      // A slot is launched once a step, and one step is traced.
      LaunchLabel &label = labels[span.slot];
      event["name"] = label.name;
      event["args"] = std::move(label.details);
    }
    events.push_back(std::move(event));
  }
  file.os() << llvm::formatv(
      "{0:1}\n", json::Value(json::Object{{"displayTimeUnit", "ms"},
                                          {"otherData", std::move(properties)},
                                          {"traceEvents", std::move(events)}}));
  return file.flush(error);
}
