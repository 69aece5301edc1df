//===- Compare.cpp - the results of two steps, byte by byte ---------------===//

#include "Compare.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

namespace te::run {
namespace {

bool isCast(const TensorSpec &spec) { return spec.name.starts_with("cast."); }

/// The results of a step that are casts, or those that are not.
std::vector<const TensorSpec *>
resultsOf(const std::vector<StepArgument> &arguments, bool casts) {
  std::vector<const TensorSpec *> results;
  for (const StepArgument &argument : arguments)
    if (argument.isResult && isCast(argument.spec) == casts)
      results.push_back(&argument.spec);
  return results;
}

/// `cast.<layer>.x.data` without what is around the layer.
std::string layerOf(const TensorSpec &spec) {
  if (!isCast(spec))
    return {};
  std::string name = spec.name.substr(std::string("cast.").size());
  for (int part = 0; part < 2; ++part)
    name.resize(name.rfind('.'));
  return name;
}

/// "0x3a (1.25)"; of FP4, where a byte has two, the one that `half` says.
std::string elementText(te_rt_dtype type, const uint8_t *bytes, int64_t size,
                        int half) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < size; ++i)
    bits |= uint32_t(bytes[i]) << (8 * i);
  if (type == TE_RT_F4E2M1FN)
    bits = bits >> (4 * half) & 0xf;
  char text[64];
  if (type == TE_RT_I32)
    std::snprintf(text, sizeof(text), "%d", static_cast<int32_t>(bits));
  else
    std::snprintf(text, sizeof(text), "0x%0*x (%.9g)",
                  type == TE_RT_F4E2M1FN ? 1 : static_cast<int>(2 * size), bits,
                  decodeElement(type, bits));
  return text;
}

/// Where the arrays of `spec` first differ, and the two elements there.
std::string firstDifference(const TensorSpec &spec,
                            const std::vector<uint8_t> &a,
                            const std::vector<uint8_t> &b,
                            const std::string &labelA,
                            const std::string &labelB) {
  const int64_t at = std::ranges::mismatch(a, b).in1 - a.begin();
  const int64_t size = spec.bytes() / spec.numElements();
  const int64_t stored = at / size;
  const int half = (a[at] & 0xf) == (b[at] & 0xf);
  std::vector<int64_t> shape = checkpointShape(spec);
  int64_t rest = spec.type == TE_RT_F4E2M1FN ? 2 * stored + half : stored;
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
    index[d] = rest % shape[d];
  auto element = [&](const std::vector<uint8_t> &bytes) {
    return elementText(spec.type, &bytes[stored * size], size, half);
  };
  return "'" + spec.name + "' at " + support::shapeText(index) + " is " +
         element(a) + " in " + labelA + ", but " + element(b) + " in " + labelB;
}

std::string counted(int64_t count, const std::string &what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

} // namespace

Comparison compareSteps(const ComparedStep &a, const ComparedStep &b) {
  Comparison comparison;
  int64_t arrays = 0, castArrays = 0, different = 0, bytes = 0;
  auto differ = [&](const TensorSpec &spec, const std::string &text) {
    ++different;
    if (!std::exchange(comparison.equal, false))
      return;
    comparison.text = text;
    comparison.layer = layerOf(spec);
  };
  auto alone = [&](const TensorSpec &spec, const ComparedStep &owner,
                   const ComparedStep &other) {
    if (isCast(spec))
      differ(spec, owner.label + " has '" + spec.name + "' (" + spec.str() +
                       "), but " + other.label + " does not");
  };
  auto compare = [&](const TensorSpec &spec, const TensorSpec &other) {
    ++arrays;
    castArrays += isCast(spec);
    if (other.type != spec.type || other.shape != spec.shape)
      return differ(spec, "'" + spec.name + "' is " + spec.str() + " in " +
                              a.label + ", but " + other.str() + " in " +
                              b.label);
    bytes += spec.bytes();
    const std::vector<uint8_t> &left = a.outputs.at(spec.name).data,
                               &right = b.outputs.at(spec.name).data;
    if (left != right)
      differ(spec, firstDifference(spec, left, right, a.label, b.label));
  };

  for (bool casts : {true, false}) {
    std::map<std::string, const TensorSpec *> others;
    for (const TensorSpec *spec : resultsOf(b.arguments, casts))
      others[spec->name] = spec;
    for (const TensorSpec *spec : resultsOf(a.arguments, casts))
      if (auto other = others.extract(spec->name))
        compare(*spec, *other.mapped());
      else
        alone(*spec, a, b);
    for (const TensorSpec *spec : resultsOf(b.arguments, casts))
      if (others.contains(spec->name))
        alone(*spec, b, a);
  }

  if (!comparison.equal)
    comparison.text += different == 1
                           ? "; nothing else differs"
                           : "; " + counted(different - 1, "other array") +
                                 (different == 2 ? " differs" : " differ");
  else if (arrays == 0)
    comparison = {false,
                  "expected " + a.label + " and " + b.label +
                      " to have a result of one name, but they have none",
                  {}};
  else
    comparison.text = a.label + " and " + b.label + " agree in " +
                      counted(arrays, "array") + ", " +
                      std::to_string(castArrays) + " of them of casts, " +
                      counted(bytes, "byte");
  return comparison;
}

} // namespace te::run
