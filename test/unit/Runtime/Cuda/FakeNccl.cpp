//===- FakeNccl.cpp - libnccl.so.2 for tests ------------------------------===//
//
// Every entry point of NcclSymbols.inc. A communicator is one rank of a group
// whose other ranks are a number, Machine::peerMaximum.
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

} // namespace

#define ENTER(name)                                                            \
  if (book().enter(#name, true))                                               \
  return injectedError()

// Not counted as calls: they are made about failures.
const char *ncclGetErrorString(NcclResult) { return "a text of NCCL"; }
const char *ncclGetLastError(NcclComm) { return "more of it"; }

NcclResult ncclGetUniqueId(NcclUniqueId *id) {
  // Needs no context.
  if (book().enter("ncclGetUniqueId", false))
    return injectedError();
  std::memset(id->bytes, 0, sizeof(id->bytes));
  std::snprintf(id->bytes, sizeof(id->bytes), "group %d", ++book().groupIds);
  return NcclResult::success;
}

NcclResult ncclCommInitRank(NcclComm *comm, int size, NcclUniqueId id,
                            int rank) {
  ENTER(ncclCommInitRank);
  refuseInCapture("ncclCommInitRank");
  int number = 0;
  if (std::sscanf(id.bytes, "group %d", &number) != 1 || number < 1 ||
      number > book().groupIds)
    book().violation("ncclCommInitRank with an id that nobody made");
  if (size < 2 || rank < 0 || rank >= size)
    book().violation("ncclCommInitRank of rank " + std::to_string(rank) +
                     " of " + std::to_string(size));
  *comm = reinterpret_cast<NcclComm>(book().create(Kind::communicator));
  return NcclResult::success;
}

NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult *error) {
  ENTER(ncclCommGetAsyncError);
  use(comm, "ncclCommGetAsyncError");
  // ncclRemoteError.
  *error = static_cast<NcclResult>(book().machine.communicatorsFail ? 6 : 0);
  return NcclResult::success;
}

NcclResult ncclAllReduce(const void *send, void *receive, size_t count,
                         NcclDataType type, NcclReduction reduction,
                         NcclComm comm, CUstream stream) {
  ENTER(ncclAllReduce);
  const char *const call = "ncclAllReduce";
  Object *on = book().use(stream, Kind::stream, call);
  if (!use(comm, call) || !on ||
      !book().touch(send, count * sizeof(float), call) ||
      !book().touch(receive, count * sizeof(float), call))
    return static_cast<NcclResult>(4); // ncclInvalidArgument
  if (type != NcclDataType::float32 || reduction != NcclReduction::max)
    book().violation("ncclAllReduce of something else than a maximum of f32");
  book().collectiveStreams.push_back(stream);
  book().enqueue(on, call);
  if (on->capturing)
    return NcclResult::success;
  for (size_t i = 0; i < count; ++i)
    static_cast<float *>(receive)[i] = std::max(
        static_cast<const float *>(send)[i], book().machine.peerMaximum);
  return NcclResult::success;
}

// Both release, whatever they return.
static NcclResult release(NcclComm comm, const char *call) {
  const bool failed = book().enter(call, true);
  refuseInCapture(call);
  book().destroy(comm, Kind::communicator, call);
  return failed ? injectedError() : NcclResult::success;
}

NcclResult ncclCommDestroy(NcclComm comm) {
  return release(comm, "ncclCommDestroy");
}

NcclResult ncclCommAbort(NcclComm comm) {
  return release(comm, "ncclCommAbort");
}

// A row without a definition above does not link.
extern "C" const void *const teFakeNcclTable[] = {
#define TE_NCCL_SYMBOL(result, name, parameters)                               \
  reinterpret_cast<const void *>(&name),
#include "Cuda/NcclSymbols.inc"
#undef TE_NCCL_SYMBOL
};
