//===- Groups.h - the process groups bound to a context -------------------===//
//
// A group is a number that compiled code knows (`group_id`), bound by the host
// program to this process's place in it. The rules are the same on every
// backend and are checked here, before a backend connects anything.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_GROUPS_H
#define TE_RUNTIME_CORE_GROUPS_H

#include "Core/Kernels.h"
#include "Core/Status.h"

#include <map>

namespace te::rt {

/// This process's place in a group.
struct Group {
  int32_t size = 1;
  int32_t rank = 0;
  /// What all ranks gave for it, TE_RT_GROUP_ID_BYTES; empty for one rank and
  /// for a communicator of the host program.
  std::string id;
};

class GroupTable {
public:
  /// Whether `group` may be added as `number`.
  Status checkNew(int32_t number, const Group &group) const;
  void add(int32_t number, Group group) { groups[number] = std::move(group); }
  void remove(int32_t number) { groups.erase(number); }

  /// Whether a kernel may name `number`. A context without any group is one
  /// process by itself: every group is then that process alone.
  Status checkBound(int32_t number) const;

  /// As above, and whether it has as many ranks as the kernel was compiled for.
  Status checkBound(int32_t number, int32_t ranks) const;

private:
  std::map<int32_t, Group> groups;
};

/// Whether every group that a kernel names is bound.
template <typename Params>
Status checkGroups(const Params &p, const GroupTable &groups) {
  if constexpr (requires { p.rank_of; })
    return groups.checkBound(p.rank_of, p.ranks);
  else if constexpr (requires { p.ranks; })
    return groups.checkBound(p.group_id, p.ranks);
  else if constexpr (requires { p.group_id; })
    return groups.checkBound(p.group_id);
  else
    return Status::ok();
}

} // namespace te::rt

#endif // TE_RUNTIME_CORE_GROUPS_H
