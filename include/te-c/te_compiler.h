//===- te_compiler.h - the compiler as a host program sees it -------------===//
//
// Takes the text or bytecode of a module, runs the training pipeline on it
// and makes machine code in this process, for the runtime of te_runtime.h:
// te_rt_instance_create() takes the result of te_program_module().
//
// If the status is not TE_COMPILE_OK, te_compiler_last_error() of the thread
// has the messages of the compiler with the lines of the source, and
// te_compiler_diagnostic() has them as data. Nothing prints, exits or throws.
// A program owns the strings and arrays that it returns. It may be used by
// several threads.
//
//===----------------------------------------------------------------------===//

#ifndef TE_C_TE_COMPILER_H
#define TE_C_TE_COMPILER_H

#include "TEDialect/Runtime/te_runtime_types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TE_COMPILER_API __attribute__((visibility("default")))

/* How a compilation ended; the numbers are the exit codes of te-run. */
typedef enum te_compile_status {
  TE_COMPILE_OK = 0,
  /* The program is wrong. */
  TE_COMPILE_DIAGNOSTICS = 1,
  /* The request is wrong: its entry, its pipeline, a null pointer, a struct
     without its size. */
  TE_COMPILE_USAGE = 2,
  /* A defect of this library. */
  TE_COMPILE_INTERNAL = 3,
  /* te_compile_request.is_interrupted asked for it. */
  TE_COMPILE_INTERRUPTED = 4
} te_compile_status;

/* A compiled program, or the text after the last phase of a compilation. */
typedef struct te_program te_program;

/* Zero every field that is not set. */
typedef struct te_compile_request {
  /* sizeof(te_compile_request) of the caller. */
  size_t struct_size;
  /* Text of a module, `source_size` bytes; or its bytecode, which is refused
     unless `source_name` ends with ".mlirbc": its reader is not safe against
     files that were made to break it. */
  const char *source;
  size_t source_size;
  /* Name of the source in diagnostics; NULL: "<stdin>". */
  const char *source_name;
  /* The function to compile. */
  const char *entry;
  /* The options of te-training-pipeline; NULL: none. With report=... the
     reports are in te_program_report(). */
  const char *pipeline;
  /* te_rt_context_backend() of the target machine; NULL: not known. */
  const char *backend;
  /* Not 0: differentiate the entry. It then takes cotangents 'grad.<result>'
     and returns gradients 'grad.<argument>'. */
  int32_t vjp;
  /* Not 0: make no code; te_program_ir() is the program after the phase that
     the pipeline's compile-to names. */
  int32_t ir_only;
  /* "html", "dot" or "json": make no code, but a picture of the step, which is
     then te_program_report(): graphs, precision, memory and launches.
     NULL: none. */
  const char *picture;
  /* Called with `user` before each pass, on the thread of te_compile: not 0
     ends the compilation. Machine code is made as a whole. NULL: nothing ends
     it. */
  int32_t (*is_interrupted)(void *user);
  void *user;
} te_compile_request;

/* One launch of the step, by slot. */
typedef struct te_launch_info {
  size_t struct_size;
  const char *kernel;
  /* Layer and kind of a GEMM ("w1 dgrad"), else the first buffer written. */
  const char *name;
  /* Place of the op in the source, as "file:line:column"; may be "". */
  const char *location;
} te_launch_info;

/* How bad a diagnostic is. A note belongs to the diagnostic before it. */
typedef enum te_severity {
  TE_SEVERITY_NOTE = 0,
  TE_SEVERITY_REMARK = 1,
  TE_SEVERITY_WARNING = 2,
  TE_SEVERITY_ERROR = 3
} te_severity;

/* One diagnostic of the compiler. `code` is its kind, in words that do not
   change between releases; the text of `message` may change. The codes are

     group-sizes         the groups of `layer` do not fit in its rows
     no-kernel           no kernel of the target does what `layer`, or the op at
                         `location`, asks for
     fallback            with 'strict': a GEMM of `layer` would run in high
                         precision
     remat-unknown       'remat' names an op or layer that the forward does
                         not have
     memory-budget       the step needs more bytes than the budget
     not-differentiable  an op has no derivative, or a gradient has a gradient
     entry, pipeline     that field of te_compile_request is wrong
     request             another field of it is wrong
     internal            a defect of this library

   and "" for every other diagnostic: errors in the text of the program, and
   rules that only a person can act on. Later releases may give them a code. */
