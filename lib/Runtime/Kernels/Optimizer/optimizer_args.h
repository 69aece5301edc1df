//===- optimizer_args.h - arguments of the optimizer kernels --------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_OPTIMIZER_OPTIMIZER_ARGS_H
#define TE_RUNTIME_KERNELS_OPTIMIZER_OPTIMIZER_ARGS_H

#include "Core/KernelGroups.h"
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
  const float *lr;        // [1]
  const float *step;      // [1]
  const float *gradScale; // [1] or null
  void *newParam;
  void *newM;
  void *newV;
  const float *skip; // [1], or null
  int64_t runs;      // leading runs of 4 with vector accesses; 0 if not aligned
};

/// `params` and the scalars are of all tensors of the group. A tensor whose
/// count is 0 is absent.
struct AdamwGroupArgs {
  adamw_params params; // without count and seed
  const float *lr;
  const float *step;
  const float *gradScale;
  const float *skip;
  struct Member {
    const void *param;
    const void *grad;
    const void *m;
    const void *v;
    void *newParam;
    void *newM;
    void *newV;
    int64_t count, runs;
    int32_t seed;
  } members[kAdamwGroup];
};
static_assert(sizeof(AdamwGroupArgs) <= 4096); // the arguments of any kernel

/// Arrays are [count], but `scales` [2, blocks]; outputs may be the matching
/// inputs.
struct AdamwFp8Args {
  adamw_fp8_params params;
  const void *param;
  const void *grad;
  const uint8_t *m;
  const uint8_t *v;
  const float *scales;
  const float *lr;        // [1]
  const float *step;      // [1]
  const float *gradScale; // [1] or null
  void *newParam;
  uint8_t *newM;
  uint8_t *newV;
  float *newScales;
  const float *skip; // [1], or null
  int64_t blocks;    // of 128 elements
  bool aligned;      // accesses of 4 elements are
};

struct SgdArgs {
  sgd_params params;
  const void *param;
  const void *grad;
  const float *buf;       // or null: 0
  const float *lr;        // [1]
  const float *gradScale; // [1] or null
  void *newParam;
  float *newBuf;     // or null
  const float *skip; // [1], or null
  int64_t runs;      // as above
};

/// A tensor of sum_of_squares.
struct SquaresTensor {
  const void *x; // [count]
  float *runs;   // the sum of each run
  int64_t count, numRuns;
  uint32_t firstBlock;
  int32_t type;
  bool aligned; // 16-byte accesses of whole runs are
};

struct SquaresArgs {
  float *squares;    // [numTensors]
  const float *sum;  // [1] or null: 0
  float *newSum;     // [1], may be `sum`
  const float *skip; // [1], or null
  int32_t numTensors;
  SquaresTensor tensors[kSquaresGroup]; // blocks in their order
};
static_assert(sizeof(SquaresArgs) <= 4096); // the arguments of any kernel

struct ClipFactorArgs {
  const float *sum; // [1]
  float *norm;      // [1]
  float *factor;    // [1]
  float maxNorm;
};

inline constexpr int kOptimizerBlock = 256;
/// Elements of a vector access, and vector accesses of one thread.
inline constexpr int kOptimizerRun = 4;
inline constexpr int kOptimizerUnroll = 2;

/// Elements of 8-bit moments with one scale, and how many such blocks a warp
/// updates.
inline constexpr int kMomentBlockLength = 32 * kOptimizerRun;
inline constexpr int kMomentBlocksPerWarp = 2;

/// Elements of a run of sum_of_squares, and runs of a block.
inline constexpr int kSquaresRunLength = 4096;
inline constexpr int kSquaresRunsPerBlock = kOptimizerBlock / 32;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_OPTIMIZER_OPTIMIZER_ARGS_H
