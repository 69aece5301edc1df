//===- AttentionOracle.h - attention and its gradients in f64 -------------===//

#ifndef TE_CONFORMANCE_ATTENTIONORACLE_H
#define TE_CONFORMANCE_ATTENTIONORACLE_H

#include "Conformance/Oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace te::conformance {

/// The parameters of attention, and its inputs.
struct Shape {
  int64_t batch, sequence, heads, kvHeads, headDim;
  bool causal;
  double size; // of the elements of q and k
  int64_t windowLeft = -1;
  float softcap = 0;
  /// The sinks; 0 gives the off-by-one softmax, and NaN means none.
  double sinkSize = std::numeric_limits<double>::quiet_NaN();

  /// The width of the heads of v and o; 0 means that of q and k.
  int64_t ownValueDim = 0;

  bool hasSinks() const { return !std::isnan(sinkSize); }
  int64_t valueDim() const { return ownValueDim ? ownValueDim : headDim; }
  int64_t tokens() const { return batch * sequence; }
  int64_t queries() const { return tokens() * heads * headDim; }
  int64_t keys() const { return tokens() * kvHeads * headDim; }
  int64_t keyValues() const { return tokens() * kvHeads * valueDim(); }
  int64_t outputs() const { return tokens() * heads * valueDim(); }
  float scale() const {
    return static_cast<float>(1 / std::sqrt(static_cast<double>(headDim)));
  }
  std::string text() const {
    return "batch " + std::to_string(batch) + " sequence " +
           std::to_string(sequence) + " heads " + std::to_string(heads) + "/" +
           std::to_string(kvHeads) + " x " + std::to_string(headDim) + ":" +
           std::to_string(valueDim()) + (causal ? " causal" : "") + " size " +
           std::to_string(size) + " window " + std::to_string(windowLeft) +
           " softcap " + std::to_string(softcap) + " sinks " +
           std::to_string(sinkSize);
  }
};

/// Values, with a bound of the error of each.
struct Bounded {
  explicit Bounded(int64_t size) : value(size), bound(size) {}
  std::vector<double> value, bound;
};

/// One attention in f64. Rows of q, k and v are given by sequence, head and
/// position.
class Attention64 {
public:
  Attention64(const Shape &s, int32_t type, bool isReference);

  const Shape s;
  const double narrow, tiny, tanhError, tanhFloor;
  const Array q, k, v, dout, sinks;
  Bounded o, lse, dq, dk, dv, dsinks;
  /// The inputs of the backward from the forward: o and lse, rounded.
  Array givenO, givenLse;

private:
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
  int64_t outputAt(int64_t b, int64_t h, int64_t i) const {
    return queryAt(b, h, i) / s.headDim * s.valueDim();
  }
  int64_t valueAt(int64_t b, int64_t h, int64_t j) const {
    return keyAt(b, h, j) / s.headDim * s.valueDim();
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

  /// Caps score `j`; returns the factor of its gradient.
  void cap(int64_t j);

  /// The scores of a row, and for each the error of its exponent. `largest` is
  /// the magnitude of the sink's score.
  void score(int64_t b, int64_t h, int64_t i, double largest);

  void forward(int64_t b, int64_t h, int64_t i);

  void backward(int64_t b, int64_t h, int64_t i);

  std::vector<double> q64, k64, v64, dout64, scores, errors, slopes,
      slopeErrors;
  /// For each head, the sum of the magnitudes of the terms of dsinks.
  std::vector<double> sinkTerms = std::vector<double>(s.heads);
  double worst = 0;
};

/// Whether values are within the bound plus one rounding to the type of
/// `actual`.
inline void expectWithin(const Bounded &expected, const Array &actual,
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
  // A bound as large as the values would check nothing. If a position attends
  // only to itself, the gradients of q and k are 0.
  EXPECT_TRUE(room < 0.1 * size || size == 0) << what;
}

} // namespace te::conformance

#endif // TE_CONFORMANCE_ATTENTIONORACLE_H
