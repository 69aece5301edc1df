//===- Norm.cpp - normalisation and bias gradients ------------------------===//
//
// Row statistics are lane sums, column sums strip or chunk sums: see the head
// of Kernels.td.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <vector>

namespace te::rt::reference {

namespace {

/// The values of a matrix of `cols` columns.
struct Matrix {
  const void *data;
  int64_t cols;
  int32_t type;

  float operator()(int64_t r, int64_t c) const {
    return load(data, r * cols + c, type);
  }
};

std::vector<float> loadGamma(const void *gamma, int64_t cols, int32_t type,
                             int32_t zeroCentered) {
  std::vector<float> g(cols);
  for (int64_t c = 0; c < cols; ++c)
    g[c] = zeroCentered ? load(gamma, c, type) + 1.0f : load(gamma, c, type);
  return g;
}

/// The rows that a norm normalises: x, or `sum`, to which this writes
/// x + addend.
const void *summed(const void *x, const void *addend, void *sum, int64_t count,
                   int32_t type) {
  if (!addend)
    return x;
  for (int64_t i = 0; i < count; ++i)
    store(sum, i, load(x, i, type) + load(addend, i, type), type);
  return sum;
}

/// Stores element `i` of `y`, plus that of `addend` after it is rounded unless
/// `addend` is null, whose memory may be that of `y`. Returns what is stored.
float storeSum(void *y, int64_t i, float value, const void *addend,
               int32_t type) {
  if (!addend)
    return store(y, i, value, type);
  const float other = load(addend, i, type);
  store(y, i, value, type);
  return store(y, i, load(y, i, type) + other, type);
}

} // namespace

void rms_norm(const rms_norm_params &p, void *const *buffers) {
  namespace b = rms_norm_buffers;
  const auto g = loadGamma(buffers[b::gamma], p.cols, p.type, p.zero_centered);
  auto *rsigma = static_cast<float *>(buffers[b::rsigma]);
  float amax = 0.0f;
  const void *const source = summed(buffers[b::x], buffers[b::addend],
                                    buffers[b::sum], p.rows * p.cols, p.type);
  for (int64_t r = 0; r < p.rows; ++r) {
    auto x = [&](int64_t c) { return load(source, r * p.cols + c, p.type); };
    const float sum = laneSum(p.cols, [&](float acc, int64_t c) {
      return std::fma(x(c), x(c), acc);
    });
    rsigma[r] = math::rsigma(sum, p.cols, p.epsilon);
    for (int64_t c = 0; c < p.cols; ++c)
      amax = maxMagnitude(amax, storeSum(buffers[b::y], r * p.cols + c,
                                         math::rmsNorm(x(c), g[c], rsigma[r]),
                                         buffers[b::base], p.type));
  }
  if (buffers[b::amax])
    *static_cast<float *>(buffers[b::amax]) = amax;
}

void rms_norm_backward(const rms_norm_backward_params &p,
                       void *const *buffers) {
  namespace b = rms_norm_backward_buffers;
  const auto g = loadGamma(buffers[b::gamma], p.cols, p.type, p.zero_centered);
  const auto *rsigma = static_cast<const float *>(buffers[b::rsigma]);
  auto x = [&](int64_t r, int64_t c) {
    return load(buffers[b::x], r * p.cols + c, p.type);
  };
  auto dy = [&](int64_t r, int64_t c) {
    return load(buffers[b::dy], r * p.cols + c, p.type);
  };
  float amax = 0.0f;
  for (int64_t r = 0; r < p.rows; ++r) {
    const float sum = laneSum(p.cols, [&](float acc, int64_t c) {
      return std::fma(g[c] * dy(r, c), rsigma[r] * x(r, c), acc);
    });
    const float mean = sum / static_cast<float>(p.cols);
    for (int64_t c = 0; c < p.cols; ++c) {
      const float dx =
          math::rmsNormGrad(dy(r, c), x(r, c), g[c], rsigma[r], mean);
      amax = maxMagnitude(amax, storeSum(buffers[b::dx], r * p.cols + c, dx,
                                         buffers[b::addend], p.type));
    }
  }
  if (buffers[b::amax])
    *static_cast<float *>(buffers[b::amax]) = amax;
  for (int64_t c = 0; c < p.cols; ++c) {
    const float sum = stripSum(p.rows, [&](float acc, int64_t r) {
      return std::fma(dy(r, c), rsigma[r] * x(r, c), acc);
    });
    store(buffers[b::dgamma], c, sum, p.type);
  }
}

void layer_norm(const layer_norm_params &p, void *const *buffers) {
  namespace b = layer_norm_buffers;
  const auto g = loadGamma(buffers[b::gamma], p.cols, p.type, p.zero_centered);
  const Matrix x{summed(buffers[b::x], buffers[b::addend], buffers[b::sum],
                        p.rows * p.cols, p.type),
                 p.cols, p.type};
  auto *mu = static_cast<float *>(buffers[b::mu]);
  auto *rsigma = static_cast<float *>(buffers[b::rsigma]);
  float amax = 0.0f;
  for (int64_t r = 0; r < p.rows; ++r) {
    mu[r] =
        laneSum(p.cols, [&](float acc, int64_t c) { return acc + x(r, c); }) /
        static_cast<float>(p.cols);
    const float sum = laneSum(p.cols, [&](float acc, int64_t c) {
      const float d = x(r, c) - mu[r];
      return std::fma(d, d, acc);
    });
    rsigma[r] = math::rsigma(sum, p.cols, p.epsilon);
    for (int64_t c = 0; c < p.cols; ++c) {
      const float beta = load(buffers[b::beta], c, p.type);
      const float y = math::layerNorm(x(r, c), g[c], beta, mu[r], rsigma[r]);
      amax = maxMagnitude(amax, storeSum(buffers[b::y], r * p.cols + c, y,
                                         buffers[b::base], p.type));
    }
  }
  if (buffers[b::amax])
    *static_cast<float *>(buffers[b::amax]) = amax;
}

void layer_norm_backward(const layer_norm_backward_params &p,
                         void *const *buffers) {
  namespace b = layer_norm_backward_buffers;
  const auto g = loadGamma(buffers[b::gamma], p.cols, p.type, p.zero_centered);
  const Matrix x{buffers[b::x], p.cols, p.type};
  const Matrix dy{buffers[b::dy], p.cols, p.type};
  const auto *mu = static_cast<const float *>(buffers[b::mu]);
  const auto *rsigma = static_cast<const float *>(buffers[b::rsigma]);
  auto h = [&](int64_t r, int64_t c) { return rsigma[r] * (x(r, c) - mu[r]); };
  const auto cols = static_cast<float>(p.cols);
  float amax = 0.0f;
  for (int64_t r = 0; r < p.rows; ++r) {
    const float meanOfGrad =
        laneSum(p.cols,
                [&](float acc, int64_t c) { return acc + g[c] * dy(r, c); }) /
        cols;
    const float mean = laneSum(p.cols,
                               [&](float acc, int64_t c) {
                                 return std::fma(g[c] * dy(r, c), h(r, c), acc);
                               }) /
                       cols;
    for (int64_t c = 0; c < p.cols; ++c) {
      const float dx = math::layerNormGrad(dy(r, c), x(r, c), g[c], mu[r],
                                           rsigma[r], meanOfGrad, mean);
      amax = maxMagnitude(amax, storeSum(buffers[b::dx], r * p.cols + c, dx,
                                         buffers[b::addend], p.type));
    }
  }
  if (buffers[b::amax])
    *static_cast<float *>(buffers[b::amax]) = amax;
  for (int64_t c = 0; c < p.cols; ++c) {
    const float dgamma = stripSum(p.rows, [&](float acc, int64_t r) {
      return std::fma(dy(r, c), h(r, c), acc);
    });
    const float dbeta =
        stripSum(p.rows, [&](float acc, int64_t r) { return acc + dy(r, c); });
    store(buffers[b::dgamma], c, dgamma, p.type);
    store(buffers[b::dbeta], c, dbeta, p.type);
  }
}

void row_sum(const row_sum_params &p, void *const *buffers) {
  namespace b = row_sum_buffers;
  for (int64_t r = 0; r < p.rows; ++r)
    store(buffers[b::y], r,
          laneSum(p.cols,
                  [&](float acc, int64_t c) {
                    return acc + load(buffers[b::x], r * p.cols + c, p.type);
                  }),
          p.out_type);
}

void bias_grad(const bias_grad_params &p, void *const *buffers) {
  namespace b = bias_grad_buffers;
  for (int64_t c = 0; c < p.cols; ++c) {
    const float sum = chunkSum(p.rows, [&](float acc, int64_t r) {
      return acc + load(buffers[b::dy], r * p.cols + c, p.type);
    });
    store(buffers[b::db], c, sum, p.out_type);
  }
}

void chunk_sums(const chunk_sums_params &p, void *const *buffers) {
  namespace b = chunk_sums_buffers;
  auto *sums = static_cast<float *>(buffers[b::sums]);
  for (int64_t begin = 0; begin < p.rows; begin += kChunkRows)
    for (int64_t c = 0; c < p.cols; ++c) {
      float sum = 0.0f;
      for (int64_t r = begin; r < std::min(p.rows, begin + kChunkRows); ++r)
        sum += load(buffers[b::dy], r * p.cols + c, p.type);
      sums[begin / kChunkRows * p.cols + c] = sum;
    }
}

void sum_of_chunks(const sum_of_chunks_params &p, void *const *buffers) {
  namespace b = sum_of_chunks_buffers;
  const auto *sums = static_cast<const float *>(buffers[b::sums]);
  for (int64_t c = 0; c < p.cols; ++c) {
    float sum = 0.0f;
    for (int64_t i = 0; i < p.chunks; ++i)
      sum += sums[i * p.cols + c];
    store(buffers[b::db], c, sum, p.out_type);
  }
}

} // namespace te::rt::reference
