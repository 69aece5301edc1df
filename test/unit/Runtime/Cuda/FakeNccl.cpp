//===- FakeNccl.cpp - libnccl.so.2 for tests ------------------------------===//
//
// Every entry point of NcclSymbols.inc. A communicator is one rank of a group.
// The values of its other ranks are the number Machine::peerMaximum.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include "Cuda/Nccl.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace te::fake;
using namespace te::rt::cuda;

extern "C" {
#define TE_NCCL_SYMBOL(result, name, parameters)                               \
  __attribute__((visibility("default"))) result name parameters;
#include "Cuda/NcclSymbols.inc"
#undef TE_NCCL_SYMBOL
}

namespace {

/// ncclUnhandledCudaError, ncclSystemError, ncclInvalidUsage.
NcclResult injectedError() {
  static const int codes[] = {1, 2, 5};
  return static_cast<NcclResult>(codes[book().errorVariant()]);
}

void refuseInCapture(const char *call) {
  if (book().anyCapture())
    book().violation(std::string(call) + " during a capture");
}

Object *use(NcclComm comm, const char *call) {
  return book().use(comm, Kind::communicator, call);
}

size_t sizeOf(NcclComm comm) {
  return static_cast<size_t>(reinterpret_cast<Object *>(comm)->rows);
}
size_t rankOf(NcclComm comm) {
  return static_cast<size_t>(reinterpret_cast<Object *>(comm)->cols);
}

} // namespace

