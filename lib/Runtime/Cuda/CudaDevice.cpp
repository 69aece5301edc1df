//===- CudaDevice.cpp - kernels by name, driver errors as Status ----------===//
//
// This is the only place that maps a CUresult to a status of the runtime.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaDevice.h"

namespace te::rt::cuda {

static te_rt_status statusOf(CUresult result) {
  switch (result) {
  case CUDA_SUCCESS:
    return TE_RT_OK;
  case CUDA_ERROR_OUT_OF_MEMORY:
    return TE_RT_OUT_OF_MEMORY;
  case CUDA_ERROR_NO_DEVICE:
  case CUDA_ERROR_NOT_SUPPORTED:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return TE_RT_UNSUPPORTED;
  default:
    return TE_RT_DEVICE_ERROR;
  }
}

Status CudaDevice::check(CUresult result, const char *what) const {
  if (result == CUDA_SUCCESS)
    return Status::ok();
  // Both lookups set null for an error code that is newer than the driver.
  const char *name = nullptr, *text = nullptr;
  (void)driver->cuGetErrorName(result, &name);
  (void)driver->cuGetErrorString(result, &text);
  const std::string fallback = "error " + std::to_string(result);
  return {statusOf(result), std::string(what) + ": " +
                                (name ? name : fallback.c_str()) + ", " +
                                (text ? text : "unknown to this driver")};
}

Status CudaDevice::addModule(CUmodule module) {
  modules.push_back(module);
  unsigned count = 0;
  TE_RT_RETURN_IF_FAILED(check(driver->cuModuleGetFunctionCount(&count, module),
                               "cuModuleGetFunctionCount"));
  // Only the names are stored: with lazy loading, these are handles of
  // functions that are not loaded yet.
  std::vector<CUfunction> functions(count);
  TE_RT_RETURN_IF_FAILED(
      check(driver->cuModuleEnumerateFunctions(functions.data(), count, module),
            "cuModuleEnumerateFunctions"));
  for (CUfunction function : functions) {
    const char *name = nullptr;
    TE_RT_RETURN_IF_FAILED(
        check(driver->cuFuncGetName(&name, function), "cuFuncGetName"));
    kernels.emplace(name, Kernel{module});
  }
  return Status::ok();
}

Status CudaDevice::function(const char *name, CUfunction *function,
                            int sharedBytes) const {
  // Searching every module would work too, but compute-sanitizer reports every
  // failed call of the driver.
  const auto found = kernels.find(name);
  if (found == kernels.end())
    return {TE_RT_INTERNAL,
            "no embedded module has the kernel '" + std::string(name) + "'"};
  TE_RT_RETURN_IF_FAILED(
      check(driver->cuModuleGetFunction(function, found->second.module, name),
            "cuModuleGetFunction"));
  if (sharedBytes <= found->second.sharedLimit)
    return Status::ok();
  TE_RT_RETURN_IF_FAILED(raiseSharedLimit(*function, sharedBytes));
  found->second.sharedLimit = sharedBytes;
  return Status::ok();
}

Status CudaDevice::raiseSharedLimit(CUfunction function,
                                    int sharedBytes) const {
  return check(driver->cuFuncSetAttribute(
                   function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                   sharedBytes),
               "cuFuncSetAttribute");
}

Status CudaDevice::generated(const char *ptx, const char *name, int sharedBytes,
                             CUfunction *function) const {
  CUmodule &module = generatedModules[ptx];
  if (!module) {
    TE_RT_RETURN_IF_FAILED(check(driver->cuModuleLoadData(&module, ptx),
                                 "compiling generated PTX"));
    modules.push_back(module);
  }
  TE_RT_RETURN_IF_FAILED(
      check(driver->cuModuleGetFunction(function, module, name),
            "cuModuleGetFunction"));
  return sharedBytes <= kSharedLimit ? Status::ok()
                                     : raiseSharedLimit(*function, sharedBytes);
}

} // namespace te::rt::cuda
