//===- Attention.cpp - softmax attention and its gradients ----------------===//
//
// Plain loops over f32 copies of one head. Scores exist for one row at a time:
// the forward keeps a row's largest score and sum, the backward makes its
// probabilities again from them (lse). Work is split by heads, the backward's
// by key-value heads, whose gradients are sums over the heads that read them.
// A document is computed as a sequence of its length.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace te::rt::reference {

namespace {

/// Rows of a matrix that attend to each other.
struct Sequence {
  int64_t begin, length;
};

/// The rows of one head of one sequence, as a [rows, dim] matrix.
struct Head {
  Head(int64_t rows, int64_t dim) : dim(dim), values(rows * dim) {}

  float *row(int64_t i) { return values.data() + i * dim; }
  const float *row(int64_t i) const { return values.data() + i * dim; }

  int64_t dim;
  std::vector<float> values;
};

/// The place of one head of one sequence in a [tokens, heads * dim] matrix.
struct Place {
  Sequence rows;
  int64_t head, heads, dim;
  int32_t type;

  int64_t element(int64_t i, int64_t d) const {
    return ((rows.begin + i) * heads + head) * dim + d;
  }
  /// The same head in a matrix whose heads have another size.
  Place withDim(int64_t other) const {
    Place place = *this;
    place.dim = other;
    return place;
  }
};

Head loadHead(const void *matrix, const Place &place) {
  Head head(place.rows.length, place.dim);
  for (int64_t i = 0; i < place.rows.length; ++i)
    for (int64_t d = 0; d < place.dim; ++d)
      head.row(i)[d] = load(matrix, place.element(i, d), place.type);
  return head;
}

/// The place of a row's lse, [tokens / sequence, heads, sequence], or
/// [tokens, heads] with documents.
template <typename Params>
int64_t lseIndex(const Params &p, int64_t head, int64_t row) {
  if (p.boundaries != 0)
    return row * p.heads + head;
  return (row / p.sequence * p.heads + head) * p.sequence + row % p.sequence;
}

/// The rows that are in a document.
template <typename Params>
Sequence usedRows(const Params &p, const void *documents) {
  if (p.boundaries == 0)
    return {0, p.tokens};
  const auto *begins = static_cast<const int32_t *>(documents);
  return {begins[0], begins[p.boundaries - 1] - begins[0]};
}

template <typename Params>
std::vector<Sequence> sequencesOf(const Params &p, const void *documents) {
  std::vector<Sequence> all;
  if (p.boundaries == 0) {
    for (int64_t begin = 0; begin < p.tokens; begin += p.sequence)
      all.push_back({begin, p.sequence});
    return all;
  }
  const auto *begins = static_cast<const int32_t *>(documents);
  for (int64_t d = 0; d + 1 < p.boundaries; ++d)
    all.push_back({begins[d], begins[d + 1] - begins[d]});
  return all;
}

/// Writes zeros to the rows of [p.tokens, columns] that are not in `used`.
template <typename Params>
void zeroOthers(const Params &p, Sequence used, int64_t columns, void *matrix) {
  const int64_t bytes = columns * byteSize(p.type);
  auto *const data = static_cast<char *>(matrix);
  const int64_t end = used.begin + used.length;
  std::memset(data, 0, used.begin * bytes);
  std::memset(data + end * bytes, 0, (p.tokens - end) * bytes);
}

float dot(const float *a, const float *b, int64_t dim) {
  float sum = 0.0f;
  for (int64_t d = 0; d < dim; ++d)
    sum += a[d] * b[d];
  return sum;
}

void addScaled(float factor, const float *row, int64_t dim, float *sum) {
  for (int64_t d = 0; d < dim; ++d)
    sum[d] += factor * row[d];
}

/// Position `i` sees the keys from the first to before the end.
template <typename Params> int64_t firstKey(const Params &p, int64_t i) {
  return p.window_left < 0 || i < p.window_left ? 0 : i - p.window_left;
}
template <typename Params>
int64_t endKey(const Params &p, int64_t i, int64_t length) {
  return p.causal ? i + 1 : length;
}

/// A score and its derivative by the scaled product, 1 without a cap.
struct Score {
  float value, slope;
};
template <typename Params>
Score scoreOf(const Params &p, const float *query, const float *key) {
  const float product = p.scale * dot(query, key, p.head_dim);
  if (p.softcap == 0.0f)
    return {product, 1.0f};
  const float t = math::tanh(product / p.softcap);
  return {p.softcap * t, 1.0f - t * t};
}

/// The factors of the weights of one row for its keys: all 1 without dropout.
struct Factors {
  template <typename Params>
  Factors(const Params &p, const void *rng, int64_t head)
      : probability(p.dropout), first(head * p.sequence),
        row(p.heads * p.sequence), stream(p.stream) {
    if (probability != 0.0f)
      std::memcpy(state, rng, sizeof(state));
  }
  float of(int64_t token, int64_t key) const {
    if (probability == 0.0f)
      return 1.0f;
    const int64_t index = token * row + first + key;
    return math::dropoutFactor(
        probability,
        math::dropoutWord(math::dropoutWords(index / 4, math::kAttentionDropout,
                                             state[0], state[1], stream),
                          index));
  }

