//===- SupportTable.h - which op runs on what, for compiler and runtime ---===//
//
// The rows of TESupport.td and the questions everybody asks of them. Each
// answer is a sentence that can be shown to a user: the combination, the rule,
// the nearest combination that works; an empty one says that all is well.
// Numbers are those of the runtime ABI. No MLIR and no LLVM, so that the
// runtime can ask too.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_SUPPORT_SUPPORTTABLE_H
#define TEDIALECT_SUPPORT_SUPPORTTABLE_H

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// Not in `te`: sources that use namespace mlir have one of that name already.
namespace te_table {

enum class Target { Sm90, Sm100, Reference };

/// How a target does something; SupportSchema.td says what each means.
enum class Path { Never, Native, OwnKernel, Emulated, ThroughMX, OnHost };

constexpr size_t kNumTargets = 3;

struct TypeName {
  int32_t type; // te_rt_dtype
  const char *name;
};

/// One target's answer, see `On` in SupportSchema.td.
struct TargetRow {
  Path path;
  /// Least cublasLtGetVersion() where cuBLASLt does it.
  int32_t cublasLt;
  const char *rule, *nearest;
};

/// One scheme; its index is its te_rt_scheme.
struct SchemeRow {
  const char *name;
  uint32_t types; // bits 1 << te_rt_dtype
  int32_t scaleType;
  /// Both sizes of a value are multiples of it.
  int64_t multiple;
  /// Of the alignment of a group layout.
  int64_t groupAlignment;
  /// Why there is no exact transpose, or "".
  const char *noTranspose;
  TargetRow casts[kNumTargets];
};

/// One ordered pair of schemes. `rule` is empty where some target multiplies
/// them, and everything behind it is then given.
struct ProductRow {
  int32_t a, b;
  const char *rule;
  int32_t nearestA, nearestB;
  uint32_t results, biasResults, ownResults; // bits 1 << te_rt_dtype
  bool fastAccumulation;
  int64_t m, n, k;
  TargetRow targets[kNumTargets];
  /// Products of groups of rows, and results of their own kernels.
  TargetRow groups[kNumTargets];
  uint32_t groupResults; // bits 1 << te_rt_dtype

