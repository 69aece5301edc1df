//===- Groups.cpp - the process groups bound to a context -----------------===//
//
// Rules of binding and of use, with their texts.
//
//===----------------------------------------------------------------------===//

#include "Core/Groups.h"

namespace te::rt {

static Status invalidGroup(std::string message) {
  return {TE_RT_INVALID_ARGUMENT, std::move(message)};
}

Status GroupTable::checkNew(int32_t number, const Group &group) const {
  if (number < 0)
    return invalidGroup("expected 'group_id' to be zero or more, but got " +
                        std::to_string(number));
  if (group.size < 1)
    return invalidGroup("expected 'size' to be one or more, but got " +
                        std::to_string(group.size));
  if (group.rank < 0 || group.rank >= group.size)
    return invalidGroup("expected 'rank' to be from 0 to 'size' - 1, " +
                        std::to_string(group.size - 1) + ", but got " +
                        std::to_string(group.rank));
  for (const auto &[other, bound] : groups) {
    if (other == number)
      return invalidGroup("group " + std::to_string(number) +
                          " is bound already, with size " +
                          std::to_string(bound.size) + " and rank " +
                          std::to_string(bound.rank));
    // Two groups on one id would wait for each other's ranks forever.
    if (!group.id.empty() && bound.id == group.id)
      return invalidGroup("the id is group " + std::to_string(other) +
                          "'s already; every group needs one of its own from "
                          "te_rt_group_unique_id");
  }
  return Status::ok();
}

Status GroupTable::checkBound(int32_t number) const {
  if (groups.empty() || groups.count(number) != 0)
    return Status::ok();
  std::string bound;
  for (const auto &[each, group] : groups)
    bound += (bound.empty() ? "" : ", ") + std::to_string(each);
  return invalidGroup("expected 'group_id' to be a group bound to the context "
                      "(" +
                      bound + "), but got " + std::to_string(number) +
                      "; bind it with te_rt_context_bind_group before the "
                      "instance is created");
}

Status GroupTable::checkBound(int32_t number, int32_t ranks) const {
  TE_RT_RETURN_IF_FAILED(checkBound(number));
  const auto found = groups.find(number);
  const int32_t size = found == groups.end() ? 1 : found->second.size;
  if (size == ranks)
    return Status::ok();
  return invalidGroup(
      "expected group " + std::to_string(number) + " to have " +
      std::to_string(ranks) + " ranks, but " +
      (found == groups.end()
           ? "the context has no groups: the process is by itself"
           : "it is bound with " + std::to_string(size)));
}

} // namespace te::rt
