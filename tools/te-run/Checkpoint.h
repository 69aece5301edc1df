//===- Checkpoint.h - the states of a step in a file ----------------------===//
//
// See Support/Checkpoint.h for the format.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_CHECKPOINT_H
#define TE_TOOLS_TE_RUN_CHECKPOINT_H

#include "OutputFile.h"
#include "Runner.h"
#include "Support/Checkpoint.h"

#include <string>
#include <vector>

namespace te::run {

using support::CheckpointInfo;

/// Whether the step carries a state.
bool hasStates(const std::vector<StepArgument> &arguments);

/// Writes the carried results among `outputs`. On failure says why in `error`.
bool writeCheckpoint(OutputFile &file,
                     const std::vector<StepArgument> &arguments,
                     const support::NpzArchive &outputs,
                     const CheckpointInfo &info, std::string &error);

/// What is to be said of the arrays of a run.
struct Remarks {
  std::vector<std::string> errors, warnings;
  /// What the loaded file and the step do not have in common, or "".
  std::string resumed;
};

/// Reads the carried states of `path` into `states`, by the names of arguments.
/// `info` is of this step, and counts the steps of the file on return. See
/// support::restoreStates for what the file must hold.
void readCheckpoint(const std::string &path,
                    const std::vector<StepArgument> &arguments,
                    support::NpzArchive &states, CheckpointInfo &info,
                    Remarks &remarks);

/// Reads only the parameters (`te.weight`) from any safetensors file that has
/// them all.
void readWeights(const std::string &path,
                 const std::vector<StepArgument> &arguments,
                 support::NpzArchive &states, std::vector<std::string> &errors);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_CHECKPOINT_H