  float probability;
  int64_t first, row;
  uint32_t stream, state[2] = {};
};

template <typename Params> int64_t workOf(const Params &p) {
  return p.tokens * p.heads * p.sequence * std::max(p.head_dim, p.value_dim);
}

/// Boundaries do not decrease and are rows, or the end of them. No document is
/// longer than a sequence.
template <typename Params>
Status checkBoundaries(const Params &p, const void *documents) {
  const auto *begins = static_cast<const int32_t *>(documents);
  int64_t least = 0;
  for (int64_t d = 0; d < p.boundaries; ++d) {
    if (begins[d] < least || begins[d] > p.tokens)
      return {TE_RT_INVALID_ARGUMENT,
              "expected 'documents[" + std::to_string(d) + "]' to be from " +
                  std::to_string(least) +
                  (d == 0 ? "" : ", the boundary before it,") + " to the " +
                  std::to_string(p.tokens) + " rows, but got " +
                  std::to_string(begins[d])};
    if (d != 0 && begins[d] - least > p.sequence)
      return {TE_RT_INVALID_ARGUMENT,
              "expected document " + std::to_string(d - 1) +
                  " to have at most 'sequence' (" + std::to_string(p.sequence) +
                  ") rows, but got " + std::to_string(begins[d] - least)};
    least = begins[d];
  }
  return Status::ok();
}

} // namespace

Status checkValues(const attention_params &p, void *const *buffers) {
  return checkBoundaries(p, buffers[attention_buffers::documents]);
}
Status checkValues(const attention_backward_params &p, void *const *buffers) {
  return checkBoundaries(p, buffers[attention_backward_buffers::documents]);
}
Status checkValues(const attention_sink_grad_params &p, void *const *buffers) {
  return checkBoundaries(p, buffers[attention_sink_grad_buffers::documents]);
}

void attention(const attention_params &p, void *const *buffers) {
  namespace b = attention_buffers;
  auto *const lse = static_cast<float *>(buffers[b::lse]);
  const auto *const sinks = static_cast<const float *>(buffers[b::sinks]);
  auto oneHead = [&](Sequence rows, int64_t h) {
    const Place place{rows, h, p.heads, p.head_dim, p.type};
    const int64_t kvHead = h / (p.heads / p.kv_heads);
    const Place kvPlace{rows, kvHead, p.kv_heads, p.head_dim, p.type};
    const Place oPlace = place.withDim(p.value_dim);
    const Head q = loadHead(buffers[b::q], place);
    const Head k = loadHead(buffers[b::k], kvPlace);
    const Head v = loadHead(buffers[b::v], kvPlace.withDim(p.value_dim));
    std::vector<float> scores(rows.length), sum(p.value_dim);
    // exp of a sink that is not there is 0.
    const float sink = p.has_sinks ? sinks[h] : -math::kInfinity;
    const Factors factors(p, buffers[b::rng], h);
    for (int64_t i = 0; i < rows.length; ++i) {
      const int64_t first = firstKey(p, i), end = endKey(p, i, rows.length);
      float largest = sink;
      for (int64_t j = first; j < end; ++j) {
        scores[j] = scoreOf(p, q.row(i), k.row(j)).value;
        largest = scores[j] > largest ? scores[j] : largest;
      }
      float total = 0.0f;
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int64_t j = first; j < end; ++j) {
        const float weight = math::exp(scores[j] - largest);
        total += weight;
        addScaled(weight * factors.of(rows.begin + i, j), v.row(j), p.value_dim,
                  sum.data());
      }
      if (p.has_sinks)
        total += math::exp(sink - largest);
      lse[lseIndex(p, h, rows.begin + i)] = largest + std::log(total);
      for (int64_t d = 0; d < p.value_dim; ++d)
        store(buffers[b::o], oPlace.element(i, d), sum[d] / total, p.type);
    }
  };
  const Sequence used = usedRows(p, buffers[b::documents]);
  zeroOthers(p, used, p.heads * p.value_dim, buffers[b::o]);
  for (int64_t row = 0; row < p.tokens; ++row)
    if (row < used.begin || row >= used.begin + used.length)
      for (int64_t h = 0; h < p.heads; ++h)
        lse[lseIndex(p, h, row)] = 0.0f;
  const auto sequences = sequencesOf(p, buffers[b::documents]);
  parallelFor(sequences.size() * p.heads, workOf(p),
              [&](int64_t begin, int64_t end) {
                for (int64_t n = begin; n < end; ++n)
                  oneHead(sequences[n / p.heads], n % p.heads);
              });
}

