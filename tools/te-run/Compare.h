//===- Compare.h - the results of two steps, byte by byte -----------------===//
//
// A step that is compiled twice, as training and as inference, or with and
// without an option that promises to change no bit, must make the same bytes.
// Results are matched by name: quantised values first, in program order, so
// that the first difference is where the two part.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_COMPARE_H
#define TE_TOOLS_TE_RUN_COMPARE_H

#include "Runner.h"

#include <string>
#include <vector>

namespace te::run {

/// One of the two steps after its run.
struct ComparedStep {
  /// What messages call it.
  std::string label;
  const std::vector<StepArgument> &arguments;
  const support::NpzArchive &outputs;
};

struct Comparison {
  bool equal = true;
  /// If they are equal, how much was compared; otherwise the first difference
  /// and the number of differences.
  std::string text;
  /// The layer of the first difference; empty if it is not a quantised value.
  std::string layer;
};

/// Compares every result that both steps have. A quantised value
/// (`cast.<layer>.x` or `.w`) that only one of them has is a difference, too,
/// and it is a difference if there is nothing to compare.
Comparison compareSteps(const ComparedStep &a, const ComparedStep &b);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_COMPARE_H
