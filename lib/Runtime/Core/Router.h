//===- Router.h - one token's choice of experts ---------------------------===//
//
// The scores, the choice and their gradients, in the order of operations that
// Kernels.td gives, for host and device.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_ROUTER_H
#define TE_RUNTIME_CORE_ROUTER_H

#include "Core/Formulas.h"

namespace te::rt {

/// How logits become scores.
enum : int32_t { kRouterSoftmax = 0, kRouterSigmoid = 1 };

namespace math {

inline constexpr float kRouterEpsilon = 1e-20f;

/// The scores of `experts` logits.
TE_HOST_DEVICE void routerScores(const float *logits, int64_t experts,
                                 int32_t score, float *scores) {
  if (score == kRouterSigmoid) {
    for (int64_t e = 0; e < experts; ++e)
      scores[e] = sigmoid(logits[e]);
    return;
  }
  float max = -kInfinity;
  for (int64_t e = 0; e < experts; ++e)
    max = logits[e] > max ? logits[e] : max;
  float sum = 0.0f;
  for (int64_t e = 0; e < experts; ++e) {
    scores[e] = exp(logits[e] - max);
    sum += scores[e];
  }
  for (int64_t e = 0; e < experts; ++e)
    scores[e] = scores[e] / sum;
}

/// Whether `index`, read from a map that a caller may have made, is one of
/// `count`.
TE_HOST_DEVICE bool isIn(int64_t index, int64_t count) {
  return index >= 0 && index < count;
}

/// Whether (score a, index i) is chosen before (b, j).
TE_HOST_DEVICE bool routerBefore(float a, int64_t i, float b, int64_t j) {
  if (a != a || b != b)
    return (a == a && b != b) || (a != a && b != b && i < j);
  return a > b || (a == b && i < j);
}

/// The `k` best experts and their probabilities.
TE_HOST_DEVICE void routerChoose(const float *scores, int64_t experts,
                                 int64_t k, bool normalize, int32_t *ids,
                                 float *probs) {
  float sum = 0.0f;
  for (int64_t j = 0; j < k; ++j) {
    // The best one behind the last: no place to mark the chosen is needed.
    int64_t best = -1;
    for (int64_t e = 0; e < experts; ++e)
      if ((j == 0 ||
           routerBefore(scores[ids[j - 1]], ids[j - 1], scores[e], e)) &&
          (best < 0 || routerBefore(scores[e], e, scores[best], best)))
        best = e;
    ids[j] = static_cast<int32_t>(best);
    probs[j] = scores[best];
    sum += probs[j];
  }
  if (normalize)
    for (int64_t j = 0; j < k; ++j)
      probs[j] = probs[j] / (sum + kRouterEpsilon);
}

/// The gradient of one token's logits. A slot whose id is no expert's counts
/// for nothing: the ids may be a caller's.
class RouterGrad {
public:
  TE_HOST_DEVICE RouterGrad(const float *dprobs, const int32_t *ids,
                            const float *probs, const float *scores,
                            int64_t experts, int64_t k, int32_t score,
                            bool normalize)
      : dprobs(dprobs), ids(ids), scores(scores), k(k), score(score),
        normalize(normalize) {
    for (int64_t j = 0; j < k; ++j) {
      if (!isIn(ids[j], experts))
        continue;
      sum += scores[ids[j]];
      dot += dprobs[j] * probs[j];
    }
    sum += kRouterEpsilon;
    for (int64_t j = 0; j < k; ++j)
      if (isIn(ids[j], experts))
        weighted += dscore(j) * scores[ids[j]];
  }

  /// Of expert `e`.
  TE_HOST_DEVICE float dlogit(int64_t e) const {
    float ds = 0.0f;
    for (int64_t j = 0; j < k; ++j)
      if (ids[j] == e)
        ds = dscore(j);
    const float s = scores[e];
    return score == kRouterSigmoid ? ds * (s * (1.0f - s))
                                   : s * (ds - weighted);
  }

private:
  TE_HOST_DEVICE float dscore(int64_t j) const {
    return normalize ? (dprobs[j] - dot) / sum : dprobs[j];
  }

  const float *dprobs;
  const int32_t *ids;
  const float *scores;
  int64_t k;
  int32_t score;
  bool normalize;
  float sum = 0.0f, dot = 0.0f, weighted = 0.0f;
};

} // namespace math
} // namespace te::rt

#endif // TE_RUNTIME_CORE_ROUTER_H
