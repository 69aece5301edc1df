//===- optimizer_args.h - arguments of the optimizer kernels --------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_OPTIMIZER_OPTIMIZER_ARGS_H
#define TE_RUNTIME_KERNELS_OPTIMIZER_OPTIMIZER_ARGS_H

#include "Core/Kernels.h"

#include <cstdint>

namespace te::rt::cuda {

/// Every array is [count]; outputs may be the matching inputs.
struct AdamwArgs {
  adamw_params params;
  const void *param;
  const void *grad;
  const void *m;
  const void *v;
  const float *lr;   // [1]
  const float *step; // [1]
  void *newParam;
  void *newM;
  void *newV;
  int64_t runs; // leading runs of 4 with vector accesses; 0 if not aligned
};

struct SgdArgs {
  sgd_params params;
  const void *param;
  const void *grad;
  const float *buf; // or null: 0
  const float *lr;  // [1]
  void *newParam;
  float *newBuf; // or null
  int64_t runs;  // as above
};

inline constexpr int kOptimizerBlock = 256;
/// Elements of a vector access, and vector accesses of one thread.
inline constexpr int kOptimizerRun = 4;
inline constexpr int kOptimizerUnroll = 2;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_OPTIMIZER_OPTIMIZER_ARGS_H
