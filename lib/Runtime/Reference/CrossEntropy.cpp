//===- CrossEntropy.cpp - softmax cross-entropy and its gradient ----------===//
//
// The backward needs only lse per token: the softmax is exp(x - lse).
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <algorithm>
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

/// The maximum of x(0), ..., x(count - 1), and the logarithm of the sum of
/// exponentials of Kernels.td, added.
template <typename Element> float logSumExp(int64_t count, Element x) {
  const auto base = [](float max) { return max == -math::kInfinity ? 0 : max; };
  float lanes[kLanes] = {}, maxima[kLanes];
  std::fill_n(maxima, kLanes, -math::kInfinity);
  for (int64_t begin = 0; begin < count; begin += kExpRun) {
    const int64_t end = std::min(count, begin + kExpRun);
    float &sum = lanes[begin / kExpRun % kLanes];
    float &max = maxima[begin / kExpRun % kLanes];
    const float before = max;
    for (int64_t i = begin; i < end; ++i)
      max = x(i) > max ? x(i) : max;
    sum = sum * math::exp(before - base(max));
    for (int64_t i = begin; i < end; ++i)
      sum = sum + math::exp(x(i) - base(max));
  }
  const float max = *std::max_element(maxima, maxima + kLanes);
  for (int i = 0; i < kLanes; ++i)
    lanes[i] = lanes[i] * math::exp(maxima[i] - base(max));
  return max + std::log(addLanes(lanes));
}

} // namespace

void cross_entropy(const cross_entropy_params &p, void *const *buffers) {
  namespace b = cross_entropy_buffers;
  const auto *targets = static_cast<const int32_t *>(buffers[b::targets]);
  auto *lse = static_cast<float *>(buffers[b::lse]);
  auto *losses = static_cast<float *>(buffers[b::token_loss]);
  auto x = [&](int64_t t, int64_t v) {
    return load(buffers[b::logits], t * p.cols + v, p.type);
  };
  parallelFor(
      p.tokens, p.tokens * p.vocab * 32, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          lse[t] = logSumExp(p.vocab, [&](int64_t v) { return x(t, v); });
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
          for (int64_t v = 0; v < p.cols; ++v) {
            const int64_t i = t * p.cols + v;
            float grad = 0.0f;
            if (v < p.vocab && counts(p, targets[t]))
              grad = (math::exp(load(buffers[b::logits], i, p.type) - lse[t]) -
                      (v == targets[t] ? 1.0f : 0.0f)) *
                     weight;
            store(buffers[b::dlogits], i, grad, p.type);
          }
      });
}

void cross_entropy_backward_quantize(
    const cross_entropy_backward_quantize_params &p, void *const *buffers) {
  namespace b = cross_entropy_backward_quantize_buffers;
  std::vector<uint8_t> gradient(p.rows * p.cols * byteSize(p.type));
  void *const backward[] = {buffers[b::weight], buffers[b::logits],
                            buffers[b::targets], buffers[b::lse],
                            gradient.data()};
  cross_entropy_backward({p.rows, p.vocab, p.cols, p.type, p.ignore_index},
                         backward);
  void *const cast[] = {gradient.data(), buffers[b::scale],
                        buffers[b::row], buffers[b::row_scale],
                        buffers[b::col], buffers[b::col_scale],
                        buffers[b::amax]};
  quantize_rows({p.rows, p.cols, p.whole_rows, p.first_row, p.type, p.fp8_type,
                 p.scheme, p.pow2_scales, p.amax_epsilon},
                cast);
}

} // namespace te::rt::reference
