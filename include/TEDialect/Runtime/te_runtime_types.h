//===- te_runtime_types.h - structs and enums both sides of the ABI share -===//
//
// Plain C. Enumerators are frozen: new ones are appended, none is renumbered.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_RUNTIME_TE_RUNTIME_TYPES_H
#define TEDIALECT_RUNTIME_TE_RUNTIME_TYPES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The calling convention: raised by every change of a struct below or of a
/// function that compiled code calls. A kernel that changes does not raise it:
/// a module names the kernels it uses (te_rt_kernel_use).
#define TE_RT_VERSION 18

/// What went wrong, and whether a retry can help. The text is in
/// te_rt_last_error().
typedef enum te_rt_status {
  TE_RT_OK = 0,
  /// The caller passed something the contract forbids; retrying cannot help.
  TE_RT_INVALID_ARGUMENT = 1,
  /// The machine or library lacks what was asked for; use another backend.
  TE_RT_UNSUPPORTED = 2,
  /// Host or device memory ran out; retry after freeing some.
  TE_RT_OUT_OF_MEMORY = 3,
  /// A vendor library reported an error; the context may be lost.
  TE_RT_DEVICE_ERROR = 4,
  /// A defect of this library.
  TE_RT_INTERNAL = 5,
  /// Other ranks of a group did not come to a collective in time. The group is
  /// of no use any more; end the process, and with it the others.
  TE_RT_TIMED_OUT = 6
} te_rt_status;

/// Element types. f4E2M1FN is stored two values a byte, the even one in the low
/// nibble.
typedef enum te_rt_dtype {
  TE_RT_F32 = 0,
  TE_RT_BF16 = 1,
  TE_RT_F16 = 2,
  TE_RT_F8E4M3FN = 3,
  TE_RT_F8E5M2 = 4,
  TE_RT_I32 = 5,
  TE_RT_F4E2M1FN = 6,
  TE_RT_F8E8M0FNU = 7
} te_rt_dtype;

/// How a scaled value shares its scales (layouts: Kernels.td).
typedef enum te_rt_scheme {
  TE_RT_PER_TENSOR = 0,
  TE_RT_BLOCK_1X128 = 1,
  TE_RT_BLOCK_128X128 = 2,
  TE_RT_MX_1X32 = 3,
  TE_RT_MX_32X32 = 4,
  TE_RT_NV_1X16 = 5,
  TE_RT_NV_16X16 = 6
} te_rt_scheme;

/// Activations. Kinds from TE_RT_SWIGLU on are gated: they read [a | b] and
/// give act(a) * b. What each is: the kernel activation in Activations.td.
typedef enum te_rt_activation {
  TE_RT_GELU = 0,
  TE_RT_SILU = 1,
  TE_RT_RELU = 2,
  TE_RT_QGELU = 3,
  TE_RT_SRELU = 4,
  TE_RT_GELU_ERF = 5,
  TE_RT_SWIGLU = 16,
  TE_RT_GEGLU = 17,
  TE_RT_GLU = 18,
  TE_RT_QGEGLU = 19,
  TE_RT_REGLU = 20,
  TE_RT_SREGLU = 21,
  TE_RT_CLAMPED_SWIGLU = 22,
  TE_RT_GEGLU_ERF = 23
} te_rt_activation;

/// What delayed scaling takes from a history of amaxes.
typedef enum te_rt_amax_algorithm {
  TE_RT_AMAX_MAX = 0,
  TE_RT_AMAX_MOST_RECENT = 1
} te_rt_amax_algorithm;

/// The entries of what the kernel tensor_stats writes; a tensor without a cast
/// has only those before TE_RT_STAT_UNDERFLOWS.
typedef enum te_rt_stat {
  TE_RT_STAT_AMAX = 0,
  TE_RT_STAT_AMIN = 1,
  TE_RT_STAT_MEAN = 2,
  TE_RT_STAT_STD = 3,
  TE_RT_STAT_ZEROS = 4,
  TE_RT_STAT_NAN = 5,
  TE_RT_STAT_INF = 6,
  TE_RT_STAT_UNDERFLOWS = 7,
  TE_RT_STAT_OVERFLOWS = 8,
  TE_RT_STAT_MSE = 9,
  TE_RT_STAT_SNR = 10,
  TE_RT_STAT_SCALE_INV_MIN = 11,
  TE_RT_STAT_SCALE_INV_MAX = 12,
  TE_RT_STAT_SCALES_CLIPPED = 13
} te_rt_stat;

/// A device with its library handles. Thread-compatible.
typedef struct te_rt_context te_rt_context;
/// A loaded step: its plans and, unless the caller gives one, its arena. One
/// thread at a time.
typedef struct te_rt_instance te_rt_instance;

/// A kernel that a module plans, as its compiler knew it.
typedef struct te_rt_kernel_use {
  const char *name;
  /// Of the kernel's row: its name, parameters, buffers and meaning.
  uint64_t hash;
} te_rt_kernel_use;

