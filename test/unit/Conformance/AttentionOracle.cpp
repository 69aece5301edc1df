//===- AttentionOracle.cpp - attention and its gradients in f64 -----------===//
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

#include "Conformance/AttentionOracle.h"

#include <algorithm>

using namespace te::conformance;

namespace {

constexpr double kU = 0x1p-23;

std::vector<double> valuesOf(const Array &array) {
  std::vector<double> values(array.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = array.at(i);
  return values;
}

Array makeOperand(int32_t type, int64_t count, double size, uint32_t seed) {
  std::vector<double> made = makeValues("normal", type, count, seed);
  for (double &each : made)
    each *= size;
  return Array(type, made);
}

} // namespace

Attention64::Attention64(const Shape &s, int32_t type, bool isReference)
    : s(s), narrow(isReference ? 0 : unitRoundoff(type)),
      tiny(!isReference && type == TE_RT_F16 ? 0x1p-25 : 0),
      tanhError(isReference ? 2 * kU : 0x1p-11),
      tanhFloor(isReference ? 0 : 4 * kU),
      q(makeOperand(type, s.queries(), s.size, 1)),
      k(makeOperand(type, s.keys(), s.size, 2)),
      v(makeOperand(type, s.keyValues(), 1, 3)),
      dout(makeOperand(type, s.outputs(), 1, 4)),
      sinks(makeOperand(TE_RT_F32, s.heads, s.hasSinks() ? s.sinkSize : 0, 5)),
      o(s.outputs()), lse(s.tokens() * s.heads), dq(s.queries()), dk(s.keys()),
      dv(s.keyValues()), dsinks(s.heads) {
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

void Attention64::cap(int64_t j) {
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

void Attention64::score(int64_t b, int64_t h, int64_t i, double largest) {
  // exp of a masked score is 0.
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

void Attention64::forward(int64_t b, int64_t h, int64_t i) {
  const double sink = sinkOf(h);
  score(b, h, i, s.hasSinks() ? std::fabs(sink) : 0);
  const double top =
      std::max(sink, *std::max_element(scores.begin(), scores.end()));
  double total = std::exp(sink - top);
  for (double each : scores)
    total += std::exp(each - top);
  const int64_t row = lseAt(b, h, i), out = outputAt(b, h, i);
  const double length = static_cast<double>(s.sequence + s.hasSinks());
  lse.value[row] = top + std::log(total);
  // The error of log is the relative error of its argument, and its own.
  lse.bound[row] = 1.01 * (worst + (length + 4) * kU +
                           4 * kU * (std::fabs(top) + std::log(total) + 1));
  for (int64_t d = 0; d < s.valueDim(); ++d) {
    double sum = 0, size = 0, all = 0;
    for (int64_t j = 0; j < s.sequence; ++j) {
      if (!sees(i, j))
        continue;
      const double w = std::exp(scores[j] - lse.value[row]);
      const double value = v64[valueAt(b, h, j) + d];
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

void Attention64::backward(int64_t b, int64_t h, int64_t i) {
  score(b, h, i, 0);
  const int64_t query = queryAt(b, h, i), out = outputAt(b, h, i);
  const double rowLse = givenLse.at(lseAt(b, h, i));
  const double length = static_cast<double>(s.sequence * s.heads / s.kvHeads);
  const double dots = (s.valueDim() + 3) * kU;
  double delta = 0, deltaSize = 0;
  for (int64_t d = 0; d < s.valueDim(); ++d) {
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
    const int64_t key = keyAt(b, h, j), value = valueAt(b, h, j);
    double dp = 0, dpSize = 0;
    for (int64_t d = 0; d < s.valueDim(); ++d) {
      dp += dout64[out + d] * v64[value + d];
      dpSize += std::fabs(dout64[out + d] * v64[value + d]);
    }
    const double w = std::exp(scores[j] - rowLse);
    const double wError =
        w * std::expm1(errors[j] + 4 * kU * std::fabs(rowLse));
    const double slope = slopes[j], all = w * (dp - delta), ds = all * slope;
    // On cuda, ds and w are rounded to the type as operands of a GEMM, and the
    // gradients of the heads of one key-value head may be rounded, too. ds may
    // have been scaled before, so a subnormal has an error of `tiny` in both
    // directions.
    const double subnormal = std::max<double>(1.0, s.scale()) * tiny;
    const double allError = wError * std::fabs(dp - delta) +
                            (w + wError) * dots * (dpSize + deltaSize) +
                            2 * kU * std::fabs(all);
    const double dsError = allError * (slope + slopeErrors[j]) +
                           (slopeErrors[j] + 3 * kU * slope) * std::fabs(all);
    const double sums = (length + 3) * kU;
    for (int64_t d = 0; d < s.headDim; ++d) {
      const double kd = k64[key + d], qd = q64[query + d];
      dq.value[query + d] += s.scale() * ds * kd;
      dq.bound[query + d] += 1.01 * s.scale() * std::fabs(kd) *
                                 (dsError + std::fabs(ds) * (sums + narrow)) +
                             1.01 * std::fabs(kd) * subnormal;
      dk.value[key + d] += s.scale() * ds * qd;
      dk.bound[key + d] += s.scale() * std::fabs(qd) *
                               (dsError + std::fabs(ds) * (sums + 2 * narrow)) +
                           std::fabs(qd) * subnormal;
    }
    for (int64_t d = 0; d < s.valueDim(); ++d) {
      const double doutd = dout64[out + d];
      dv.value[value + d] += w * doutd;
      dv.bound[value + d] +=
          std::fabs(doutd) * (wError + w * (sums + 2 * narrow) + tiny);
    }
  }
}
