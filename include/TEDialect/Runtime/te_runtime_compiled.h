//===- te_runtime_compiled.h - the runtime as compiled code sees it -------===//
//
// Only code produced by the lowering may call these. A module's `load` calls
// one te_rt_plan_* per launch with a slot number, and te_rt_order for those of
// two streams; its `step` calls te_rt_launch with that slot and the launch's
// buffers. Errors are sticky: after the first one every call of the same load
// or step does nothing, and the enclosing te_rt_instance_create or
// te_rt_instance_run reports it.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_RUNTIME_TE_RUNTIME_COMPILED_H
#define TEDIALECT_RUNTIME_TE_RUNTIME_COMPILED_H

#include "TEDialect/Runtime/te_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Code that was generated for launches of the kernel `generated`, as a
/// constant of the module. It computes elements of all outputs from the same
/// elements of the inputs, and reductions of rows; what it reads of an element
/// after it writes that element, it does not use.
typedef struct te_rt_generated {
  /// What messages call it.
  const char *name;
  /// Computes the elements from `begin` to before `end`, a multiple of
  /// `block_elements` and another or `count`; `buffers` as those of the launch,
  /// `stream` as below.
  void (*host)(void *const *buffers, int64_t begin, int64_t end,
               int32_t stream);
  /// PTX with the kernel `device_name`, whose parameters are the addresses of
  /// the buffers that are not absent, in order, then `count` as i64, 1 as i32
  /// if all addresses are multiples of 16, and `stream`. Null if the module is
  /// not for a GPU.
  const char *device_code;
  const char *device_name;
  /// Threads of one block, how many elements they compute, and the bytes of
  /// their dynamic shared memory.
  int32_t block;
  int32_t block_elements;
  int32_t shared_bytes;
  /// What is added to the random streams in the code, so that launches that
  /// differ in their streams have the same code.
  int32_t stream;
  /// Bit i is set if output i is the amax of all elements, an f32 that the
  /// runtime sets to 0 and the code raises.
  int32_t amaxes;
} te_rt_generated;

/// Enqueues the plan in `slot`. `buffers` are in the order of its row in
/// Kernels.td; absent optional buffers are NULL.
TE_RT_API te_rt_status te_rt_launch(te_rt_instance *instance, int32_t slot,
                                    void *const *buffers);

/// Says, in `load` and after the slot's plan, how its launch is ordered: on the
/// caller's stream (`side` 0) or on a second one beside it (1), and after the
/// launch of slot `wait` of the other stream, a lower one whose plan and order
/// are made; -1 for none. Slots it is not called for are on the caller's
/// stream and wait for nobody. A step begins and ends with both streams
/// together. A plan with scratch memory cannot be on the side stream.
TE_RT_API te_rt_status te_rt_order(te_rt_instance *instance, int32_t slot,
                                   int32_t side, int32_t wait);

// Expands to te_rt_plan_<name>(instance, slot, parameters...).
#define TE_RT_I64(name) , int64_t name
#define TE_RT_I32(name) , int32_t name
#define TE_RT_F32(name) , float name
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  TE_RT_API te_rt_status te_rt_plan_##name(te_rt_instance *instance,           \
                                           int32_t slot parameters);
#include "TEDialect/Runtime/te_runtime_kernels.inc"

#ifdef __cplusplus
} // extern "C"
#endif

#endif // TEDIALECT_RUNTIME_TE_RUNTIME_COMPILED_H
