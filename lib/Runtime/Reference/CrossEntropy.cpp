//===- CrossEntropy.cpp - softmax cross-entropy and its gradient ----------===//
//
// The backward needs only lse per token: the softmax is exp(x - lse).
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <vector>

namespace te::rt::reference {

namespace {

template <typename Params> bool counts(const Params &p, int32_t target) {
  return target != p.ignore_index && target >= 0 && target < p.vocab;
}

template <typename Params>
int64_t countTokens(const Params &p, const int32_t *targets) {
  int64_t count = 0;
  for (int64_t t = 0; t < p.tokens; ++t)
    count += counts(p, targets[t]);
  return count;
}

} // namespace

void cross_entropy(const cross_entropy_params &p, void *const *buffers) {
  namespace b = cross_entropy_buffers;
  const auto *targets = static_cast<const int32_t *>(buffers[b::targets]);
  auto *lse = static_cast<float *>(buffers[b::lse]);
  auto *losses = static_cast<float *>(buffers[b::token_loss]);
  auto x = [&](int64_t t, int64_t v) {
    return load(buffers[b::logits], t * p.vocab + v, p.type);
  };
  parallelFor(
      p.tokens, p.tokens * p.vocab * 32, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          float max = -math::kInfinity;
          for (int64_t v = 0; v < p.vocab; ++v)
            max = x(t, v) > max ? x(t, v) : max;
          const float sum = laneSum(p.vocab, [&](float acc, int64_t v) {
            return acc + math::exp(x(t, v) - max);
          });
          lse[t] = max + std::log(sum);
          losses[t] = counts(p, targets[t]) ? lse[t] - x(t, targets[t]) : 0.0f;
        }
      });
}

void cross_entropy_mean(const cross_entropy_mean_params &p,
                        void *const *buffers) {
  namespace b = cross_entropy_mean_buffers;
  const auto *losses = static_cast<const float *>(buffers[b::token_loss]);
  const float sum =
      laneSum(p.tokens, [&](float acc, int64_t t) { return acc + losses[t]; });
  const int64_t count =
      countTokens(p, static_cast<const int32_t *>(buffers[b::targets]));
  *static_cast<float *>(buffers[b::loss]) =
      count == 0 ? 0.0f : sum / static_cast<float>(count);
}

void cross_entropy_weight(const cross_entropy_weight_params &p,
                          void *const *buffers) {
  namespace b = cross_entropy_weight_buffers;
  const auto *dloss = static_cast<const float *>(buffers[b::dloss]);
  const int64_t count =
      countTokens(p, static_cast<const int32_t *>(buffers[b::targets]));
  *static_cast<float *>(buffers[b::weight]) =
      (dloss ? *dloss : 1.0f) / static_cast<float>(count);
}

void cross_entropy_backward(const cross_entropy_backward_params &p,
                            void *const *buffers) {
  namespace b = cross_entropy_backward_buffers;
  const auto *targets = static_cast<const int32_t *>(buffers[b::targets]);
  const auto *lse = static_cast<const float *>(buffers[b::lse]);
  const float weight = *static_cast<const float *>(buffers[b::weight]);
  parallelFor(
      p.tokens, p.tokens * p.vocab * 32, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t v = 0; v < p.vocab; ++v) {
            const int64_t i = t * p.vocab + v;
            float grad = 0.0f;
            if (counts(p, targets[t]))
              grad = (math::exp(load(buffers[b::logits], i, p.type) - lse[t]) -
                      (v == targets[t] ? 1.0f : 0.0f)) *
                     weight;
            store(buffers[b::dlogits], i, grad, p.type);
          }
      });
}

} // namespace te::rt::reference
