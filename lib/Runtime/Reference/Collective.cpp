//===- Collective.cpp - collectives, alone and over a group ---------------===//
//
// A process by itself copies. Over a group every rank gets the others' elements
// and adds them itself, in the order of ranks: no bit depends on what a library
// does inside. Long arrays go in pieces, so that scratch memory stays small.
//
//===----------------------------------------------------------------------===//

#include "Reference/HostGroup.h"
#include "Reference/Reference.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace te::rt::reference {

void all_gather(const all_gather_params &p, void *const *buffers) {
  namespace b = all_gather_buffers;
  std::memmove(buffers[b::y], buffers[b::x], p.bytes);
}

void all_reduce_max(const all_reduce_max_params &p, void *const *buffers) {
  namespace b = all_reduce_max_buffers;
  std::memmove(buffers[b::y], buffers[b::x], p.count * sizeof(float));
}

void all_reduce_sum(const all_reduce_sum_params &p, void *const *buffers) {
  namespace b = all_reduce_sum_buffers;
  std::memmove(buffers[b::y], buffers[b::x], p.count * byteSize(p.type));
}

void all_to_all(const all_to_all_params &p, void *const *buffers) {
  namespace b = all_to_all_buffers;
  std::memmove(buffers[b::y], buffers[b::x], p.bytes);
  if (p.scale_bytes)
    std::memmove(buffers[b::y_scale], buffers[b::x_scale], p.scale_bytes);
}

void reduce_scatter_sum(const reduce_scatter_sum_params &p,
                        void *const *buffers) {
  namespace b = reduce_scatter_sum_buffers;
  std::memmove(buffers[b::y], buffers[b::x], p.count * byteSize(p.type));
}

//===----------------------------------------------------------------------===//
// Over a group
//===----------------------------------------------------------------------===//

/// Elements that a rank sends to one other at a time.
constexpr int64_t kPiece = 1 << 16;

/// y[i] = the ranks' elements i, one taken into the other by `combine`, in f32
/// and rounded once. x has them `stride` bytes after one another for each
/// destination (0: all ranks get the same).
template <typename Combine>
static Status combineRanks(HostGroup &group, int64_t count, int32_t type,
                           const void *x, int64_t stride, void *y,
                           Combine combine) {
  const int64_t elementBytes = byteSize(type);
  std::vector<char> received(static_cast<size_t>(std::min(count, kPiece) *
                                                 elementBytes * group.size()));
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const int64_t piece = std::min(kPiece, count - begin);
    TE_RT_RETURN_IF_FAILED(
        group.exchange(static_cast<const char *>(x) + begin * elementBytes,
                       stride, received.data(), piece * elementBytes));
    for (int64_t i = 0; i < piece; ++i) {
      float value = load(received.data(), i, type);
      for (int32_t r = 1; r < group.size(); ++r)
        value = combine(value, load(received.data(), r * piece + i, type));
      store(y, begin + i, value, type);
    }
  }
  return Status::ok();
}

static float add(float a, float b) { return a + b; }

Status overGroup(const all_gather_params &p, HostGroup &group,
                 void *const *buffers) {
  namespace b = all_gather_buffers;
  TE_RT_RETURN_IF_FAILED(group.begin("all_gather", p.bytes, kBytes));
  return group.exchange(buffers[b::x], 0, buffers[b::y], p.bytes);
}

Status overGroup(const all_reduce_max_params &p, HostGroup &group,
                 void *const *buffers) {
  namespace b = all_reduce_max_buffers;
  TE_RT_RETURN_IF_FAILED(group.begin("all_reduce_max", p.count, TE_RT_F32));
  return combineRanks(group, p.count, TE_RT_F32, buffers[b::x], 0,
                      buffers[b::y],
                      [](float a, float b) { return a < b ? b : a; });
}

Status overGroup(const all_reduce_sum_params &p, HostGroup &group,
                 void *const *buffers) {
  namespace b = all_reduce_sum_buffers;
  TE_RT_RETURN_IF_FAILED(group.begin("all_reduce_sum", p.count, p.type));
  return combineRanks(group, p.count, p.type, buffers[b::x], 0, buffers[b::y],
                      add);
}

Status overGroup(const all_to_all_params &p, HostGroup &group,
                 void *const *buffers) {
  namespace b = all_to_all_buffers;
  TE_RT_RETURN_IF_FAILED(
      group.begin("all_to_all", p.bytes + p.scale_bytes, kBytes));
  TE_RT_RETURN_IF_FAILED(
      group.exchange(buffers[b::x], p.bytes, buffers[b::y], p.bytes));
  if (p.scale_bytes == 0)
    return Status::ok();
  return group.exchange(buffers[b::x_scale], p.scale_bytes, buffers[b::y_scale],
                        p.scale_bytes);
}

Status overGroup(const reduce_scatter_sum_params &p, HostGroup &group,
                 void *const *buffers) {
  namespace b = reduce_scatter_sum_buffers;
  TE_RT_RETURN_IF_FAILED(group.begin("reduce_scatter_sum", p.count, p.type));
  return combineRanks(group, p.count, p.type, buffers[b::x],
                      p.count * byteSize(p.type), buffers[b::y], add);
}

} // namespace te::rt::reference