/// Bits of te_rt_module.flags.
typedef enum te_rt_module_flag {
  /// Compiled with `deterministic`: no algorithm of a GEMM may be chosen by
  /// time (te_rt_gemm_choice).
  TE_RT_IS_DETERMINISTIC = 1
} te_rt_module_flag;

#define TE_RT_MODULE_MAGIC 0x4d524554u /* "TERM" */

/// What a compiled step hands to te_rt_instance_create.
typedef struct te_rt_module {
  uint32_t magic;   /* TE_RT_MODULE_MAGIC */
  uint32_t version; /* TE_RT_VERSION of the compiler */
  /// Bytes of the one arena all temporaries live in (256-byte aligned).
  int64_t arena_bytes;
  int32_t num_plans;
  /// Inputs first, then results; the length of `arguments` below.
  int32_t num_arguments;
  /// Makes every plan by calling te_rt_plan_*; called once.
  te_rt_status (*load)(te_rt_instance *instance);
  /// Enqueues every launch of one step by calling te_rt_launch.
  void (*step)(te_rt_instance *instance, char *arena, void *const *arguments);
  /// Where each plan comes from, for messages: num_plans texts as "'y' at
  /// step.mlir:4:10", or "", each with its zero, one after another. Or NULL.
  const char *origins;
  /// Every kernel that `load` plans, each once: an instance is made only where
  /// the runtime has all of them with these hashes. Or NULL, of a module that
  /// was written by hand: then nothing is checked.
  const te_rt_kernel_use *kernels;
  int32_t num_kernels;
  uint32_t flags; /* te_rt_module_flag */
} te_rt_module;

/// Whether a step reads or writes what a pointer of its list points at.
typedef enum te_rt_role { TE_RT_ARGUMENT = 0, TE_RT_RESULT = 1 } te_rt_role;

/// Which buffer of a value it is: a scaled value is its data, its scales and
/// (FP4) its amaxes; any other is one buffer.
typedef enum te_rt_part {
  TE_RT_PART_VALUE = 0,
  TE_RT_PART_DATA = 1,
  TE_RT_PART_SCALE = 2,
  TE_RT_PART_AMAX = 3
} te_rt_part;

/// Bits of te_rt_argument_info.flags.
typedef enum te_rt_argument_flag {
  /// A parameter (`te.weight`).
  TE_RT_IS_WEIGHT = 1,
  /// `init` says what every element is before the first step.
  TE_RT_HAS_INIT = 2,
  /// The recipe carries it (`te.recipe_state`): a scale, a history, a random
  /// state or a cast that is kept. Another recipe has others.
  TE_RT_IS_RECIPE_STATE = 4
} te_rt_argument_flag;

/// One of the pointers that te_rt_instance_run takes.
typedef struct te_rt_argument_info {
  /// `te.name`, with ".data", ".scale" or ".amax" for parts of a scaled value.
  const char *name;
  /// The type of the whole value as MLIR writes it: "tensor<256x512xbf16>".
  const char *value_type;
  /// `rank` extents of the buffer as stored, padding included; row-major. FP4
  /// counts bytes.
  const int64_t *shape;
  int64_t bytes;
  int32_t rank;
  int32_t dtype; /* te_rt_dtype */
  int32_t role;  /* te_rt_role */
  int32_t part;  /* te_rt_part */
  /// Of a result that is the next state of an argument: that argument's index;
  /// both are given the same pointer. Else -1.
  int32_t carried_input;
  uint32_t flags; /* te_rt_argument_flag */
  float init;
  int32_t reserved; /* 0 */
  /// Of a result that the step writes to its arena: the place there in bytes,
  /// where the caller reads it; the pointer of the result is not used. Else -1.
  int64_t arena_offset;
} te_rt_argument_info;

#define TE_RT_SIGNATURE_MAGIC 0x53524554u /* "TERS" */

/// What te-compile writes beside a te_rt_module, so that a program which loads
/// the file knows its arguments without a header.
typedef struct te_rt_signature {
  uint32_t magic;   /* TE_RT_SIGNATURE_MAGIC */
  uint32_t version; /* TE_RT_VERSION of the compiler */
  /// The function that was compiled, the recipe in force for it as MLIR writes
  /// it, and the options of the pipeline.
  const char *entry, *recipe, *pipeline;
  /// As in the module.
  int32_t num_arguments;
  /// Bytes of one te_rt_argument_info.
  int32_t argument_bytes;
  const te_rt_argument_info *arguments;
} te_rt_signature;

#ifdef __cplusplus
static_assert(sizeof(te_rt_module) == 64, "the compiler writes it");
static_assert(sizeof(te_rt_kernel_use) == 16, "the compiler writes it");
static_assert(sizeof(te_rt_argument_info) == 72, "the compiler writes it");
static_assert(sizeof(te_rt_signature) == 48, "the compiler writes it");
} // extern "C"
#endif

#endif // TEDIALECT_RUNTIME_TE_RUNTIME_TYPES_H