  constexpr bool exists() const { return *rule == 0; }
};

struct RefusedTypes {
  int32_t a, b;
  const char *rule;
  int32_t nearestA;
};

/// One recipe, or a recipe with the option `variant`.
struct RecipeRow {
  const char *name, *variant;
  /// Schemes under default options, and whether scales are powers of two.
  int32_t x, w, dy;
  bool pow2;
  uint32_t overrides; // bits 1 << BackwardOverride
  const char *overrideRule;
};

#include "TEDialect/Support/SupportRows.inc"

constexpr int32_t kNumSchemes = static_cast<int32_t>(std::size(kSchemes));
static_assert(std::size(kTargetNames) == kNumTargets);
static_assert(std::size(kProducts) == kNumSchemes * kNumSchemes);

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

constexpr bool isScheme(int32_t scheme) {
  return scheme >= 0 && scheme < kNumSchemes;
}
/// Precondition here and below: `isScheme`.
constexpr const SchemeRow &schemeRow(int32_t scheme) {
  return kSchemes[scheme];
}
constexpr const ProductRow &productRow(int32_t a, int32_t b) {
  return kProducts[a * kNumSchemes + b];
}
constexpr const TargetRow &productOn(int32_t a, int32_t b, Target target) {
  return productRow(a, b).targets[static_cast<size_t>(target)];
}
/// How `target` makes a result of `resultType`: an own kernel leaves to
/// cuBLASLt what it does not write.
constexpr Path productPath(int32_t a, int32_t b, Target target,
                           int32_t resultType) {
  const Path path = productOn(a, b, target).path;
  const bool own = productRow(a, b).ownResults >> resultType & 1;
  return path == Path::OwnKernel && !own ? Path::Native : path;
}
/// Null for a recipe without a row (high_precision, custom).
constexpr const RecipeRow *recipeRow(std::string_view name,
                                     std::string_view variant = "") {
  for (const RecipeRow &row : kRecipes)
    if (row.name == name && row.variant == variant)
      return &row;
  return nullptr;
}
constexpr std::optional<Target> parseTarget(std::string_view name) {
  for (size_t i = 0; i < kNumTargets; ++i)
    if (kTargetNames[i] == name)
      return static_cast<Target>(i);
  return std::nullopt;
}
constexpr const char *targetName(Target target) {
  return kTargetNames[static_cast<size_t>(target)];
}

/// "f8E4M3FN", or the number of an unknown type.
inline std::string typeName(int32_t type) {
  for (const TypeName &row : kTypeNames)
    if (row.type == type)
      return row.name;
  return std::to_string(type);
}
/// "block_1x128", or the number of an unknown scheme.
inline std::string schemeName(int32_t scheme) {
  return isScheme(scheme) ? schemeRow(scheme).name : std::to_string(scheme);
}

constexpr bool has(uint32_t bits, int32_t member) {
  return member >= 0 && member < 32 && (bits >> member & 1) != 0;
}
constexpr int64_t padded(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

inline std::string quoted(const std::string &text) { return "'" + text + "'"; }
inline std::string quotedPair(const std::string &a, const std::string &b) {
  return quoted(a) + " and " + quoted(b);
}
/// "'f32', 'bf16' or 'f16'", the types in `bits`.
inline std::string typeList(uint32_t bits) {
  std::string text;
  for (const TypeName &row : kTypeNames) {
    if (!has(bits, row.type))
      continue;
    const bool last = bits >> row.type == 1;
    text += (text.empty() ? "" : last ? " or " : ", ") + quoted(row.name);
  }
  return text;
}

/// `size`, called `name`, is a multiple of `multiple`.
inline std::string refuseSize(const std::string &name, int64_t size,
                              int64_t multiple) {
  if (size % multiple == 0)
    return "";
  return "expected " + name + " to be a multiple of " +
         std::to_string(multiple) + ", but got " + std::to_string(size) +
         "; the smallest padded size is " +
         std::to_string(padded(size, multiple));
}

/// Groups of rows that start at multiples of `alignment` can be multiplied in
/// `scheme`.
inline std::string refuseAlignment(int32_t scheme, int64_t alignment) {
  const int64_t multiple = schemeRow(scheme).groupAlignment;
  if (alignment > 0 && alignment % multiple == 0)
    return "";
  return "expected 'alignment' to be a multiple of " +
         std::to_string(multiple) + " for " + quoted(schemeName(scheme)) +
         ", but got " + std::to_string(alignment);
}

/// `scheme` has elements of `type`, a te_rt_dtype called `name`.
inline std::string refuseType(int32_t scheme, int32_t type,
                              const std::string &name) {
  const uint32_t types = schemeRow(scheme).types;
  if (has(types, type))
    return "";
  return "expected elements of " + quoted(schemeName(scheme)) + " to be " +
         typeList(types) + ", but got " + quoted(name);
}

/// `name` is a target.
inline std::string refuseTargetName(const std::string &name) {
  if (parseTarget(name))
    return "";
  std::string known;
  for (const char *target : kTargetNames)
    known += (known.empty() ? "" : ", ") + std::string(target);
  return "expected 'target' to be one of " + known + ", but got " +
         quoted(name);
}

/// The other usage of a value of `scheme` follows exactly from the first.
inline std::string refuseTranspose(int32_t scheme) {
  const char *rule = schemeRow(scheme).noTranspose;
  if (*rule == 0)
    return "";
  std::string exact;
  for (const SchemeRow &row : kSchemes)
    if (*row.noTranspose == 0)
      exact += (exact.empty() ? "" : ", ") + quoted(row.name);
  return "expected a scheme with an exact transpose (" + exact + "), but got " +
         quoted(schemeName(scheme)) + ": " + rule;
}

/// The operands and the result of a GEMM, without their sizes.
struct Product {
  int32_t aScheme, aType, bScheme, bType, resultType;
  bool fastAccumulation, bias;
};

/// Some target multiplies schemes `a` and `b`.
inline std::string refusePair(int32_t a, int32_t b) {
  const ProductRow &row = productRow(a, b);
  if (row.exists())
    return "";
  return "expected two schemes that a target multiplies, but got " +
         quotedPair(schemeName(a), schemeName(b)) + ": " + row.rule +
         "; the nearest supported pair is " +
         quotedPair(schemeName(row.nearestA), schemeName(row.nearestB));
}

/// Some target has the product.
inline std::string refuseProduct(const Product &p) {
  if (std::string text = refusePair(p.aScheme, p.bScheme); !text.empty())
    return text;
  for (auto [scheme, type] :
       {std::pair(p.aScheme, p.aType), std::pair(p.bScheme, p.bType)})
    if (std::string text = refuseType(scheme, type, typeName(type));
        !text.empty())
      return text;
  for (const RefusedTypes &types : kRefusedTypes)
    if (types.a == p.aType && types.b == p.bType)
      return "expected two element types that a target multiplies, but got " +
             quotedPair(typeName(p.aType), typeName(p.bType)) + ": " +
             types.rule + "; the nearest supported pair is " +
             quotedPair(typeName(types.nearestA), typeName(p.bType));
  const ProductRow &row = productRow(p.aScheme, p.bScheme);
  const std::string pair =
      quotedPair(schemeName(p.aScheme), schemeName(p.bScheme));
  if (p.fastAccumulation && !row.fastAccumulation)
    return "expected 'fast_accumulation' to be off for " + pair +
           ", which scale every slice of the contracted axis, but got it on";
  const uint32_t results = p.bias ? row.biasResults : row.results;
  if (!has(results, p.resultType))
    return "expected the result of " + pair + (p.bias ? " with a 'bias'" : "") +
           " to be " + typeList(results) + ", but got " +
           quoted(typeName(p.resultType));
  return "";
}

/// What a step brings along that a target may ask for.
struct Conditions {
  /// Scales are powers of two.
  bool pow2 = false;
  /// The pipeline option `emulate`.
  bool emulate = false;
};

/// `target` has the product of schemes `a` and `b` under `conditions`.
/// Precondition: `refusePair` has nothing to say.
inline std::string refuseTarget(int32_t a, int32_t b, Target target,
                                Conditions conditions) {
  const TargetRow &row = productOn(a, b, target);
  if (row.path != Path::Never &&
      (row.path != Path::Emulated || conditions.emulate) &&
      (row.path != Path::ThroughMX || conditions.pow2))
    return "";
  return "expected a product that " + quoted(targetName(target)) +
         " has, but got " + quotedPair(schemeName(a), schemeName(b)) + ": " +
         row.rule + "; the nearest supported is " + row.nearest;
}

/// `target` multiplies groups of rows of `type` into `resultType`.
inline std::string refusePlainGroups(Target target, int32_t type,
                                     int32_t resultType) {
  const TargetRow &row = kPlainGroups[static_cast<size_t>(target)];
  const std::string what = "expected a product of groups that " +
                           quoted(targetName(target)) +
                           " has, but got one of " + quoted(typeName(type)) +
                           " into " + quoted(typeName(resultType)) + ": ";
  if (row.path == Path::Never)
    return what + row.rule + "; the nearest supported is " + row.nearest;
  if (row.path == Path::OwnKernel &&
      !(has(kPlainGroupTypes, type) && has(kPlainGroupResults, resultType)))
    return what + "its kernel multiplies " + typeList(kPlainGroupTypes) +
           " into " + typeList(kPlainGroupResults) +
           "; the nearest supported is " + quoted("target=reference");
  return "";
}

/// `target` multiplies groups of rows of schemes `a` and `b` into `resultType`
/// under `conditions`; emulated, as products of bf16. Precondition:
/// `refusePair` has nothing to say.
inline std::string refuseGroups(int32_t a, int32_t b, Target target,
                                int32_t resultType, Conditions conditions) {
  const ProductRow &product = productRow(a, b);
  const TargetRow &row = product.groups[static_cast<size_t>(target)];
  const std::string pair = quotedPair(schemeName(a), schemeName(b));
  if (row.path == Path::Emulated && conditions.emulate)
    return refusePlainGroups(target, /*type=*/1 /* bf16 */, resultType);
  if (row.path == Path::Never || row.path == Path::Emulated)
    return "expected a product of groups that " + quoted(targetName(target)) +
           " has, but got " + pair + ": " + row.rule +
           "; the nearest supported is " + row.nearest;
  if (row.path == Path::OwnKernel && !has(product.groupResults, resultType))
    return "expected the result of groups of " + pair + " on " +
           quoted(targetName(target)) + " to be " +
           typeList(product.groupResults) + ", but got " +
           quoted(typeName(resultType));
  return "";
}

/// cuBLASLt `version` is new enough for what it does of this product.
inline std::string refuseLibrary(int32_t a, int32_t b, Target target,
                                 int64_t version) {
  const int64_t least = productOn(a, b, target).cublasLt;
  if (version >= least)
    return "";
  auto text = [](int64_t number) {
    return std::to_string(number / 10000) + "." +
           std::to_string(number % 10000 / 100);
  };
  return "expected cuBLASLt " + text(least) + " or newer for " +
         quotedPair(schemeName(a), schemeName(b)) + " on " +
         quoted(targetName(target)) + ", but got " + text(version);
}

/// The recipe takes `override`, a number of kOverrideNames.
inline std::string refuseOverride(const RecipeRow &row, int32_t override) {
  if (has(row.overrides, override))
    return "";
  std::string name = quoted(row.name), allowed;
  if (*row.variant != 0)
    name += " with " + quoted(row.variant);
  for (size_t i = 0; i < std::size(kOverrideNames); ++i)
    if (has(row.overrides, static_cast<int32_t>(i)))
      allowed += (allowed.empty() ? "" : " or ") + quoted(kOverrideNames[i]);
  return "expected 'backward_override' of " + name + " to be " + allowed +
         ", but got " + quoted(kOverrideNames[override]) + ": " +
         row.overrideRule;
}

} // namespace te_table

#endif // TEDIALECT_SUPPORT_SUPPORTTABLE_H
