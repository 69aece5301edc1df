//===- Mpi.cpp - groups of the processes of an MPI job --------------------===//
//
// Groups are lists of ranks and a tag: messages go from process to process, on
// one duplicate of MPI_COMM_WORLD. MPI's own collectives, and the functions
// that make communicators, have no time limit and do not say who is missing; a
// list of receives does both.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Runtime/te_runtime_mpi.h"

#include "Core/GroupMembers.h"

#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

using namespace te::rt;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxTag = 32766; // MPI guarantees 32767; that is te_mpi_destroy's
constexpr int64_t kPiece = 1 << 20;

te_rt_status check(int result, const char *call, char *message) {
  if (result == MPI_SUCCESS)
    return TE_RT_OK;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  say(message, std::string(call) + ": " + text);
  return TE_RT_DEVICE_ERROR;
}

/// The processes of one group.
struct Group {
  MPI_Comm comm;
  int tag;
  std::vector<int> ranks;
  int self = 0;
  /// What MPI reads and writes. Requests that timed out still refer to it, so
  /// it lives as long as the job.
  std::vector<char> sent, received;
  std::vector<MPI_Request> requests;

  /// Fills `received` with `bytes` of each rank.
  te_rt_status exchange(const char *send, int64_t stride, int64_t bytes,
                        Clock::time_point deadline, char *message);
  te_rt_status wait(Clock::time_point deadline, char *message);
};

te_rt_status Group::wait(Clock::time_point deadline, char *message) {
  const auto begin = Clock::now();
  for (;;) {
    int done = 0;
    if (te_rt_status status =
            check(MPI_Testall(static_cast<int>(requests.size()),
                              requests.data(), &done, MPI_STATUSES_IGNORE),
                  "MPI_Testall", message))
      return status;
    if (done)
      return TE_RT_OK;
    const auto now = Clock::now();
    if (now >= deadline)
      break;
    // A peer that is on its way comes in microseconds.
    if (now - begin < std::chrono::milliseconds(1))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  // The receives come first. A rank that sent but does not receive is missing
  // too.
  std::vector<bool> missing(ranks.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    int done = 0;
    if (requests[i] != MPI_REQUEST_NULL)
      MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
    else
      done = 1;
    if (!done)
      missing[i % ranks.size()] = true;
  }
  std::vector<int> late;
  for (size_t r = 0; r < ranks.size(); ++r)
    if (missing[r])
      late.push_back(static_cast<int>(r));
  return say(message, listOf(late) + " did not come in time", TE_RT_TIMED_OUT);
}

te_rt_status Group::exchange(const char *send, int64_t stride, int64_t bytes,
                             Clock::time_point deadline, char *message) {
  const size_t size = ranks.size();
  const auto piece = static_cast<size_t>(bytes);
  sent.resize(size * piece);
  received.resize(size * piece);
  requests.assign(2 * size, MPI_REQUEST_NULL);
  for (size_t r = 0; r < size; ++r)
    std::memcpy(sent.data() + r * piece,
                send + static_cast<int64_t>(r) * stride, piece);
  for (size_t r = 0; r < size; ++r)
    if (static_cast<int>(r) != self)
      if (te_rt_status status = check(
              MPI_Irecv(received.data() + r * piece, static_cast<int>(bytes),
                        MPI_BYTE, ranks[r], tag, comm, &requests[r]),
              "MPI_Irecv", message))
        return status;
  for (size_t r = 0; r < size; ++r)
    if (static_cast<int>(r) != self)
      if (te_rt_status status = check(
              MPI_Isend(sent.data() + r * piece, static_cast<int>(bytes),
                        MPI_BYTE, ranks[r], tag, comm, &requests[size + r]),
              "MPI_Isend", message))
        return status;
  if (te_rt_status status = wait(deadline, message))
    return status;
  std::memcpy(received.data() + self * piece, sent.data() + self * piece,
              piece);
  return TE_RT_OK;
}

te_rt_status exchange(void *user, const void *send, int64_t stride,
                      void *receive, int64_t bytes, int64_t timeout,
                      char *message) {
  try {
    auto &group = *static_cast<Group *>(user);
    const auto deadline = Clock::now() + std::chrono::milliseconds(timeout);
    for (int64_t begin = 0; begin < bytes; begin += kPiece) {
      const int64_t piece = std::min(kPiece, bytes - begin);
      if (te_rt_status status =
              group.exchange(static_cast<const char *>(send) + begin, stride,
                             piece, deadline, message)) {
        if (status == TE_RT_TIMED_OUT)
          say(message,
              std::string(message) + " (" + std::to_string(timeout) + " ms)");
        return status;
      }
      for (size_t r = 0; r < group.ranks.size(); ++r)
        std::memcpy(static_cast<char *>(receive) +
                        static_cast<int64_t>(r) * bytes + begin,
                    group.received.data() + r * static_cast<size_t>(piece),
                    static_cast<size_t>(piece));
    }
    return TE_RT_OK;
  } catch (const std::bad_alloc &) {
    say(message, "out of host memory");
    return TE_RT_OUT_OF_MEMORY;
  }
}

} // namespace

