//===- Collective.cpp - collectives of one process ------------------------===//
//
// This backend connects no processes, so the maximum over a group is the
// process's own value.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <cstring>

namespace te::rt::reference {

void all_reduce_max(const all_reduce_max_params &p, void *const *buffers) {
  namespace b = all_reduce_max_buffers;
  std::memmove(buffers[b::y], buffers[b::x], p.count * sizeof(float));
}

void all_gather(const all_gather_params &p, void *const *buffers) {
  namespace b = all_gather_buffers;
  std::memmove(buffers[b::y], buffers[b::x], p.bytes);
}

void all_reduce_sum(const all_reduce_sum_params &p, void *const *buffers) {
  namespace b = all_reduce_sum_buffers;
  std::memmove(buffers[b::y], buffers[b::x], p.count * byteSize(p.type));
}

void reduce_scatter_sum(const reduce_scatter_sum_params &p,
                        void *const *buffers) {
  namespace b = reduce_scatter_sum_buffers;
  std::memmove(buffers[b::y], buffers[b::x], p.count * byteSize(p.type));
}

} // namespace te::rt::reference
