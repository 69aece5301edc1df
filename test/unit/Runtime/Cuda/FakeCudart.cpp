//===- FakeCudart.cpp - libcudart.so.13 for tests -------------------------===//
//
// The functions of the CUDA runtime that cuDNN's frontend calls, such as those
// for the current device.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <cuda_runtime_api.h>

using namespace te::fake;

#undef cudaGetDeviceProperties

extern "C" {

const char *cudaGetErrorString(cudaError_t) {
  return "a text of the CUDA runtime";
}

cudaError_t cudaGetDevice(int *device) {
  if (book().enter("cudaGetDevice", true))
    return cudaErrorUnknown;
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  if (book().enter("cudaGetDeviceProperties", true))
    return cudaErrorUnknown;
  *properties = {};
  properties->major = book().machine.computeMajor;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}

// A backward clears its sums in scratch memory.
cudaError_t cudaMemsetAsync(void *pointer, int, size_t bytes,
                            cudaStream_t stream) {
  if (book().enter("cudaMemsetAsync", true))
    return cudaErrorUnknown;
  Object *object = book().use(stream, Kind::stream, "cudaMemsetAsync");
  if (!object || !book().touch(pointer, bytes, "cudaMemsetAsync"))
    return cudaErrorInvalidValue;
  book().enqueue(object, "cudaMemsetAsync");
  return cudaSuccess;
}

} // extern "C"
