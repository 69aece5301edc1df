//===- Pointwise.cpp - elementwise operators, copies and fills ------------===//
//
// A binary operator without a second operand uses the first one twice; the plan
// cannot know which buffers a launch will have.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <cstring>

namespace te::rt::reference {

void pointwise(const pointwise_params &p, void *const *buffers) {
  namespace b = pointwise_buffers;
  const void *second = buffers[b::b] ? buffers[b::b] : buffers[b::a];
  for (int64_t i = 0; i < p.count; ++i)
    store(buffers[b::out], i,
          math::pointwise(p.op, load(buffers[b::a], i, p.type),
                          load(second, i, p.type)),
          p.out_type);
}

void copy(const copy_params &p, void *const *buffers) {
  std::memmove(buffers[copy_buffers::y], buffers[copy_buffers::x], p.bytes);
}

void fill(const fill_params &p, void *const *buffers) {
  if (isSkipped(buffers[fill_buffers::skip]))
    return;
  for (int64_t i = 0; i < p.count; ++i)
    store(buffers[fill_buffers::y], i, p.value, p.type);
}

} // namespace te::rt::reference
