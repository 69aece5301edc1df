//===- AttentionTest.cpp - attention and its gradients against f64 --------===//
//
// The operands are exact; the oracle computes in f64 what the definition says
// and, beside each value, a bound of what f32 arithmetic may differ by, term by
// term, with u = 2^-23 for one operation (an f32 rounding is half of that; a
// tensor core may cut instead of round):
//
//   score   s = scale sum q k          |ds| <= (D + 3) u |scale| sum |q k|
//   weight  exp(s - m), exp within 4u, and its argument, which may be taken
//           times log2(e) before the difference, within 4u (|s| + |m|): a
//           weight errs by the factor e^x, x <= e_s = |ds| + 4u max |s| + 4u
//   sum     of S weights, S u relative
//   P       rounded to the type on cuda: p = unit roundoff, and 2^-25 absolute
//           where f16 weights are subnormal
//   cap     s = c tanh(x / c) of such a score x: |ds| <= (|dx| + u |x|) times
//           the steepest slope within |dx|, u |s|, and the error of tanh times
//           c: 2u |tanh| on reference; on cuda 2^-11 |tanh|, what PTX grants
//           tanh.approx.f32, and 4u, if it is a quotient of exponentials. The
//           slope 1 - t^2 is within 2 |t| dt + dt^2 + 2u, dt = |ds| / c
//   sink    one exact score more: a term of the sum, and of max |s|; its
//           gradient is sum_i -exp(sink - lse) delta: each weight as above,
//           delta (D + 3) u sum |do o|, the sum of T tokens in chunks of 128
//           (min(T, 128) + T / 128 + 2) u sum |term|
//
// so that of o = sum w v / sum w, |do| <= sum_j W |v_j| (2 (e^e_s - 1) + (2 S +
// 4) u + p) + its rounding, W the softmax; and so on for the gradients, whose
// lse and o are given. p is 0 on `reference`.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

using namespace te::conformance;

namespace {

constexpr double kU = 0x1p-23;

struct Shape {
  int64_t batch, sequence, heads, kvHeads, headDim;
  bool causal;
  double size; // of the elements of q and k
  int64_t windowLeft = -1;
  float softcap = 0;
  /// Of the sinks; 0 is a softmax off by one, and NaN none.
  double sinkSize = std::numeric_limits<double>::quiet_NaN();

