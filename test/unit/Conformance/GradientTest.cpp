//===- GradientTest.cpp - backward kernels against finite differences -----===//
//
// For a scalar L(x) = <w, f(x)> and a direction d, the central difference
//
//   (L(x + h d) - L(x - h d)) / 2h  =  <grad, d> + h^2/6 L'''(d, d, d)
//
// is compared with the kernel's gradient. L is summed in f64 from f32 outputs,
// each within `kOutputUlps` roundings, so the difference carries noise of at
// most sum |w| |f| kOutputUlps u / h; L''' is bounded per function below.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>

using namespace te::conformance;

namespace {

constexpr double kU = 0x1p-24;
constexpr double kOutputUlps = 16;
constexpr double kH = 0x1p-7;

std::vector<double> valuesOf(const Array &x) {
  std::vector<double> values(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    values[i] = x.at(i);
  return values;
}

double dot(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

/// Values with few bits, so that x + h d is exact in f32.
std::vector<double> coarse(size_t count, uint32_t seed) {
  std::vector<double> values = makeValues("normal", TE_RT_F32, count, seed);
  for (double &v : values)
    v = std::nearbyint(v * 64) / 64;
  return values;
}

Array shifted(const std::vector<double> &x, const std::vector<double> &d,
              double by) {
  std::vector<double> values(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    values[i] = x[i] + by * d[i];
  return Array(TE_RT_F32, values);
}

class Gradient : public BackendTest {};

// Elementwise, so every element is its own check. |f'''| of x sigmoid(x), of x
// sigmoid(1.702 x) and of tanh GELU is below 2, that of the others less; times
// the gate of gated kinds, in which they are linear between the corners of the
// clamp. Differences that straddle a corner say nothing.
TEST_P(Gradient, Activation) {
  const int64_t rows = 31, cols = 67;
  for (int kind : kActivations) {
    const bool clamped = kind == TE_RT_CLAMPED_SWIGLU;
    const float limit = 1.25f;
    const int64_t width = isGated(kind) ? 2 * cols : cols;
    const std::vector<double> x = coarse(rows * width, 1);
    const std::vector<double> dy = coarse(rows * cols, 2);
    Array dx(TE_RT_F32, rows * width);
    device().run(TE_PLAN(activation_backward, rows, cols, TE_RT_F32, kind,
                         limit, 1.702f, 1.0f),
                 {in(Array(TE_RT_F32, dy).bytes), in(Array(TE_RT_F32, x).bytes),
                  out(dx.bytes), none()});
    auto forward = [&](const Array &at) {
      Array y(TE_RT_F32, rows * cols);
      device().run(
          TE_PLAN(activation, rows, cols, TE_RT_F32, kind, limit, 1.702f, 1.0f),
          {in(at.bytes), out(y.bytes), none()});
      return y;
    };
    for (int64_t half = 0; half < width / cols; ++half) {
      std::vector<double> d(x.size(), 0.0);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
          d[r * width + half * cols + c] = 1;
      const Array up = forward(shifted(x, d, kH));
      const Array down = forward(shifted(x, d, -kH));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          const int64_t i = r * cols + c;
          const double first = x[r * width + c];
          const double gate = width > cols ? x[r * width + cols + c] : 1;
          // Gates reach |gate| + 1; y is below |x| times that, x^2, or 1.
          const double largest =
              std::max({1.0, std::fabs(first) + kH,
                        (std::fabs(first) + kH) * (std::fabs(first) + kH)}) *
              (std::fabs(gate) + 1 + kH);
          const double at = half ? gate : first;
          const bool straddles = clamped ? std::fabs(std::fabs(at) - limit) < kH
                                         : half == 0 && std::fabs(first) < kH;
          if (straddles)
            continue;
          const double difference = dy[i] * (up.at(i) - down.at(i)) / (2 * kH);
          const double bound =
              std::fabs(dy[i]) * (2 * (std::fabs(gate) + 1) * kH * kH / 6 +
                                  kOutputUlps * kU * (1 + largest / kH));
          ASSERT_LE(std::fabs(dx.at(r * width + half * cols + c) - difference),
                    bound)
              << "kind " << kind << " x " << first << " half " << half;
        }
    }
  }
}

/// Rows that fill strips of a column sum, and rows that do not; columns in
/// multiples of 16 bytes, and others.
constexpr struct {
  bool zeroCentered;
  int64_t rows, cols;
} kNormCases[] = {{false, 9, 300}, {true, 9, 300}, {false, 33, 61},
                  {true, 33, 61},  {true, 64, 32}, {false, 65, 24}};

// y_c = g_c x_c / s with s = rms(x), linear in g. Along a direction of rms
// |d| <= 4 s, three derivatives of 1/s bring factors 1/s each: |y'''| <= 64
// |g| max(|x|, s) / s^3 * (4 s)^3 / s is generous for x of unit variance.
TEST_P(Gradient, RmsNorm) {
  for (const auto &[zeroCentered, rows, cols] : kNormCases) {
    const std::vector<double> x = coarse(rows * cols, 1), g = coarse(cols, 2);
    const std::vector<double> w = coarse(rows * cols, 3);
    const std::vector<double> dx = coarse(rows * cols, 4), dg = coarse(cols, 5);
    auto forward = [&](const Array &at, const Array &gamma, Array &rsigma) {
      Array y(TE_RT_F32, rows * cols);
      device().run(
          TE_PLAN(rms_norm, rows, cols, TE_RT_F32, 1e-5f, zeroCentered),
          {in(at.bytes), in(gamma.bytes), out(y.bytes), out(rsigma.bytes),
           none()});
      return valuesOf(y);
    };
    Array rsigma(TE_RT_F32, rows), unused(TE_RT_F32, rows);
    const Array x0(TE_RT_F32, x), g0(TE_RT_F32, g);
    const std::vector<double> y0 = forward(x0, g0, rsigma);
    Array gradX(TE_RT_F32, x.size()), gradG(TE_RT_F32, cols);
    device().run(
        TE_PLAN(rms_norm_backward, rows, cols, TE_RT_F32, zeroCentered),
        {in(Array(TE_RT_F32, w).bytes), in(x0.bytes), in(g0.bytes),
         in(rsigma.bytes), out(gradX.bytes), out(gradG.bytes)});
    double noise = 0;
    for (size_t i = 0; i < w.size(); ++i)
      noise += std::fabs(w[i] * y0[i]);
    noise *= 2 * kOutputUlps * kU / kH;

    const double byX = (dot(w, forward(shifted(x, dx, kH), g0, unused)) -
                        dot(w, forward(shifted(x, dx, -kH), g0, unused))) /
                       (2 * kH);
    // The cubic term, bounded from the f64 values themselves.
    double cubic = 0;
    for (int64_t r = 0; r < rows; ++r) {
      double ss = 0, dd = 0;
      for (int64_t c = 0; c < cols; ++c) {
        ss += x[r * cols + c] * x[r * cols + c];
        dd += dx[r * cols + c] * dx[r * cols + c];
      }
      const double ratio = std::sqrt(dd / ss), s = std::sqrt(ss / cols);
      for (int64_t c = 0; c < cols; ++c)
        // |(1/s)'''| <= 15 ratio^3 / s, |(1/s)''| <= 3 ratio^2 / s.
        cubic += std::fabs(w[r * cols + c] * (g[c] + zeroCentered)) *
                 (15 * std::pow(ratio, 3) * std::fabs(x[r * cols + c]) +
                  9 * ratio * ratio * std::fabs(dx[r * cols + c])) /
                 s;
    }
    EXPECT_LE(std::fabs(byX - dot(valuesOf(gradX), dx)),
              noise + 2 * cubic * kH * kH / 6);
    // The check is useful only if the bound is small compared with the
    // gradient.
    EXPECT_LE(
        noise + 2 * cubic * kH * kH / 6,
        0.2 * std::sqrt(dot(valuesOf(gradX), valuesOf(gradX)) * dot(dx, dx)));

    const double byG = (dot(w, forward(x0, shifted(g, dg, kH), unused)) -
                        dot(w, forward(x0, shifted(g, dg, -kH), unused))) /
                       (2 * kH);
    EXPECT_LE(std::fabs(byG - dot(valuesOf(gradG), dg)), noise);
  }
}

// As RmsNorm, of the centred row: x - mean(x) and d - mean(d) take the places
// of x and d, y is linear in gamma and beta.
TEST_P(Gradient, LayerNorm) {
  for (const auto &[zeroCentered, rows, cols] : kNormCases) {
    std::vector<double> x = coarse(rows * cols, 1);
    for (double &v : x)
      v += 1;
    const std::vector<double> g = coarse(cols, 2), b = coarse(cols, 6);
    const std::vector<double> w = coarse(rows * cols, 3);
    const std::vector<double> dx = coarse(rows * cols, 4), dg = coarse(cols, 5);
    Array mu(TE_RT_F32, rows), rsigma(TE_RT_F32, rows);
    auto forward = [&](const Array &at, const Array &gamma, const Array &beta) {
      Array y(TE_RT_F32, rows * cols);
      device().run(
          TE_PLAN(layer_norm, rows, cols, TE_RT_F32, 1e-5f, zeroCentered),
          {in(at.bytes), in(gamma.bytes), in(beta.bytes), out(y.bytes),
           out(mu.bytes), out(rsigma.bytes), none()});
      return valuesOf(y);
    };
    const Array x0(TE_RT_F32, x), g0(TE_RT_F32, g), b0(TE_RT_F32, b);
    const std::vector<double> y0 = forward(x0, g0, b0);
    Array gradX(TE_RT_F32, x.size()), gradG(TE_RT_F32, cols),
        gradB(TE_RT_F32, cols);
    device().run(
        TE_PLAN(layer_norm_backward, rows, cols, TE_RT_F32, zeroCentered),
        {in(Array(TE_RT_F32, w).bytes), in(x0.bytes), in(g0.bytes),
         in(mu.bytes), in(rsigma.bytes), out(gradX.bytes), out(gradG.bytes),
         out(gradB.bytes)});
    double noise = 0;
    // A shift of whole rows has no effect, because the mean of g dy is
    // subtracted.
    for (const auto &d : {dx, std::vector<double>(x.size(), 1.0)}) {
      // y = g h + b is within kOutputUlps roundings of |g h| + |b|, which is at
      // most |y| + 2 |b|.
      noise = 0;
      double cubic = 0;
      for (int64_t r = 0; r < rows; ++r) {
        double meanX = 0, meanD = 0, ss = 0, dd = 0;
        for (int64_t c = 0; c < cols; ++c) {
          meanX += x[r * cols + c] / cols;
          meanD += d[r * cols + c] / cols;
        }
        for (int64_t c = 0; c < cols; ++c) {
          ss += std::pow(x[r * cols + c] - meanX, 2);
          dd += std::pow(d[r * cols + c] - meanD, 2);
        }
        const double ratio = std::sqrt(dd / ss), s = std::sqrt(ss / cols);
        for (int64_t c = 0; c < cols; ++c) {
          const size_t i = r * cols + c;
          const double scale = std::fabs(w[i] * (g[c] + zeroCentered)) / s;
          // mu, of size 1, is off by up to 11u: it is not small beside x - mu.
          noise += std::fabs(w[i]) * (std::fabs(y0[i]) + 2 * std::fabs(b[c])) +
                   scale * (std::fabs(x[i] - meanX) + 1);
          cubic += scale * (15 * std::pow(ratio, 3) * std::fabs(x[i] - meanX) +
                            9 * ratio * ratio * std::fabs(d[i] - meanD));
        }
      }
      noise *= 2 * kOutputUlps * kU / kH;

      const double byX = (dot(w, forward(shifted(x, d, kH), g0, b0)) -
                          dot(w, forward(shifted(x, d, -kH), g0, b0))) /
                         (2 * kH);
      EXPECT_LE(std::fabs(byX - dot(valuesOf(gradX), d)),
                noise + 2 * cubic * kH * kH / 6);
      EXPECT_LE(
          noise + 2 * cubic * kH * kH / 6,
          0.2 * std::sqrt(dot(valuesOf(gradX), valuesOf(gradX)) * dot(d, d)));
    }
    const double byG = (dot(w, forward(x0, shifted(g, dg, kH), b0)) -
                        dot(w, forward(x0, shifted(g, dg, -kH), b0))) /
                       (2 * kH);
    EXPECT_LE(std::fabs(byG - dot(valuesOf(gradG), dg)), noise);
    const double byB = (dot(w, forward(x0, g0, shifted(b, dg, kH))) -
                        dot(w, forward(x0, g0, shifted(b, dg, -kH)))) /
                       (2 * kH);
    EXPECT_LE(std::fabs(byB - dot(valuesOf(gradB), dg)), noise);
  }
}

// |L'''| along d is below (2 max|d|)^3, a cumulant of d under the softmax. The
// loss is one f32 of size about 6, within 64 roundings.
TEST_P(Gradient, CrossEntropy) {
  const int64_t tokens = 40, vocab = 301;
  const std::vector<double> x = coarse(tokens * vocab, 1);
  std::vector<int32_t> targets(tokens);
  for (int64_t t = 0; t < tokens; ++t)
    targets[t] = t % 7 == 3 ? -1 : (t * 17) % vocab;
  Array lse(TE_RT_F32, tokens);
  auto forward = [&](const Array &at) {
    Array loss(TE_RT_F32, 1), each(TE_RT_F32, tokens);
    device().run(TE_PLAN(cross_entropy, tokens, vocab, vocab, TE_RT_F32, -1),
                 {in(at.bytes), in(targets), out(lse.bytes), out(each.bytes)});
    device().run(TE_PLAN(cross_entropy_mean, tokens, vocab, -1),
                 {in(each.bytes), in(targets), out(loss.bytes)});
    return loss.at(0);
  };
  forward(Array(TE_RT_F32, x));
  Array grad(TE_RT_F32, x.size()), weight(TE_RT_F32, 1);
  const float dloss = 3;
  device().run(TE_PLAN(cross_entropy_weight, tokens, vocab, -1),
               {in(std::vector<float>{dloss}), in(targets), out(weight.bytes)});
  device().run(
      TE_PLAN(cross_entropy_backward, tokens, vocab, vocab, TE_RT_F32, -1),
      {in(weight.bytes), in(Array(TE_RT_F32, x).bytes), in(targets),
       in(lse.bytes), out(grad.bytes)});
  for (int64_t t = 3; t < tokens; t += 7)
    for (int64_t v = 0; v < vocab; ++v)
      ASSERT_EQ(grad.at(t * vocab + v), 0) << "an ignored token has a gradient";
  // Along the gradient itself, scaled to unit largest element, and along one
  // logit of one token.
  std::vector<double> steepest = valuesOf(grad), single(x.size(), 0.0);
  double largest = 0;
  for (double v : steepest)
    largest = std::max(largest, std::fabs(v));
  for (double &v : steepest)
    v = std::nearbyint(v / largest * 64) / 64;
  single[5 * vocab + targets[5]] = 1;
  const double h = 0x1p-3;
  for (const std::vector<double> &d : {steepest, single}) {
    const double difference =
        dloss * (forward(shifted(x, d, h)) - forward(shifted(x, d, -h))) /
        (2 * h);
    const double bound = dloss * (8 * h * h / 6 / 8 + 64 * 6 * kU / h);
    const double gradient = dot(valuesOf(grad), d);
    // Per token the cubic term is at most h^2/6 * 8 / tokens, for the tokens
    // that d moves; the steepest direction moves all.
    EXPECT_LE(std::fabs(difference - gradient),
              d == single ? bound / 30 + dloss * 64 * 6 * kU / h : 8 * bound);
    EXPECT_GT(std::fabs(gradient), 0.01);
  }
}

// The lookup is linear: <dtable, u> = <dy, lookup(u)> for every u.
TEST_P(Gradient, EmbeddingIsTheAdjoint) {
  const int64_t tokens = 50, vocab = 13, hidden = 24;
  std::vector<int32_t> ids(tokens);
  for (int64_t t = 0; t < tokens; ++t)
    ids[t] = static_cast<int32_t>((t * 7) % 15) - 1;
  // Values have few bits, so every sum is exact and the two sides are equal.
  const std::vector<double> u = coarse(vocab * hidden, 1);
  const std::vector<double> dy = coarse(tokens * hidden, 2);
  Array y(TE_RT_F32, dy.size()), dtable(TE_RT_F32, u.size());
  device().run(TE_PLAN(embedding, tokens, vocab, hidden, TE_RT_F32),
               {in(ids), in(Array(TE_RT_F32, u).bytes), out(y.bytes)});
  device().run(
      TE_PLAN(embedding_backward, tokens, vocab, hidden, TE_RT_F32, TE_RT_F32),
      {in(ids), in(Array(TE_RT_F32, dy).bytes), out(dtable.bytes)});
  EXPECT_EQ(dot(valuesOf(dtable), u), dot(dy, valuesOf(y)));
  EXPECT_NE(dot(dy, valuesOf(y)), 0);
}

TE_FOR_EACH_BACKEND(Gradient);

} // namespace
