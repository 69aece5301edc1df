//===- Nccl.cpp - communicators over NCCL ---------------------------------===//
//
// Whatever can fail on this rank alone is done before the first call that waits
// for the others: a rank that stops half way leaves them waiting.
//
//===----------------------------------------------------------------------===//

#include "Cuda/Nccl.h"

#include "Core/Backend.h"
#include "Cuda/Library.h"

#include <cstdlib>
#include <cstring>

namespace te::rt::cuda {

static const char *const ncclRemedy =
    "install NCCL 2 of CUDA 13 (Debian package 'libnccl2', PyPI package "
    "'nvidia-nccl-cu13')";

Status Nccl::load(const std::vector<std::string> &paths, Nccl *nccl) {
  // NCCL reads its environment once, when it is first used. A multicast object
  // is a resource of the whole host, and an amax is a few bytes: nothing to
  // gain. Setting a variable races with threads that read the environment, so
  // one that is there is left alone.
  if (!std::getenv("NCCL_NVLS_ENABLE"))
    setenv("NCCL_NVLS_ENABLE", "0", 0);

  Library library;
  TE_RT_RETURN_IF_FAILED(Library::open(paths, ncclRemedy, &library));
#define TE_NCCL_SYMBOL(result, name, parameters)                               \
  TE_RT_RETURN_IF_FAILED(library.symbol(#name, &nccl->name));
#include "Cuda/NcclSymbols.inc"
#undef TE_NCCL_SYMBOL
  return Status::ok();
}

Status Nccl::check(NcclResult result, const char *what) const {
  if (result == NcclResult::success)
    return Status::ok();
  std::string text = std::string(what) + ": " + ncclGetErrorString(result);
  // The library's last error in more words; it asks no communicator for it.
  const char *const details = ncclGetLastError(nullptr);
  if (details && *details)
    text += std::string(" (") + details + ")";
  return {TE_RT_DEVICE_ERROR, text};
}

Status createGroupId(const std::vector<std::string> &paths, char *id) {
  Nccl nccl;
  TE_RT_RETURN_IF_FAILED(Nccl::load(paths, &nccl));
  NcclUniqueId unique;
  TE_RT_RETURN_IF_FAILED(
      nccl.check(nccl.ncclGetUniqueId(&unique), "ncclGetUniqueId"));
  std::memcpy(id, unique.bytes, sizeof(unique.bytes));
  return Status::ok();
}

Status NcclGroup::connect(const CudaDevice &device, const Nccl &nccl,
                          const NcclUniqueId &id, int size, int rank,
                          std::unique_ptr<NcclGroup> *group) {
  CUdeviceptr memory = 0;
  TE_RT_RETURN_IF_FAILED(
      device.check(device.driver->cuMemAlloc(&memory, sizeof(float)),
                   "cuMemAlloc of a group's first value"));
  NcclComm comm = nullptr;
  Status status = nccl.check(nccl.ncclCommInitRank(&comm, size, id, rank),
                             "ncclCommInitRank");
  // With an error NCCL has freed what it made.
  if (!status.failed()) {
    std::unique_ptr<NcclGroup> connected(new NcclGroup(nccl, comm, true));
    status = connected->greet(device, memory, size, rank);
    if (!status.failed())
      *group = std::move(connected);
    else
      connected->giveUp();
  }
  (void)device.driver->cuMemFree(memory);
  return status;
}

/// Each rank sends its number; the largest has to come back.
Status NcclGroup::greet(const CudaDevice &device, CUdeviceptr memory, int size,
                        int rank) {
  const Driver &driver = *device.driver;
  const float sent = static_cast<float>(rank);
  float received = -1;
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuMemcpyHtoDAsync(memory, &sent, sizeof(float), device.stream),
      "cuMemcpyHtoDAsync"));
  void *const pointer = reinterpret_cast<void *>(memory);
  TE_RT_RETURN_IF_FAILED(allReduce(pointer, pointer, 1, NcclDataType::float32,
                                   NcclReduction::max, device.stream));
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuMemcpyDtoHAsync(&received, memory, sizeof(float), device.stream),
      "cuMemcpyDtoHAsync"));
  TE_RT_RETURN_IF_FAILED(device.check(driver.cuStreamSynchronize(device.stream),
                                      "cuStreamSynchronize"));
  if (received == static_cast<float>(size - 1))
    return Status::ok();
  return {TE_RT_DEVICE_ERROR, "expected the largest rank of the group to be " +
                                  std::to_string(size - 1) +
                                  ", but its ranks agreed on " +
                                  std::to_string(received)};
}

