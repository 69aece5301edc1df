//===- Library.cpp - shared libraries loaded at run time ------------------===//
//
// A thin layer over dlopen and dlsym with error messages that a user can act
// on.
//
//===----------------------------------------------------------------------===//

#include "Cuda/Library.h"

#include <dlfcn.h>

namespace te::rt::cuda {

/// The folder this code was loaded from, with a final slash; "" if unknown.
static std::string ownFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&ownFolder), &info) || !info.dli_fname)
    return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

LibraryPaths LibraryPaths::standard() {
  const std::string folder = ownFolder();
  const char *const cublasLt = "libcublasLt.so.13";
  const char *const nccl = "libnccl.so.2";
  const char *const cudnn = "libcudnn.so.9";
  const char *const cudart = "libcudart.so.13";
  LibraryPaths paths;
  paths.driver = {"libcuda.so.1"};
  paths.cublasLt = {cublasLt};
  paths.nccl = {nccl};
  paths.cudnn = {cudnn};
  paths.cudart = {cudart};
  if (!folder.empty()) {
    paths.cublasLt.push_back(folder + cublasLt);
    paths.cublasLt.push_back(folder + "../../nvidia/cu13/lib/" + cublasLt);
    paths.nccl.push_back(folder + nccl);
    paths.nccl.push_back(folder + "../../nvidia/nccl/lib/" + nccl);
    paths.cudnn.push_back(folder + cudnn);
    paths.cudnn.push_back(folder + "../../nvidia/cudnn/lib/" + cudnn);
    paths.cudart.push_back(folder + cudart);
    paths.cudart.push_back(folder + "../../nvidia/cu13/lib/" + cudart);
  }
  paths.cublasLt.push_back(std::string("/usr/local/cuda/lib64/") + cublasLt);
  paths.cudart.push_back(std::string("/usr/local/cuda/lib64/") + cudart);
  return paths;
}

Status Library::open(const std::vector<std::string> &paths, const char *remedy,
                     Library *library) {
  std::string firstError;
  for (const std::string &path : paths) {
    if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      library->handle = handle;
      library->path = path;
      library->remedy = remedy;
      return Status::ok();
    }
    const char *error = dlerror();
    if (firstError.empty())
      firstError = error ? error : "unknown loader error";
  }
  const std::string name = paths.empty() ? "?" : paths.front();
  return {TE_RT_UNSUPPORTED, "cuda backend: '" + name + "' did not load (" +
                                 firstError + "); " + remedy};
}

Status Library::find(const char *name, void **address) const {
  *address = dlsym(handle, name);
  if (*address)
    return Status::ok();
  return {TE_RT_UNSUPPORTED, "cuda backend: '" + path + "' has no symbol '" +
                                 name + "'; " + remedy};
}

} // namespace te::rt::cuda
