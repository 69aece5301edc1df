//===- Capabilities.h - what may be planned, on every backend -------------===//
//
// One rule per kernel, checked by the ABI layer before a backend is asked. A
// rule is as narrow as the narrowest backend, so a step that loads on the
// reference backend is a step the hardware can run: what only cuBLASLt refuses
// (an operand pair, a size that is not a multiple of 16) is refused here.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_CAPABILITIES_H
#define TE_RUNTIME_CORE_CAPABILITIES_H

#include "Core/Kernels.h"
#include "Core/Status.h"

namespace te::rt {

// TE_RT_INVALID_ARGUMENT or TE_RT_UNSUPPORTED where a kernel cannot run with
// these parameters on some backend; the message has no kernel name yet.
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  Status checkSupported(const name##_params &params);
#include "TEDialect/Runtime/te_runtime_kernels.inc"

/// Whether the buffers that some launches of the kernel need are there.
Status checkBuffers(const adamw_group_params &params, void *const *buffers);
Status checkBuffers(const all_to_all_params &params, void *const *buffers);
Status checkBuffers(const attention_params &params, void *const *buffers);
Status checkBuffers(const attention_backward_params &params,
                    void *const *buffers);
Status checkBuffers(const attention_sink_grad_params &params,
                    void *const *buffers);
Status checkBuffers(const delayed_scaling_group_params &params,
                    void *const *buffers);
Status checkBuffers(const quantize_tensor_group_params &params,
                    void *const *buffers);
Status checkBuffers(const rope_params &params, void *const *buffers);
Status checkBuffers(const rope_group_params &params, void *const *buffers);
Status checkBuffers(const scaled_matmul_params &params, void *const *buffers);
Status checkBuffers(const sum_of_squares_params &params, void *const *buffers);
Status checkBuffers(const tensor_stats_params &params, void *const *buffers);

} // namespace te::rt

#endif // TE_RUNTIME_CORE_CAPABILITIES_H
