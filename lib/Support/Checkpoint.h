//===- Checkpoint.h - what a checkpoint says of itself --------------------===//
//
// A checkpoint is a safetensors file with every value that a step carries to
// the next one: parameters, moments, and what the recipe remembers (histories,
// scales, a random state), each by its te.name. Its metadata says what they are
// states of:
//
//   te.format         version of the names and meanings of quantiser states
//   te.step           steps run to get there
//   te.recipe         recipe of the entry
//   te.recipe_states  names of the states that are the recipe's, a JSON array
//   te.version        program that wrote it
//
// A step under another recipe reads it, too: the states of recipes that it does
// not know are left, and its own that are not there start as they do in a first
// step. All others have to be there.
//
//===----------------------------------------------------------------------===//

#ifndef TE_SUPPORT_CHECKPOINT_H
#define TE_SUPPORT_CHECKPOINT_H

#include "Support/Safetensors.h"

namespace te::support {

struct CheckpointInfo {
  std::string recipe;
  int64_t step = 0;
};

/// A state of a step, with the type and the shape that a file has for it.
struct CheckpointState {
  std::string name, dtype;
  std::vector<int64_t> shape;
  /// The recipe carries it: another recipe has others.
  bool isOfRecipe = false;
};

/// What a checkpoint has for a step.
struct RestoredStates {
  /// Of the run that saved it.
  CheckpointInfo saved;
  /// For each state of the step, its value in the file, or null: it starts as
  /// it does in a first step.
  std::vector<const SafetensorsView *> values;
  /// What the user should know, or "".
  std::string warning;
};

/// The metadata of a checkpoint of `states` that `version` writes.
std::map<std::string, std::string>
checkpointMetadata(const CheckpointInfo &info,
                   std::span<const CheckpointState> states,
                   const std::string &version);

/// Finds the values of `states`, of a step under `recipe`, in `file`, which was
/// read from `path` and has to outlive `restored`. False if it is no checkpoint
/// that this release understands, or if a state that is not the recipe's is
/// missing, too many, or of another type or shape; `errors` then has a sentence
/// for each of them.
bool restoreStates(const Safetensors &file, const std::string &path,
                   const std::string &recipe,
                   std::span<const CheckpointState> states,
                   RestoredStates &restored, std::vector<std::string> &errors);

} // namespace te::support

#endif // TE_SUPPORT_CHECKPOINT_H