typedef struct te_diagnostic {
  /* sizeof(te_diagnostic) of the caller, who sets it. */
  size_t struct_size;
  te_severity severity;
  const char *code;
  /* The text without place, severity and lines of the source. */
  const char *message;
  /* Place in the source as "file:line:column"; may be "". */
  const char *location;
  /* The layer, or the name that the program gave the place; may be "". */
  const char *layer;
} te_diagnostic;

/* The version of this library and of the runtime's ABI. */
TE_COMPILER_API const char *te_compiler_version(void);

/* The TE_RT_VERSION that this library makes code for. */
TE_COMPILER_API int32_t te_compiler_runtime_version(void);

/* Why this thread's last call that returned a status other than TE_COMPILE_OK
   failed, whichever function it was; "" if none failed. For te_compile, these
   are the messages of the compiler. Valid until the next call on this thread:
   copy them before a call that may fail, such as te_compiler_diagnostic() with
   an index out of range. */
TE_COMPILER_API const char *te_compiler_last_error(void);

/* The number of diagnostics, including warnings, of this thread's last
   te_compile that failed, in the order in which they were reported; 0 if none
   failed. A te_compile that failed has at least one error. */
TE_COMPILER_API int32_t te_compiler_num_diagnostics(void);
/* Fills `diagnostic`; its strings are valid until the next te_compile on this
   thread. TE_COMPILE_USAGE if there is none with this index. */
TE_COMPILER_API te_compile_status
te_compiler_diagnostic(int32_t index, te_diagnostic *diagnostic);

/* Compiles. On success the caller owns `*program`, otherwise it is NULL. */
TE_COMPILER_API te_compile_status te_compile(const te_compile_request *request,
                                             te_program **program);
/* Destroy the instances of its module first. NULL is allowed. */
TE_COMPILER_API void te_program_destroy(te_program *program);

/* For a program that is NULL, these functions return NULL, 0 or "", or the
   status TE_COMPILE_USAGE. */

/* For te_rt_instance_create; NULL with ir_only or a picture. */
TE_COMPILER_API const te_rt_module *te_program_module(const te_program *);

TE_COMPILER_API int32_t te_program_num_arguments(const te_program *);
/* One pointer that the step takes, in the order of te_rt_instance_run; NULL
   if there is none with this index. */
TE_COMPILER_API const te_rt_argument_info *
te_program_argument(const te_program *, int32_t index);
/* Slots of the first and last launch that uses it, -1 if none does. In a
   differentiated entry, the launches before the first that uses a cotangent are
   the forward. */
TE_COMPILER_API te_compile_status te_program_argument_uses(const te_program *,
                                                           int32_t index,
                                                           int32_t *first,
                                                           int32_t *last);
TE_COMPILER_API int32_t te_program_num_launches(const te_program *);
TE_COMPILER_API te_compile_status te_program_launch(const te_program *,
                                                    int32_t slot,
                                                    te_launch_info *info);

/* The recipe in force for the entry, as MLIR writes it. */
TE_COMPILER_API const char *te_program_recipe(const te_program *);
/* The reports that the pipeline asked for, one after the other. */
TE_COMPILER_API const char *te_program_report(const te_program *);
/* Warnings and remarks, with the lines of the source. */
TE_COMPILER_API const char *te_program_diagnostics(const te_program *);
/* The same as data; the program owns the strings. */
TE_COMPILER_API int32_t te_program_num_diagnostics(const te_program *);
TE_COMPILER_API te_compile_status te_program_diagnostic(
    const te_program *, int32_t index, te_diagnostic *diagnostic);
/* The program after its last phase, as text without locations. */
TE_COMPILER_API const char *te_program_ir(const te_program *);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TE_C_TE_COMPILER_H */