  bool hasSinks() const { return !std::isnan(sinkSize); }
  int64_t tokens() const { return batch * sequence; }
  int64_t queries() const { return tokens() * heads * headDim; }
  int64_t keys() const { return tokens() * kvHeads * headDim; }
  float scale() const {
    return static_cast<float>(1 / std::sqrt(static_cast<double>(headDim)));
  }
  std::string text() const {
    return "batch " + std::to_string(batch) + " sequence " +
           std::to_string(sequence) + " heads " + std::to_string(heads) + "/" +
           std::to_string(kvHeads) + " x " + std::to_string(headDim) +
           (causal ? " causal" : "") + " size " + std::to_string(size) +
           " window " + std::to_string(windowLeft) + " softcap " +
           std::to_string(softcap) + " sinks " + std::to_string(sinkSize);
  }
};
constexpr Shape kShapes[] = {
    {2, 100, 4, 4, 64, false, 1}, {2, 100, 4, 4, 64, true, 1},
    {2, 64, 4, 1, 128, true, 1},  {1, 72, 8, 2, 64, false, 1},
    {1, 129, 2, 2, 128, true, 8}, {2, 40, 4, 2, 64, false, 30},
};
/// Windows of one key (the position's own), two, across the blocks of any
/// kernel, all keys but one, all, and more than there are.
constexpr Shape kWindows[] = {
    {2, 100, 4, 4, 64, true, 1, 0},   {2, 100, 4, 2, 64, true, 1, 1},
    {1, 129, 2, 2, 128, true, 8, 31}, {1, 321, 4, 1, 64, true, 1, 64},
    {1, 256, 4, 2, 64, true, 1, 127}, {2, 77, 4, 2, 64, true, 1, 75},
    {2, 77, 4, 2, 64, true, 1, 76},   {2, 77, 4, 2, 64, true, 1, 500},
};
/// Caps that most scores feel, that none does, and that all are near, also
/// under masks and windows, which come after.
constexpr Shape kCaps[] = {
    {2, 100, 4, 4, 64, false, 1, -1, 0.5f},
    {2, 100, 4, 2, 64, true, 1, -1, 50},
    {1, 129, 2, 2, 128, true, 8, -1, 50},
    {1, 129, 4, 1, 128, true, 8, 31, 30},
    {2, 77, 4, 2, 64, true, 1, 0, 0.5f},
    {1, 256, 4, 2, 64, true, 4, 127, 30},
    {1, 100, 2, 1, 256, true, 1, -1, 50},
    {2, 40, 4, 2, 64, false, 3, -1, 2},
};
/// Sinks of 0, of the size of the scores, and large ones, which take most of
/// some rows; also under masks, windows and caps, none of which they feel.
constexpr Shape kSinks[] = {
    {2, 100, 4, 4, 64, false, 1, -1, 0, 0},
    {2, 100, 4, 2, 64, true, 1, -1, 0, 1},
    {2, 64, 8, 1, 64, true, 1, 15, 0, 1},
    {1, 129, 2, 2, 128, true, 8, -1, 0, 100},
    {1, 321, 4, 1, 64, true, 1, 127, 0, 4},
    {2, 77, 4, 2, 64, true, 1, 0, 0, 2},
    {1, 256, 4, 2, 128, false, 1, -1, 0, 4},
};
/// With caps, which the cuda backend need not have.
constexpr Shape kSinksAndCaps[] = {
    {2, 100, 4, 2, 64, true, 1, -1, 0.5f, 1},
    {1, 129, 4, 1, 128, true, 8, 31, 30, 30},
};
std::vector<Shape> sinkShapes() {
  std::vector<Shape> shapes(std::begin(kSinks), std::end(kSinks));
  shapes.insert(shapes.end(), std::begin(kSinksAndCaps),
                std::end(kSinksAndCaps));
  return shapes;
}
std::vector<Shape> allShapes() {
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), std::begin(kWindows), std::end(kWindows));
  shapes.insert(shapes.end(), std::begin(kCaps), std::end(kCaps));
  shapes.insert(shapes.end(), std::begin(kSinks), std::end(kSinks));
  return shapes;
}

/// Values with a bound each of what may be wrong about them.
struct Bounded {
  explicit Bounded(int64_t size) : value(size), bound(size) {}
  std::vector<double> value, bound;
};

