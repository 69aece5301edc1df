//===- Inputs.cpp - a value for every argument of a run -------------------===//

#include "Inputs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

namespace te::run {

bool checkNames(const std::vector<StepArgument> &arguments,
                std::string &error) {
  // By role, as an argument and its next state share their name.
  std::map<std::pair<bool, std::string>, std::string> owners;
  for (const StepArgument &argument : arguments)
    for (const char *suffix : {"", ".steps", ".digests"}) {
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

/// Sizes of groups that do not fit, in the first step they do not.
static void checkGroups(const StepArgument &argument, const StepInput &input,
                        int64_t steps, std::vector<std::string> &errors) {
  const TensorSpec &spec = argument.spec;
  const auto groups = static_cast<int32_t>(spec.shape[0]);
  const auto *sizes =
      reinterpret_cast<const int32_t *>(input.array.data.data());
  for (int64_t step = 0; step < (input.perStep ? steps : 1); ++step)
    if (te_rt_check_group_sizes(sizes + step * groups, groups, argument.rows,
                                argument.alignment)) {
      std::string_view text = te_rt_last_error();
      text.remove_prefix(std::min(text.size(), text.find(": ") + 2));
      errors.push_back(
          "array '" + spec.name + (input.perStep ? ".steps'" : "'") +
          (input.perStep ? ", step " + std::to_string(step + 1) : "") + ": " +
          std::string(text));
      return;
    }
}

/// Makes drawn integers sizes of groups that fit: shares of the rows in
/// proportion to them.
static void fitGroups(const StepArgument &argument, support::NpyArray &array) {
  const int64_t units = argument.rows / argument.alignment;
  const std::span<int32_t> sizes(reinterpret_cast<int32_t *>(array.data.data()),
                                 argument.spec.shape[0]);
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  for (int32_t &size : sizes)
    size = static_cast<int32_t>(
        sum == 0 ? 0 : units * size / sum * argument.alignment);
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
    const size_t known = errors.size();
    if (take(spec, input)) {
      if (argument.alignment != 0 && errors.size() == known)
        checkGroups(argument, input, policy.steps, errors);
      continue;
    }
    bool made = true;
    if (spec.init)
      made = filledArray(spec, *spec.init, input.array);
    else if (policy.onesForCotangents && spec.name.starts_with("grad."))
      made = filledArray(spec, 1.0f, input.array);
    else if (policy.seed) {
      made = drawArray(spec, *policy.seed, input.array);
      if (made && argument.alignment != 0)
        fitGroups(argument, input.array);
    } else
      errors.push_back("expected an array for argument '" + spec.name + "' (" +
                       spec.str() +
                       "); give one with --inputs, or draw it with --seed");
    if (!made)
      errors.push_back(noMemoryFor(spec));
    else if (argument.alignment != 0 && errors.size() == known)
      checkGroups(argument, input, policy.steps, errors);
  }
  return inputs;
}

} // namespace te::run
