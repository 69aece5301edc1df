//===- Checkpoint.h - what a checkpoint says of itself --------------------===//
//
// A checkpoint is a safetensors file with every value that a step carries to
// the next one: parameters, moments, and what the recipe remembers (histories,
// scales, a random state), each by its te.name. Its metadata says what they are
// states of:
//
//   te.format   version of the names and meanings of quantiser states
//   te.step     steps run to get there
//   te.recipe   recipe of the entry
//   te.version  program that wrote it
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

/// The metadata of a checkpoint that `version` writes.
std::map<std::string, std::string>
checkpointMetadata(const CheckpointInfo &info, const std::string &version);

/// Reads the metadata of `file`, which was read from `path`. False, with
/// `error` set, if it is no checkpoint that this release understands.
bool readCheckpointInfo(const Safetensors &file, const std::string &path,
                        CheckpointInfo &info, std::string &error);

} // namespace te::support

#endif // TE_SUPPORT_CHECKPOINT_H
