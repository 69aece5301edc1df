//===- Softmax.cpp - softmax of rows and its gradient ---------------------===//
//
// Sums are lane sums, see the head of Kernels.td. A row is read again for each
// step and written last, so that a result may take the memory of an operand.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

namespace te::rt::reference {

void softmax(const softmax_params &p, void *const *buffers) {
  namespace b = softmax_buffers;
  parallelFor(p.rows, p.rows * p.cols * 32, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      auto s = [&](int64_t c) {
        return p.scale * load(buffers[b::x], r * p.cols + c, p.type);
      };
      float max = -math::kInfinity;
      for (int64_t c = 0; c < p.cols; ++c)
        max = s(c) > max ? s(c) : max;
      auto e = [&](int64_t c) { return math::exp(s(c) - max); };
      const float inverse = 1.0f / laneSum(p.cols, [&](float acc, int64_t c) {
                              return acc + e(c);
                            });
      for (int64_t c = 0; c < p.cols; ++c)
        store(buffers[b::y], r * p.cols + c, e(c) * inverse, p.type);
    }
  });
}

void softmax_backward(const softmax_backward_params &p, void *const *buffers) {
  namespace b = softmax_backward_buffers;
  parallelFor(p.rows, p.rows * p.cols * 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      auto dy = [&](int64_t c) {
        return load(buffers[b::dy], r * p.cols + c, p.type);
      };
      auto y = [&](int64_t c) {
        return load(buffers[b::y], r * p.cols + c, p.type);
      };
      const float sum = laneSum(p.cols, [&](float acc, int64_t c) {
        return std::fma(dy(c), y(c), acc);
      });
      for (int64_t c = 0; c < p.cols; ++c)
        store(buffers[b::dx], r * p.cols + c,
              math::softmaxGrad(dy(c), y(c), p.scale, sum), p.type);
    }
  });
}

} // namespace te::rt::reference
