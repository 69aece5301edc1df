//===- Optimizer.cpp - parameter updates on the reference backend ---------===//
//
// Outputs may be the matching inputs, so every element is read before it is
// written.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

namespace te::rt::reference {

void adamw(const adamw_params &p, void *const *buffers) {
  namespace b = adamw_buffers;
  auto scalar = [&](int index) {
    return *static_cast<const float *>(buffers[index]);
  };
  const float lr = scalar(b::lr), step = scalar(b::step);
  const float correction1 = math::adamwBiasCorrection(p.beta1, step);
  const float correction2 = math::adamwBiasCorrection(p.beta2, step);
  for (int64_t i = 0; i < p.count; ++i) {
    float m = load(buffers[b::m], i, p.moment_type);
    float v = load(buffers[b::v], i, p.moment_type);
    const float param = math::adamw(p, load(buffers[b::param], i, p.param_type),
                                    load(buffers[b::grad], i, p.grad_type), m,
                                    v, lr, correction1, correction2);
    if (p.moment_type == TE_RT_BF16) {
      const uint32_t word = math::adamwRandom(p, i / 4, step).word[i % 4];
      m = math::roundStochasticBF16(m, word);
      v = math::roundStochasticBF16(v, word >> 16);
    }
    store(buffers[b::new_m], i, m, p.moment_type);
    store(buffers[b::new_v], i, v, p.moment_type);
    store(buffers[b::new_param], i, param, p.param_type);
  }
}

void sgd(const sgd_params &p, void *const *buffers) {
  namespace b = sgd_buffers;
  const float lr = *static_cast<const float *>(buffers[b::lr]);
  for (int64_t i = 0; i < p.count; ++i) {
    float buf = buffers[b::buf] ? load(buffers[b::buf], i, TE_RT_F32) : 0.0f;
    const float param =
        math::sgd(p, load(buffers[b::param], i, p.param_type),
                  load(buffers[b::grad], i, p.grad_type), buf, lr);
    if (buffers[b::new_buf])
      store(buffers[b::new_buf], i, buf, TE_RT_F32);
    store(buffers[b::new_param], i, param, p.param_type);
  }
}

} // namespace te::rt::reference