#define ENTER(name)                                                            \
  if (book().enter(#name, true))                                               \
  return injectedError()

// These do not count as calls: they are made after failures.
const char *ncclGetErrorString(NcclResult) { return "a text of NCCL"; }
const char *ncclGetLastError(NcclComm) { return "more of it"; }

NcclResult ncclGetUniqueId(NcclUniqueId *id) {
  // This call needs no context.
  if (book().enter("ncclGetUniqueId", false))
    return injectedError();
  std::memset(id->bytes, 0, sizeof(id->bytes));
  std::snprintf(id->bytes, sizeof(id->bytes), "group %d", ++book().groupIds);
  return NcclResult::success;
}

/// The result of a call that communicates with other ranks, which may still be
/// in progress.
static NcclResult started(Object *communicator) {
  communicator->leading = book().machine.progressPolls;
  return communicator->leading == 0 ? NcclResult::success
                                    : NcclResult::inProgress;
}

NcclResult ncclCommInitRankConfig(NcclComm *comm, int size, NcclUniqueId id,
                                  int rank, NcclConfig *config) {
  ENTER(ncclCommInitRankConfig);
  refuseInCapture("ncclCommInitRankConfig");
  if (config->size != 20 || config->magic != 0xcafebeef ||
      config->version != 21400 || config->blocking != 0)
    book().violation("ncclCommInitRankConfig with something that is no config");
  int number = 0;
  if (std::sscanf(id.bytes, "group %d", &number) != 1 || number < 1 ||
      number > book().groupIds)
    book().violation("ncclCommInitRankConfig with an id that nobody made");
  if (size < 2 || rank < 0 || rank >= size)
    book().violation("ncclCommInitRankConfig of rank " + std::to_string(rank) +
                     " of " + std::to_string(size));
  Object *const made = book().create(Kind::communicator);
  made->rows = size;
  made->cols = rank;
  *comm = reinterpret_cast<NcclComm>(made);
  return started(made);
}

NcclResult ncclCommFinalize(NcclComm comm) {
  ENTER(ncclCommFinalize);
  refuseInCapture("ncclCommFinalize");
  Object *object = use(comm, "ncclCommFinalize");
  return object ? started(object) : static_cast<NcclResult>(4);
}

NcclResult ncclCommCount(NcclComm comm, int *size) {
  ENTER(ncclCommCount);
  if (use(comm, "ncclCommCount"))
    *size = static_cast<int>(sizeOf(comm));
  return NcclResult::success;
}

NcclResult ncclCommUserRank(NcclComm comm, int *rank) {
  ENTER(ncclCommUserRank);
  if (use(comm, "ncclCommUserRank"))
    *rank = static_cast<int>(rankOf(comm));
  return NcclResult::success;
}

NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult *error) {
  ENTER(ncclCommGetAsyncError);
  Object *object = use(comm, "ncclCommGetAsyncError");
  if (!object)
    return static_cast<NcclResult>(4);
  *error = NcclResult::success;
  if (book().machine.communicatorsFail)
    *error = static_cast<NcclResult>(6); // ncclRemoteError
  else if (object->leading != 0)
    *error = NcclResult::inProgress;
  if (object->leading > 0)
    --object->leading;
  return NcclResult::success;
}

// Enqueues `call` on a stream; returns whether it runs at once.
static bool place(const char *call, Object *communicator, CUstream stream,
                  Object *on) {
  if (communicator->leading != 0)
    book().violation(std::string(call) + " while another call is in progress");
  on->stuck = book().machine.peersAreMissing && !on->capturing;
  book().collectiveStreams.push_back(stream);
  book().enqueue(on, call);
  return !on->capturing;
}

// Records a collective in the book. `sends` and `receives` are numbers of
// bytes.
static NcclResult collective(const char *call, const void *send, size_t sends,
                             void *receive, size_t receives, NcclComm comm,
                             CUstream stream, bool *runs) {
  *runs = false;
  if (book().enter(call, true))
    return injectedError();
  Object *on = book().use(stream, Kind::stream, call);
  Object *communicator = use(comm, call);
  if (!communicator || !on || !book().touch(send, sends, call) ||
      !book().touch(receive, receives, call))
    return static_cast<NcclResult>(4); // ncclInvalidArgument
  *runs = place(call, communicator, stream, on);
  return started(communicator);
}

static size_t bytesOf(NcclDataType type) {
  switch (type) {
  case NcclDataType::float32:
    return 4;
  case NcclDataType::uint8:
    return 1;
  default:
    return 2;
  }
}

NcclResult ncclAllReduce(const void *send, void *receive, size_t count,
                         NcclDataType type, NcclReduction reduction,
                         NcclComm comm, CUstream stream) {
  const size_t bytes = count * bytesOf(type);
  bool runs = false;
  const NcclResult result = collective("ncclAllReduce", send, bytes, receive,
                                       bytes, comm, stream, &runs);
  if (runs && reduction == NcclReduction::max) {
    if (type != NcclDataType::float32)
      book().violation("ncclAllReduce of a maximum of something else than f32");
    for (size_t i = 0; i < count; ++i)
      static_cast<float *>(receive)[i] = std::max(
          static_cast<const float *>(send)[i], book().machine.peerMaximum);
  } else if (runs) {
    // The other ranks contribute zeros.
    std::memmove(receive, send, bytes);
  }
  return result;
}

// The other ranks send the same values as this one.
NcclResult ncclAllGather(const void *send, void *receive, size_t count,
                         NcclDataType type, NcclComm comm, CUstream stream) {
  const size_t bytes = count * bytesOf(type);
  const auto ranks = static_cast<size_t>(sizeOf(comm));
  bool runs = false;
  const NcclResult result = collective("ncclAllGather", send, bytes, receive,
                                       bytes * ranks, comm, stream, &runs);
  if (runs)
    for (size_t rank = 0; rank < ranks; ++rank)
      std::memcpy(static_cast<char *>(receive) + rank * bytes, send, bytes);
  return result;
}

// The other ranks contribute zeros.
NcclResult ncclReduceScatter(const void *send, void *receive, size_t count,
                             NcclDataType type, NcclReduction reduction,
                             NcclComm comm, CUstream stream) {
  if (reduction != NcclReduction::sum)
    book().violation("ncclReduceScatter of something else than a sum");
  const size_t bytes = count * bytesOf(type);
  bool runs = false;
  const NcclResult result =
      collective("ncclReduceScatter", send, bytes * sizeOf(comm), receive,
                 bytes, comm, stream, &runs);
  if (runs)
    std::memcpy(receive, static_cast<const char *>(send) + bytes * rankOf(comm),
                bytes);
  return result;
}

// This call is between ncclGroupStart and ncclGroupEnd.
static struct {
  struct Message {
    void *to;
    const void *from;
    size_t bytes;
    int peer;
  };
  bool isOpen = false;
  std::vector<Message> sends, receives;
  NcclComm comm = nullptr;
  CUstream stream = nullptr;
} group;

NcclResult ncclGroupStart() {
  ENTER(ncclGroupStart);
  if (group.isOpen)
    book().violation("ncclGroupStart in a group");
  group = {};
  group.isOpen = true;
  return NcclResult::success;
}

static NcclResult addMessage(const char *call, void *to, const void *from,
                             size_t bytes, int peer, NcclComm comm,
                             CUstream stream) {
  if (book().enter(call, true))
    return injectedError();
  if (!use(comm, call) || !book().use(stream, Kind::stream, call) ||
      !book().touch(from ? from : to, bytes, call) ||
      static_cast<size_t>(peer) >= sizeOf(comm))
    return static_cast<NcclResult>(4); // ncclInvalidArgument
  // A rank would wait for the other end of a message to itself.
  if (!group.isOpen)
    book().violation(std::string(call) + " outside a group");
  (from ? group.sends : group.receives).push_back({to, from, bytes, peer});
  group.comm = comm;
  group.stream = stream;
  return NcclResult::success;
}

NcclResult ncclSend(const void *send, size_t count, NcclDataType type, int peer,
                    NcclComm comm, CUstream stream) {
  return addMessage("ncclSend", nullptr, send, count * bytesOf(type), peer,
                    comm, stream);
}

NcclResult ncclRecv(void *receive, size_t count, NcclDataType type, int peer,
                    NcclComm comm, CUstream stream) {
  return addMessage("ncclRecv", receive, nullptr, count * bytesOf(type), peer,
                    comm, stream);
}

// Ends the group, with any result. Rank r sends back the bytes that it gets,
// plus r.
NcclResult ncclGroupEnd() {
  const bool failed = book().enter("ncclGroupEnd", true);
  if (!group.isOpen)
    book().violation("ncclGroupEnd without a group");
  group.isOpen = false;
  if (failed)
    return injectedError();
  if (!group.comm)
    return NcclResult::success;
  auto *const communicator = reinterpret_cast<Object *>(group.comm);
  if (place("ncclGroupEnd", communicator, group.stream,
            reinterpret_cast<Object *>(group.stream)))
    for (const auto &receive : group.receives)
      for (const auto &send : group.sends)
        if (send.peer == receive.peer && send.bytes == receive.bytes)
          for (size_t i = 0; i < send.bytes; ++i)
            static_cast<char *>(receive.to)[i] = static_cast<char>(
                static_cast<const char *>(send.from)[i] + send.peer);
  return started(communicator);
}

// Both functions release, with any result.
static NcclResult release(NcclComm comm, const char *call) {
  const bool failed = book().enter(call, true);
  refuseInCapture(call);
  // Ends those that wait on any stream, because the fake has only one waiting
  // communicator at a time.
  book().unstick();
  book().destroy(comm, Kind::communicator, call);
  return failed ? injectedError() : NcclResult::success;
}

NcclResult ncclCommDestroy(NcclComm comm) {
  if (book().machine.peersAreMissing)
    book().violation("ncclCommDestroy waits forever");
  return release(comm, "ncclCommDestroy");
}

NcclResult ncclCommAbort(NcclComm comm) {
  return release(comm, "ncclCommAbort");
}

// If a row has no definition above, linking fails.
extern "C" const void *const teFakeNcclTable[] = {
#define TE_NCCL_SYMBOL(result, name, parameters)                               \
  reinterpret_cast<const void *>(&name),
#include "Cuda/NcclSymbols.inc"
#undef TE_NCCL_SYMBOL
};
