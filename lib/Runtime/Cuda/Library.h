//===- Library.h - shared libraries loaded at run time --------------------===//
//
// The vendor libraries are loaded when a context is created, so a program built
// with this runtime starts on a machine that has none of them. A library is
// never closed: vendor libraries leave threads and exit handlers behind.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CUDA_LIBRARY_H
#define TE_RUNTIME_CUDA_LIBRARY_H

#include "Core/Status.h"

#include <string>
#include <vector>

namespace te::rt::cuda {

/// Where to look for the vendor libraries, in order of preference. The loader
/// searches for names without a slash (LD_LIBRARY_PATH, ld.so.cache).
struct LibraryPaths {
  std::vector<std::string> driver;
  std::vector<std::string> cublasLt;
  std::vector<std::string> nccl;
  std::vector<std::string> cudnn;
  /// The CUDA runtime. Only cuDNN's frontend needs it.
  std::vector<std::string> cudart;

  /// The loader's search, then the folder of this library, the folder of
  /// NVIDIA's Python wheels if this library is in a wheel beside them, and the
  /// default folder of the toolkit.
  static LibraryPaths standard();
};

class Library {
public:
  /// Opens the first of `paths` that loads; TE_RT_UNSUPPORTED names the library
  /// and ends with `remedy`.
  static Status open(const std::vector<std::string> &paths, const char *remedy,
                     Library *library);

  /// Looks up `name` into `*function`; TE_RT_UNSUPPORTED names the symbol and
  /// the library that lacks it.
  template <typename Function>
  Status symbol(const char *name, Function *function) const {
    void *address = nullptr;
    TE_RT_RETURN_IF_FAILED(find(name, &address));
    *function = reinterpret_cast<Function>(address);
    return Status::ok();
  }

  /// The handle that dlopen returned.
  void *rawHandle() const { return handle; }

private:
  Status find(const char *name, void **address) const;

  void *handle = nullptr;
  std::string path, remedy;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_LIBRARY_H
