//===- CudaBackend.cpp - context, memory, streams and graphs on one GPU ---===//
//
// A backend has a reference to its device's primary context, one non-blocking
// stream, another one if a step needs a side stream, two timer events, the
// kernel modules, a cuBLASLt handle and the communicators of its groups. They
// are created in that order and released in the reverse order, also when
// creation fails: the destructor releases whatever exists.
//
// The driver needs the context to be current in the calling thread. Every
// function here makes it current, except for launches, whose caller calls
// enterThread() once a step.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Attention/AttentionPlanner.h"
#include "Cuda/CublasLt.h"
#include "Cuda/DeviceErrors.h"
#include "Cuda/Nccl.h"
#include "Gemm/GemmPlanner.h"
#include "Kernels/EmbeddedKernels.h"

#include <algorithm>
#include <unistd.h>
#include <unordered_set>

namespace te::rt::cuda {
namespace {

const char *const driverRemedy =
    "install the NVIDIA driver 580 or newer (CUDA 13)";
const char *const cublasLtRemedy =
    "install cuBLAS of CUDA 13 (Debian package 'libcublas-13-0', PyPI package "
    "'nvidia-cublas')";

CUdeviceptr devicePointer(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

class CudaGraph final : public Backend::Graph {
public:
  CudaGraph(const CudaDevice &device, CUgraphExec executable)
      : device(device), executable(executable) {}
  ~CudaGraph() override {
    (void)device.driver->cuCtxSetCurrent(device.context);
    (void)device.driver->cuGraphExecDestroy(executable);
  }

  /// Updates the graph to `captured`. After it returns false, the graph can
  /// only be destroyed.
  bool update(CUgraph captured) {
    CUgraphExecUpdateResultInfo info = {};
    return device.driver->cuGraphExecUpdate(executable, captured, &info) ==
           CUDA_SUCCESS;
  }

  Status launch(void *stream) override {
    return device.check(
        device.driver->cuGraphLaunch(executable, static_cast<CUstream>(stream)),
        "cuGraphLaunch");
  }

private:
  const CudaDevice &device;
  CUgraphExec executable;
};

class CudaEvent final : public Backend::Event {
public:
  CudaEvent(const CudaDevice &device, CUevent event)
      : device(device), event(event) {}
  // It may be pending: the driver keeps an event while streams wait for it.
  ~CudaEvent() override {
    (void)device.driver->cuCtxSetCurrent(device.context);
    (void)device.driver->cuEventDestroy(event);
  }

  Status record(void *stream) override {
    return device.check(
        device.driver->cuEventRecord(event, static_cast<CUstream>(stream)),
        "cuEventRecord");
  }
  Status hold(void *stream) override {
    return device.check(
        device.driver->cuStreamWaitEvent(static_cast<CUstream>(stream), event,
                                         CU_EVENT_WAIT_DEFAULT),
        "cuStreamWaitEvent");
  }

private:
  const CudaDevice &device;
  CUevent event;
};

class CudaBackend final : public Backend {
public:
  ~CudaBackend() override;

  Status initialize(const LibraryPaths &paths, int32_t ordinal);

  const char *name() const override { return "cuda"; }
  std::string description() const override;
  Status enterThread() override;
  bool isUsable() const override { return device.process == getpid(); }

  Status alloc(int64_t bytes, void **pointer) override;
  Status free(void *pointer) override;
  Status copyToDevice(void *to, const void *from, int64_t bytes) override;
  Status copyToHost(void *to, const void *from, int64_t bytes) override;
  Status synchronize() override;
  Status takeErrors() override { return errors->take(); }
  Status timerMark(int index) override;
  Status timerElapsed(float *milliseconds) override;

  Status bindGroup(int32_t group, const char *id, int32_t size,
                   int32_t rank) override;
  Status bindCommunicator(int32_t group,
                          const te_rt_communicator &communicator) override;
  Status bindNccl(int32_t group, void *comm, int32_t size,
                  int32_t rank) override;

  Status setGemmOptions(const te_rt_gemm_options &options) override {
    return gemm->setOptions(options);
  }
  Status setDeterministic(bool is) override {
    return gemm->setDeterministic(is);
  }

  void *defaultStream() override { return device.stream; }
  Status checkStream(void *stream) override;
  Status sideStream(void **stream) override;
  Status createEvent(std::unique_ptr<Event> *event) override;
  Status beginCapture(void *stream) override;
  Status endCapture(void *stream, std::unique_ptr<Graph> *graph) override;

#define TE_RT_KERNEL(name, parameters, buffers)                                \
  Status plan_##name(const name##_params &params, std::unique_ptr<Plan> *plan) \
      override {                                                               \
    TE_RT_RETURN_IF_FAILED(enterThread());                                     \
    return cuda::plan_##name(device, params, plan);                            \
  }
#include "TEDialect/Runtime/te_runtime_kernels.inc"

private:
  Status checkProcess() const;
  Status waitForDefaultStream();
  /// Called before a call in which the driver itself waits for the default
  /// stream.
  Status waitForGroups();
  Status loadLibraries(const LibraryPaths &paths);
  Status findDevice(int32_t ordinal);
  Status queryDevice();
  Status createContext();
  Status loadKernels();
  Status createCublasLt();

  Driver driver;
  CublasLt cublasLt;
  CudaDevice device;
  std::unique_ptr<GemmPlanner> gemm;
  std::unique_ptr<AttentionPlanner> attention;
  std::unique_ptr<NcclGroups> nccl;
  std::unique_ptr<DeviceErrors> errors;
  CUstream side = nullptr;
  CUevent timers[2] = {nullptr, nullptr};
  bool timerMarked[2] = {false, false};
  std::unordered_set<void *> allocations;
};

//===----------------------------------------------------------------------===//
// Creation and destruction
//===----------------------------------------------------------------------===//

Status CudaBackend::loadLibraries(const LibraryPaths &paths) {
  Library library;
  TE_RT_RETURN_IF_FAILED(Library::open(paths.driver, driverRemedy, &library));
#define TE_CUDA_SYMBOL(name, versioned)                                        \
  TE_RT_RETURN_IF_FAILED(library.symbol(#versioned, &driver.name));
#include "Cuda/DriverSymbols.inc"
#undef TE_CUDA_SYMBOL
  device.driver = &driver;

  TE_RT_RETURN_IF_FAILED(
      Library::open(paths.cublasLt, cublasLtRemedy, &library));
#define TE_CUBLASLT_SYMBOL(name)                                               \
  TE_RT_RETURN_IF_FAILED(library.symbol(#name, &cublasLt.name));
#include "Cuda/CublasLtSymbols.inc"
#undef TE_CUBLASLT_SYMBOL
  return Status::ok();
}

static std::string versionText(int version, int perMajor, int perMinor) {
  return std::to_string(version / perMajor) + "." +
         std::to_string(version % perMajor / perMinor);
}

/// The device with that number. For kAnyDevice, the device of the caller's
/// current context, otherwise device 0.
Status CudaBackend::findDevice(int32_t ordinal) {
  const CUresult initialized = driver.cuInit(0);
  if (initialized == CUDA_ERROR_NO_DEVICE)
    return {TE_RT_UNSUPPORTED, "cuda backend: cuInit found no GPU; use the "
                               "'reference' backend, or check 'nvidia-smi' and "
                               "'CUDA_VISIBLE_DEVICES'"};
  TE_RT_RETURN_IF_FAILED(device.check(initialized, "cuInit"));
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuDriverGetVersion(&device.driverVersion), "cuDriverGetVersion"));
  if (device.driverVersion < 13000)
    return {TE_RT_UNSUPPORTED,
            "cuda backend: expected a driver for CUDA 13.0 or newer, but got "
            "one for " +
                versionText(device.driverVersion, 1000, 10) + "; " +
                driverRemedy};
  int count = 0;
  TE_RT_RETURN_IF_FAILED(
      device.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (count == 0)
    return {TE_RT_UNSUPPORTED,
            "cuda backend: the driver reports no GPU; use the 'reference' "
            "backend, or check 'CUDA_VISIBLE_DEVICES'"};
  if (ordinal >= count)
    return {TE_RT_UNSUPPORTED,
            "cuda backend: expected 'device' to be below the number of GPUs, " +
                std::to_string(count) + ", but got " + std::to_string(ordinal) +
                "; check 'nvidia-smi' and 'CUDA_VISIBLE_DEVICES'"};
  if (ordinal != kAnyDevice)
    return device.check(driver.cuDeviceGet(&device.device, ordinal),
                        "cuDeviceGet");
  CUcontext current = nullptr;
  TE_RT_RETURN_IF_FAILED(
      device.check(driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent"));
  if (current)
    return device.check(driver.cuCtxGetDevice(&device.device),
                        "cuCtxGetDevice");
  return device.check(driver.cuDeviceGet(&device.device, 0), "cuDeviceGet");
}

Status CudaBackend::queryDevice() {
  char name[256] = "";
  TE_RT_RETURN_IF_FAILED(
      device.check(driver.cuDeviceGetName(name, sizeof(name), device.device),
                   "cuDeviceGetName"));
  device.name = name;

  const struct {
    CUdevice_attribute attribute;
    int *value;
  } queries[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &device.computeMajor},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &device.computeMinor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device.multiprocessors},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &device.l2Bytes},
  };
  for (const auto &query : queries)
    TE_RT_RETURN_IF_FAILED(
        device.check(driver.cuDeviceGetAttribute(query.value, query.attribute,
                                                 device.device),
                     "cuDeviceGetAttribute"));
  if (device.computeMajor < 9)
    return {TE_RT_UNSUPPORTED,
            "cuda backend: expected a GPU of compute capability 9.0 or newer, "
            "but got " +
                std::to_string(device.computeMajor) + "." +
                std::to_string(device.computeMinor) + " ('" + device.name +
                "'); use the 'reference' backend"};
  return Status::ok();
}

Status CudaBackend::createContext() {
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuDevicePrimaryCtxRetain(&device.context, device.device),
      "cuDevicePrimaryCtxRetain"));
  TE_RT_RETURN_IF_FAILED(enterThread());
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuStreamCreate(&device.stream, CU_STREAM_NON_BLOCKING),
      "cuStreamCreate"));
  for (CUevent &timer : timers)
    TE_RT_RETURN_IF_FAILED(device.check(
        driver.cuEventCreate(&timer, CU_EVENT_DEFAULT), "cuEventCreate"));
  return Status::ok();
}

Status CudaBackend::loadKernels() {
  for (const EmbeddedKernel *family = embeddedKernels; family->name; ++family) {
    CUmodule module = nullptr;
    const CUresult result = driver.cuModuleLoadData(&module, family->image);
    const std::string what =
        "cuModuleLoadData of '" + std::string(family->name) + "' kernels";
    TE_RT_RETURN_IF_FAILED(device.check(result, what.c_str()));
    TE_RT_RETURN_IF_FAILED(device.addModule(module));
  }
  return Status::ok();
}

Status CudaBackend::createCublasLt() {
  TE_RT_RETURN_IF_FAILED(cublasLt.check(
      cublasLt.cublasLtCreate(&cublasLt.handle), "cublasLtCreate"));
  gemm = std::make_unique<GemmPlanner>(device, cublasLt, planning);
  device.gemm = gemm.get();
  return Status::ok();
}

Status CudaBackend::initialize(const LibraryPaths &paths, int32_t ordinal) {
  device.process = getpid();
  TE_RT_RETURN_IF_FAILED(loadLibraries(paths));
  TE_RT_RETURN_IF_FAILED(findDevice(ordinal));
  TE_RT_RETURN_IF_FAILED(queryDevice());
  TE_RT_RETURN_IF_FAILED(createContext());
  TE_RT_RETURN_IF_FAILED(loadKernels());
  TE_RT_RETURN_IF_FAILED(createCublasLt());
  attention = std::make_unique<AttentionPlanner>(paths);
  device.attention = attention.get();
  nccl = std::make_unique<NcclGroups>(device, paths.nccl, groupTimeout);
  device.nccl = nccl.get();
  errors = std::make_unique<DeviceErrors>(device);
  device.errors = errors.get();
  return Status::ok();
}

// Errors are not reported: the driver returns earlier errors here again, and
// nothing can be done about them.
CudaBackend::~CudaBackend() {
  if (!device.context)
    return;
  (void)driver.cuCtxSetCurrent(device.context);
  if (device.stream && waitForDefaultStream().failed() && nccl)
    nccl->abort();
  errors.reset();
  nccl.reset();
  attention.reset();
  gemm.reset();
  if (cublasLt.handle)
    (void)cublasLt.cublasLtDestroy(cublasLt.handle);
  for (CUmodule module : device.modules)
    (void)driver.cuModuleUnload(module);
  for (void *pointer : allocations)
    (void)driver.cuMemFree(devicePointer(pointer));
  for (CUevent timer : timers)
    if (timer)
      (void)driver.cuEventDestroy(timer);
  for (CUstream stream : {side, device.stream})
    if (stream)
      (void)driver.cuStreamDestroy(stream);
  (void)driver.cuDevicePrimaryCtxRelease(device.device);
}

std::string CudaBackend::description() const {
  return device.name + " (compute capability " +
         std::to_string(device.computeMajor) + "." +
         std::to_string(device.computeMinor) + ", " +
         std::to_string(device.multiprocessors) + " multiprocessors), CUDA " +
         versionText(device.driverVersion, 1000, 10) + " driver, cuBLASLt " +
         versionText(static_cast<int>(cublasLt.cublasLtGetVersion()), 10000,
                     100);
}

Status CudaBackend::checkProcess() const {
  if (isUsable())
    return Status::ok();
  return {TE_RT_INVALID_ARGUMENT,
          "expected process " + std::to_string(device.process) +
              ", which created the cuda context, but got process " +
              std::to_string(getpid()) +
              ", which was forked from it; create the context after the fork, "
              "or start processes without fork"};
}

Status CudaBackend::enterThread() {
  TE_RT_RETURN_IF_FAILED(checkProcess());
  return device.check(driver.cuCtxSetCurrent(device.context),
                      "cuCtxSetCurrent");
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static Status checkSize(int64_t bytes) {
  if (bytes >= 0)
    return Status::ok();
  return {TE_RT_INVALID_ARGUMENT,
          "expected 'bytes' to be at least 0, but got " +
              std::to_string(bytes)};
}

Status CudaBackend::alloc(int64_t bytes, void **pointer) {
  TE_RT_RETURN_IF_FAILED(checkSize(bytes));
  TE_RT_RETURN_IF_FAILED(enterThread());
  CUdeviceptr memory = 0;
  const std::string what = "cuMemAlloc of " + std::to_string(bytes) + " bytes";
  // The driver refuses 0 bytes; its blocks are at least 256-byte aligned.
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuMemAlloc(&memory,
                        static_cast<size_t>(std::max<int64_t>(bytes, 1))),
      what.c_str()));
  *pointer = reinterpret_cast<void *>(memory);
  allocations.insert(*pointer);
  return Status::ok();
}

