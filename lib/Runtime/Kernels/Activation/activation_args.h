//===- activation_args.h - arguments of the activation kernels ------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_ACTIVATION_ACTIVATION_ARGS_H
#define TE_RUNTIME_KERNELS_ACTIVATION_ACTIVATION_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

struct ActivationKind {
  int32_t kind;               // te_rt_activation
  float limit, alpha, offset; // of clamped_swiglu
};

struct ActivationArgs {
  const void *dy;      // [rows, cols], backward only
  const void *x;       // [rows, cols], of gated kinds the first half
  const void *second;  // gated kinds: the second half
  void *out;           // y [rows, cols], or dx, laid out as x
  void *outSecond;     // backward of gated kinds, laid out as `second`
  float *amax;         // [1] or null; zero before the launch
  float *amaxSecond;   // of outSecond, likewise
  bool isAmaxOfBoth;   // *amax covers out and outSecond
  int64_t cols;        // of y
  int64_t gap;         // gated kinds: from the end of a half's row to the next
  int64_t count;       // of y
  int64_t runs;        // leading runs with vector accesses; 0 if not aligned
  uint32_t runsPerRow; // gated kinds with runs > 0
  ActivationKind act;
};

inline constexpr int kActivationBlock = 256;
/// Elements of y that one thread computes, forward and backward.
inline constexpr int kActivationElements = 16;
inline constexpr int kActivationBackwardElements = 8;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_ACTIVATION_ACTIVATION_ARGS_H
