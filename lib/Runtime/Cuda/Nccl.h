//===- Nccl.h - NCCL's entry points and the groups of one context ---------===//
//
// This file has the table of entry points, which is filled when a group first
// needs it, so that a program of one process runs without NCCL; the only place
// where an NcclResult becomes a Status; and the communicators.
//
// Communicators are non-blocking: a call that has to wait for other ranks
// returns "in progress" and is polled until the timeout. A communicator that
// reported an error or timed out cannot be closed normally, because that waits
// for the other ranks. It is aborted, which also stops its kernels on the
// device. NCCL makes ncclCommDestroy and ncclCommAbort block in either mode.
//
// In this mode NCCL launches from a thread of its own, also to a stream that is
// being captured. That is allowed: enqueueing on a capturing stream from
// another thread is possible, the capture belongs to this thread, and
// `finished` waits for NCCL's thread before the capture continues.
// NCCL_COMM_BLOCKING=1 in the environment makes communicators blocking, which
// then launch on this thread.
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

// The parts of the ABI of NCCL 2 that do not change, under our names.
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
/// The part of ncclConfig_t that NCCL 2.14 has. Because of `version`, NCCL uses
/// its defaults for all later fields.
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

  /// Fills the table from the first of `paths` that loads. Turns NVLink
  /// multicast off for the process, unless the environment sets it: sets
  /// NCCL_NVLS_ENABLE=0 if the variable is unset.
  static Status load(const std::vector<std::string> &paths, Nccl *nccl);

  /// Converts `result` to a Status that names the library's error and the
  /// operation `what`.
  Status check(NcclResult result, const char *what) const;
};

/// Writes the id of a new group to `id` (TE_RT_GROUP_ID_BYTES).
Status createGroupId(const std::vector<std::string> &paths, char *id);

/// This rank's end of one communicator.
class NcclGroup {
public:
  /// The number, rank and size of the group, for messages.
  struct Place {
    int32_t number;
    int size, rank;
  };

  /// Connects to the other ranks and exchanges a first value with them, so that
  /// a step has nothing to set up. Waits until all ranks have called it, or for
  /// `timeout` milliseconds. The device's context must be current. `timeout`
  /// may change later.
  static Status connect(const CudaDevice &device, const Nccl &nccl,
                        const NcclUniqueId &id, const Place &place,
                        const int64_t &timeout,
                        std::unique_ptr<NcclGroup> *group);
  /// Uses a communicator of the host program, and does not close it.
  static Status adopt(const CudaDevice &device, const Nccl &nccl, NcclComm comm,
                      const Place &place, const int64_t &timeout,
                      std::unique_ptr<NcclGroup> *group);
  ~NcclGroup();
  NcclGroup(const NcclGroup &) = delete;

  /// The exchange of all ranks: the r-th `bytes` of x go to rank r, and the
  /// r-th of y come from there.
  struct Exchange {
    const void *x;
    void *y;
    int64_t bytes;
  };

  /// Each enqueues the collective of its name. `count` is the number of
  /// elements of x and y of all_reduce, of x of all_gather, and of y of
  /// reduce_scatter. allToAll exchanges everything in one operation. Only
  /// all_reduce may have y = x.
  Status allReduce(const void *x, void *y, int64_t count, NcclDataType type,
                   NcclReduction reduction, CUstream stream);
  Status allGather(const void *x, void *y, int64_t bytes, CUstream stream);
  Status allToAll(const std::array<Exchange, 2> &all, CUstream stream);
  Status reduceScatterSum(const void *x, void *y, int64_t count,
                          NcclDataType type, CUstream stream);

  /// An error that the communicator reports asynchronously. The group is
  /// unusable after it.
  Status poll();
  /// Stops the group's kernels on the device, and aborts the communicator if it
  /// is ours.
  void abort();

  std::string name() const;
  int rank() const { return place.rank; }

private:
  NcclGroup(const CudaDevice &device, const Nccl &nccl, NcclComm comm,
            const Place &place, const int64_t &timeout, bool owned)
      : device(device), nccl(nccl), place(place), timeout(timeout),
        owned(owned), comm(comm) {}
  Status greet(CUdeviceptr memory);
  /// Finishes a call that returned `result`: waits while it is in progress.
  Status finished(NcclResult result, const char *call);
  Status lose(Status status);

  const CudaDevice &device;
  const Nccl &nccl;
  const Place place;
  const int64_t &timeout;
  const bool owned;
  NcclComm comm; // null after an abort
  /// The error after which the group is unusable.
  Status failure;
  /// The running abort. The destructor waits for its end.
  std::future<void> aborting;
};

/// Waits for `stream`, which may run collectives of `groups`. After `timeout`
/// milliseconds, or when a group reports an error, all of them are aborted. The
/// message names the collectives in `progress`, which may be null.
Status waitForStream(const CudaDevice &device, CUstream stream,
                     const std::vector<NcclGroup *> &groups,
                     const Progress *progress, int64_t timeout);

/// The groups of more than one rank to which a context is bound.
class NcclGroups {
public:
  /// `timeout`, in milliseconds, may change later.
  NcclGroups(const CudaDevice &device, std::vector<std::string> paths,
             const int64_t &timeout)
      : progress(device), device(device), paths(std::move(paths)),
        timeout(timeout) {}

  Status bind(int32_t number, const char *id, int size, int rank);
  Status adopt(int32_t number, NcclComm comm, int size, int rank);
  /// Null for a group of one rank, or in a process without groups.
  NcclGroup *find(int32_t number) const;
  bool empty() const { return groups.empty(); }
  Status wait(CUstream stream) const;
  void abort();

  /// The progress of all groups. Collectives record their start here.
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
