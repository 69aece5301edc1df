//===- Checkpoint.cpp - what a checkpoint says of itself ------------------===//

#include "Support/Checkpoint.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <set>
#include <utility>

namespace te::support {
namespace {

constexpr const char *kFormat = "te.format", *kStep = "te.step",
                     *kRecipe = "te.recipe", *kStates = "te.recipe_states",
                     *kVersion = "te.version";
/// Raised when a state changes its name or its meaning.
constexpr const char *kFormatVersion = "1";

/// Reads a JSON array of names, as what nlohmann::json::sax_parse calls; false
/// ends the parse. A nlohmann::json of an array ends the process if there is no
/// memory to destroy it.
class NamesReader final : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit NamesReader(std::set<std::string> &names) : names(names) {}

  bool start_array(std::size_t) override { return !std::exchange(isIn, true); }
  bool string(string_t &name) override {
    return isIn && (names.insert(std::move(name)), true);
  }
  bool end_array() override { return true; }

  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_integer(number_integer_t) override { return false; }
  bool number_unsigned(number_unsigned_t) override { return false; }
  bool number_float(number_float_t, const string_t &) override { return false; }
  bool binary(binary_t &) override { return false; }
  bool start_object(std::size_t) override { return false; }
  bool key(string_t &) override { return false; }
  bool end_object() override { return false; }
  bool parse_error(std::size_t, const std::string &,
                   const nlohmann::json::exception &) override {
    return false;
  }

private:
  std::set<std::string> &names;
  bool isIn = false;
};

/// Reads the metadata of one file.
class MetadataReader {
public:
  MetadataReader(const Safetensors &file, const std::string &path,
                 std::string &error)
      : metadata(file.metadata), path(path), error(error) {}

  bool readInfo(CheckpointInfo &info) {
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
  }

  /// Files of earlier releases do not say which states are the recipe's.
  bool readRecipeStates(std::set<std::string> &names) {
    const std::string *text = find(kStates);
    if (!text)
      return true;
    NamesReader reader(names);
    return nlohmann::json::sax_parse(*text, &reader) ||
           expected(kStates, "a JSON array of names", inQuotes(*text));
  }

private:
  const std::string *find(const char *key) const {
    const auto at = metadata.find(key);
    return at == metadata.end() ? nullptr : &at->second;
  }
  bool expected(const char *key, const std::string &what,
                const std::string &got) {
    return fail(error, "expected metadata '" + std::string(key) + "' of " +
                           inQuotes(path) + " to be " + what + ", but got " +
                           got);
  }

  const std::map<std::string, std::string> &metadata;
  const std::string &path;
  std::string &error;
};

/// "F32 [2, 3]".
std::string typeText(const std::string &dtype,
                     const std::vector<int64_t> &shape) {
  return dtype + " " + shapeText(shape);
}

/// "1 state", "2 states".
std::string statesText(size_t count) {
  return std::to_string(count) + (count == 1 ? " state" : " states");
}

} // namespace

std::map<std::string, std::string>
checkpointMetadata(const CheckpointInfo &info,
                   std::span<const CheckpointState> states,
                   const std::string &version) {
  std::string ofRecipe;
  // A name that is not UTF-8 is an error of writeSafetensors.
  for (const CheckpointState &state : states)
    if (state.isOfRecipe)
      ofRecipe.append(ofRecipe.empty() ? "[" : ",")
          .append(nlohmann::json(state.name)
                      .dump(-1, ' ', false,
                            nlohmann::json::error_handler_t::replace));
  ofRecipe += ofRecipe.empty() ? "[]" : "]";
  return {{kFormat, kFormatVersion},
          {kStep, std::to_string(info.step)},
          {kRecipe, info.recipe},
          {kStates, ofRecipe},
          {kVersion, version}};
}

bool restoreStates(const Safetensors &file, const std::string &path,
                   const std::string &recipe,
                   std::span<const CheckpointState> states,
                   RestoredStates &restored, std::vector<std::string> &errors) {
  std::string error;
  const size_t known = errors.size();
  const bool isRead = guarded(error, [&] {
    std::set<std::string> ofRecipe, wanted;
    MetadataReader metadata(file, path, error);
    if (!metadata.readInfo(restored.saved) ||
        !metadata.readRecipeStates(ofRecipe))
      return false;
    size_t numNew = 0, numLeft = 0;
    for (const CheckpointState &state : states) {
      wanted.insert(state.name);
      const auto at = file.tensors.find(state.name);
      const SafetensorsView *view =
          at == file.tensors.end() ? nullptr : &at->second;
      const bool fits =
          view && view->dtype == state.dtype && view->shape == state.shape;
      restored.values.push_back(fits ? view : nullptr);
      const std::string type = typeText(state.dtype, state.shape);
      if (fits)
        continue;
      if (state.isOfRecipe)
        ++numNew;
      else if (!view)
        errors.push_back("expected " + inQuotes(path) + " to have state " +
                         inQuotes(state.name) + " (" + type + ")");
      else
        errors.push_back("expected state " + inQuotes(state.name) + " of " +
                         inQuotes(path) + " to be " + type + ", but got " +
                         typeText(view->dtype, view->shape));
    }
    for (const auto &[name, view] : file.tensors) {
      if (wanted.contains(name))
        continue;
      if (ofRecipe.contains(name))
        ++numLeft;
      else
        errors.push_back("expected " + inQuotes(path) +
                         " to have states of the step only, but got " +
                         inQuotes(name) + " (" +
                         typeText(view.dtype, view.shape) + ")");
    }
    const std::string &saved = restored.saved.recipe;
    if ((saved.empty() || saved == recipe) && numNew == 0 && numLeft == 0)
      return true;
    restored.warning = inQuotes(path) + " was saved under " +
                       (saved.empty() ? "a recipe without a name" : saved) +
                       (saved == recipe ? ", and" : ", but") +
                       " this step has " + recipe;
    if (numLeft != 0)
      restored.warning += "; " + statesText(numLeft) +
                          " of recipes in the file " +
                          (numLeft == 1 ? "is" : "are") + " not used";
    if (numNew != 0)
      restored.warning += "; " + statesText(numNew) +
                          " of this step's recipes " +
                          (numNew == 1 ? "starts from its initial value"
                                       : "start from their initial values");
    return true;
  });
  if (!isRead)
    errors.push_back(std::move(error));
  return errors.size() == known;
}

} // namespace te::support
