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

/// Whether (key a, index i) is chosen before (b, j).
TE_HOST_DEVICE bool routerBefore(float a, int64_t i, float b, int64_t j) {
  if (a != a || b != b)
    return (a == a && b != b) || (a != a && b != b && i < j);
  return a > b || (a == b && i < j);
}

/// What one token chooses its experts by. The best ones are found one behind
/// the other, so that no place to mark the chosen is needed.
class RouterChoice {
public:
  TE_HOST_DEVICE RouterChoice(const float *scores, const float *bias,
                              int64_t experts, int64_t groups,
                              int64_t chosenGroups)
      : scores(scores), bias(bias), groups(groups), size(experts / groups) {
    for (int64_t i = 0; i < chosenGroups && chosenGroups < groups; ++i) {
      int64_t best = -1;
      float sum = 0.0f;
      for (int64_t g = 0; g < groups; ++g) {
        const float own = groupKey(g);
        if ((i == 0 || routerBefore(leastKey, leastGroup, own, g)) &&
            (best < 0 || routerBefore(own, g, sum, best))) {
          best = g;
          sum = own;
        }
      }
      leastGroup = best;
      leastKey = sum;
    }
  }

  /// The best expert behind `last`, or the best of all if that is -1.
  TE_HOST_DEVICE int64_t next(int64_t last) const {
    int64_t best = -1;
    for (int64_t g = 0; g < groups; ++g) {
      if (!isChosen(g))
        continue;
      for (int64_t e = g * size; e < (g + 1) * size; ++e)
        if ((last < 0 || isBefore(last, e)) && (best < 0 || isBefore(e, best)))
          best = e;
    }
    return best;
  }

private:
  TE_HOST_DEVICE float key(int64_t e) const {
    return bias ? scores[e] + bias[e] : scores[e];
  }
  TE_HOST_DEVICE bool isBefore(int64_t a, int64_t b) const {
    return routerBefore(key(a), a, key(b), b);
  }
  /// The sum of the two largest keys of a group.
  TE_HOST_DEVICE float groupKey(int64_t g) const {
    int64_t first = g * size, second = -1;
    for (int64_t e = first + 1; e < (g + 1) * size; ++e)
      if (isBefore(e, first)) {
        second = first;
        first = e;
      } else if (second < 0 || isBefore(e, second)) {
        second = e;
      }
    return key(first) + key(second);
  }
  TE_HOST_DEVICE bool isChosen(int64_t g) const {
    return leastGroup < 0 || g == leastGroup ||
           routerBefore(groupKey(g), g, leastKey, leastGroup);
  }

  const float *scores, *bias;
  int64_t groups, size;
  int64_t leastGroup = -1; // the last chosen group; -1 if all are chosen
  float leastKey = 0.0f;
};

/// The `k` best experts and their probabilities.
TE_HOST_DEVICE void routerChoose(const RouterChoice &choice,
                                 const float *scores, int64_t k, bool normalize,
                                 int32_t *ids, float *probs) {
  float sum = 0.0f;
  for (int64_t j = 0; j < k; ++j) {
    const int64_t best = choice.next(j == 0 ? -1 : ids[j - 1]);
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
      : dprobs(dprobs), ids(ids), scores(scores), experts(experts), k(k),
        score(score), normalize(normalize) {
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

  /// Of each expert. Of several slots with an expert, the last one counts.
  template <typename Store> TE_HOST_DEVICE void dlogits(Store store) const {
    for (int64_t e = 0; e < experts; ++e)
      store(e, dlogit(e, 0.0f));
    for (int64_t j = 0; j < k; ++j)
      if (isIn(ids[j], experts))
        store(ids[j], dlogit(ids[j], dscore(j)));
  }

private:
  TE_HOST_DEVICE float dlogit(int64_t e, float ds) const {
    const float s = scores[e];
    return score == kRouterSigmoid ? ds * (s * (1.0f - s))
                                   : s * (ds - weighted);
  }
  TE_HOST_DEVICE float dscore(int64_t j) const {
    return normalize ? (dprobs[j] - dot) / sum : dprobs[j];
  }

  const float *dprobs;
  const int32_t *ids;
  const float *scores;
  int64_t experts, k;
  int32_t score;
  bool normalize;
  float sum = 0.0f, dot = 0.0f, weighted = 0.0f;
};

} // namespace math
} // namespace te::rt

#endif // TE_RUNTIME_CORE_ROUTER_H
