//===- FakeDriver.cpp - libcuda.so.1 for tests ----------------------------===//
//
// Every entry point of DriverSymbols.inc. Device memory is host memory. Copies
// and fills run at once. Kernels do not run, or are emulated (../Emulated).
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "FakeImages.h"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace te::fake;

namespace {

CUresult injectedError() {
  static const CUresult codes[] = {CUDA_ERROR_OUT_OF_MEMORY,
                                   CUDA_ERROR_ILLEGAL_ADDRESS,
                                   CUDA_ERROR_NOT_SUPPORTED};
  return codes[book().errorVariant()];
}

template <typename Handle> Handle handleOf(Object *object) {
  return reinterpret_cast<Handle>(object);
}

void *hostPointer(CUdeviceptr pointer) {
  return reinterpret_cast<void *>(pointer);
}

/// The stream of a call that may be captured.
Object *enqueuingStream(CUstream stream, const char *call) {
  return book().use(stream, Kind::stream, call);
}

/// The driver always waits for the work of a stream, even if it need not.
void refuseIfStuck(const char *call) {
  if (book().anyStuck())
    book().violation(std::string(call) + " waits forever");
}

void refuseInCapture(const char *call) {
  if (book().anyCapture())
    book().violation(std::string(call) + " during a capture");
}

} // namespace

