//===- Nccl.h - NCCL's entry points and the groups of one context ---------===//
//
// The table of entry points (filled when a group first needs it: a program of
// one process runs without NCCL), the only place where an NcclResult becomes a
// Status, and the communicators.
//
// A communicator that reported an error cannot be closed in an orderly way, as
// that waits for the other ranks; it is aborted instead.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CUDA_NCCL_H
#define TE_RUNTIME_CUDA_NCCL_H

#include "Core/Status.h"
#include "Cuda/CudaDevice.h"
#include "TEDialect/Runtime/te_runtime.h"

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
enum class NcclResult : int { success = 0 };
enum class NcclDataType : int {
  uint8 = 1,
  float16 = 6,
  float32 = 7,
  bfloat16 = 9
};
enum class NcclReduction : int { sum = 0, max = 2 };

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
  /// Connects to the other ranks and exchanges a first value with them, so that
  /// nothing is left to be set up in a step. Waits until all ranks called it.
  /// The device's context is current.
  static Status connect(const CudaDevice &device, const Nccl &nccl,
                        const NcclUniqueId &id, int size, int rank,
                        std::unique_ptr<NcclGroup> *group);
  /// On a communicator of the host program, which is not closed in the end.
  static Status adopt(const Nccl &nccl, NcclComm comm, int size, int rank,
                      std::unique_ptr<NcclGroup> *group);
  ~NcclGroup();
  NcclGroup(const NcclGroup &) = delete;

  /// Enqueue what their names say; `count` elements are those of all_reduce's x
  /// and y, of all_gather's x and of reduce_scatter's y. Over y = x only
  /// all_reduce.
  Status allReduce(const void *x, void *y, int64_t count, NcclDataType type,
                   NcclReduction reduction, CUstream stream);
  Status allGather(const void *x, void *y, int64_t bytes, CUstream stream);
  Status reduceScatterSum(const void *x, void *y, int64_t count,
                          NcclDataType type, CUstream stream);

  /// Aborts instead of closing, in the end.
  void giveUp() { broken = true; }

private:
  NcclGroup(const Nccl &nccl, NcclComm comm, bool owned)
      : nccl(nccl), comm(comm), owned(owned) {}
  Status greet(const CudaDevice &device, CUdeviceptr memory, int size,
               int rank);
  Status enqueued(NcclResult result, const char *call);

  const Nccl &nccl;
  NcclComm comm;
  const bool owned;
  bool broken = false;
};

/// The groups of more than one rank that a context is bound to.
class NcclGroups {
public:
  NcclGroups(const CudaDevice &device, std::vector<std::string> paths)
      : device(device), paths(std::move(paths)) {}

  Status bind(int32_t number, const char *id, int size, int rank);
  Status adopt(int32_t number, NcclComm comm, int size, int rank);
  /// Null for a group of one rank, or of a process by itself.
  NcclGroup *find(int32_t number) const;
  void giveUp();

private:
  Status load();

  const CudaDevice &device;
  const std::vector<std::string> paths;
  Nccl nccl;
  bool loaded = false;
  std::map<int32_t, std::unique_ptr<NcclGroup>> groups;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_NCCL_H
