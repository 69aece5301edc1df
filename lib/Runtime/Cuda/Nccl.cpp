//===- Nccl.cpp - communicators over NCCL ---------------------------------===//
//
// Everything that can fail on this rank only is done before the first call that
// waits for the other ranks: a rank that stopped later would leave them
// waiting.
//
//===----------------------------------------------------------------------===//

#include "Cuda/Nccl.h"

#include "Core/Backend.h"
#include "Cuda/Library.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace te::rt::cuda {

static const char *const ncclRemedy =
    "install NCCL 2 of CUDA 13 (Debian package 'libnccl2', PyPI package "
    "'nvidia-nccl-cu13')";

Status Nccl::load(const std::vector<std::string> &paths, Nccl *nccl) {
  // NCCL reads its environment once, when it is first used. A multicast object
  // is a resource of the whole host, and gains nothing for an amax of a few
  // bytes. Setting a variable races with threads that read the environment, so
  // a variable that is already set is not changed.
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
  // The library's last error in more detail. It does not depend on a
  // communicator.
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

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

namespace {

/// Polls until a timeout, often at first and then less often.
class Patience {
public:
  explicit Patience(int64_t milliseconds)
      : end(begin + std::chrono::milliseconds(milliseconds)) {}

  /// Waits for a short time. Returns false after the timeout.
  bool pause() const {
    const auto now = Clock::now();
    if (now - begin < std::chrono::milliseconds(1))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    return now < end;
  }

private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end;
};

/// `waiting` names the group that waits, and its collective.
Status timedOut(const std::string &waiting, int64_t timeout) {
  return {TE_RT_TIMED_OUT, waiting + ": other ranks did not come in time (" +
                               std::to_string(timeout) + " ms)"};
}

} // namespace

Status waitForStream(const CudaDevice &device, CUstream stream,
                     const std::vector<NcclGroup *> &groups,
                     const Progress *progress, int64_t timeout) {
  const Patience patience(timeout);
  const auto reached = [&] { return progress ? progress->describe() : ""; };
  Status status;
  for (;;) {
    const CUresult result = device.driver->cuStreamQuery(stream);
    if (result != CUDA_ERROR_NOT_READY) {
      status = device.check(result, "cuStreamQuery");
      break;
    }
    for (NcclGroup *group : groups)
      if (!status.failed())
        status = group->poll();
    if (status.failed()) {
      if (const std::string place = reached(); !place.empty())
        status.message = place + ": " + status.message;
      break;
    }
    if (!patience.pause()) {
      std::string names = reached();
      if (names.empty())
        for (const NcclGroup *group : groups)
          names += (names.empty() ? "" : " or ") + group->name();
      status = timedOut(names, timeout);
      break;
    }
  }
  if (status.failed())
    for (NcclGroup *group : groups)
      group->abort();
  return status;
}

//===----------------------------------------------------------------------===//
// One group
//===----------------------------------------------------------------------===//

std::string NcclGroup::name() const {
  return "group " + std::to_string(place.number) + " (rank " +
         std::to_string(place.rank) + " of " + std::to_string(place.size) + ")";
}

Status NcclGroup::connect(const CudaDevice &device, const Nccl &nccl,
                          const NcclUniqueId &id, const Place &place,
                          const int64_t &timeout,
                          std::unique_ptr<NcclGroup> *group) {
  CUdeviceptr memory = 0;
  TE_RT_RETURN_IF_FAILED(
      device.check(device.driver->cuMemAlloc(&memory, sizeof(float)),
                   "cuMemAlloc of a group's first value"));
  NcclComm comm = nullptr;
  NcclConfig config;
  const char *const call = "ncclCommInitRankConfig";
  const NcclResult result =
      nccl.ncclCommInitRankConfig(&comm, place.size, id, place.rank, &config);
  // After an error NCCL has freed the communicator.
  Status status;
  if (result != NcclResult::success && result != NcclResult::inProgress) {
    status = nccl.check(result, call);
  } else {
    std::unique_ptr<NcclGroup> connected(
        new NcclGroup(device, nccl, comm, place, timeout, true));
    status = connected->finished(result, call);
    if (!status.failed())
      status = connected->greet(memory);
    if (!status.failed())
      *group = std::move(connected);
  }
  (void)device.driver->cuMemFree(memory);
  return status;
}

/// Each rank contributes its number, and the largest must be the result.
Status NcclGroup::greet(CUdeviceptr memory) {
  const Driver &driver = *device.driver;
  const float sent = static_cast<float>(place.rank);
  float received = -1;
  const auto exchange = [&]() -> Status {
    TE_RT_RETURN_IF_FAILED(device.check(
        driver.cuMemcpyHtoDAsync(memory, &sent, sizeof(float), device.stream),
        "cuMemcpyHtoDAsync"));
    void *const pointer = reinterpret_cast<void *>(memory);
    TE_RT_RETURN_IF_FAILED(allReduce(pointer, pointer, 1, NcclDataType::float32,
                                     NcclReduction::max, device.stream));
    // Wait here first: a copy to pageable memory would wait inside the driver,
    // without a timeout.
    TE_RT_RETURN_IF_FAILED(
        waitForStream(device, device.stream, {this}, nullptr, timeout));
    TE_RT_RETURN_IF_FAILED(
        device.check(driver.cuMemcpyDtoHAsync(&received, memory, sizeof(float),
                                              device.stream),
                     "cuMemcpyDtoHAsync"));
    return device.check(driver.cuStreamSynchronize(device.stream),
                        "cuStreamSynchronize");
  };
  TE_RT_RETURN_IF_FAILED(lose(exchange()));
  if (received == static_cast<float>(place.size - 1))
    return Status::ok();
  return lose({TE_RT_DEVICE_ERROR,
               "expected the largest rank of the group to be " +
                   std::to_string(place.size - 1) +
                   ", but its ranks agreed on " + std::to_string(received)});
}

Status NcclGroup::adopt(const CudaDevice &device, const Nccl &nccl,
                        NcclComm comm, const Place &place,
                        const int64_t &timeout,
                        std::unique_ptr<NcclGroup> *group) {
  int size = 0, rank = 0;
  TE_RT_RETURN_IF_FAILED(
      nccl.check(nccl.ncclCommCount(comm, &size), "ncclCommCount"));
  TE_RT_RETURN_IF_FAILED(
      nccl.check(nccl.ncclCommUserRank(comm, &rank), "ncclCommUserRank"));
  if (place.size != size || place.rank != rank)
    return {TE_RT_INVALID_ARGUMENT,
            "expected 'size' and 'rank' to be the communicator's, " +
                std::to_string(size) + " and " + std::to_string(rank) +
                ", but got " + std::to_string(place.size) + " and " +
                std::to_string(place.rank)};
  group->reset(new NcclGroup(device, nccl, comm, place, timeout, false));
  return Status::ok();
}

NcclGroup::~NcclGroup() {
  if (!owned)
    return;
  // This waits until all ranks arrive. All later work is local.
  if (!failure.failed())
    (void)finished(nccl.ncclCommFinalize(comm), "ncclCommFinalize");
  if (failure.failed())
    abort();
  else
    (void)nccl.ncclCommDestroy(comm);
}

void NcclGroup::abort() {
  if (!failure.failed())
    failure = {TE_RT_DEVICE_ERROR,
               name() + " was aborted after an error in another group"};
  if (!owned || !comm)
    return;
  // NCCL stops its kernels on the device at once. Then it waits until no
  // captured step uses the communicator any more, and those are destroyed
  // later.
  aborting = std::async(std::launch::async, [this, aborted = comm] {
    (void)device.driver->cuCtxSetCurrent(device.context);
    (void)nccl.ncclCommAbort(aborted);
  });
  comm = nullptr;
  (void)aborting.wait_for(std::chrono::seconds(1));
}

Status NcclGroup::lose(Status status) {
  if (status.failed() && !failure.failed())
    failure = status;
  return status;
}

Status NcclGroup::poll() {
  TE_RT_RETURN_IF_FAILED(failure);
  const char *const call = "ncclCommGetAsyncError";
  NcclResult found = NcclResult::success;
  TE_RT_RETURN_IF_FAILED(
      lose(nccl.check(nccl.ncclCommGetAsyncError(comm, &found), call)));
  return found == NcclResult::inProgress ? Status::ok()
                                         : lose(nccl.check(found, call));
}

Status NcclGroup::finished(NcclResult result, const char *call) {
  if (result == NcclResult::success)
    return Status::ok();
  if (result != NcclResult::inProgress)
    return lose(nccl.check(result, call));
  const Patience patience(timeout);
  for (;;) {
    TE_RT_RETURN_IF_FAILED(lose(nccl.check(
        nccl.ncclCommGetAsyncError(comm, &result), "ncclCommGetAsyncError")));
    if (result != NcclResult::inProgress)
      return lose(nccl.check(result, call));
    if (!patience.pause())
      return lose(timedOut(name(), timeout));
  }
}

Status NcclGroup::allReduce(const void *x, void *y, int64_t count,
                            NcclDataType type, NcclReduction reduction,
                            CUstream stream) {
  TE_RT_RETURN_IF_FAILED(failure);
  return finished(nccl.ncclAllReduce(x, y, static_cast<size_t>(count), type,
                                     reduction, comm, stream),
                  "ncclAllReduce");
}

Status NcclGroup::allGather(const void *x, void *y, int64_t bytes,
                            CUstream stream) {
  TE_RT_RETURN_IF_FAILED(failure);
  return finished(nccl.ncclAllGather(x, y, static_cast<size_t>(bytes),
                                     NcclDataType::uint8, comm, stream),
                  "ncclAllGather");
}

Status NcclGroup::allToAll(const std::array<Exchange, 2> &all,
                           CUstream stream) {
  TE_RT_RETURN_IF_FAILED(failure);
  TE_RT_RETURN_IF_FAILED(
      lose(nccl.check(nccl.ncclGroupStart(), "ncclGroupStart")));
  const auto isFine = [](NcclResult result) {
    return result == NcclResult::success || result == NcclResult::inProgress;
  };
  NcclResult result = NcclResult::success;
  const char *call = "ncclSend";
  const auto exchange = [&](const Exchange &each, int rank) {
    const auto size = static_cast<size_t>(each.bytes);
    call = "ncclSend";
    result =
        nccl.ncclSend(static_cast<const char *>(each.x) + rank * each.bytes,
                      size, NcclDataType::uint8, rank, comm, stream);
    if (!isFine(result))
      return;
    call = "ncclRecv";
    result = nccl.ncclRecv(static_cast<char *>(each.y) + rank * each.bytes,
                           size, NcclDataType::uint8, rank, comm, stream);
  };
  for (int rank = 0; rank < place.size; ++rank)
    for (const Exchange &each : all)
      if (each.bytes != 0 && isFine(result))
        exchange(each, rank);
  // A group call that was started must be ended, even after an error.
  const NcclResult ended = nccl.ncclGroupEnd();
  if (!isFine(result))
    return finished(result, call);
  return finished(ended, "ncclGroupEnd");
}

Status NcclGroup::reduceScatterSum(const void *x, void *y, int64_t count,
                                   NcclDataType type, CUstream stream) {
  TE_RT_RETURN_IF_FAILED(failure);
  return finished(nccl.ncclReduceScatter(x, y, static_cast<size_t>(count), type,
                                         NcclReduction::sum, comm, stream),
                  "ncclReduceScatter");
}

//===----------------------------------------------------------------------===//
// All groups
//===----------------------------------------------------------------------===//

Status NcclGroups::load() {
  if (!loaded)
    TE_RT_RETURN_IF_FAILED(Nccl::load(paths, &nccl));
  TE_RT_RETURN_IF_FAILED(progress.allocate());
  loaded = true;
  return Status::ok();
}

Status NcclGroups::adopt(int32_t number, NcclComm comm, int size, int rank) {
  TE_RT_RETURN_IF_FAILED(load());
  std::unique_ptr<NcclGroup> group;
  TE_RT_RETURN_IF_FAILED(NcclGroup::adopt(
      device, nccl, comm, {number, size, rank}, timeout, &group));
  groups[number] = std::move(group);
  return Status::ok();
}

Status NcclGroups::bind(int32_t number, const char *id, int size, int rank) {
  TE_RT_RETURN_IF_FAILED(load());
  NcclUniqueId unique;
  std::memcpy(unique.bytes, id, sizeof(unique.bytes));
  std::unique_ptr<NcclGroup> group;
  TE_RT_RETURN_IF_FAILED(NcclGroup::connect(
      device, nccl, unique, {number, size, rank}, timeout, &group));
  groups[number] = std::move(group);
  return Status::ok();
}

NcclGroup *NcclGroups::find(int32_t number) const {
  const auto found = groups.find(number);
  return found == groups.end() ? nullptr : found->second.get();
}

Status NcclGroups::wait(CUstream stream) const {
  std::vector<NcclGroup *> all;
  for (const auto &[number, group] : groups)
    all.push_back(group.get());
  return waitForStream(device, stream, all, &progress, timeout);
}

void NcclGroups::abort() {
  for (const auto &[number, group] : groups)
    group->abort();
}

} // namespace te::rt::cuda

te::rt::Status te::rt::createGroupId(char *id) {
  return cuda::createGroupId(cuda::LibraryPaths::standard().nccl, id);
}