void attention_backward(const attention_backward_params &p,
                        void *const *buffers) {
  namespace b = attention_backward_buffers;
  const auto *const lse = static_cast<const float *>(buffers[b::lse]);
  const int64_t group = p.heads / p.kv_heads;
  auto oneKvHead = [&](Sequence rows, int64_t kvHead) {
    const Place kvPlace{rows, kvHead, p.kv_heads, p.head_dim, p.type};
    const Place vPlace = kvPlace.withDim(p.value_dim);
    const Head k = loadHead(buffers[b::k], kvPlace);
    const Head v = loadHead(buffers[b::v], vPlace);
    Head dk(rows.length, p.head_dim), dv(rows.length, p.value_dim);
    std::vector<float> dq(p.head_dim);
    for (int64_t h = kvHead * group; h < (kvHead + 1) * group; ++h) {
      const Place place{rows, h, p.heads, p.head_dim, p.type};
      const Place oPlace = place.withDim(p.value_dim);
      const Head q = loadHead(buffers[b::q], place);
      const Head o = loadHead(buffers[b::o], oPlace);
      const Head dout = loadHead(buffers[b::dout], oPlace);
      const Factors factors(p, buffers[b::rng], h);
      for (int64_t i = 0; i < rows.length; ++i) {
        const float delta = dot(dout.row(i), o.row(i), p.value_dim);
        const float rowLse = lse[lseIndex(p, h, rows.begin + i)];
        std::fill(dq.begin(), dq.end(), 0.0f);
        const int64_t end = endKey(p, i, rows.length);
        for (int64_t j = firstKey(p, i); j < end; ++j) {
          const Score score = scoreOf(p, q.row(i), k.row(j));
          const float weight = math::exp(score.value - rowLse);
          const float factor = factors.of(rows.begin + i, j);
          const float ds =
              weight *
              (factor * dot(dout.row(i), v.row(j), p.value_dim) - delta) *
              score.slope;
          addScaled(ds, k.row(j), p.head_dim, dq.data());
          addScaled(ds, q.row(i), p.head_dim, dk.row(j));
          addScaled(factor * weight, dout.row(i), p.value_dim, dv.row(j));
        }
        for (int64_t d = 0; d < p.head_dim; ++d)
          store(buffers[b::dq], place.element(i, d), p.scale * dq[d], p.type);
      }
    }
    for (int64_t j = 0; j < rows.length; ++j) {
      for (int64_t d = 0; d < p.head_dim; ++d)
        store(buffers[b::dk], kvPlace.element(j, d), p.scale * dk.row(j)[d],
              p.type);
      for (int64_t d = 0; d < p.value_dim; ++d)
        store(buffers[b::dv], vPlace.element(j, d), dv.row(j)[d], p.type);
    }
  };
  const Sequence used = usedRows(p, buffers[b::documents]);
  zeroOthers(p, used, p.heads * p.head_dim, buffers[b::dq]);
  zeroOthers(p, used, p.kv_heads * p.head_dim, buffers[b::dk]);
  zeroOthers(p, used, p.kv_heads * p.value_dim, buffers[b::dv]);
  const auto sequences = sequencesOf(p, buffers[b::documents]);
  parallelFor(sequences.size() * p.kv_heads, workOf(p),
              [&](int64_t begin, int64_t end) {
                for (int64_t n = begin; n < end; ++n)
                  oneKvHead(sequences[n / p.kv_heads], n % p.kv_heads);
              });
}

void attention_sink_grad(const attention_sink_grad_params &p,
                         void *const *buffers) {
  namespace b = attention_sink_grad_buffers;
  const auto *const lse = static_cast<const float *>(buffers[b::lse]);
  const auto *const sinks = static_cast<const float *>(buffers[b::sinks]);
  const Sequence used = usedRows(p, buffers[b::documents]);
  for (int64_t h = 0; h < p.heads; ++h) {
    const float sum = chunkSum(p.tokens, [&](float acc, int64_t t) {
      if (t < used.begin || t >= used.begin + used.length)
        return acc;
      const int64_t first = (t * p.heads + h) * p.head_dim;
      const float delta = laneSum(p.head_dim, [&](float lane, int64_t d) {
        return std::fma(load(buffers[b::dout], first + d, p.type),
                        load(buffers[b::o], first + d, p.type), lane);
      });
      return acc - math::exp(sinks[h] - lse[lseIndex(p, h, t)]) * delta;
    });
    static_cast<float *>(buffers[b::dsinks])[h] = sum;
  }
}

void used_rows(const used_rows_params &p, void *const *buffers) {
  namespace b = used_rows_buffers;
  const auto *documents = static_cast<const int32_t *>(buffers[b::documents]);
  auto *used = static_cast<float *>(buffers[b::used]);
  for (int64_t t = 0; t < p.tokens; ++t)
    used[t] =
        t >= documents[0] && t < documents[p.boundaries - 1] ? 1.0f : 0.0f;
}

} // namespace te::rt::reference
