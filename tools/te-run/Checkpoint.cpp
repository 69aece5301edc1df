//===- Checkpoint.cpp - the states of a step in a file --------------------===//

#include "Checkpoint.h"

#include <set>

namespace te::run {
namespace {

/// The arguments that results become in the next step.
std::vector<const TensorSpec *>
statesOf(const std::vector<StepArgument> &arguments) {
  std::vector<const TensorSpec *> states;
  for (const StepArgument &argument : arguments)
    if (argument.carriedInput >= 0)
      states.push_back(&arguments[argument.carriedInput].spec);
  return states;
}

/// A file and what is in it.
class Checkpoint {
public:
  Checkpoint(const std::string &path, std::vector<std::string> &errors)
      : path(path), errors(errors) {
    std::string error;
    if (!support::readFile(path, bytes, error))
      fail(std::move(error));
    else if (!support::parseSafetensors(bytes, file, error))
      fail("cannot read '" + path + "': " + error);
    else
      isRead = true;
  }

  void fail(std::string error) { errors.push_back(std::move(error)); }

  /// Copies the tensor of `spec`'s name.
  void take(const TensorSpec &spec, const char *kind,
            support::NpzArchive &states) {
    const auto at = file.tensors.find(spec.name);
    if (at == file.tensors.end())
      return fail("expected '" + path + "' to have " + kind + " '" + spec.name +
                  "' (" + spec.str() + ")");
    const support::SafetensorsView &view = at->second;
    const TensorSpec stored{{}, spec.type, checkpointShape(spec)};
    if (view.dtype != checkpointType(spec.type) || view.shape != stored.shape)
      return fail("expected " + std::string(kind) + " '" + spec.name +
                  "' of '" + path + "' to be " + checkpointType(spec.type) +
                  " " + shapeText(stored.shape) + ", but got " + view.dtype +
                  " " + shapeText(view.shape));
    support::NpyArray &array = states[spec.name];
    if (!zerosArray(spec, array))
      return fail(noMemoryFor(spec));
    std::copy(view.data.begin(), view.data.end(), array.data.begin());
  }

  /// Whether it says of itself that it is a checkpoint.
  bool readInfo(CheckpointInfo &info) {
    std::string error;
    if (support::readCheckpointInfo(file, path, info, error))
      return true;
    fail(std::move(error));
    return false;
  }

  /// What is not in `wanted` is an error.
  void refuseOthers(const std::set<std::string> &wanted) {
    for (const auto &[name, view] : file.tensors)
      if (!wanted.contains(name))
        fail("expected '" + path +
             "' to have states of the entry only, but got " +
             support::inQuotes(name) + " (" + view.dtype + " " +
             shapeText(view.shape) + ")");
  }

  bool isRead = false;

private:
  const std::string &path;
  std::vector<std::string> &errors;
  std::vector<uint8_t> bytes;
  support::Safetensors file;
};

} // namespace

bool hasStates(const std::vector<StepArgument> &arguments) {
  return !statesOf(arguments).empty();
}

bool writeCheckpoint(OutputFile &file,
                     const std::vector<StepArgument> &arguments,
                     const support::NpzArchive &outputs,
                     const CheckpointInfo &info, std::string &error) {
  support::Safetensors contents;
  contents.metadata = support::checkpointMetadata(info, TE_VERSION);
  for (const TensorSpec *spec : statesOf(arguments))
    contents.tensors[spec->name] = {checkpointType(spec->type),
                                    checkpointShape(*spec),
                                    outputs.at(spec->name).data};
  const support::ByteSink sink = [&](const void *bytes, size_t size) {
    return file.write(bytes, size);
  };
  const bool written = support::writeSafetensors(sink, contents, error);
  // Where it is the sink that failed, the flush says why.
  return (written || error.empty()) && file.flush(error);
}

void readCheckpoint(const std::string &path,
                    const std::vector<StepArgument> &arguments,
                    support::NpzArchive &states, CheckpointInfo &info,
                    std::vector<std::string> &errors) {
  Checkpoint checkpoint(path, errors);
  if (!checkpoint.isRead || !checkpoint.readInfo(info))
    return;
  std::set<std::string> wanted;
  for (const TensorSpec *spec : statesOf(arguments)) {
    wanted.insert(spec->name);
    checkpoint.take(*spec, "state", states);
  }
  checkpoint.refuseOthers(wanted);
}

void readWeights(const std::string &path,
                 const std::vector<StepArgument> &arguments,
                 support::NpzArchive &states,
                 std::vector<std::string> &errors) {
  Checkpoint checkpoint(path, errors);
  if (!checkpoint.isRead)
    return;
  for (const StepArgument &argument : arguments)
    if (!argument.isResult && argument.spec.isWeight)
      checkpoint.take(argument.spec, "parameter", states);
}

} // namespace te::run
