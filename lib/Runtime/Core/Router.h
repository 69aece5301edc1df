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

/// The lanes that route a token together, each with every `count`-th expert
/// from `lane` on. This is one lane; those of a warp have the same members.
struct OneLane {
  static constexpr int64_t lane = 0, count = 1;

  /// What the lanes wrote is visible to all of them.
  TE_HOST_DEVICE void sync() const {}
  /// The largest of the lanes' values.
  TE_HOST_DEVICE float max(float own) const { return own; }
  /// Of the lanes' experts, or -1, the one that is chosen before the others.
  TE_HOST_DEVICE int64_t best(float, int64_t expert) const { return expert; }
};

/// The scores of `experts` logits, which may be in the same place.
template <typename Lanes>
TE_HOST_DEVICE void routerScores(const Lanes &lanes, const float *logits,
                                 int64_t experts, int32_t score,
                                 float *scores) {
  float max = -kInfinity, sum = 0.0f;
  for (int64_t e = lanes.lane; e < experts; e += lanes.count)
    max = logits[e] > max ? logits[e] : max;
  max = lanes.max(max);
  for (int64_t e = lanes.lane; e < experts; e += lanes.count)
    scores[e] =
        score == kRouterSigmoid ? sigmoid(logits[e]) : exp(logits[e] - max);
  lanes.sync();
  if (score == kRouterSigmoid)
    return;
  for (int64_t e = 0; e < experts; ++e)
    sum += scores[e];
  lanes.sync();
  for (int64_t e = lanes.lane; e < experts; e += lanes.count)
    scores[e] = scores[e] / sum;
  lanes.sync();
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
/// the other, so that no place to mark the chosen is needed. All lanes make
/// every call.
template <typename Lanes> class RouterChoice {
public:
  /// `groupKeys` has a place for each group, or is null: their keys are then
  /// computed whenever one is compared.
  TE_HOST_DEVICE RouterChoice(const Lanes &lanes, const float *scores,
                              const float *bias, int64_t experts,
                              int64_t groups, int64_t chosenGroups,
                              float *groupKeys)
      : lanes(lanes), scores(scores), bias(bias), groups(groups),
        size(experts / groups) {
    if (chosenGroups == groups)
      return;
    for (int64_t g = 0; groupKeys && g < groups; ++g)
      if (const float own = groupKey(g); g % lanes.count == lanes.lane)
        groupKeys[g] = own;
    lanes.sync();
    keys = groupKeys;
    for (int64_t i = 0; i < chosenGroups; ++i) {
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
    for (int64_t g = 0; g < groups; ++g)
      if (isChosen(g))
        best = bestOfLane(g, last, best);
    return bestOfAll(best);
  }

private:
  TE_HOST_DEVICE float key(int64_t e) const {
    return bias ? scores[e] + bias[e] : scores[e];
  }
  TE_HOST_DEVICE bool isBefore(int64_t a, int64_t b) const {
    return routerBefore(key(a), a, key(b), b);
  }
  /// The best of `best` and of this lane's experts of a group that are behind
  /// `last`. There is none if it is -1.
  TE_HOST_DEVICE int64_t bestOfLane(int64_t g, int64_t last,
                                    int64_t best) const {
    for (int64_t e = g * size + lanes.lane; e < (g + 1) * size;
         e += lanes.count)
      if ((last < 0 || isBefore(last, e)) && (best < 0 || isBefore(e, best)))
        best = e;
    return best;
  }
  TE_HOST_DEVICE int64_t bestOfAll(int64_t best) const {
    return lanes.best(best < 0 ? 0.0f : key(best), best);
  }
  /// The sum of the two largest keys of a group.
  TE_HOST_DEVICE float groupKey(int64_t g) const {
    if (keys)
      return keys[g];
    const int64_t first = bestOfAll(bestOfLane(g, -1, -1));
    return key(first) + key(bestOfAll(bestOfLane(g, first, -1)));
  }
  TE_HOST_DEVICE bool isChosen(int64_t g) const {
    return leastGroup < 0 || g == leastGroup ||
           routerBefore(groupKey(g), g, leastKey, leastGroup);
  }

  Lanes lanes;
  const float *scores, *bias, *keys = nullptr;
  int64_t groups, size;
  int64_t leastGroup = -1; // the last chosen group; -1 if all are chosen
  float leastKey = 0.0f;
};

/// The `k` best experts and their probabilities.
template <typename Lanes>
TE_HOST_DEVICE void routerChoose(const Lanes &lanes,
                                 const RouterChoice<Lanes> &choice,
                                 const float *scores, int64_t k, bool normalize,
                                 int32_t *ids, float *probs) {
  int64_t best = -1;
  float sum = 0.0f;
  for (int64_t j = 0; j < k; ++j) {
    best = choice.next(best);
    sum += scores[best];
    if (j % lanes.count == lanes.lane) {
      ids[j] = static_cast<int32_t>(best);
      probs[j] = scores[best];
    }
  }
  for (int64_t j = lanes.lane; normalize && j < k; j += lanes.count)
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
