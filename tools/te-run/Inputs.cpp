//===- Inputs.cpp - a value for every argument of a run -------------------===//

#include "Inputs.h"

#include <map>
#include <utility>

namespace te::run {

bool checkNames(const std::vector<StepArgument> &arguments,
                std::string &error) {
  // By role, as an argument and its next state share their name.
  std::map<std::pair<bool, std::string>, std::string> owners;
  for (const StepArgument &argument : arguments)
    for (const char *suffix : {"", ".steps"}) {
      const std::string &name = argument.spec.name;
      const auto [at, isNew] =
          owners.insert({{argument.isResult, name + suffix}, name});
      if (isNew)
        continue;
      error = "expected arrays to have one meaning, but '" + name + suffix +
              "' can be of " + (argument.isResult ? "result" : "argument") +
              " '" + at->second + "' and of '" + name + "'; rename one of them";
      return false;
    }
  return true;
}

std::vector<StepInput> matchInputs(const std::vector<StepArgument> &arguments,
                                   support::NpzArchive loaded,
                                   support::NpzArchive archive,
                                   const InputPolicy &policy,
                                   std::vector<std::string> &errors,
                                   std::vector<std::string> &warnings) {
  std::vector<StepInput> inputs;
  // Both spellings are taken out, so that what is left is unused.
  auto take = [&](const TensorSpec &spec, StepInput &input) {
    auto once = archive.extract(spec.name);
    auto perStep = archive.extract(spec.name + ".steps");
    if (auto state = loaded.extract(spec.name)) {
      if (once || perStep)
        warnings.push_back("array '" + (once ? once : perStep).key() +
                           "' is not used: the loaded file has '" + spec.name +
                           "'");
      input.array = std::move(state.mapped());
      return true;
    }
    if (once && perStep)
      errors.push_back("both arrays '" + spec.name + "' and '" + spec.name +
                       ".steps' are given; keep one");
    if (!once && !perStep)
      return false;
    input.perStep = !perStep.empty();
    input.array = std::move((perStep ? perStep : once).mapped());
    std::string error;
    if (!fits(spec, input.array, input.perStep ? policy.steps : 0, error))
      errors.push_back(std::move(error));
    return true;
  };
  for (const StepArgument &argument : arguments) {
    if (argument.isResult)
      continue;
    const TensorSpec &spec = argument.spec;
    StepInput &input = inputs.emplace_back();
    if (take(spec, input))
      continue;
    bool made = true;
    if (spec.init)
      made = filledArray(spec, *spec.init, input.array);
    else if (policy.onesForCotangents && spec.name.starts_with("grad."))
      made = filledArray(spec, 1.0f, input.array);
    else if (policy.seed)
      made = drawArray(spec, *policy.seed, input.array);
    else
      errors.push_back("expected an array for argument '" + spec.name + "' (" +
                       spec.str() +
                       "); give one with --inputs, or draw it with --seed");
    if (!made)
      errors.push_back(noMemoryFor(spec));
  }
  for (const auto &[name, array] : archive)
    warnings.push_back("array '" + name + "' is not an argument of the entry");
  return inputs;
}

} // namespace te::run
