//===- probe_args.h - arguments of the probes -----------------------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_PROBE_PROBE_ARGS_H
#define TE_RUNTIME_KERNELS_PROBE_PROBE_ARGS_H

#include "Core/Probe.h"

#include <cstdint>

namespace te::rt::cuda {

/// Threads of every kernel here; a thread is a lane of a run sum.
inline constexpr int kProbeBlock = kLanes;

struct CountNonfiniteArgs {
  const void *x;
  const float *scale; // [1] or null
  uint32_t *row;      // [3], added to
  int64_t count;
  float limit;
};

struct TensorStatsArgs {
  const void *x;
  ProbeRow *runs; // one for each block
  ProbeCast cast;
};

struct TensorStatsFinishArgs {
  const ProbeRow *runs;
  float *stats;
  int64_t numRuns;
  ProbeCast cast;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_PROBE_PROBE_ARGS_H
