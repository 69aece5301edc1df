//===- Checks.h - what one parameter, or two, may be ----------------------===//
//
// The checks that the rows of Kernels.td name (KernelSchema.td says which), and
// those that Capabilities.cpp adds. The first that does not hold is the answer:
// "expected 'rows' to be a multiple of 16, but got 24".
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_CHECKS_H
#define TE_RUNTIME_CORE_CHECKS_H

#include "Core/Kernels.h"
#include "Core/Status.h"
#include "TEDialect/Support/SupportTable.h"

#include <cmath>
#include <initializer_list>
#include <string>

namespace te::rt {

class Checks {
public:
  /// One of the runtime's element types.
  Checks &type(const char *name, int32_t value,
               std::initializer_list<int32_t> allowed) {
    std::string list;
    for (int32_t each : allowed) {
      if (each == value)
        return *this;
      list += (list.empty() ? "" : ", ") + te_table::typeName(each);
    }
    return expected(name, "one of " + list, te_table::typeName(value));
  }
  /// `of`, or f32 if that is bf16 and `rounds`.
  Checks &roundedFrom(const char *name, int32_t value, int32_t of,
                      bool rounds) {
    return rounds && of == TE_RT_BF16 ? type(name, value, {of, TE_RT_F32})
                                      : type(name, value, {of});
  }
  Checks &wide(const char *name, int32_t value) {
    return type(name, value, {TE_RT_F32, TE_RT_BF16, TE_RT_F16});
  }
  Checks &fp8(const char *name, int32_t value) {
    return type(name, value, {TE_RT_F8E4M3FN, TE_RT_F8E5M2});
  }

  Checks &size(const char *name, int64_t value) {
    return value >= 0 ? *this : expected(name, "zero or more", text(value));
  }
  Checks &positive(const char *name, int64_t value) {
    return value > 0 ? *this : expected(name, "one or more", text(value));
  }
  Checks &range(const char *name, int64_t value, int64_t from, int64_t to) {
    return value >= from && value <= to
               ? *this
               : expected(name, "from " + text(from) + " to " + text(to),
                          text(value));
  }
  Checks &shardStart(const char *name, int64_t value) {
    constexpr int64_t kMost = int64_t{1} << 60;
    return value >= -kMost && value <= kMost
               ? *this
               : expected(name, "from -2^60 to 2^60", text(value));
  }
  Checks &multiple(const char *name, int64_t value, int64_t of) {
    return value % of == 0
               ? *this
               : expected(name, "a multiple of " + text(of), text(value));
  }

  Checks &atMost(const char *name, int64_t value, const char *ofName,
                 int64_t of) {
    return value <= of ? *this
                       : expected(name,
                                  std::string("at most '") + ofName + "' (" +
                                      text(of) + ")",
                                  text(value));
  }

  Checks &flag(const char *name, int32_t value) {
    return value == 0 || value == 1 ? *this
                                    : expected(name, "0 or 1", text(value));
  }
  /// One of the first `count` numbers, which `names` spells out.
  Checks &choice(const char *name, int32_t value, int32_t count,
                 const char *names) {
    return value >= 0 && value < count ? *this
                                       : expected(name, names, text(value));
  }
  Checks &scheme(const char *name, int32_t value, int32_t from, int32_t to) {
    return value >= from && value <= to
               ? *this
               : expected(name,
                          te_table::schemeName(from) + " to " +
                              te_table::schemeName(to),
                          te_table::schemeName(value));
  }
  Checks &activation(const char *name, int32_t kind) {
    return (kind >= TE_RT_GELU && kind <= TE_RT_GELU_ERF) || isGatedKind(kind)
               ? *this
               : expected(name,
                          "gelu (0) to gelu_erf (5) or swiglu (16) to "
                          "geglu_erf (23)",
                          text(kind));
  }
  Checks &gatedActivation(const char *name, int32_t kind) {
    return isGatedKind(kind)
               ? *this
               : expected(name, "a gated one, swiglu (16) to geglu_erf (23)",
                          text(kind));
  }
  /// The largest block scale of an nv value.
  Checks &scaleMax(const char *name, int32_t value) {
    return value == 448 || value == 256
               ? *this
               : expected(name, "448 or 256", text(value));
  }

  Checks &nonNegative(const char *name, float value) {
    return value >= 0.0f && std::isfinite(value)
               ? *this
               : expected(name, "finite and zero or more",
                          std::to_string(value));
  }
  Checks &finite(const char *name, float value) {
    return std::isfinite(value)
               ? *this
               : expected(name, "finite", std::to_string(value));
  }
  Checks &fp8Max(const char *name, float value) {
    return value > 0.0f && value <= 65536.0f
               ? *this
               : expected(name, "positive and at most 65536",
                          std::to_string(value));
  }

  /// Two sizes, zero or more, whose product is a number of elements.
  Checks &area(const char *names, int64_t a, int64_t b) {
    int64_t bytes;
    return require(!__builtin_mul_overflow(a, b, &bytes) &&
                       !__builtin_mul_overflow(bytes, 16, &bytes),
                   std::string(names) + " to fit in memory",
                   text(a) + " and " + text(b));
  }
  /// The choices of all tokens, which are counted in i32.
  Checks &entries(int64_t tokens, int64_t k) {
    int64_t count;
    return require(!__builtin_mul_overflow(tokens, k, &count) &&
                       count <= INT32_MAX,
                   "'tokens' times 'k' to be below 2^31",
                   text(tokens) + " times " + text(k));
  }

  Checks &require(bool holds, const std::string &what, const std::string &got) {
    if (!holds && !status.failed())
      status = Status(TE_RT_INVALID_ARGUMENT,
                      "expected " + what + ", but got " + got);
    return *this;
  }
  /// `refusal` is an answer of the support table: empty, or the message.
  Checks &allowed(const std::string &refusal,
                  te_rt_status code = TE_RT_INVALID_ARGUMENT) {
    if (!refusal.empty() && !status.failed())
      status = Status(code, refusal);
    return *this;
  }

  bool failed() const { return status.failed(); }
  operator Status() const { return status; }

private:
  static std::string text(int64_t value) { return std::to_string(value); }
  static bool isGatedKind(int32_t kind) {
    return kind >= TE_RT_SWIGLU && kind <= TE_RT_GEGLU_ERF;
  }
  Checks &expected(const char *name, const std::string &what,
                   const std::string &got) {
    return require(false, std::string("'") + name + "' to be " + what, got);
  }

  Status status;
};

} // namespace te::rt

#endif // TE_RUNTIME_CORE_CHECKS_H
