//===- Checkpoint.cpp - the states of a step in a file --------------------===//

#include "Checkpoint.h"

#include <algorithm>
#include <utility>

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

/// Reads a safetensors file, whose tensors are views of `bytes`.
bool readFile(const std::string &path, std::vector<uint8_t> &bytes,
              support::Safetensors &file, std::vector<std::string> &errors) {
  std::string error;
  if (!support::readFile(path, bytes, error)) {
    errors.push_back(std::move(error));
    return false;
  }
  if (support::parseSafetensors(bytes, file, error))
    return true;
  errors.push_back("cannot read '" + path + "': " + error);
  return false;
}

/// Copies `view` to the array of `spec`.
void take(const TensorSpec &spec, const support::SafetensorsView &view,
          support::NpzArchive &states, std::vector<std::string> &errors) {
  support::NpyArray &array = states[spec.name];
  if (!zerosArray(spec, array))
    errors.push_back(noMemoryFor(spec));
  else
    std::copy(view.data.begin(), view.data.end(), array.data.begin());
}

std::vector<support::CheckpointState>
checkpointStates(const std::vector<const TensorSpec *> &specs) {
  std::vector<support::CheckpointState> states;
  states.reserve(specs.size());
  for (const TensorSpec *spec : specs)
    states.push_back({spec->name, checkpointType(spec->type),
                      checkpointShape(*spec), spec->isRecipeState});
  return states;
}

} // namespace

bool hasStates(const std::vector<StepArgument> &arguments) {
  return !statesOf(arguments).empty();
}

bool writeCheckpoint(OutputFile &file,
                     const std::vector<StepArgument> &arguments,
                     const support::NpzArchive &outputs,
                     const CheckpointInfo &info, std::string &error) {
  support::Safetensors contents;
  const std::vector<const TensorSpec *> states = statesOf(arguments);
  contents.metadata =
      support::checkpointMetadata(info, checkpointStates(states), TE_VERSION);
  for (const TensorSpec *spec : states)
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
                    Remarks &remarks) {
  std::vector<uint8_t> bytes;
  support::Safetensors file;
  support::RestoredStates restored;
  const std::vector<const TensorSpec *> specs = statesOf(arguments);
  if (!readFile(path, bytes, file, remarks.errors))
    return;
  const bool isWhole =
      support::restoreStates(file, path, info.recipe, checkpointStates(specs),
                             restored, remarks.errors);
  info.step = restored.saved.step;
  remarks.resumed = std::move(restored.warning);
  for (size_t i = 0; isWhole && i < specs.size(); ++i)
    if (const support::SafetensorsView *view = restored.values[i])
      take(*specs[i], *view, states, remarks.errors);
}

void readWeights(const std::string &path,
                 const std::vector<StepArgument> &arguments,
                 support::NpzArchive &states,
                 std::vector<std::string> &errors) {
  std::vector<uint8_t> bytes;
  support::Safetensors file;
  if (!readFile(path, bytes, file, errors))
    return;
  for (const StepArgument &argument : arguments) {
    const TensorSpec &spec = argument.spec;
    if (argument.isResult || !spec.isWeight)
      continue;
    const auto at = file.tensors.find(spec.name);
    const std::vector<int64_t> shape = checkpointShape(spec);
    if (at == file.tensors.end())
      errors.push_back("expected '" + path + "' to have parameter '" +
                       spec.name + "' (" + spec.str() + ")");
    else if (at->second.dtype != checkpointType(spec.type) ||
             at->second.shape != shape)
      errors.push_back("expected parameter '" + spec.name + "' of '" + path +
                       "' to be " + checkpointType(spec.type) + " " +
                       support::shapeText(shape) + ", but got " +
                       at->second.dtype + " " +
                       support::shapeText(at->second.shape));
    else
      take(spec, at->second, states, errors);
  }
}

} // namespace te::run