Status CudaBackend::free(void *pointer) {
  if (!pointer)
    return Status::ok();
  TE_RT_RETURN_IF_FAILED(enterThread());
  if (allocations.erase(pointer) == 0)
    return {TE_RT_INVALID_ARGUMENT,
            "expected 'pointer' to come from this context and not to be freed "
            "already"};
  return device.check(driver.cuMemFree(devicePointer(pointer)), "cuMemFree");
}

Status CudaBackend::copyToDevice(void *to, const void *from, int64_t bytes) {
  TE_RT_RETURN_IF_FAILED(checkSize(bytes));
  if (bytes == 0)
    return synchronize();
  TE_RT_RETURN_IF_FAILED(enterThread());
  TE_RT_RETURN_IF_FAILED(waitForGroups());
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuMemcpyHtoDAsync(devicePointer(to), from,
                               static_cast<size_t>(bytes), device.stream),
      "cuMemcpyHtoDAsync"));
  return synchronize();
}

Status CudaBackend::copyToHost(void *to, const void *from, int64_t bytes) {
  TE_RT_RETURN_IF_FAILED(checkSize(bytes));
  if (bytes == 0)
    return synchronize();
  TE_RT_RETURN_IF_FAILED(enterThread());
  TE_RT_RETURN_IF_FAILED(waitForGroups());
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuMemcpyDtoHAsync(to, devicePointer(from),
                               static_cast<size_t>(bytes), device.stream),
      "cuMemcpyDtoHAsync"));
  return synchronize();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