#define ENTER(name)                                                            \
  if (book().enter(#name, true))                                               \
  return injectedError()
#define ENTER_WITHOUT_CONTEXT(name)                                            \
  if (book().enter(#name, false))                                              \
  return injectedError()
/// For functions that release: `failed` is returned after the release.
#define ENTER_RELEASE(name)                                                    \
  const CUresult failed =                                                      \
      book().enter(#name, true) ? injectedError() : CUDA_SUCCESS

//===----------------------------------------------------------------------===//
// Errors, devices, contexts
//===----------------------------------------------------------------------===//

// These do not count as calls: they are made after failures.
CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text) {
  switch (error) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    *text = "CUDA_ERROR_OUT_OF_MEMORY";
    return CUDA_SUCCESS;
  case CUDA_ERROR_ILLEGAL_ADDRESS:
    *text = "CUDA_ERROR_ILLEGAL_ADDRESS";
    return CUDA_SUCCESS;
  default:
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuGetErrorString(CUresult, const char **text) {
  *text = "a text of the driver";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned) {
  ENTER_WITHOUT_CONTEXT(cuInit);
  return book().machine.deviceCount < 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int *version) {
  ENTER_WITHOUT_CONTEXT(cuDriverGetVersion);
  *version = book().machine.driverVersion;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count) {
  ENTER_WITHOUT_CONTEXT(cuDeviceGetCount);
  *count = book().machine.deviceCount;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER_WITHOUT_CONTEXT(cuDeviceGet);
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device) {
  ENTER_WITHOUT_CONTEXT(cuDeviceGetName);
  std::snprintf(name, static_cast<size_t>(size),
                device == 0 ? "Fake GPU" : "Fake GPU %d", device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                                      CUdevice) {
  ENTER_WITHOUT_CONTEXT(cuDeviceGetAttribute);
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = book().machine.computeMajor;
    break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *value = book().machine.multiprocessors;
    break;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    *value = 50 << 20;
    break;
  default:
    *value = 0;
    break;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxRetain);
  if (book().contextShares++ == 0)
    book().context = book().create(Kind::context);
  *context = handleOf<CUcontext>(book().context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice) {
  const bool failed = book().enter("cuDevicePrimaryCtxRelease", false);
  if (book().contextShares == 0)
    book().violation("cuDevicePrimaryCtxRelease without a share");
  else if (--book().contextShares == 0)
    book().destroy(book().context, Kind::context, "cuDevicePrimaryCtxRelease");
  return failed ? injectedError() : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  ENTER_WITHOUT_CONTEXT(cuCtxSetCurrent);
  currentContext() = book().use(context, Kind::context, "cuCtxSetCurrent");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context) {
  ENTER_WITHOUT_CONTEXT(cuCtxGetCurrent);
  Object *current = currentContext();
  *context = handleOf<CUcontext>(current && current->alive ? current : nullptr);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
  ENTER(cuCtxGetDevice);
  *device = 0;
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Streams, events, graphs
//===----------------------------------------------------------------------===//

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned) {
  ENTER(cuStreamCreate);
  *stream = handleOf<CUstream>(book().create(Kind::stream));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER(cuCtxGetStreamPriorityRange);
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned flags,
                                            int priority) {
  ENTER(cuStreamCreateWithPriority);
  if (flags != CU_STREAM_NON_BLOCKING || priority != -5)
    book().violation("cuStreamCreateWithPriority of another kind of stream");
  *stream = handleOf<CUstream>(book().create(Kind::stream));
  return CUDA_SUCCESS;
}

// Waiting for an event that was recorded in a capture adds the stream to the
// capture.
CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER(cuStreamWaitEvent);
  Object *on = book().use(stream, Kind::stream, "cuStreamWaitEvent");
  Object *object = book().use(event, Kind::event, "cuStreamWaitEvent");
  if (!on || !object)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!object->parent)
    book().violation("cuStreamWaitEvent on an event that was never recorded");
  book().placed.push_back(
      {on, "wait " + std::to_string(book().numberOf(object))});
  if (!object->origin) {
    if (on->capturing)
      book().violation("cuStreamWaitEvent of a capture on what is not in it");
    return CUDA_SUCCESS;
  }
  if (!object->origin->capturing) {
    book().violation("cuStreamWaitEvent on an event of a capture that ended");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!on->capturing) {
    on->capturing = true;
    on->origin = object->origin;
    on->enqueued = 0;
    on->joined = -1;
  }
  if (on == object->origin && object->parent)
    object->parent->joined = std::max(object->parent->joined, object->enqueued);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  ENTER_RELEASE(cuStreamDestroy);
  book().destroy(stream, Kind::stream, "cuStreamDestroy");
  return failed;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  ENTER(cuStreamSynchronize);
  refuseInCapture("cuStreamSynchronize");
  refuseIfStuck("cuStreamSynchronize");
  book().use(stream, Kind::stream, "cuStreamSynchronize");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetDevice(CUstream stream, CUdevice *device) {
  ENTER(cuStreamGetDevice);
  const Object *object = book().use(stream, Kind::stream, "cuStreamGetDevice");
  if (object && object->capturing)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *device = object ? object->device : 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream,
                                     CUstreamCaptureStatus *status) {
  ENTER(cuStreamIsCapturing);
  const Object *object =
      book().use(stream, Kind::stream, "cuStreamIsCapturing");
  *status = object && object->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                        : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
  ENTER(cuStreamQuery);
  refuseInCapture("cuStreamQuery");
  Object *object = book().use(stream, Kind::stream, "cuStreamQuery");
  return object && object->stuck ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream,
                                      CUstreamCaptureMode mode) {
  ENTER(cuStreamBeginCapture);
  if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    book().violation("cuStreamBeginCapture in another than thread-local mode");
  Object *object = book().use(stream, Kind::stream, "cuStreamBeginCapture");
  if (!object || object->capturing)
    return CUDA_ERROR_ILLEGAL_STATE;
  object->capturing = true;
  object->origin = object;
  object->work.clear();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  ENTER_RELEASE(cuStreamEndCapture);
  Object *object = book().use(stream, Kind::stream, "cuStreamEndCapture");
  if (!object || !object->capturing) {
    book().violation("cuStreamEndCapture on a stream that does not capture");
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  const bool isJoined = book().endCapture(object);
  *graph = nullptr;
  if (failed != CUDA_SUCCESS)
    return failed;
  if (!isJoined)
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  Object *captured = book().create(Kind::graph);
  captured->work = std::move(object->work);
  *graph = handleOf<CUgraph>(captured);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *executable, CUgraph graph,
                                    unsigned long long flags) {
  ENTER(cuGraphInstantiate);
  if (flags != CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
    book().violation("cuGraphInstantiate without the priorities of streams");
  Object *source = book().use(graph, Kind::graph, "cuGraphInstantiate");
  if (!source)
    return CUDA_ERROR_INVALID_VALUE;
  Object *object = book().create(Kind::graphExec);
  object->work = source->work;
  *executable = handleOf<CUgraphExec>(object);
  return CUDA_SUCCESS;
}

// Like the driver, accepts only the same nodes.
CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec executable, CUgraph graph,
                                   CUgraphExecUpdateResultInfo *) {
  ENTER(cuGraphExecUpdate);
  Object *object = book().use(executable, Kind::graphExec, "cuGraphExecUpdate");
  Object *source = book().use(graph, Kind::graph, "cuGraphExecUpdate");
  if (!object || !source)
    return CUDA_ERROR_INVALID_VALUE;
  return object->work == source->work ? CUDA_SUCCESS
                                      : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ENTER(cuGraphLaunch);
  Object *object = book().use(executable, Kind::graphExec, "cuGraphLaunch");
  Object *on = enqueuingStream(stream, "cuGraphLaunch");
  if (!object || !on)
    return CUDA_ERROR_INVALID_HANDLE;
  for (const std::string &work : object->work)
    book().enqueue(on, work);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  ENTER_RELEASE(cuGraphDestroy);
  book().destroy(graph, Kind::graph, "cuGraphDestroy");
  return failed;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec executable) {
  ENTER_RELEASE(cuGraphExecDestroy);
  book().destroy(executable, Kind::graphExec, "cuGraphExecDestroy");
  return failed;
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned) {
  ENTER(cuEventCreate);
  *event = handleOf<CUevent>(book().create(Kind::event));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  ENTER_RELEASE(cuEventDestroy);
  book().destroy(event, Kind::event, "cuEventDestroy");
  return failed;
}

// An event stores its time as an attribute.
CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  ENTER(cuEventRecord);
  Object *object = book().use(event, Kind::event, "cuEventRecord");
  Object *on = book().use(stream, Kind::stream, "cuEventRecord");
  if (!object || !on)
    return CUDA_ERROR_INVALID_HANDLE;
  object->parent = on;
  object->origin = on->origin;
  object->enqueued = on->enqueued;
  book().placed.push_back(
      {on, "record " + std::to_string(book().numberOf(object))});
  object->attributes[0].resize(sizeof(float));
  std::memcpy(object->attributes[0].data(), &book().clock, sizeof(float));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  ENTER(cuEventSynchronize);
  refuseInCapture("cuEventSynchronize");
  refuseIfStuck("cuEventSynchronize");
  book().use(event, Kind::event, "cuEventSynchronize");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent begin,
                                    CUevent end) {
  ENTER(cuEventElapsedTime);
  float times[2];
  int i = 0;
  for (CUevent event : {begin, end}) {
    Object *object = book().use(event, Kind::event, "cuEventElapsedTime");
    if (!object || object->attributes[0].empty())
      return CUDA_ERROR_INVALID_HANDLE;
    std::memcpy(&times[i++], object->attributes[0].data(), sizeof(float));
  }
  *milliseconds = times[1] - times[0];
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *pointer, size_t bytes) {
  ENTER(cuMemAlloc);
  refuseInCapture("cuMemAlloc");
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *pointer = reinterpret_cast<CUdeviceptr>(book().allocate(bytes));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr pointer) {
  ENTER_RELEASE(cuMemFree);
  refuseInCapture("cuMemFree");
  book().release(hostPointer(pointer), "cuMemFree");
  return failed;
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from,
                                   size_t bytes, CUstream stream) {
  ENTER(cuMemcpyHtoDAsync);
  Object *on = enqueuingStream(stream, "cuMemcpyHtoDAsync");
  refuseIfStuck("cuMemcpyHtoDAsync");
  if (!on || !book().touch(hostPointer(to), bytes, "cuMemcpyHtoDAsync"))
    return CUDA_ERROR_INVALID_VALUE;
  if (on->capturing)
    book().violation("cuMemcpyHtoDAsync of host memory during a capture");
  std::memcpy(hostPointer(to), from, bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) {
  ENTER(cuMemcpyDtoHAsync);
  Object *on = enqueuingStream(stream, "cuMemcpyDtoHAsync");
  refuseIfStuck("cuMemcpyDtoHAsync");
  if (!on || !book().touch(hostPointer(from), bytes, "cuMemcpyDtoHAsync"))
    return CUDA_ERROR_INVALID_VALUE;
  if (on->capturing)
    book().violation("cuMemcpyDtoHAsync to host memory during a capture");
  std::memcpy(to, hostPointer(from), bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from,
                                   size_t bytes, CUstream stream) {
  ENTER(cuMemcpyDtoDAsync);
  Object *on = enqueuingStream(stream, "cuMemcpyDtoDAsync");
  if (!on || !book().touch(hostPointer(to), bytes, "cuMemcpyDtoDAsync") ||
      !book().touch(hostPointer(from), bytes, "cuMemcpyDtoDAsync"))
    return CUDA_ERROR_INVALID_VALUE;
  book().enqueue(on, "cuMemcpyDtoDAsync");
  if (!on->capturing)
    std::memmove(hostPointer(to), hostPointer(from), bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value,
                                 size_t bytes, CUstream stream) {
  ENTER(cuMemsetD8Async);
  Object *on = enqueuingStream(stream, "cuMemsetD8Async");
  if (!on || !book().touch(hostPointer(to), bytes, "cuMemsetD8Async"))
    return CUDA_ERROR_INVALID_VALUE;
  book().enqueue(on, "cuMemsetD8Async");
  if (!on->capturing)
    std::memset(hostPointer(to), value, bytes);
  return CUDA_SUCCESS;
}

// Host memory has the same address on the device. Work of a stream that waits
// is not done.
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                                  CUstream stream) {
  ENTER(cuMemsetD32Async);
  Object *on = enqueuingStream(stream, "cuMemsetD32Async");
  if (!on || !book().touch(hostPointer(to), 4 * count, "cuMemsetD32Async"))
    return CUDA_ERROR_INVALID_VALUE;
  book().enqueue(on, "cuMemsetD32Async");
  if (!on->capturing && !on->stuck)
    std::fill_n(static_cast<unsigned *>(hostPointer(to)), count, value);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  ENTER(cuMemHostAlloc);
  refuseInCapture("cuMemHostAlloc");
  if (flags != CU_MEMHOSTALLOC_DEVICEMAP)
    book().violation("cuMemHostAlloc of memory that the device does not see");
  *pointer = book().allocate(bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFreeHost(void *pointer) {
  ENTER_RELEASE(cuMemFreeHost);
  refuseInCapture("cuMemFreeHost");
  book().release(pointer, "cuMemFreeHost");
  return failed;
}

//===----------------------------------------------------------------------===//
// Modules and kernels
//===----------------------------------------------------------------------===//

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
  ENTER(cuModuleLoadData);
  if (!image)
    return CUDA_ERROR_INVALID_IMAGE;
  Object *object = book().create(Kind::module);
  object->image = image;
  *module = handleOf<CUmodule>(object);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  ENTER_RELEASE(cuModuleUnload);
  book().destroy(module, Kind::module, "cuModuleUnload");
  return failed;
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
  ENTER(cuModuleGetFunctionCount);
  Object *object = book().use(module, Kind::module, "cuModuleGetFunctionCount");
  if (!object)
    return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(kernelsIn(object->image).size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *functions,
                                            unsigned count, CUmodule module) {
  ENTER(cuModuleEnumerateFunctions);
  Object *parent =
      book().use(module, Kind::module, "cuModuleEnumerateFunctions");
  if (!parent)
    return CUDA_ERROR_INVALID_HANDLE;
  for (const std::string &name : kernelsIn(parent->image)) {
    if (count-- == 0)
      break;
    *functions++ = handleOf<CUfunction>(book().functionOf(parent, name));
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction function) {
  ENTER(cuFuncGetName);
  Object *object = book().use(function, Kind::function, "cuFuncGetName");
  if (!object)
    return CUDA_ERROR_INVALID_HANDLE;
  *name = object->name.c_str();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module,
                                     const char *name) {
  ENTER(cuModuleGetFunction);
  Object *parent = book().use(module, Kind::module, "cuModuleGetFunction");
  if (!parent || kernelsIn(parent->image).count(name) == 0)
    return CUDA_ERROR_NOT_FOUND;
  *function = handleOf<CUfunction>(book().functionOf(parent, name));
  return CUDA_SUCCESS;
}

/// The most shared memory of a block on sm_90, in bytes.
static constexpr int kSharedBytes = 227 * 1024;

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function,
                                    CUfunction_attribute attribute, int value) {
  ENTER(cuFuncSetAttribute);
  Object *object = book().use(function, Kind::function, "cuFuncSetAttribute");
  if (!object)
    return CUDA_ERROR_INVALID_HANDLE;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
      value < 0 || value > kSharedBytes)
    return CUDA_ERROR_INVALID_VALUE;
  object->sharedLimit = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config,
                                  CUfunction function, void **arguments,
                                  void **) {
  ENTER(cuLaunchKernelEx);
  Object *object = book().use(function, Kind::function, "cuLaunchKernelEx");
  Object *on = enqueuingStream(config->hStream, "cuLaunchKernelEx");
  if (!object || !on)
    return CUDA_ERROR_INVALID_HANDLE;
  auto isFrom1To = [](uint64_t value, uint64_t most) {
    return value >= 1 && value <= most;
  };
  const auto &c = *config;
  if (!isFrom1To(c.gridDimX, INT32_MAX) || !isFrom1To(c.gridDimY, 65535) ||
      !isFrom1To(c.gridDimZ, 65535) || !isFrom1To(c.blockDimX, 1024) ||
      !isFrom1To(c.blockDimY, 1024) || !isFrom1To(c.blockDimZ, 64) ||
      c.blockDimX * c.blockDimY * c.blockDimZ > 1024 ||
      c.sharedMemBytes > object->sharedLimit)
    return CUDA_ERROR_INVALID_VALUE;
  // Kernels of this library wait for those before them, and generated ones do
  // not: only the former may start before these have ended.
  for (unsigned i = 0; i < c.numAttrs; ++i)
    if (c.attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      return CUDA_ERROR_NOT_SUPPORTED;
  if ((c.numAttrs == 1) != (object->name.starts_with("te_") &&
                            !object->name.starts_with("te_generated")))
    return CUDA_ERROR_INVALID_VALUE;
  book().enqueue(on, object->name);
  if (on->capturing)
    return CUDA_SUCCESS;
  return runKernel(object->name, {c.gridDimX, c.gridDimY, c.gridDimZ},
                   c.blockDimX, c.sharedMemBytes, arguments)
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_SUPPORTED;
}

static uint64_t bytesOf(CUtensorMapDataType type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_UINT8      ? 1
         : type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? 2
         : type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32  ? 4
                                                    : 0;
}

// The rules of the driver's manual for the cases that the runtime uses: three
// element types, no interleaving, zeros outside of the bounds.
CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill fill) {
  ENTER_WITHOUT_CONTEXT(cuTensorMapEncodeTiled);
  const uint64_t element = bytesOf(type);
  bool valid = reinterpret_cast<uintptr_t>(map) % 64 == 0 &&
               reinterpret_cast<uintptr_t>(address) % 16 == 0 && address &&
               element != 0 && rank >= 1 && rank <= 5 &&
               interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
               fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  if (!valid)
    return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t i = 0; i < rank; ++i)
    valid &= sizes[i] >= 1 && sizes[i] <= uint64_t(1) << 32 && box[i] >= 1 &&
             box[i] <= 256 && steps[i] >= 1 && steps[i] <= 8;
  // The strides are those of all axes except the first, and each is a multiple
  // of the previous one.
  for (cuuint32_t i = 0; i + 1 < rank; ++i) {
    const uint64_t least = i == 0 ? sizes[0] * element : strides[i - 1];
    valid &= strides[i] % 16 == 0 && strides[i] < uint64_t(1) << 40 &&
             strides[i] >= least && (i == 0 || strides[i] % least == 0);
  }
  const uint64_t line = box[0] * element;
  valid &= line % 16 == 0;
  if (swizzle == CU_TENSOR_MAP_SWIZZLE_128B)
    valid &= line <= 128;
  else
    valid &= swizzle == CU_TENSOR_MAP_SWIZZLE_NONE;
  if (!valid)
    return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof(*map));
  return CUDA_SUCCESS;
}

// If a row has no definition above, linking fails.
extern "C" const void *const teFakeDriverTable[] = {
#define TE_CUDA_SYMBOL(name, versioned) reinterpret_cast<const void *>(&name),
#include "Cuda/DriverSymbols.inc"
#undef TE_CUDA_SYMBOL
};
