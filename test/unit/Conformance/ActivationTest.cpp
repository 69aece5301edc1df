//===- ActivationTest.cpp - every activation against its closed form ------===//
//
// Values and gradients are compared with f64 formulas from Kernels.td. Bounds
// are in units of u = 2^-24 and count roundings. exp and tanh are within 2 ulp,
// so a sigmoid s is within 6u, and the difference 1 - s within 7u.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>

using namespace te::conformance;

namespace {

constexpr double kU = 0x1p-24;
constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};

double normalCdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

/// One activation. Comparisons are written as in the contract, so that NaN
/// takes the same branch.
struct Closed {
  int32_t kind;
  float limit, alpha, offset;

  bool isGelu() const { return kind == TE_RT_GELU || kind == TE_RT_GEGLU; }
  bool isGeluErf() const {
    return kind == TE_RT_GELU_ERF || kind == TE_RT_GEGLU_ERF;
  }
  bool isRelu() const { return kind == TE_RT_RELU || kind == TE_RT_REGLU; }
  bool isSrelu() const { return kind == TE_RT_SRELU || kind == TE_RT_SREGLU; }
  bool isClamped() const { return kind == TE_RT_CLAMPED_SWIGLU; }

  /// The argument of the sigmoid, and its factor.
  double clamp(double x) const { return isClamped() && x > limit ? limit : x; }
  double argument(double x) const {
    const bool quick = kind == TE_RT_QGELU || kind == TE_RT_QGEGLU;
    return (quick         ? static_cast<double>(1.702f)
            : isClamped() ? alpha
                          : 1.0) *
           clamp(x);
  }

  double value(double x) const {
    if (isGelu())
      return x * (0.5 + 0.5 * std::tanh(x * (0.79788456 + 0.03567741 * x * x)));
    if (isGeluErf())
      return x * normalCdf(x);
    if (isRelu())
      return x < 0 ? 0 : x;
    if (isSrelu())
      return x < 0 ? 0 : x * x;
    const double s = sigmoid(argument(x));
    return kind == TE_RT_GLU ? s : clamp(x) * s;
  }
  double slope(double x) const {
    if (isGelu()) {
      const double t = std::tanh(0.79788456 * x * (1 + 0.044715 * x * x));
      return 0.5 * x * ((1 - t * t) * (0.79788456 + 0.1070322243 * x * x)) +
             0.5 * (1 + t);
    }
    if (isGeluErf())
      return normalCdf(x) + x * 0.3989422804014327 * std::exp(-x * x / 2);
    if (isRelu())
      return x > 0 ? 1 : 0;
    if (isSrelu())
      return x > 0 ? 2 * x : 0;
    const double z = argument(x), s = sigmoid(z);
    if (kind == TE_RT_GLU)
      return s * (1 - s);
    return isClamped() && x > limit ? 0 : z * s * (1 - s) + s;
  }
  double gate(double b) const {
    if (!isClamped())
      return b;
    return (b > limit    ? limit
            : b < -limit ? -limit
                         : b) +
           static_cast<double>(offset);
  }
  bool passes(double b) const {
    return !isClamped() || !(std::fabs(b) > limit);
  }

  /// Bounds in u. gelu near its zero subtracts two halves, and a sigmoid may be
  /// tiny, so the bounds are relative to the factors. The slopes multiply 1 - s
  /// or 1 - t^2, with errors of up to 7u or 8u, by z or the polynomial.
  double valueBound(double x) const {
    return 16 * (kind == TE_RT_GLU       ? 1
                 : isRelu() || isSrelu() ? value(x)
                                         : std::fabs(clamp(x)));
  }
  double slopeBound(double x) const {
    // The error of the bell is up to a²/2 roundings of its argument, and x
    // times the bell is below 0.25.
    if (isGeluErf())
      return 16;
    if (isGelu())
      return 16 + 8 * std::fabs(x) * (0.8 + 0.11 * x * x);
    if (isRelu() || isSrelu())
      return 4 * slope(x);
    return 16 + (kind == TE_RT_GLU ? 0 : 8 * std::fabs(argument(x)));
  }
};

/// Only one kind reads the parameters of the clamp. They are such that values
/// are on both sides of it.
std::vector<Closed> allKinds() {
  std::vector<Closed> kinds;
  for (int32_t kind : kActivations)
    kinds.push_back({kind, 7.0f, 1.702f, 1.0f});
  kinds.push_back({TE_RT_CLAMPED_SWIGLU, 1.25f, 0.5f, -0.75f});
  kinds.push_back({TE_RT_CLAMPED_SWIGLU, 0.0f, 3.0f, 0.0f});
  return kinds;
}