Status CudaBackend::bindGroup(int32_t group, const char *id, int32_t size,
                              int32_t rank) {
  if (size == 1)
    return Status::ok();
  TE_RT_RETURN_IF_FAILED(enterThread());
  return nccl->bind(group, id, size, rank);
}

Status CudaBackend::bindCommunicator(int32_t, const te_rt_communicator &) {
  return {TE_RT_UNSUPPORTED,
          "the cuda backend's groups are those of NCCL; use "
          "te_rt_context_bind_group or te_rt_context_bind_nccl, or the "
          "'reference' backend"};
}

Status CudaBackend::bindNccl(int32_t group, void *comm, int32_t size,
                             int32_t rank) {
  TE_RT_RETURN_IF_FAILED(enterThread());
  return nccl->adopt(group, static_cast<NcclComm>(comm), size, rank);
}

//===----------------------------------------------------------------------===//
// Stream, timer and graphs
//===----------------------------------------------------------------------===//

Status CudaBackend::waitForDefaultStream() {
  // Other ranks may never arrive, and the driver would wait forever.
  if (nccl && !nccl->empty())
    return nccl->wait(device.stream);
  return device.check(driver.cuStreamSynchronize(device.stream),
                      "cuStreamSynchronize");
}

Status CudaBackend::waitForGroups() {
  return nccl->empty() ? Status::ok() : nccl->wait(device.stream);
}