std::vector<double> valuesOf(const Array &array) {
  std::vector<double> values(array.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = array.at(i);
  return values;
}

/// One attention in f64. Rows of q, k, v are found by sequence, head, position.
class Attention64 {
public:
  Attention64(const Shape &s, int32_t type, bool isReference)
      : s(s), narrow(isReference ? 0 : unitRoundoff(type)),
        tiny(!isReference && type == TE_RT_F16 ? 0x1p-25 : 0),
        tanhError(isReference ? 2 * kU : 0x1p-11),
        tanhFloor(isReference ? 0 : 4 * kU),
        q(values(type, s.queries(), s.size, 1)),
        k(values(type, s.keys(), s.size, 2)), v(values(type, s.keys(), 1, 3)),
        dout(values(type, s.queries(), 1, 4)),
        sinks(values(TE_RT_F32, s.heads, s.hasSinks() ? s.sinkSize : 0, 5)),
        o(s.queries()), lse(s.tokens() * s.heads), dq(s.queries()),
        dk(s.keys()), dv(s.keys()), dsinks(s.heads) {
    q64 = valuesOf(q), k64 = valuesOf(k), v64 = valuesOf(v);
    dout64 = valuesOf(dout);
    forEachRow([&](int64_t b, int64_t h, int64_t i) { forward(b, h, i); });
    givenO = Array(type, o.value);
    givenLse = Array(TE_RT_F32, lse.value);
    forEachRow([&](int64_t b, int64_t h, int64_t i) { backward(b, h, i); });
    const double tokens = static_cast<double>(s.tokens());
    for (int64_t h = 0; h < s.heads; ++h)
      dsinks.bound[h] +=
          sinkTerms[h] * (std::min(tokens, 128.0) + tokens / 128 + 2) * kU;
    for (Bounded *sum : {&dk, &dv, &dsinks})
      for (double &bound : sum->bound)
        bound *= 1.01; // terms of second order
  }

  const Shape s;
  const double narrow, tiny, tanhError, tanhFloor;
  const Array q, k, v, dout, sinks;
  Bounded o, lse, dq, dk, dv, dsinks;
  /// What the backward is given: o and lse, rounded.
  Array givenO, givenLse;

private:
  static Array values(int32_t type, int64_t count, double size, uint32_t seed) {
    std::vector<double> made = makeValues("normal", type, count, seed);
    for (double &each : made)
      each *= size;
    return Array(type, made);
  }
  template <typename Body> void forEachRow(Body body) {
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.sequence; ++i)
          body(b, h, i);
  }
  int64_t queryAt(int64_t b, int64_t h, int64_t i) const {
    return ((b * s.sequence + i) * s.heads + h) * s.headDim;
  }
  int64_t keyAt(int64_t b, int64_t h, int64_t j) const {
    return ((b * s.sequence + j) * s.kvHeads + h / (s.heads / s.kvHeads)) *
           s.headDim;
  }
  int64_t lseAt(int64_t b, int64_t h, int64_t i) const {
    return (b * s.heads + h) * s.sequence + i;
  }
  bool sees(int64_t i, int64_t j) const {
    return (!s.causal || j <= i) && (s.windowLeft < 0 || j >= i - s.windowLeft);
  }

  double sinkOf(int64_t h) const {
    return s.hasSinks() ? sinks.at(h) : -INFINITY;
  }

  /// Caps score `j`, and what its gradient is multiplied by.
  void cap(int64_t j) {
    const double c = s.softcap, x = scores[j], t = std::tanh(x / c);
    const double reach = errors[j] + kU * std::fabs(x);
    const double near = std::tanh(std::max(0.0, std::fabs(x) - reach) / c);
    scores[j] = c * t;
    errors[j] = (1 - near * near) * reach +
                c * ((tanhError + kU) * std::fabs(t) + tanhFloor);
    slopes[j] = 1 - t * t;
    const double wrong = errors[j] / c;
    slopeErrors[j] = 2 * std::fabs(t) * wrong + wrong * wrong + 2 * kU;
  }

  /// The scores of a row and, of each, the error of its exponent; `largest` is
  /// the magnitude of what is no score of a key.
  void score(int64_t b, int64_t h, int64_t i, double largest) {
    // exp of what is not seen is 0.
    scores.assign(s.sequence, -INFINITY), errors.assign(s.sequence, 0);
    slopes.assign(s.sequence, 1), slopeErrors.assign(s.sequence, 0);
    const double *const row = &q64[queryAt(b, h, i)];
    for (int64_t j = 0; j < s.sequence; ++j) {
      if (!sees(i, j))
        continue;
      const double *const key = &k64[keyAt(b, h, j)];
      double size = 0;
      scores[j] = 0;
      for (int64_t d = 0; d < s.headDim; ++d) {
        scores[j] += s.scale() * row[d] * key[d];
        size += std::fabs(row[d] * key[d]);
      }
      errors[j] = (s.headDim + 3) * kU * s.scale() * size;
      if (s.softcap != 0)
        cap(j);
      largest = std::max(largest, std::fabs(scores[j]));
    }
    worst = 0;
    for (double &error : errors) {
      error += 4 * kU * (2 * largest + 1);
      worst = std::max(worst, error);
    }
  }

  void forward(int64_t b, int64_t h, int64_t i) {
    const double sink = sinkOf(h);
    score(b, h, i, s.hasSinks() ? std::fabs(sink) : 0);
    const double top =
        std::max(sink, *std::max_element(scores.begin(), scores.end()));
    double total = std::exp(sink - top);
    for (double each : scores)
      total += std::exp(each - top);
    const int64_t row = lseAt(b, h, i), out = queryAt(b, h, i);
    const double length = static_cast<double>(s.sequence + s.hasSinks());
    lse.value[row] = top + std::log(total);
    // The error of log is that of its argument, relative, and its own.
    lse.bound[row] = 1.01 * (worst + (length + 4) * kU +
                             4 * kU * (std::fabs(top) + std::log(total) + 1));
    for (int64_t d = 0; d < s.headDim; ++d) {
      double sum = 0, size = 0, all = 0;
      for (int64_t j = 0; j < s.sequence; ++j) {
        if (!sees(i, j))
          continue;
        const double w = std::exp(scores[j] - lse.value[row]);
        const double value = v64[keyAt(b, h, j) + d];
        sum += w * value;
        size += w * std::fabs(value);
        all += std::fabs(value);
      }
      const double relative =
          2 * std::expm1(worst) + (2 * length + 4) * kU + narrow;
      o.value[out + d] = sum;
      o.bound[out + d] = 1.01 * (size * relative + tiny * all);
    }
  }

  void backward(int64_t b, int64_t h, int64_t i) {
    score(b, h, i, 0);
    const int64_t out = queryAt(b, h, i);
    const double rowLse = givenLse.at(lseAt(b, h, i));
    const double length = static_cast<double>(s.sequence * s.heads / s.kvHeads);
    const double dots = (s.headDim + 3) * kU;
    double delta = 0, deltaSize = 0;
    for (int64_t d = 0; d < s.headDim; ++d) {
      delta += dout64[out + d] * givenO.at(out + d);
      deltaSize += std::fabs(dout64[out + d] * givenO.at(out + d));
    }
    if (s.hasSinks()) {
      const double sink = sinkOf(h), w = std::exp(sink - rowLse);
      const double wError =
          w * std::expm1(4 * kU * (std::fabs(sink) + std::fabs(rowLse) + 1));
      dsinks.value[h] -= w * delta;
      dsinks.bound[h] += wError * std::fabs(delta) +
                         (w + wError) * dots * deltaSize +
                         kU * w * std::fabs(delta);
      sinkTerms[h] += w * std::fabs(delta);
    }
    for (int64_t j = 0; j < s.sequence; ++j) {
      if (!sees(i, j))
        continue;
      const int64_t key = keyAt(b, h, j);
      double dp = 0, dpSize = 0;
      for (int64_t d = 0; d < s.headDim; ++d) {
        dp += dout64[out + d] * v64[key + d];
        dpSize += std::fabs(dout64[out + d] * v64[key + d]);
      }
      const double w = std::exp(scores[j] - rowLse);
      const double wError =
          w * std::expm1(errors[j] + 4 * kU * std::fabs(rowLse));
      const double slope = slopes[j], all = w * (dp - delta), ds = all * slope;
      // As an operand of a product, ds and w are rounded to the type on cuda;
      // the gradients of the heads of one key-value head may be, too. ds may
      // have been scaled by then, so that a subnormal is off by `tiny` either
      // way.
      const double subnormal = std::max<double>(1.0, s.scale()) * tiny;
      const double allError = wError * std::fabs(dp - delta) +
                              (w + wError) * dots * (dpSize + deltaSize) +
                              2 * kU * std::fabs(all);
      const double dsError = allError * (slope + slopeErrors[j]) +
                             (slopeErrors[j] + 3 * kU * slope) * std::fabs(all);
      const double sums = (length + 3) * kU;
      for (int64_t d = 0; d < s.headDim; ++d) {
        const double kd = k64[key + d], qd = q64[out + d],
                     doutd = dout64[out + d];
        dq.value[out + d] += s.scale() * ds * kd;
        dq.bound[out + d] += 1.01 * s.scale() * std::fabs(kd) *
                                 (dsError + std::fabs(ds) * (sums + narrow)) +
                             1.01 * std::fabs(kd) * subnormal;
        dk.value[key + d] += s.scale() * ds * qd;
        dk.bound[key + d] +=
            s.scale() * std::fabs(qd) *
                (dsError + std::fabs(ds) * (sums + 2 * narrow)) +
            std::fabs(qd) * subnormal;
        dv.value[key + d] += w * doutd;
        dv.bound[key + d] +=
            std::fabs(doutd) * (wError + w * (sums + 2 * narrow) + tiny);
      }
    }
  }

  std::vector<double> q64, k64, v64, dout64, scores, errors, slopes,
      slopeErrors;
  /// Of each head, the sum of the magnitudes that dsinks is the sum of.
  std::vector<double> sinkTerms = std::vector<double>(s.heads);
  double worst = 0;
};

