//===- AdamwGroup.h - the tensors of adamw_group --------------------------===//
//
// Both backends run a group as one adamw for each tensor. The parameters and
// buffers of the tensors are numbered in the row, and follow one another.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_ADAMWGROUP_H
#define TE_RUNTIME_CORE_ADAMWGROUP_H

#include "Core/Kernels.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

namespace te::rt {

/// The most tensors of a group.
inline constexpr int kAdamwGroup =
    adamw_group_buffers::grad0 - adamw_group_buffers::param0;

/// Member `i` of the `kAdamwGroup` members of type T that begin at `offset`.
template <typename T>
T numbered(const adamw_group_params &params, size_t offset, int i) {
  T value;
  std::memcpy(&value,
              reinterpret_cast<const char *>(&params) + offset + i * sizeof(T),
              sizeof(T));
  return value;
}

/// The parameters of tensor `i`; its count is 0 if there is none.
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

/// The buffers of tensor `i`, as those of adamw.
inline std::array<void *, adamw_buffers::count_>
buffersOfMember(void *const *buffers, int i) {
  namespace a = adamw_buffers;
  namespace g = adamw_group_buffers;
  std::array<void *, a::count_> member{};
  for (auto [to, from] : {std::pair<int, int>{a::param, g::param0 + i},
                          {a::grad, g::grad0 + i},
                          {a::m, g::m0 + i},
                          {a::v, g::v0 + i},
                          {a::lr, g::lr},
                          {a::step, g::step},
                          {a::grad_scale, g::grad_scale},
                          {a::new_param, g::new_param0 + i},
                          {a::new_m, g::new_m0 + i},
                          {a::new_v, g::new_v0 + i},
                          {a::skip, g::skip}})
    member[to] = buffers[from];
  return member;
}

} // namespace te::rt

#endif // TE_RUNTIME_CORE_ADAMWGROUP_H
