//===- Checkpoint.h - the states of a step in a file ----------------------===//
//
// A checkpoint is a safetensors file with every value that a step carries to
// the next one: parameters, moments, and what the recipe remembers (histories,
// scales, a random state), each by its te.name. Its metadata says what they are
// states of:
//
//   te.format   version of the names and meanings of quantiser states
//   te.step     steps run to get there
//   te.recipe   recipe of the entry
//   te.version  te-run that wrote it
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_CHECKPOINT_H
#define TE_TOOLS_TE_RUN_CHECKPOINT_H

#include "OutputFile.h"
#include "Runner.h"

#include <string>
#include <vector>

namespace te::run {

struct CheckpointInfo {
  std::string recipe;
  int64_t step = 0;
};

/// Whether the step carries a state.
bool hasStates(const std::vector<StepArgument> &arguments);

/// Writes the carried results among `outputs`. On failure says why in `error`.
bool writeCheckpoint(OutputFile &file,
                     const std::vector<StepArgument> &arguments,
                     const support::NpzArchive &outputs,
                     const CheckpointInfo &info, std::string &error);

/// Reads `path` into `states`, by the names of arguments. It must hold the
/// carried states, all and nothing else. What is wrong is appended to `errors`.
void readCheckpoint(const std::string &path,
                    const std::vector<StepArgument> &arguments,
                    support::NpzArchive &states, CheckpointInfo &info,
                    std::vector<std::string> &errors);

/// Reads only the parameters (`te.weight`) from any safetensors file that has
/// them all.
void readWeights(const std::string &path,
                 const std::vector<StepArgument> &arguments,
                 support::NpzArchive &states, std::vector<std::string> &errors);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_CHECKPOINT_H
