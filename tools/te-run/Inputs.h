//===- Inputs.h - a value for every argument of a run ---------------------===//

#ifndef TE_TOOLS_TE_RUN_INPUTS_H
#define TE_TOOLS_TE_RUN_INPUTS_H

#include "Runner.h"

#include <optional>
#include <string>
#include <vector>

namespace te::run {

/// Where values come from that no array gives.
struct InputPolicy {
  int64_t steps = 1;
  /// Arguments without an array are drawn (see drawArray).
  std::optional<uint64_t> seed;
  /// Cotangents `grad.<result>` without an array are ones.
  bool onesForCotangents = false;
};

/// Whether every name of an archive means one thing: an argument, and so a
/// result, may be called `<name>`, or that and `.steps` or `.digests`. Else
/// `error` names the two.
bool checkNames(const std::vector<StepArgument> &arguments, std::string &error);

/// Takes one value for every argument that is not a result: the state of its
/// name from `loaded`, else out of `archive` the array of its name, or
/// `<name>.steps` with one value a step. Everything that is wrong is appended
/// to `errors`, arrays of `archive` that are not used to `warnings`.
std::vector<StepInput> matchInputs(const std::vector<StepArgument> &arguments,
                                   support::NpzArchive loaded,
                                   support::NpzArchive archive,
                                   const InputPolicy &policy,
                                   std::vector<std::string> &errors,
                                   std::vector<std::string> &warnings);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_INPUTS_H
