//===- HostGroup.cpp - a group of processes on the reference backend ------===//
//
// See HostGroup.h.
//
//===----------------------------------------------------------------------===//

#include "Reference/HostGroup.h"

#include "TEDialect/Support/SupportTable.h"

#include <cstring>

namespace te::rt::reference {

Status HostGroup::fail(te_rt_status code, std::string message) {
  failure = {code, "group " + std::to_string(number) + " (rank " +
                       std::to_string(rank()) + " of " +
                       std::to_string(size()) + "): " + std::move(message)};
  return failure;
}

Status HostGroup::exchange(const void *send, int64_t stride, void *receive,
                           int64_t bytes) {
  TE_RT_RETURN_IF_FAILED(failure);
  if (bytes == 0)
    return Status::ok();
  char message[TE_RT_MESSAGE_BYTES] = "";
  const te_rt_status code = communicator.exchange(
      communicator.user, send, stride, receive, bytes, timeout, message);
  if (code == TE_RT_OK)
    return Status::ok();
  message[TE_RT_MESSAGE_BYTES - 1] = '\0';
  return fail(code, *message ? message
                             : "the program's communicator returned status " +
                                   std::to_string(code));
}

Status HostGroup::announce(const Announcement &mine,
                           std::vector<Announcement> *all) {
  all->resize(static_cast<size_t>(size()));
  TE_RT_RETURN_IF_FAILED(exchange(&mine, 0, all->data(), sizeof(mine)));
  // What other processes say is checked like a file's.
  for (Announcement &other : *all) {
    other.kernel[sizeof(other.kernel) - 1] = '\0';
    for (char &c : other.kernel)
      if (c != '\0' && (c < 0x20 || c >= 0x7f))
        c = '?';
  }
  return Status::ok();
}

Status HostGroup::greet() {
  const Announcement mine = {0, 0, number, size(), rank(), 0, ""};
  std::vector<Announcement> all;
  TE_RT_RETURN_IF_FAILED(announce(mine, &all));
  for (int32_t r = 0; r < size(); ++r)
    if (all[r].group != number || all[r].size != size() || all[r].rank != r)
      return fail(TE_RT_INVALID_ARGUMENT,
                  "expected rank " + std::to_string(r) +
                      " of the communicator to bind group " +
                      std::to_string(number) + " as rank " + std::to_string(r) +
                      " of " + std::to_string(size()) +
                      ", but it binds group " + std::to_string(all[r].group) +
                      " as rank " + std::to_string(all[r].rank) + " of " +
                      std::to_string(all[r].size));
  return Status::ok();
}

static std::string describe(const char *kernel, int64_t count, int32_t type) {
  return std::string(kernel) + " of " + std::to_string(count) + " " +
         (type == kBytes ? "bytes" : te_table::typeName(type));
}

Status HostGroup::begin(const char *kernel, int64_t count, int32_t type) {
  TE_RT_RETURN_IF_FAILED(failure);
  Announcement mine = {++sequence, count, number, size(), rank(), type, ""};
  std::strncpy(mine.kernel, kernel, sizeof(mine.kernel) - 1);
  std::vector<Announcement> all;
  TE_RT_RETURN_IF_FAILED(announce(mine, &all));
  for (const Announcement &other : all) {
    if (other.sequence == mine.sequence && other.count == count &&
        other.type == type && std::strcmp(other.kernel, mine.kernel) == 0)
      continue;
    return fail(TE_RT_INVALID_ARGUMENT,
                "expected all ranks to run the same collectives in one order, "
                "but number " +
                    std::to_string(sequence) + " is " +
                    describe(kernel, count, type) + " on rank " +
                    std::to_string(rank()) + " and " +
                    describe(other.kernel, other.count, other.type) +
                    " on rank " + std::to_string(other.rank));
  }
  return Status::ok();
}

} // namespace te::rt::reference
