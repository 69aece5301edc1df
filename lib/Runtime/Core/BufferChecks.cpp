//===- BufferChecks.cpp - the optional buffers that a launch needs --------===//

#include "Core/Capabilities.h"
#include "Core/KernelGroups.h"

#include <string>

namespace te::rt {

using std::to_string;

static Status missing(const char *buffer, const std::string &why) {
  return {TE_RT_INVALID_ARGUMENT, std::string("expected a buffer '") + buffer +
                                      "' " + why + ", but got null"};
}

/// Member `i`, whose `what` is `size`, needs the buffers with the number `i` of
/// those that begin at `firsts`.
static Status checkMember(int i, const char *what, int64_t size,
                          std::initializer_list<int> firsts,
                          void *const *buffers) {
  for (int first : firsts)
    if (size != 0 && !buffers[first + i])
      return {TE_RT_INVALID_ARGUMENT, "expected all buffers of tensor " +
                                          to_string(i) + ", whose " + what +
                                          " is " + to_string(size)};
  return Status::ok();
}
Status checkBuffers(const adamw_group_params &p, void *const *buffers) {
  namespace b = adamw_group_buffers;
  for (int i = 0; i < kAdamwGroup; ++i)
    TE_RT_RETURN_IF_FAILED(checkMember(i, "count", memberOf(p, i).count,
                                       {b::param0, b::grad0, b::m0, b::v0,
                                        b::new_param0, b::new_m0, b::new_v0},
                                       buffers));
  return Status::ok();
}
Status checkBuffers(const delayed_scaling_group_params &p,
                    void *const *buffers) {
  namespace b = delayed_scaling_group_buffers;
  for (int i = 0; i < kDelayedScalingGroup; ++i)
    TE_RT_RETURN_IF_FAILED(checkMember(
        i, "number of slots", memberOf(p, i).slots,
        {b::amax0, b::history0, b::scale0, b::new_history0, b::new_scale0},
        buffers));
  return Status::ok();
}
Status checkBuffers(const sum_of_squares_params &p, void *const *buffers) {
  for (int i = 0; i < kSquaresGroup; ++i)
    TE_RT_RETURN_IF_FAILED(checkMember(i, "count", memberOf(p, i).count,
                                       {sum_of_squares_buffers::x0}, buffers));
  return Status::ok();
}

Status checkBuffers(const all_to_all_params &p, void *const *buffers) {
  namespace b = all_to_all_buffers;
  if (p.scale_bytes == 0 || (buffers[b::x_scale] && buffers[b::y_scale]))
    return Status::ok();
  return {TE_RT_INVALID_ARGUMENT,
          "expected buffers 'x_scale' and 'y_scale' for 'scale_bytes' " +
              to_string(p.scale_bytes) + ", but got null"};
}

static Status checkDocuments(int64_t boundaries, const void *documents) {
  if (boundaries == 0 || documents)
    return Status::ok();
  return missing("documents", "for 'boundaries' " + to_string(boundaries));
}
Status checkBuffers(const attention_params &p, void *const *buffers) {
  if (p.has_sinks != 0 && !buffers[attention_buffers::sinks])
    return missing("sinks", "for 'has_sinks' 1");
  if (p.dropout != 0.0f && !buffers[attention_buffers::rng])
    return missing("rng", "for 'dropout' " + to_string(p.dropout));
  return checkDocuments(p.boundaries, buffers[attention_buffers::documents]);
}
Status checkBuffers(const attention_backward_params &p, void *const *buffers) {
  if (p.dropout != 0.0f && !buffers[attention_backward_buffers::rng])
    return missing("rng", "for 'dropout' " + to_string(p.dropout));
  return checkDocuments(p.boundaries,
                        buffers[attention_backward_buffers::documents]);
}
Status checkBuffers(const attention_sink_grad_params &p, void *const *buffers) {
  return checkDocuments(p.boundaries,
                        buffers[attention_sink_grad_buffers::documents]);
}
Status checkBuffers(const rope_params &p, void *const *buffers) {
  if (p.has_positions == 0 || buffers[rope_buffers::positions])
    return Status::ok();
  return missing("positions", "for 'has_positions' 1");
}
Status checkBuffers(const rope_group_params &p, void *const *buffers) {
  namespace b = rope_group_buffers;
  if (p.has_positions != 0 && !buffers[b::positions])
    return missing("positions", "for 'has_positions' 1");
  for (int i = 0; i < kRopeGroup; ++i)
    TE_RT_RETURN_IF_FAILED(checkMember(
        i, "number of heads", memberOf(p, i).heads, {b::x0, b::y0}, buffers));
  return Status::ok();
}
Status checkBuffers(const quantize_tensor_group_params &,
                    void *const *buffers) {
  namespace b = quantize_tensor_group_buffers;
  for (auto [first, name] : {std::pair(+b::row0, "row"),
                             {+b::row_scale0, "row_scale"},
                             {+b::col0, "col"},
                             {+b::col_scale0, "col_scale"},
                             {+b::amax0, "amax"}})
    if (!buffers[first] != !buffers[first + 1])
      return {TE_RT_INVALID_ARGUMENT,
              std::string("expected '") + name + "0' and '" + name +
                  "1' both or neither, but got null for one of them"};
  return Status::ok();
}

Status checkBuffers(const scaled_matmul_params &p, void *const *buffers) {
  namespace b = scaled_matmul_buffers;
  if (isNv(p.a_scheme))
    for (auto [index, name] :
         {std::pair(+b::a_amax, "a_amax"), {+b::b_amax, "b_amax"}})
      if (!buffers[index])
        return missing(name, "for nv scales");
  return Status::ok();
}

Status checkBuffers(const tensor_stats_params &p, void *const *buffers) {
  namespace b = tensor_stats_buffers;
  if (!buffers[b::data])
    return Status::ok();
  if (!buffers[b::scale])
    return missing("scale", "beside 'data'");
  if (isNv(p.scheme) && !buffers[b::amax])
    return missing("amax", "for nv scales");
  return Status::ok();
}

} // namespace te::rt