Status NcclGroup::adopt(const Nccl &nccl, NcclComm comm, int size, int rank,
                        std::unique_ptr<NcclGroup> *group) {
  int commSize = 0, commRank = 0;
  TE_RT_RETURN_IF_FAILED(
      nccl.check(nccl.ncclCommCount(comm, &commSize), "ncclCommCount"));
  TE_RT_RETURN_IF_FAILED(
      nccl.check(nccl.ncclCommUserRank(comm, &commRank), "ncclCommUserRank"));
  if (size != commSize || rank != commRank)
    return {TE_RT_INVALID_ARGUMENT,
            "expected 'size' and 'rank' to be the communicator's, " +
                std::to_string(commSize) + " and " + std::to_string(commRank) +
                ", but got " + std::to_string(size) + " and " +
                std::to_string(rank)};
  group->reset(new NcclGroup(nccl, comm, false));
  return Status::ok();
}

NcclGroup::~NcclGroup() {
  if (!owned)
    return;
  NcclResult error = NcclResult::success;
  if (nccl.ncclCommGetAsyncError(comm, &error) != NcclResult::success ||
      error != NcclResult::success)
    broken = true;
  (void)(broken ? nccl.ncclCommAbort(comm) : nccl.ncclCommDestroy(comm));
}

Status NcclGroup::enqueued(NcclResult result, const char *call) {
  if (result == NcclResult::success)
    return Status::ok();
  broken = true;
  return nccl.check(result, call);
}

Status NcclGroup::allReduce(const void *x, void *y, int64_t count,
                            NcclDataType type, NcclReduction reduction,
                            CUstream stream) {
  return enqueued(nccl.ncclAllReduce(x, y, static_cast<size_t>(count), type,
                                     reduction, comm, stream),
                  "ncclAllReduce");
}

Status NcclGroup::allGather(const void *x, void *y, int64_t bytes,
                            CUstream stream) {
  return enqueued(nccl.ncclAllGather(x, y, static_cast<size_t>(bytes),
                                     NcclDataType::uint8, comm, stream),
                  "ncclAllGather");
}

Status NcclGroup::reduceScatterSum(const void *x, void *y, int64_t count,
                                   NcclDataType type, CUstream stream) {
  return enqueued(nccl.ncclReduceScatter(x, y, static_cast<size_t>(count), type,
                                         NcclReduction::sum, comm, stream),
                  "ncclReduceScatter");
}

Status NcclGroups::load() {
  if (!loaded)
    TE_RT_RETURN_IF_FAILED(Nccl::load(paths, &nccl));
  loaded = true;
  return Status::ok();
}

Status NcclGroups::adopt(int32_t number, NcclComm comm, int size, int rank) {
  TE_RT_RETURN_IF_FAILED(load());
  std::unique_ptr<NcclGroup> group;
  TE_RT_RETURN_IF_FAILED(NcclGroup::adopt(nccl, comm, size, rank, &group));
  groups[number] = std::move(group);
  return Status::ok();
}

Status NcclGroups::bind(int32_t number, const char *id, int size, int rank) {
  TE_RT_RETURN_IF_FAILED(load());
  NcclUniqueId unique;
  std::memcpy(unique.bytes, id, sizeof(unique.bytes));
  std::unique_ptr<NcclGroup> group;
  TE_RT_RETURN_IF_FAILED(
      NcclGroup::connect(device, nccl, unique, size, rank, &group));
  groups[number] = std::move(group);
  return Status::ok();
}

NcclGroup *NcclGroups::find(int32_t number) const {
  const auto found = groups.find(number);
  return found == groups.end() ? nullptr : found->second.get();
}

void NcclGroups::giveUp() {
  for (const auto &[number, group] : groups)
    group->giveUp();
}

} // namespace te::rt::cuda

te::rt::Status te::rt::createGroupId(char *id) {
  return cuda::createGroupId(cuda::LibraryPaths::standard().nccl, id);
}