class Attention : public BackendTest {
protected:
  bool isReference() const { return GetParam() == "reference"; }
  std::vector<int32_t> types() const {
    if (isReference())
      return {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
    return {TE_RT_BF16, TE_RT_F16};
  }
  static PlanFunction plan(const Shape &s, int32_t type) {
    return TE_PLAN(attention, s.tokens(), s.sequence, s.heads, s.kvHeads,
                   s.headDim, type, s.causal, s.windowLeft, s.scale(),
                   s.softcap, s.hasSinks());
  }
  static PlanFunction sinkGradPlan(const Shape &s, int32_t type) {
    return TE_PLAN(attention_sink_grad, s.tokens(), s.sequence, s.heads,
                   s.headDim, type);
  }
  static PlanFunction backwardPlan(const Shape &s, int32_t type,
                                   bool deterministic = true) {
    return TE_PLAN(attention_backward, s.tokens(), s.sequence, s.heads,
                   s.kvHeads, s.headDim, type, s.causal, s.windowLeft,
                   s.scale(), s.softcap, deterministic);
  }

  /// The forward, of these queries.
  te_rt_status tryForward(const Attention64 &oracle, const Array &q,
                          int32_t type, Array *o, Array *lse) {
    const Shape &s = oracle.s;
    *o = Array(type, s.queries());
    *lse = Array(TE_RT_F32, s.tokens() * s.heads);
    return device().tryRun(plan(s, type),
                           {in(q.bytes), in(oracle.k.bytes), in(oracle.v.bytes),
                            s.hasSinks() ? in(oracle.sinks.bytes) : none(),
                            out(o->bytes), out(lse->bytes)});
  }

  /// Within the bound and one rounding to the type of `actual`.
  static void expectWithin(const Bounded &expected, const Array &actual,
                           const std::string &what) {
    double size = 0, room = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      const double value = expected.value[i], bound = expected.bound[i];
      const double rounding =
          unitRoundoff(actual.type) * (std::fabs(value) + bound) + 0x1p-25;
      ASSERT_LE(std::fabs(actual.at(i) - value), bound + rounding)
          << what << " at " << i << ": expected " << value << ", but got "
          << actual.at(i);
      size = std::max(size, std::fabs(value));
      room += (bound + rounding) / static_cast<double>(actual.size());
    }
    // A bound as large as the values would say nothing; where a position sees
    // itself alone, the gradients of q and k are 0.
    EXPECT_TRUE(room < 0.1 * size || size == 0) << what;
  }
};