class Activations : public BackendTest {
protected:
  static constexpr int64_t rows = 67, cols = 130;

  /// Checks `value`, with the error `bound` in u, times `factor`: within the
  /// bound if that is finite, else the same infinity or NaN. Infinity times a
  /// value that may be zero is not checked.
  static void expectClose(double value, double bound, double factor,
                          const Array &actual, size_t i, const Closed &act,
                          const char *what) {
    if (std::isinf(factor) && value != 0 &&
        std::fabs(value) <= bound * kU + 0x1p-149)
      return;
    SCOPED_TRACE("kind " + std::to_string(act.kind) + " limit " +
                 std::to_string(act.limit));
    const double expected = value * factor;
    const double rounded = roundTo(actual.type, expected);
    if (std::isnan(rounded))
      ASSERT_TRUE(std::isnan(actual.at(i))) << what << " at " << i;
    else if (std::isinf(rounded))
      ASSERT_EQ(rounded, actual.at(i)) << what << " at " << i;
    else
      expectNear(expected, bound * kU * std::fabs(factor), actual, i, what);
  }

  void check(const Closed &act, int32_t type, const Array &x, const Array &dy) {
    const bool gated = isGated(act.kind);
    const int64_t width = gated ? 2 * cols : cols;
    Array y(type, rows * cols), dx(type, rows * width);
    device().run(TE_PLAN(activation, rows, cols, type, act.kind, act.limit,
                         act.alpha, act.offset),
                 {in(x.bytes), out(y.bytes), none()});
    device().run(TE_PLAN(activation_backward, rows, cols, type, act.kind,
                         act.limit, act.alpha, act.offset),
                 {in(dy.bytes), in(x.bytes), out(dx.bytes), none()});
    for (int64_t r = 0; r < rows && !HasFatalFailure(); ++r)
      for (int64_t c = 0; c < cols && !HasFatalFailure(); ++c) {
        const int64_t at = r * width + c;
        const double a = x.at(at), g = dy.at(r * cols + c);
        const double b = gated ? x.at(at + cols) : 1;
        const double gate = gated ? act.gate(b) : 1;
        expectClose(act.value(a), act.valueBound(a), gate, y, r * cols + c, act,
                    "y");
        expectClose(act.slope(a), act.slopeBound(a), g * gate, dx, at, act,
                    "dx");
        if (gated && act.passes(b))
          expectClose(act.value(a), act.valueBound(a), g, dx, at + cols, act,
                      "dx of the gate");
        else if (gated)
          ASSERT_EQ(dx.at(at + cols), 0) << act.kind << " " << b;
      }
  }
};

TEST_P(Activations, ClosedForm) {
  for (int32_t type : kTypes)
    for (const Closed &act : allKinds()) {
      const int64_t width = isGated(act.kind) ? 2 * cols : cols;
      Array x = makeArray("normal", type, rows * width, 1);
      for (size_t i = 0; i < x.size(); ++i)
        x.set(i, 3 * x.at(i));
      check(act, type, x, makeArray("normal", type, rows * cols, 2));
      if (HasFailure())
        return;
    }
}

// Every pair of special values for the two halves, including the corners of the
// clamp. 1e15 squared is finite.
TEST_P(Activations, SpecialValues) {
  for (const Closed &act : allKinds()) {
    const double limit = act.limit;
    const double above = std::nextafter(act.limit, INFINITY);
    const std::vector<double> specials = {
        0.0,    -0.0,     NAN,       INFINITY,  -INFINITY, limit,
        -limit, above,    -above,    1e15,      -1e15,     90,
        -90,    0x1p-140, -0x1p-140, 0x1p-126f, -0x1p-130, 1};
    const bool gated = isGated(act.kind);
    const int64_t width = gated ? 2 * cols : cols;
    std::vector<double> x(rows * width), dy(rows * cols);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        const size_t i = r * cols + c, n = specials.size();
        x[r * width + c] = specials[i % n];
        if (gated)
          x[r * width + cols + c] = specials[i / n % n];
        dy[i] = i % 7 ? 1.5 : -0.25;
      }
    check(act, TE_RT_F32, Array(TE_RT_F32, x), Array(TE_RT_F32, dy));
    if (HasFailure())
      return;
  }
}

TE_FOR_EACH_BACKEND(Activations);

} // namespace
