//===- Moe.cpp - routing tokens to experts, on the reference backend ------===//
//
// An entry is one of the k choices of a token. Routing gives each entry a row,
// or none; moving rows there and back is then a gather.
//
//===----------------------------------------------------------------------===//

#include "Core/GroupLayout.h"
#include "Core/Router.h"
#include "Reference/Reference.h"

#include <algorithm>
#include <vector>

namespace te::rt::reference {

void router_topk(const router_topk_params &p, void *const *buffers) {
  namespace b = router_topk_buffers;
  const auto *bias = static_cast<const float *>(buffers[b::bias]);
  auto *ids = static_cast<int32_t *>(buffers[b::ids]);
  auto *probs = static_cast<float *>(buffers[b::probs]);
  auto *scores = static_cast<float *>(buffers[b::scores]);
  std::vector<float> logits(p.experts), groupKeys(p.groups);
  for (int64_t t = 0; t < p.tokens; ++t) {
    for (int64_t e = 0; e < p.experts; ++e)
      logits[e] = load(buffers[b::logits], t * p.experts + e, p.type);
    float *row = scores + t * p.experts;
    constexpr math::OneLane lane;
    math::routerScores(lane, logits.data(), p.experts, p.score, row);
    const math::RouterChoice choice(lane, row, bias, p.experts, p.groups,
                                    p.chosen_groups, groupKeys.data());
    math::routerChoose(lane, choice, row, p.k, p.normalize != 0, ids + t * p.k,
                       probs + t * p.k);
  }
}

void router_topk_backward(const router_topk_backward_params &p,
                          void *const *buffers) {
  namespace b = router_topk_backward_buffers;
  const auto *dprobs = static_cast<const float *>(buffers[b::dprobs]);
  const auto *ids = static_cast<const int32_t *>(buffers[b::ids]);
  const auto *probs = static_cast<const float *>(buffers[b::probs]);
  const auto *scores = static_cast<const float *>(buffers[b::scores]);
  for (int64_t t = 0; t < p.tokens; ++t) {
    const math::RouterGrad grad(dprobs + t * p.k, ids + t * p.k,
                                probs + t * p.k, scores + t * p.experts,
                                p.experts, p.k, p.score, p.normalize != 0);
    grad.dlogits([&](int64_t e, float gradient) {
      store(buffers[b::dlogits], t * p.experts + e, gradient, p.type);
    });
  }
}

void moe_route(const moe_route_params &p, void *const *buffers) {
  namespace b = moe_route_buffers;
  const auto *ids = static_cast<const int32_t *>(buffers[b::ids]);
  auto *sizes = static_cast<int32_t *>(buffers[b::group_sizes]);
  auto *rowOf = static_cast<int32_t *>(buffers[b::row_of]);
  auto *entryOf = static_cast<int32_t *>(buffers[b::entry_of]);
  const auto *used = static_cast<const float *>(buffers[b::used]);
  const int64_t entries = p.tokens * p.k;
  auto exists = [&](int64_t entry) {
    return !used || used[entry / p.k] != 0.0f;
  };
  std::fill_n(rowOf, entries, -1);
  std::fill_n(entryOf, p.rows, -1);
  int64_t begin = 0, taken = 0;
  for (int64_t g = 0; g < p.groups; ++g) {
    int64_t size = 0;
    for (int64_t i = 0; i < entries; ++i) {
      const bool fits =
          (p.capacity == 0 || size < p.capacity) && begin + size < p.rows;
      if (ids[i] != g || !fits || !exists(i))
        continue;
      rowOf[i] = static_cast<int32_t>(begin + size);
      entryOf[begin + size] = static_cast<int32_t>(i);
      ++size;
    }
    sizes[g] = static_cast<int32_t>(size);
    taken += size;
    if (p.padded)
      sizes[g] = static_cast<int32_t>(p.capacity);
    begin = groupRows(begin, sizes[g], p.rows, p.alignment).next;
  }
  int64_t all = 0;
  for (int64_t i = 0; i < entries; ++i)
    all += exists(i);
  *static_cast<int32_t *>(buffers[b::dropped]) =
      static_cast<int32_t>(all - taken);
}

void moe_permute(const moe_permute_params &p, void *const *buffers) {
  namespace b = moe_permute_buffers;
  const auto *entryOf = static_cast<const int32_t *>(buffers[b::entry_of]);
  const auto *probs = static_cast<const float *>(buffers[b::probs]);
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t c = 0; c < p.cols; ++c) {
      float value = 0.0f;
      const int64_t entry = entryOf[r];
      if (math::isIn(entry, p.tokens * p.k)) {
        value = load(buffers[b::x], entry / p.k * p.cols + c, p.type);
        if (probs)
          value *= probs[entry];
      }
      store(buffers[b::y], r * p.cols + c, value, p.type);
    }
}

void moe_prob_grad(const moe_prob_grad_params &p, void *const *buffers) {
  namespace b = moe_prob_grad_buffers;
  const auto *rowOf = static_cast<const int32_t *>(buffers[b::row_of]);
  auto *dprobs = static_cast<float *>(buffers[b::dprobs]);
  for (int64_t i = 0; i < p.tokens * p.k; ++i)
    dprobs[i] =
        !math::isIn(rowOf[i], p.rows)
            ? 0.0f
            : laneSum(p.cols, [&](float acc, int64_t c) {
                return acc +
                       load(buffers[b::dout], i / p.k * p.cols + c, p.type) *
                           load(buffers[b::y], rowOf[i] * p.cols + c, p.type);
              });
}

void moe_unpermute(const moe_unpermute_params &p, void *const *buffers) {
  namespace b = moe_unpermute_buffers;
  const auto *rowOf = static_cast<const int32_t *>(buffers[b::row_of]);
  const auto *probs = static_cast<const float *>(buffers[b::probs]);
  for (int64_t t = 0; t < p.tokens; ++t)
    for (int64_t c = 0; c < p.cols; ++c) {
      float sum = 0.0f;
      for (int64_t i = t * p.k; i < (t + 1) * p.k; ++i)
        if (math::isIn(rowOf[i], p.rows)) {
          const float y = load(buffers[b::y], rowOf[i] * p.cols + c, p.type);
          sum += probs ? y * probs[i] : y;
        }
      store(buffers[b::out], t * p.cols + c, sum, p.type);
    }
}

} // namespace te::rt::reference
