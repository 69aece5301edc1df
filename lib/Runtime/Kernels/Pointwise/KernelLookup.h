//===- KernelLookup.h - names, types and grids of kernel families ---------===//
//
// The plans of the families that work on plain floats share this: a kernel's
// name is its family with one infix for each type.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_POINTWISE_KERNELLOOKUP_H
#define TE_RUNTIME_KERNELS_POINTWISE_KERNELLOOKUP_H

#include "Kernels/LaunchPlan.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace te::rt::cuda {

/// Finds `<family>_<type>...`. `family` is a literal, because messages keep a
/// pointer to it. The caller has checked that every type is a plain float.
inline Status findTyped(const CudaDevice &device, const char *family,
                        std::initializer_list<int32_t> types,
                        LaunchConfig *config) {
  std::string name = family;
  for (int32_t type : types) {
    const char *infix = inputTypeName(type);
    if (!infix)
      return {TE_RT_INVALID_ARGUMENT,
              std::string(family) +
                  ": expected f32, bf16 or f16 values, but got te_rt_dtype " +
                  std::to_string(type)};
    name += std::string("_") + infix;
  }
  TE_RT_RETURN_IF_FAILED(config->find(device, name.c_str()));
  config->name = family;
  return Status::ok();
}

/// Sets a one-dimensional grid of `blocks` blocks.
inline Status setGrid(int64_t blocks, LaunchConfig *config) {
  if (blocks > std::numeric_limits<int32_t>::max())
    return {TE_RT_UNSUPPORTED,
            std::string(config->name) + ": expected at most 2147483647 " +
                "blocks of work, but got " + std::to_string(blocks)};
  config->gridX = static_cast<unsigned>(blocks);
  return Status::ok();
}

/// Checks the number of columns: kernels of rows count them in 32 bits, and
/// step past the end of a row.
inline Status checkCols(const char *kernel, int64_t cols) {
  constexpr int64_t limit = int64_t{1} << 30;
  if (cols <= limit)
    return Status::ok();
  return {TE_RT_UNSUPPORTED,
          std::string(kernel) + ": expected 'cols' to be at most " +
              std::to_string(limit) + ", but got " + std::to_string(cols)};
}

/// Whether every pointer (null counts) is a multiple of 16.
inline bool areAligned(std::initializer_list<const void *> pointers) {
  for (const void *pointer : pointers)
    if (!isAligned(pointer, 16))
      return false;
  return true;
}

/// Elements in a 16-byte run of the widest of `types`.
inline int64_t runLength(std::initializer_list<int32_t> types) {
  int64_t length = 16;
  for (int32_t type : types)
    length = std::min(length, 16 / byteSize(type));
  return length;
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_POINTWISE_KERNELLOOKUP_H
