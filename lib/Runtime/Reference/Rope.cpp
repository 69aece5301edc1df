//===- Rope.cpp - rotary position embedding -------------------------------===//

#include "Core/KernelGroups.h"
#include "Core/Rotation.h"
#include "Reference/Reference.h"

#include <cstring>
#include <string>

namespace te::rt::reference {

Status checkValues(const rope_params &p, void *const *buffers) {
  namespace b = rope_buffers;
  const auto *const positions =
      static_cast<const int32_t *>(buffers[b::positions]);
  for (int64_t t = 0; p.has_positions && t < p.tokens; ++t)
    if (positions[t] < 0 || positions[t] >= p.sequence)
      return {TE_RT_INVALID_ARGUMENT,
              "expected 'positions[" + std::to_string(t) +
                  "]' to be one of the " + std::to_string(p.sequence) +
                  " rows of 'cos', but got " + std::to_string(positions[t])};
  return Status::ok();
}

void rope(const rope_params &p, void *const *buffers) {
  namespace b = rope_buffers;
  const auto *cos = static_cast<const float *>(buffers[b::cos]);
  const auto *sin = static_cast<const float *>(buffers[b::sin]);
  const auto *const positions =
      static_cast<const int32_t *>(buffers[b::positions]);
  const int64_t pairs = p.rotary_dim / 2, bytes = byteSize(p.type);
  auto *const x = static_cast<const char *>(buffers[b::x]);
  auto *const y = static_cast<char *>(buffers[b::y]);
  float amax = 0.0f;
  for (int64_t head = 0; head < p.tokens * p.heads; ++head) {
    const int64_t first = head * p.head_dim;
    const int64_t token = head / p.heads;
    const int64_t position =
        p.has_positions ? positions[token] : token % p.sequence;
    for (int64_t i = 0; i < pairs; ++i) {
      const int64_t at = first + (p.interleaved ? 2 * i : i);
      const int64_t other = at + (p.interleaved ? 1 : pairs);
      const float cosine = cos[position * pairs + i];
      const float sine = sin[position * pairs + i];
      float u = load(x, at, p.type), v = load(x, other, p.type);
      math::rotate(cosine, p.inverse ? -sine : sine, u, v);
      store(y, at, u, p.type);
      store(y, other, v, p.type);
    }
    const int64_t rest = (first + p.rotary_dim) * bytes;
    std::memmove(y + rest, x + rest, (p.head_dim - p.rotary_dim) * bytes);
    for (int64_t i = first; i < first + p.head_dim; ++i)
      amax = maxMagnitude(amax, load(y, i, p.type));
  }
  if (buffers[b::amax])
    *static_cast<float *>(buffers[b::amax]) = amax;
}

Status checkValues(const rope_group_params &p, void *const *buffers) {
  return checkValues(memberOf(p, 0), ropeBuffersOf(buffers, 0).data());
}

void rope_group(const rope_group_params &p, void *const *buffers) {
  for (int i = 0; i < kRopeGroup; ++i)
    if (const rope_params member = memberOf(p, i); member.heads != 0)
      rope(member, ropeBuffersOf(buffers, i).data());
}

} // namespace te::rt::reference
