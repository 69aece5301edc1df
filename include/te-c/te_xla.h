//===- te_xla.h - compiled steps as custom calls of XLA -------------------===//
//
// libte_xla is a separate library: the handlers that XLA's FFI calls, and the
// functions with which a frontend registers programs and calls. A program is a
// module of te_compiler.h or of a file of te-compile. A call is a range of its
// launches with the order of its buffers. It has a number, which the custom
// call carries as its only attribute ('call', s64).
//
// XLA owns the memory: the temporaries of a step are in a buffer that the call
// takes or returns like any other, so what a forward saves for its backward is
// a value of the program. Work is enqueued on the stream that XLA calls with.
// On each stream a program has one instance, made at the first call there.
//
// Numbers are never used twice: a call of a destroyed program is an error of
// the execution. Every function may be called by several threads at once.
//
//===----------------------------------------------------------------------===//

#ifndef TE_C_TE_XLA_H
#define TE_C_TE_XLA_H

#include "TEDialect/Runtime/te_runtime_types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TE_XLA_API __attribute__((visibility("default")))

/* Marks the buffer for temporaries: at least te_rt_module.arena_bytes, aligned
   to 16 bytes. Every call of a program with temporaries takes one or returns
   one; if both, in the same memory, as with a state. */
#define TE_XLA_ARENA (-1)

typedef struct te_xla_call_request {
  /* sizeof(te_xla_call_request) of the caller. */
  size_t struct_size;
  /* Launches of slots `begin` to `end` - 1; te_rt_instance_run_part. */
  int32_t begin, end;
  /* For each buffer of the custom call which of the step's pointers it is, or
     TE_XLA_ARENA. A pointer that is not named must not be used by the range.
     The next value of a state must be in the memory of the state: alias the
     two buffers (output_operand_aliases). */
  int32_t num_arguments, num_results;
  const int32_t *argument_places, *result_places;
} te_xla_call_request;

/* TE_RT_VERSION of the modules that it takes. */
TE_XLA_API int32_t te_xla_runtime_version(void);

/* What was said of this thread's last failed call; "" if none failed. */
TE_XLA_API const char *te_xla_last_error(void);

/* Registers `module`, whose code must live until the program is destroyed, for
   `backend`, "reference" or "cuda". Loads it on the `device`-th GPU of the
   process, so that what the device cannot run is said here. `arguments`
   describes each of the module's arguments and is copied. `name` is for
   messages. */
TE_XLA_API te_rt_status te_xla_program_create(
    const te_rt_module *module, const te_rt_argument_info *arguments,
    const char *backend, int32_t device, const char *name, int64_t *program);
/* Waits for calls that are running, not for work that they enqueued on a GPU.
   A number of no program is allowed. */
TE_XLA_API void te_xla_program_destroy(int64_t program);

/* Makes a call of a program; it lives as long as that. */
TE_XLA_API te_rt_status te_xla_call_create(int64_t program,
                                           const te_xla_call_request *request,
                                           int64_t *call);

/* How often calls of a program have run, and instances it has. */
TE_XLA_API te_rt_status te_xla_program_counts(int64_t program, int64_t *runs,
                                              int64_t *instances);

/* The handlers: XLA_FFI_Handler of xla/ffi/api/c_api.h, for the stage execute
   on the platforms "cpu" and "CUDA". A frame that is null, or whose API is,
   runs nothing: no error can be made for it, so the result is null and only
   te_xla_last_error names it. */
struct XLA_FFI_Error;
struct XLA_FFI_CallFrame;
TE_XLA_API struct XLA_FFI_Error *
te_xla_execute_cpu(struct XLA_FFI_CallFrame *frame);
TE_XLA_API struct XLA_FFI_Error *
te_xla_execute_cuda(struct XLA_FFI_CallFrame *frame);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TE_C_TE_XLA_H */
