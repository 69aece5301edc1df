//===- Checkpoint.cpp - what a checkpoint says of itself ------------------===//

#include "Support/Checkpoint.h"

#include <charconv>

namespace te::support {

static constexpr const char *kFormat = "te.format", *kStep = "te.step",
                            *kRecipe = "te.recipe", *kVersion = "te.version";
/// Raised when a state changes its name or its meaning.
static constexpr const char *kFormatVersion = "1";

std::map<std::string, std::string>
checkpointMetadata(const CheckpointInfo &info, const std::string &version) {
  return {{kFormat, kFormatVersion},
          {kStep, std::to_string(info.step)},
          {kRecipe, info.recipe},
          {kVersion, version}};
}

bool readCheckpointInfo(const Safetensors &file, const std::string &path,
                        CheckpointInfo &info, std::string &error) {
  return guarded(error, [&] {
    const auto find = [&](const char *key) {
      const auto at = file.metadata.find(key);
      return at == file.metadata.end() ? nullptr : &at->second;
    };
    const auto expected = [&](const char *key, const std::string &what,
                              const std::string &got) {
      return fail(error, "expected metadata '" + std::string(key) + "' of " +
                             inQuotes(path) + " to be " + what + ", but got " +
                             got);
    };
    const std::string *format = find(kFormat);
    if (!format || *format != kFormatVersion)
      return expected(
          kFormat, inQuotes(kFormatVersion),
          format ? inQuotes(*format)
                 : "none; '--load-weights' reads parameters of any file");
    const std::string *step = find(kStep);
    const char *end = step ? step->data() + step->size() : nullptr;
    // The last one has no next one.
    if (const auto parsed = step ? std::from_chars(step->data(), end, info.step)
                                 : std::from_chars_result{nullptr, std::errc()};
        !step || step->empty() || parsed.ptr != end ||
        parsed.ec != std::errc() || info.step < 0 || info.step == INT64_MAX)
      return expected(kStep, "a number of steps below 9223372036854775807",
                      step ? inQuotes(*step) : "none");
    const std::string *recipe = find(kRecipe);
    info.recipe = recipe ? *recipe : "";
    return true;
  });
}

} // namespace te::support