struct te_mpi {
  MPI_Comm comm = MPI_COMM_NULL;
  bool ownsMpi = false;
  int size = 0, rank = 0, localRank = 0;
  std::vector<std::unique_ptr<Group>> groups;

  Group &add(int tag, std::vector<int> ranks, int self) {
    groups.push_back(std::make_unique<Group>());
    Group &group = *groups.back();
    group.comm = comm;
    group.tag = tag;
    group.ranks = std::move(ranks);
    group.self = self;
    return group;
  }
};

te_rt_status te_mpi_create(te_mpi **result, char *message) {
  if (!result)
    return say(message, "'mpi' is null");
  *result = nullptr;
  auto mpi = std::make_unique<te_mpi>();
  int initialised = 0;
  if (te_rt_status status =
          check(MPI_Initialized(&initialised), "MPI_Initialized", message))
    return status;
  if (!initialised) {
    int provided = 0;
    if (te_rt_status status = check(
            MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
            "MPI_Init_thread", message))
      return status;
    mpi->ownsMpi = true;
  }
  if (te_rt_status status = check(MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm),
                                  "MPI_Comm_dup", message))
    return status;
  MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
  MPI_Comm_size(mpi->comm, &mpi->size);
  MPI_Comm_rank(mpi->comm, &mpi->rank);
  MPI_Comm host = MPI_COMM_NULL;
  if (te_rt_status status =
          check(MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, mpi->rank,
                                    MPI_INFO_NULL, &host),
                "MPI_Comm_split_type", message))
    return status;
  MPI_Comm_rank(host, &mpi->localRank);
  MPI_Comm_free(&host);
  *result = mpi.release();
  return TE_RT_OK;
}

te_rt_status te_mpi_destroy(te_mpi *mpi, int64_t timeout, char *message) {
  if (!mpi)
    return TE_RT_OK;
  // MPI_Finalize waits forever for a process that does not come.
  std::vector<int> all(static_cast<size_t>(mpi->size));
  for (int r = 0; r < mpi->size; ++r)
    all[static_cast<size_t>(r)] = r;
  Group &job = mpi->add(kMaxTag + 1, std::move(all), mpi->rank);
  std::vector<char> received(static_cast<size_t>(mpi->size));
  if (te_rt_status status =
          exchange(&job, "", 0, received.data(), 1, timeout, message))
    return status;
  MPI_Comm_free(&mpi->comm);
  if (mpi->ownsMpi)
    MPI_Finalize();
  delete mpi;
  return TE_RT_OK;
}

void te_mpi_abort(te_mpi *mpi, int32_t exitCode) {
  if (mpi)
    MPI_Abort(mpi->comm, exitCode);
  std::_Exit(exitCode);
}

int32_t te_mpi_size(const te_mpi *mpi) { return mpi ? mpi->size : 0; }
int32_t te_mpi_rank(const te_mpi *mpi) { return mpi ? mpi->rank : 0; }
int32_t te_mpi_local_rank(const te_mpi *mpi) {
  return mpi ? mpi->localRank : 0;
}

te_rt_status te_mpi_communicator(te_mpi *mpi, int32_t tag, const int32_t *ranks,
                                 int32_t size, te_rt_communicator *communicator,
                                 char *message) {
  if (std::string null =
          firstNull({{"mpi", mpi}, {"communicator", communicator}});
      !null.empty())
    return say(message, null);
  if (tag < 0 || tag > kMaxTag)
    return say(message, "expected 'tag' to be from 0 to " +
                            std::to_string(kMaxTag) + ", but got " +
                            std::to_string(tag));
  GroupMembers members;
  if (te_rt_status status =
          readMembers(ranks, size, mpi->size, mpi->rank, &members, message))
    return status;
  Group &group = mpi->add(tag, std::move(members.ranks), members.self);
  *communicator = {size, group.self, &group, exchange};
  return TE_RT_OK;
}
