//===- Embedding.cpp - embedding lookup and its gradient ------------------===//
//
// Ids are data, so they are checked here: one outside the table gives zeros and
// no gradient.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <cstring>
#include <vector>

namespace te::rt::reference {

void embedding(const embedding_params &p, void *const *buffers) {
  namespace b = embedding_buffers;
  const auto *ids = static_cast<const int32_t *>(buffers[b::ids]);
  const auto *table = static_cast<const char *>(buffers[b::table]);
  auto *y = static_cast<char *>(buffers[b::y]);
  const int64_t rowBytes = p.hidden * byteSize(p.type);
  for (int64_t t = 0; t < p.tokens; ++t) {
    if (ids[t] >= 0 && ids[t] < p.vocab)
      std::memcpy(y + t * rowBytes, table + ids[t] * rowBytes, rowBytes);
    else
      std::memset(y + t * rowBytes, 0, rowBytes);
  }
}

/// `value` as it is stored in `type`.
static float rounded(float value, int32_t type) {
  float bits = 0;
  store(&bits, 0, value, type);
  return load(&bits, 0, type);
}

void embedding_backward(const embedding_backward_params &p,
                        void *const *buffers) {
  namespace b = embedding_backward_buffers;
  const auto *ids = static_cast<const int32_t *>(buffers[b::ids]);
  std::vector<float> sum(p.vocab * p.hidden, 0.0f);
  for (int64_t t = 0; t < p.tokens; ++t)
    for (int64_t h = 0; h < p.hidden && ids[t] >= 0 && ids[t] < p.vocab; ++h)
      sum[ids[t] * p.hidden + h] +=
          load(buffers[b::dy], t * p.hidden + h, p.type);
  if (const void *accumulate = buffers[b::accumulate]) {
    if (accumulate != buffers[b::dtable])
      std::memcpy(buffers[b::dtable], accumulate,
                  p.vocab * p.hidden * byteSize(p.out_type));
    std::vector<char> isNamed(p.vocab);
    for (int64_t t = 0; t < p.tokens; ++t)
      if (ids[t] >= 0 && ids[t] < p.vocab)
        isNamed[ids[t]] = 1;
    for (int64_t i = 0; i < p.vocab * p.hidden; ++i)
      if (isNamed[i / p.hidden])
        store(buffers[b::dtable], i,
              load(buffers[b::dtable], i, p.out_type) + rounded(sum[i], p.type),
              p.out_type);
    return;
  }
  for (int64_t i = 0; i < p.vocab * p.hidden; ++i)
    store(buffers[b::dtable], i, rounded(sum[i], p.type), p.out_type);
}

} // namespace te::rt::reference
