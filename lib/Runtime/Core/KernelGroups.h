//===- KernelGroups.h - the members of a launch for many tensors ----------===//
//
// The parameters and buffers of the members of a group are numbered in the row,
// and follow one another. A member whose size is 0 is absent.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_KERNELGROUPS_H
#define TE_RUNTIME_CORE_KERNELGROUPS_H

#include "Core/Kernels.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace te::rt {

/// The most members of each kernel.
inline constexpr int kAdamwGroup =
    adamw_group_buffers::grad0 - adamw_group_buffers::param0;
inline constexpr int kDelayedScalingGroup =
    delayed_scaling_group_buffers::history0 -
    delayed_scaling_group_buffers::amax0;
inline constexpr int kRopeGroup =
    rope_group_buffers::cos - rope_group_buffers::x0;
inline constexpr int kSquaresGroup =
    sum_of_squares_buffers::sum - sum_of_squares_buffers::x0;

/// Member `i` of the members of type T that begin at `offset`.
template <typename T, typename Params>
T numbered(const Params &params, size_t offset, int i) {
  T value;
  std::memcpy(&value,
              reinterpret_cast<const char *>(&params) + offset + i * sizeof(T),
              sizeof(T));
  return value;
}

/// The parameters of tensor `i`.
inline adamw_params memberOf(const adamw_group_params &p, int i) {
  static_assert(offsetof(adamw_group_params, seed0) ==
                offsetof(adamw_group_params, count0) +
                    kAdamwGroup * sizeof(int64_t));
  return {numbered<int64_t>(p, offsetof(adamw_group_params, count0), i),
          p.param_type,
          p.grad_type,
          p.beta1,
          p.beta2,
          p.epsilon,
          p.weight_decay,
          p.moment_type,
          numbered<int32_t>(p, offsetof(adamw_group_params, seed0), i)};
}

/// The parameters of history `i`.
inline delayed_scaling_update_params
memberOf(const delayed_scaling_group_params &p, int i) {
  static_assert(sizeof(delayed_scaling_group_params) ==
                offsetof(delayed_scaling_group_params, slots0) +
                    kDelayedScalingGroup * sizeof(int64_t));
  return {
      numbered<int64_t>(p, offsetof(delayed_scaling_group_params, slots0), i),
      p.history_length, p.algorithm, p.fp8_max, p.margin};
}

/// The parameters of tensor `i`.
inline rope_params memberOf(const rope_group_params &p, int i) {
  return {p.tokens,       i == 0 ? p.heads0 : p.heads1,
          p.head_dim,     p.sequence,
          p.rotary_dim,   p.type,
          p.interleaved,  p.inverse,
          p.has_positions};
}

/// What sum_of_squares knows of tensor `i`.
struct SquaresMember {
  int64_t count;
  int32_t type;
};
inline SquaresMember memberOf(const sum_of_squares_params &p, int i) {
  static_assert(offsetof(sum_of_squares_params, type0) ==
                offsetof(sum_of_squares_params, count0) +
                    kSquaresGroup * sizeof(int64_t));
  return {numbered<int64_t>(p, offsetof(sum_of_squares_params, count0), i),
          numbered<int32_t>(p, offsetof(sum_of_squares_params, type0), i)};
}

/// The buffers of member `i`, as those of the kernel of one tensor, which has
/// `kCount`. In `each`, the buffer of that kernel and the first one of the
/// group; in `shared`, buffers of both that all members have.
template <size_t kCount>
std::array<void *, kCount>
buffersOf(void *const *buffers, int i,
          std::initializer_list<std::pair<int, int>> each,
          std::initializer_list<std::pair<int, int>> shared = {}) {
  std::array<void *, kCount> member{};
  for (auto [to, first] : each)
    member[to] = buffers[first + i];
  for (auto [to, from] : shared)
    member[to] = buffers[from];
  return member;
}

inline auto adamwBuffersOf(void *const *buffers, int i) {
  namespace a = adamw_buffers;
  namespace g = adamw_group_buffers;
  return buffersOf<a::count_>(buffers, i,
                              {{a::param, g::param0},
                               {a::grad, g::grad0},
                               {a::m, g::m0},
                               {a::v, g::v0},
                               {a::new_param, g::new_param0},
                               {a::new_m, g::new_m0},
                               {a::new_v, g::new_v0}},
                              {{a::lr, g::lr},
                               {a::step, g::step},
                               {a::grad_scale, g::grad_scale},
                               {a::skip, g::skip}});
}

inline auto delayedScalingBuffersOf(void *const *buffers, int i) {
  namespace u = delayed_scaling_update_buffers;
  namespace g = delayed_scaling_group_buffers;
  return buffersOf<u::count_>(buffers, i,
                              {{u::amax, g::amax0},
                               {u::history, g::history0},
                               {u::scale, g::scale0},
                               {u::new_history, g::new_history0},
                               {u::new_scale, g::new_scale0}});
}

inline auto ropeBuffersOf(void *const *buffers, int i) {
  namespace r = rope_buffers;
  namespace g = rope_group_buffers;
  return buffersOf<r::count_>(
      buffers, i, {{r::x, g::x0}, {r::y, g::y0}, {r::amax, g::amax0}},
      {{r::cos, g::cos}, {r::sin, g::sin}, {r::positions, g::positions}});
}

inline auto quantizeBuffersOf(void *const *buffers, int i) {
  namespace q = quantize_tensor_buffers;
  namespace g = quantize_tensor_group_buffers;
  return buffersOf<q::count_>(buffers, i,
                              {{q::x, g::x0},
                               {q::scale, g::scale0},
                               {q::row, g::row0},
                               {q::row_scale, g::row_scale0},
                               {q::col, g::col0},
                               {q::col_scale, g::col_scale0},
                               {q::amax, g::amax0}},
                              {{q::skip, g::skip}});
}

} // namespace te::rt

#endif // TE_RUNTIME_CORE_KERNELGROUPS_H
