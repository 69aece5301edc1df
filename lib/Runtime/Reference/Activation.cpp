//===- Activation.cpp - activations on the reference backend --------------===//
//
// Gated kinds read a row as [first | second], or each half from a matrix of its
// own, and give act(first) * gate(second); the others have no second half. The
// fused forms quantise exactly what the unfused ones would have stored.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <vector>

namespace te::rt::reference {

namespace {

/// Columns of x for `cols` columns of y.
int64_t inputCols(int32_t kind, int64_t cols) {
  return isGated(kind) ? 2 * cols : cols;
}

/// Where the halves of row r are: from r * pitch of `first`, and from `offset`
/// after that of `second`.
struct Halves {
  const void *first, *second;
  int64_t pitch, offset;
};
template <typename Params> Halves packed(const Params &p, const void *x) {
  return {x, x, inputCols(p.kind, p.cols), p.cols};
}
template <typename Params>
Halves apart(const Params &p, const void *a, const void *b) {
  return {a, b, p.cols, 0};
}

/// y as f32 values that `type` holds exactly.
template <typename Params>
std::vector<float> forward(const Params &p, const Halves &x) {
  const math::Clamp clamp{p.limit, p.alpha, p.offset};
  std::vector<float> y(p.rows * p.cols);
  parallelFor(p.rows, p.rows * p.cols * 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < p.cols; ++c) {
        float value = math::activation(p.kind, clamp,
                                       load(x.first, r * x.pitch + c, p.type));
        if (isGated(p.kind))
          value *=
              math::gate(p.kind, clamp,
                         load(x.second, r * x.pitch + x.offset + c, p.type));
        uint32_t stored;
        y[r * p.cols + c] = store(&stored, 0, value, p.type);
      }
  });
  return y;
}

/// The gradients of the halves, likewise: row r of each from r * pitch.
template <typename Params>
void backward(const Params &p, const void *dy, const Halves &x, float *first,
              float *second, int64_t pitch) {
  const math::Clamp clamp{p.limit, p.alpha, p.offset};
  parallelFor(p.rows, p.rows * p.cols * 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < p.cols; ++c) {
        const float a = load(x.first, r * x.pitch + c, p.type);
        const float grad = load(dy, r * p.cols + c, p.type);
        float value = math::activationGrad(p.kind, clamp, a) * grad;
        uint32_t stored;
        if (isGated(p.kind)) {
          const float b = load(x.second, r * x.pitch + x.offset + c, p.type);
          const float act = math::activation(p.kind, clamp, a);
          value *= math::gate(p.kind, clamp, b);
          second[r * pitch + c] = store(
              &stored, 0, math::gateGrad(p.kind, clamp, b, act * grad), p.type);
        }
        first[r * pitch + c] = store(&stored, 0, value, p.type);
      }
  });
}

/// dx of packed halves.
template <typename Params>
std::vector<float> backward(const Params &p, const void *dy, const void *x) {
  const int64_t width = inputCols(p.kind, p.cols);
  std::vector<float> dx(p.rows * width);
  backward(p, dy, packed(p, x), dx.data(), dx.data() + p.cols, width);
  return dx;
}

void writeWithAmax(const std::vector<float> &values, int32_t type, void *out,
                   void *amax) {
  float result = 0.0f;
  for (size_t i = 0; i < values.size(); ++i)
    result = maxMagnitude(result, store(out, i, values[i], type));
  if (amax)
    *static_cast<float *>(amax) = result;
}

/// Quantises the `cols` columns of `values`, which `p.type` can hold. `buffers`
/// are the scale, the four outputs and the amax.
template <typename Params>
void quantize(const Params &p, int64_t cols, const std::vector<float> &values,
              void *const *buffers) {
  if (p.scheme == TE_RT_PER_TENSOR) {
    // Elements of f32 have the values that elements of `p.type` would have.
    std::vector<void *> cast(buffers, buffers + 6);
    cast.insert(cast.begin(), const_cast<float *>(values.data()));
    quantize_rows(
        {p.rows, cols, p.rows, 0, TE_RT_F32, p.fp8_type, p.scheme, 0, 0.0f},
        cast.data());
    return;
  }
  quantizeBlocks(p.rows, cols,
                 {p.type, p.fp8_type, TE_RT_BLOCK_1X128, p.pow2_scales != 0,
                  p.amax_epsilon},
                 [&](int64_t r, int64_t c) { return values[r * cols + c]; },
                 {buffers[1], buffers[2], buffers[3], buffers[4]});
}

} // namespace

void activation(const activation_params &p, void *const *buffers) {
  namespace b = activation_buffers;
  writeWithAmax(forward(p, packed(p, buffers[b::x])), p.type, buffers[b::y],
                buffers[b::amax]);
}
void gated_activation(const gated_activation_params &p, void *const *buffers) {
  namespace b = gated_activation_buffers;
  writeWithAmax(forward(p, apart(p, buffers[b::a], buffers[b::b])), p.type,
                buffers[b::y], buffers[b::amax]);
}

void activation_backward(const activation_backward_params &p,
                         void *const *buffers) {
  namespace b = activation_backward_buffers;
  writeWithAmax(backward(p, buffers[b::dy], buffers[b::x]), p.type,
                buffers[b::dx], buffers[b::amax]);
}
void gated_activation_backward(const gated_activation_backward_params &p,
                               void *const *buffers) {
  namespace b = gated_activation_backward_buffers;
  std::vector<float> da(p.rows * p.cols), db(p.rows * p.cols);
  backward(p, buffers[b::dy], apart(p, buffers[b::a], buffers[b::b]), da.data(),
           db.data(), p.cols);
  writeWithAmax(da, p.type, buffers[b::da], buffers[b::da_amax]);
  writeWithAmax(db, p.type, buffers[b::db], buffers[b::db_amax]);
}

void activation_quantize(const activation_quantize_params &p,
                         void *const *buffers) {
  namespace b = activation_quantize_buffers;
  quantize(p, p.cols, forward(p, packed(p, buffers[b::x])), buffers + b::scale);
}
void gated_activation_quantize(const gated_activation_quantize_params &p,
                               void *const *buffers) {
  namespace b = gated_activation_quantize_buffers;
  quantize(p, p.cols, forward(p, apart(p, buffers[b::a], buffers[b::b])),
           buffers + b::scale);
}

void activation_backward_quantize(const activation_backward_quantize_params &p,
                                  void *const *buffers) {
  namespace b = activation_backward_quantize_buffers;
  quantize(p, inputCols(p.kind, p.cols),
           backward(p, buffers[b::dy], buffers[b::x]), buffers + b::scale);
}

void gated_activation_backward_quantize(
    const gated_activation_backward_quantize_params &p, void *const *buffers) {
  namespace b = gated_activation_backward_quantize_buffers;
  std::vector<float> da(p.rows * p.cols), db(p.rows * p.cols);
  backward(p, buffers[b::dy], apart(p, buffers[b::a], buffers[b::b]), da.data(),
           db.data(), p.cols);
  quantize(p, p.cols, da, buffers + b::scale);
  quantize(p, p.cols, db, buffers + b::gate_scale);
}

} // namespace te::rt::reference