TEST_P(Attention, MeetsTheDefinition) {
  for (int32_t type : types())
    for (const Shape &s : allShapes()) {
      SCOPED_TRACE(s.text() + " type " + std::to_string(type));
      const Attention64 oracle(s, type, isReference());
      Array o, lse;
      ASSERT_EQ(tryForward(oracle, oracle.q, type, &o, &lse), TE_RT_OK)
          << te_rt_last_error();
      expectWithin(oracle.o, o, "o");
      expectWithin(oracle.lse, lse, "lse");
    }
}

// Sinks beside caps: as defined, or refused where cuDNN has no engine for both.
TEST_P(Attention, SinksBesideCapsMeetTheDefinitionOrAreRefused) {
  for (int32_t type : types())
    for (const Shape &s : kSinksAndCaps) {
      SCOPED_TRACE(s.text() + " type " + std::to_string(type));
      const Attention64 oracle(s, type, isReference());
      Array o, lse;
      const te_rt_status status = tryForward(oracle, oracle.q, type, &o, &lse);
      if (!isReference() && status == TE_RT_UNSUPPORTED) {
        EXPECT_NE(std::string(te_rt_last_error())
                      .find("cuDNN has no engine for this attention"),
                  std::string::npos)
            << te_rt_last_error();
        continue;
      }
      ASSERT_EQ(status, TE_RT_OK) << te_rt_last_error();
      expectWithin(oracle.o, o, "o");
      expectWithin(oracle.lse, lse, "lse");
    }
}