Status CudaBackend::synchronize() {
  TE_RT_RETURN_IF_FAILED(enterThread());
  return waitForDefaultStream();
}

// The side stream has the highest priority: it runs collectives, which use few
// multiprocessors and for which other GPUs wait, so they must not queue behind
// the blocks of a GEMM that was launched before.
Status CudaBackend::sideStream(void **stream) {
  if (!side) {
    TE_RT_RETURN_IF_FAILED(enterThread());
    int least = 0, greatest = 0;
    TE_RT_RETURN_IF_FAILED(
        device.check(driver.cuCtxGetStreamPriorityRange(&least, &greatest),
                     "cuCtxGetStreamPriorityRange"));
    TE_RT_RETURN_IF_FAILED(
        device.check(driver.cuStreamCreateWithPriority(
                         &side, CU_STREAM_NON_BLOCKING, greatest),
                     "cuStreamCreateWithPriority"));
  }
  *stream = side;
  return Status::ok();
}

Status CudaBackend::createEvent(std::unique_ptr<Event> *event) {
  TE_RT_RETURN_IF_FAILED(enterThread());
  CUevent made = nullptr;
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  *event = std::make_unique<CudaEvent>(device, made);
  return Status::ok();
}

Status CudaBackend::timerMark(int index) {
  if (index != 0 && index != 1)
    return {TE_RT_INVALID_ARGUMENT,
            "expected 'index' to be 0 or 1, but got " + std::to_string(index)};
  TE_RT_RETURN_IF_FAILED(enterThread());
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuEventRecord(timers[index], device.stream), "cuEventRecord"));
  timerMarked[index] = true;
  return Status::ok();
}

