//===- reciprocal.cuh - the approximate reciprocals, emulated -------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_RECIPROCAL_CUH
#define TE_RUNTIME_KERNELS_DEVICE_RECIPROCAL_CUH

#include <cmath>

namespace te::rt::cuda::ptx {

/// The rounded quotient: an approximation within the hardware's bound. What
/// corrects the hardware's own is tested on a GPU.
inline float rcpApprox(float y) { return 1.0f / y; }
inline float rsqrtApprox(float y) { return 1.0f / std::sqrt(y); }

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_RECIPROCAL_CUH