// The gradients of q, k and v, whose kernel does not know of sinks, are those
// of GradientsMeetTheDefinition.
TEST_P(Attention, GradientsOfSinksMeetTheDefinition) {
  std::vector<int32_t> all = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
  for (int32_t type : all)
    for (const Shape &s : sinkShapes()) {
      SCOPED_TRACE(s.text() + " type " + std::to_string(type));
      const Attention64 oracle(s, type, isReference());
      Array dsinks(TE_RT_F32, s.heads);
      device().run(sinkGradPlan(s, type),
                   {in(oracle.dout.bytes), in(oracle.givenO.bytes),
                    in(oracle.givenLse.bytes), in(oracle.sinks.bytes),
                    out(dsinks.bytes)});
      expectWithin(oracle.dsinks, dsinks, "dsinks");
    }
}

TEST_P(Attention, GradientsMeetTheDefinition) {
  for (int32_t type : types())
    for (const Shape &s : allShapes()) {
      SCOPED_TRACE(s.text() + " type " + std::to_string(type));
      const Attention64 oracle(s, type, isReference());
      Array dq(type, s.queries()), dk(type, s.keys()), dv(type, s.keys());
      Array again[] = {dq, dk, dv};
      const std::vector<Buffer> inputs = {
          in(oracle.dout.bytes),   in(oracle.q.bytes),
          in(oracle.k.bytes),      in(oracle.v.bytes),
          in(oracle.givenO.bytes), in(oracle.givenLse.bytes)};
      auto with = [&](Array &a, Array &b, Array &c) {
        std::vector<Buffer> buffers = inputs;
        for (Array *each : {&a, &b, &c})
          buffers.push_back(out(each->bytes));
        return buffers;
      };
      for (bool deterministic : {false, true}) {
        device().run(backwardPlan(s, type, deterministic), with(dq, dk, dv));
        expectWithin(oracle.dq, dq, "dq");
        expectWithin(oracle.dk, dk, "dk");
        expectWithin(oracle.dv, dv, "dv");
      }
      // The same bits every time.
      device().run(backwardPlan(s, type), with(again[0], again[1], again[2]));
      EXPECT_TRUE(sameBits(dq, again[0]) && sameBits(dk, again[1]) &&
                  sameBits(dv, again[2]));
    }
}

// A row of q that is NaN makes its own row of o NaN and no other.
TEST_P(Attention, NanStaysInItsRow) {
  const Shape s{1, 64, 2, 2, 64, true, 1};
  const Attention64 oracle(s, TE_RT_BF16, isReference());
  Array q = oracle.q;
  q.set(7 * 128 + 64 + 3, std::nan("")); // token 7, head 1
  Array o, lse;
  ASSERT_EQ(tryForward(oracle, q, TE_RT_BF16, &o, &lse), TE_RT_OK)
      << te_rt_last_error();
  for (int64_t i = 0; i < s.queries(); ++i)
    ASSERT_EQ(std::isnan(o.at(i)), i / 64 == 7 * 2 + 1) << i;
  for (int64_t row = 0; row < s.tokens() * s.heads; ++row)
    ASSERT_EQ(std::isnan(lse.at(row)), row == 64 + 7) << row;
}

TE_FOR_EACH_BACKEND(Attention);

} // namespace