Status CudaBackend::timerElapsed(float *milliseconds) {
  if (!timerMarked[0] || !timerMarked[1])
    return {TE_RT_INVALID_ARGUMENT, "expected both timer marks to be set"};
  TE_RT_RETURN_IF_FAILED(enterThread());
  TE_RT_RETURN_IF_FAILED(waitForGroups());
  TE_RT_RETURN_IF_FAILED(
      device.check(driver.cuEventSynchronize(timers[1]), "cuEventSynchronize"));
  return device.check(
      driver.cuEventElapsedTime(milliseconds, timers[0], timers[1]),
      "cuEventElapsedTime");
}

// While a caller captures a stream, the driver does not say whose it is: asking
// would end the capture.
Status CudaBackend::checkStream(void *stream) {
  TE_RT_RETURN_IF_FAILED(checkProcess());
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuStreamIsCapturing(static_cast<CUstream>(stream), &capture),
      "cuStreamIsCapturing"));
  if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return Status::ok();
  CUdevice of = device.device;
  TE_RT_RETURN_IF_FAILED(
      device.check(driver.cuStreamGetDevice(static_cast<CUstream>(stream), &of),
                   "cuStreamGetDevice"));
  if (of == device.device)
    return Status::ok();
  return {TE_RT_INVALID_ARGUMENT, "expected 'stream' to be one of GPU " +
                                      std::to_string(device.device) +
                                      ", but got one of GPU " +
                                      std::to_string(of)};
}

