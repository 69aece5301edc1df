//===- Nccl.h - NCCL's entry points and the groups of one context ---------===//
//
// The table of entry points (filled when a group first needs it: a program of
// one process runs without NCCL), the only place where an NcclResult becomes a
// Status, and the communicators.
//
// Communicators are non-blocking: a call that has to wait for other ranks says
// so and is asked again, until the time limit. One that reported an error or
// ran out of time cannot be closed in an orderly way, as that waits for the
// other ranks; it is aborted, which also ends what it has on the device. NCCL
// makes ncclCommDestroy and ncclCommAbort block in either mode.
//
// In this mode NCCL launches from a thread of its own, which also holds for a
// stream that is being captured: enqueueing on it from another thread is
// allowed, the capture is this thread's, and `finished` waits until NCCL's has
// ended before the capture goes on. NCCL_COMM_BLOCKING=1 in the environment
// makes communicators blocking, which then launch on this thread.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CUDA_NCCL_H
#define TE_RUNTIME_CUDA_NCCL_H

#include "Core/Status.h"
#include "Cuda/CudaDevice.h"
#include "Cuda/Progress.h"
#include "TEDialect/Runtime/te_runtime.h"

#include <array>
#include <cstddef>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace te::rt::cuda {

// What NCCL 2 fixes about its ABI, under our names.
using NcclComm = struct NcclCommBody *;
struct NcclUniqueId {
  char bytes[TE_RT_GROUP_ID_BYTES];
};
enum class NcclResult : int { success = 0, inProgress = 7 };
enum class NcclDataType : int {
  uint8 = 1,
  float16 = 6,
  float32 = 7,
  bfloat16 = 9
};
enum class NcclReduction : int { sum = 0, max = 2 };
/// The part of ncclConfig_t that NCCL 2.14 knows. `version` says so, and NCCL
/// takes its defaults for all that came later.
struct NcclConfig {
  size_t size = offsetof(NcclConfig, blocking) + sizeof(int);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

struct Nccl {
#define TE_NCCL_SYMBOL(result, name, parameters)                               \
  result(*name) parameters = nullptr;
#include "Cuda/NcclSymbols.inc"
#undef TE_NCCL_SYMBOL

  /// Fills the table from the first of `paths` that loads. NVLink multicast is
  /// switched off for the process unless the environment speaks of it: sets
  /// NCCL_NVLS_ENABLE=0 where the variable is unset.
  static Status load(const std::vector<std::string> &paths, Nccl *nccl);

  /// `result` as a Status that names the library's error and `what` was tried.
  Status check(NcclResult result, const char *what) const;
};

/// An id for a new group, written to `id` (TE_RT_GROUP_ID_BYTES).
Status createGroupId(const std::vector<std::string> &paths, char *id);

/// This rank's end of one communicator.
class NcclGroup {
public:
  /// Where the group is, for messages.
  struct Place {
    int32_t number;
    int size, rank;
  };

  /// Connects to the other ranks and exchanges a first value with them, so that
  /// nothing is left to be set up in a step. Waits until all ranks called it,
  /// or for `timeout` milliseconds. The device's context is current. `timeout`
  /// may change later.
  static Status connect(const CudaDevice &device, const Nccl &nccl,
                        const NcclUniqueId &id, const Place &place,
                        const int64_t &timeout,
                        std::unique_ptr<NcclGroup> *group);
  /// On a communicator of the host program, which is not closed in the end.
  static Status adopt(const CudaDevice &device, const Nccl &nccl, NcclComm comm,
                      const Place &place, const int64_t &timeout,
                      std::unique_ptr<NcclGroup> *group);
  ~NcclGroup();
  NcclGroup(const NcclGroup &) = delete;

  /// What all ranks exchange: the r-th `bytes` of x go to rank r, and what
  /// comes from there is the r-th of y.
  struct Exchange {
    const void *x;
    void *y;
    int64_t bytes;
  };

  /// Enqueue what their names say; `count` elements are those of all_reduce's x
  /// and y, of all_gather's x and of reduce_scatter's y. All that allToAll
  /// exchanges is in one operation. Over y = x only all_reduce.
  Status allReduce(const void *x, void *y, int64_t count, NcclDataType type,
                   NcclReduction reduction, CUstream stream);
  Status allGather(const void *x, void *y, int64_t bytes, CUstream stream);
  Status allToAll(const std::array<Exchange, 2> &all, CUstream stream);
  Status reduceScatterSum(const void *x, void *y, int64_t count,
                          NcclDataType type, CUstream stream);

  /// An error that the communicator found by itself; the group is lost then.
  Status poll();
  /// Ends what the group has on the device, and the communicator if it is ours.
  void abort();

  std::string name() const;
  int rank() const { return place.rank; }

private:
  NcclGroup(const CudaDevice &device, const Nccl &nccl, NcclComm comm,
            const Place &place, const int64_t &timeout, bool owned)
      : device(device), nccl(nccl), place(place), timeout(timeout),
        owned(owned), comm(comm) {}
  Status greet(CUdeviceptr memory);
  /// The end of a call that returned `result`: waits while it is in progress.
  Status finished(NcclResult result, const char *call);
  Status lose(Status status);

  const CudaDevice &device;
  const Nccl &nccl;
  const Place place;
  const int64_t &timeout;
  const bool owned;
  NcclComm comm; // null once aborted
  /// Why the group is lost.
  Status failure;
  /// Of abort; its end is waited for by the destructor.
  std::future<void> aborting;
};

/// Waits for `stream`, on which collectives of `groups` may be. After `timeout`
/// milliseconds, or when a group reports an error, all of them are aborted; the
/// message names the collectives of `progress`, which may be null.
Status waitForStream(const CudaDevice &device, CUstream stream,
                     const std::vector<NcclGroup *> &groups,
                     const Progress *progress, int64_t timeout);

/// The groups of more than one rank that a context is bound to.
class NcclGroups {
public:
  /// `timeout`, in milliseconds, may change later.
  NcclGroups(const CudaDevice &device, std::vector<std::string> paths,
             const int64_t &timeout)
      : progress(device), device(device), paths(std::move(paths)),
        timeout(timeout) {}

  Status bind(int32_t number, const char *id, int size, int rank);
  Status adopt(int32_t number, NcclComm comm, int size, int rank);
  /// Null for a group of one rank, or of a process by itself.
  NcclGroup *find(int32_t number) const;
  bool empty() const { return groups.empty(); }
  Status wait(CUstream stream) const;
  void abort();

  /// Of all groups; collectives have to tell it where they are.
  Progress progress;

private:
  Status load();

  const CudaDevice &device;
  const std::vector<std::string> paths;
  const int64_t &timeout;
  Nccl nccl;
  bool loaded = false;
  std::map<int32_t, std::unique_ptr<NcclGroup>> groups;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_NCCL_H
