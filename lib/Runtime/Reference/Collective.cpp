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

} // namespace te::rt::reference