// The capture mode is thread-local: what other threads of the program do
// meanwhile, for example allocate, does not end the capture.
Status CudaBackend::beginCapture(void *stream) {
  TE_RT_RETURN_IF_FAILED(enterThread());
  return device.check(
      driver.cuStreamBeginCapture(static_cast<CUstream>(stream),
                                  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      "cuStreamBeginCapture");
}

// A capture ends on the thread that began it, so the context is current.
// Nothing that could fail may come before cuStreamEndCapture, because the
// stream would remain in capture mode.
Status CudaBackend::endCapture(void *stream, std::unique_ptr<Graph> *graph) {
  CUgraph captured = nullptr;
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuStreamEndCapture(static_cast<CUstream>(stream), &captured),
      "cuStreamEndCapture"));
  // An update is cheaper than a new graph, which is created if the update is
  // not possible.
  if (*graph && static_cast<CudaGraph &>(**graph).update(captured)) {
    (void)driver.cuGraphDestroy(captured);
    return Status::ok();
  }
  graph->reset();
  CUgraphExec executable = nullptr;
  // Nodes have the priorities of the streams from which they were captured, so
  // those of the side stream run first.
  Status status = device.check(
      driver.cuGraphInstantiate(&executable, captured,
                                CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
      "cuGraphInstantiate");
  (void)driver.cuGraphDestroy(captured);
  if (!status.failed())
    *graph = std::make_unique<CudaGraph>(device, executable);
  return status;
}

} // namespace

Status createBackend(const LibraryPaths &paths,
                     std::unique_ptr<Backend> *backend, int32_t device) {
  auto created = std::make_unique<CudaBackend>();
  TE_RT_RETURN_IF_FAILED(created->initialize(paths, device));
  *backend = std::move(created);
  return Status::ok();
}

} // namespace te::rt::cuda

te::rt::Status te::rt::createCudaBackend(std::unique_ptr<Backend> *backend,
                                         int32_t device) {
  return cuda::createBackend(cuda::LibraryPaths::standard(), backend, device);
}
