//===- GroupMembers.h - which processes of a job are a group's ------------===//
//
// What the libraries that connect processes share: a group is a list of ranks
// of the job, and an error a sentence in the caller's buffer. A header alone,
// as they link no part of the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_GROUPMEMBERS_H
#define TE_RUNTIME_CORE_GROUPMEMBERS_H

#include "TEDialect/Runtime/te_runtime.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace te::rt {

/// Writes `text` to `message`, TE_RT_MESSAGE_BYTES unless it is null, and
/// returns `status`.
inline te_rt_status say(char *message, const std::string &text,
                        te_rt_status status = TE_RT_INVALID_ARGUMENT) {
  if (message)
    std::snprintf(message, TE_RT_MESSAGE_BYTES, "%s", text.c_str());
  return status;
}

/// "'name' is null" for the first of these parameters of a function that is,
/// else "".
inline std::string
firstNull(std::initializer_list<std::pair<const char *, const void *>> all) {
  for (const auto &[name, pointer] : all)
    if (!pointer)
      return "'" + std::string(name) + "' is null";
  return "";
}

/// "rank 1" or "ranks 1, 3".
inline std::string listOf(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

/// Ranks of the job in the order of the group, and which of them is this one.
struct GroupMembers {
  std::vector<int> ranks;
  int self = -1;
};

/// Makes the `size` `ranks` the members of a group of process `rank` of a job
/// of `jobSize`; or says what is wrong with them.
inline te_rt_status readMembers(const int32_t *ranks, int32_t size, int jobSize,
                                int rank, GroupMembers *members,
                                char *message) {
  if (size < 1)
    return say(message, "expected 'size' to be one or more, but got " +
                            std::to_string(size));
  if (std::string null = firstNull({{"ranks", ranks}}); !null.empty())
    return say(message, null);
  members->ranks.assign(ranks, ranks + size);
  for (int32_t r = 0; r < size; ++r) {
    if (ranks[r] < 0 || ranks[r] >= jobSize)
      return say(message, "expected 'ranks' to be below the size of the job, " +
                              std::to_string(jobSize) + ", but got " +
                              std::to_string(ranks[r]));
    if (std::count(ranks, ranks + size, ranks[r]) != 1)
      return say(message, "expected 'ranks' to differ, but " +
                              std::to_string(ranks[r]) + " is there twice");
    if (ranks[r] == rank)
      members->self = r;
  }
  if (members->self < 0)
    return say(message, "expected this process, rank " + std::to_string(rank) +
                            " of the job, to be one of 'ranks'");
  return TE_RT_OK;
}

} // namespace te::rt

#endif // TE_RUNTIME_CORE_GROUPMEMBERS_H
