//===- te_runtime.h - the runtime as a host program sees it ---------------===//
//
// Life of a step: create a context for a backend, create an instance of a
// compiled module (this makes every plan and the arena: the only allocations),
// then run it as often as wanted. A run only enqueues work. A program with an
// allocator of its own may give the arena instead.
//
// Every function returns a status; on anything but TE_RT_OK the thread's
// te_rt_last_error() says what was given, what is allowed and what to do.
// Nothing prints, exits or throws. Objects are destroyed in reverse order of
// creation; destroying NULL is allowed. Threads may share objects: one call at
// a time is inside a context and its instances, and destroying an object is the
// last call on it.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_RUNTIME_TE_RUNTIME_H
#define TEDIALECT_RUNTIME_TE_RUNTIME_H

#include "TEDialect/Runtime/te_runtime_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TE_RT_API __attribute__((visibility("default")))

/// TE_RT_VERSION this library was built with.
TE_RT_API int32_t te_rt_version(void);

/// Message of the last failed call on this thread; "" if there was none.
/// Valid until the next call on this thread.
TE_RT_API const char *te_rt_last_error(void);

/// Creates a context. `backend` is "reference", "cuda" or "auto" (cuda where a
/// usable GPU is found, else reference). `cuda` without a GPU is
/// TE_RT_UNSUPPORTED.
TE_RT_API te_rt_status te_rt_context_create(const char *backend,
                                            te_rt_context **context);
/// As te_rt_context_create, on the `device`-th GPU of the process (0 for
/// "reference"). `backend` is "reference" or "cuda"; too few GPUs are
/// TE_RT_UNSUPPORTED.
TE_RT_API te_rt_status te_rt_context_create_on_device(const char *backend,
                                                      int32_t device,
                                                      te_rt_context **context);
/// With groups of more than one rank bound, this closes them and may wait for
/// the other ranks to do the same. In a child of fork, nothing that the parent
/// made on a GPU is destroyed.
TE_RT_API void te_rt_context_destroy(te_rt_context *context);

/// "reference" or "cuda". Lives as long as the context.
TE_RT_API const char *te_rt_context_backend(const te_rt_context *context);
/// Human-readable device, driver and library versions.
TE_RT_API const char *te_rt_context_description(const te_rt_context *context);

/// Bytes of the id that the ranks of a group share.
#define TE_RT_GROUP_ID_BYTES 128

/// Writes the id of a new group of ranks. One rank calls it and hands the bytes
/// to the others by its own means. Every group needs an id of its own.
/// TE_RT_UNSUPPORTED where NCCL is missing.
TE_RT_API te_rt_status te_rt_group_unique_id(char id[TE_RT_GROUP_ID_BYTES]);

/// Binds `group_id`, the number compiled code uses, to this context's place in
/// a group: `rank` of `size`. Collective: every rank calls it with the same id,
/// each from a thread and a GPU of its own, and it returns when all have. A
/// rank whose call fails leaves the others waiting until their time is over;
/// its id is spent. Before any instance is created, once for each group; bound
/// for the context's life. `id` may be NULL where `size` is 1. The reference
/// backend takes groups of one rank here, others as communicators.
TE_RT_API te_rt_status te_rt_context_bind_group(
    te_rt_context *context, int32_t group_id,
    const char id[TE_RT_GROUP_ID_BYTES], int32_t size, int32_t rank);

/// Room for the text of a te_rt_communicator's error.
#define TE_RT_MESSAGE_BYTES 512

/// How the host program's processes reach each other, for groups of the
/// reference backend. The runtime adds and compares itself, in the order of
/// ranks; a communicator only moves bytes.
typedef struct te_rt_communicator {
  int32_t size, rank;
  /// Given to `exchange`.
  void *user;
  /// Receives `bytes` from every rank, its own included, at receive + r *
  /// bytes. Sends to rank r what lies at send + r * stride: where `stride` is 0
  /// this is an all-gather, else an all-to-all. All ranks call it equally
  /// often, in one order and with the same sizes. Returns when `receive` is
  /// complete and `send` may be written again; otherwise another status than
  /// TE_RT_OK and, in `message`, a sentence that ends with a zero. After
  /// `timeout_ms` milliseconds this is TE_RT_TIMED_OUT with the ranks that are
  /// missing. Must not call this library and, in C++, not throw.
  te_rt_status (*exchange)(void *user, const void *send, int64_t stride,
                           void *receive, int64_t bytes, int64_t timeout_ms,
                           char message[TE_RT_MESSAGE_BYTES]);
} te_rt_communicator;

/// As te_rt_context_bind_group, for the reference backend: `communicator` is
/// copied, what it points to must outlive the context. A collective compares
/// what the ranks are about to do, so that programs that disagree end with an
/// error on each rank.
TE_RT_API te_rt_status
te_rt_context_bind_communicator(te_rt_context *context, int32_t group_id,
                                const te_rt_communicator *communicator);

/// As te_rt_context_bind_group, for the cuda backend, on a communicator that
/// the program has: `comm` is an ncclComm_t of the NCCL that this process has
/// loaded, on the context's GPU. It stays the program's and must outlive the
/// context; meanwhile the program enqueues nothing on it.
TE_RT_API te_rt_status te_rt_context_bind_nccl(te_rt_context *context,
                                               int32_t group_id, void *comm,
                                               int32_t size, int32_t rank);

/// How long this context waits for other ranks before a call ends with
/// TE_RT_TIMED_OUT: a bind, a collective of the reference backend, and whatever
/// waits for the stream of the cuda backend while groups are bound. One or
/// more; 600000 (ten minutes) at the beginning. A group that timed out is of no
/// use any more: end the process.
TE_RT_API te_rt_status te_rt_context_set_group_timeout(te_rt_context *context,
                                                       int64_t milliseconds);

/// How a context chooses the algorithms of the GEMMs that cuBLASLt computes. An
/// algorithm may decide the order of a sum, so processes that need the same
/// bits have to choose alike: with FIRST, or with FILE and one file.
typedef enum te_rt_gemm_choice {
  /// The fastest: that of the tuning file if it has the GEMM, otherwise the
  /// candidates are measured while the step is loaded, and the file gets it.
  TE_RT_GEMM_TUNED = 0,
  /// The first that the library suggests. Nothing is measured or read.
  TE_RT_GEMM_FIRST = 1,
  /// That of the tuning file, which is only read. A step with a GEMM that the
  /// file does not have is not loaded.
  TE_RT_GEMM_FILE = 2
} te_rt_gemm_choice;

/// Called before the candidates of a GEMM are measured: the slot that is being
/// planned, and the GEMM as text that lives during the call. Must not call this
/// library and, in C++, not throw.
typedef void (*te_rt_tuning_fn)(void *user, int32_t slot, const char *gemm);

typedef struct te_rt_gemm_options {
  /// A te_rt_gemm_choice.
  int32_t choice;
  int32_t reserved;
  /// The tuning file; NULL is the one of this GPU, driver and library in the
  /// user's cache folder. FIRST has none. A file that is named has to be intact
  /// and of this machine, and TUNED creates and writes it; the one in the cache
  /// folder is used if it can be.
  const char *file;
  /// With TUNED: after this many milliseconds of measuring, the GEMMs that are
  /// left take the library's first suggestion, which the file does not get. 0
  /// is no limit.
  int64_t budget_ms;
  /// May be NULL.
  te_rt_tuning_fn tuning;
  void *user;
} te_rt_gemm_options;

/// Sets how instances that are created from now on choose algorithms; at the
/// beginning this is TUNED with the file in the cache folder. Modules with
/// TE_RT_IS_DETERMINISTIC take FIRST where nothing was set, and are refused
/// where TUNED was. GEMMs of fewer than 2^27 multiplications always take the
/// library's first suggestion. The reference backend has nothing to choose, and
/// accepts every choice.
TE_RT_API te_rt_status te_rt_context_set_gemm_options(
    te_rt_context *context, const te_rt_gemm_options *options);

/// Device memory, 256-byte aligned. `bytes` may be 0 (gives a unique pointer).
TE_RT_API te_rt_status te_rt_alloc(te_rt_context *context, int64_t bytes,
                                   void **pointer);
TE_RT_API te_rt_status te_rt_free(te_rt_context *context, void *pointer);

/// Copies, ordered after all work of the context's own stream, and complete
/// when they return.
TE_RT_API te_rt_status te_rt_copy_to_device(te_rt_context *context, void *to,
                                            const void *from, int64_t bytes);
TE_RT_API te_rt_status te_rt_copy_to_host(te_rt_context *context, void *to,
                                          const void *from, int64_t bytes);

/// Whether the sizes of `groups` groups fit `rows` rows, each group starting at
/// a multiple of `alignment`; the message names the first that does not, and
/// its value. For a host program that makes the sizes itself, before it copies
/// them: a step on a GPU cuts bad sizes to what fits and reads nothing out of
/// bounds, but cannot say so.
TE_RT_API te_rt_status te_rt_check_group_sizes(const int32_t *sizes,
                                               int32_t groups, int64_t rows,
                                               int64_t alignment);

/// Waits for all work of the context's own stream and reports its errors, among
/// them malformed values that kernels found in device memory, such as
/// boundaries of documents that decrease. These are also reported, once, by the
/// next copy or run, which runs nothing then, and after work on streams of the
/// caller.
TE_RT_API te_rt_status te_rt_synchronize(te_rt_context *context);

/// Loads a compiled step: allocates the arena, makes every plan. `module` is
/// copied; the code it points to must outlive the instance.
TE_RT_API te_rt_status te_rt_instance_create(te_rt_context *context,
                                             const te_rt_module *module,
                                             te_rt_instance **instance);
/// As te_rt_instance_create, but allocates no arena: where the module's
/// arena_bytes is not 0, te_rt_instance_set_arena gives one before the first
/// run.
TE_RT_API te_rt_status te_rt_instance_create_without_arena(
    te_rt_context *context, const te_rt_module *module,
    te_rt_instance **instance);
TE_RT_API void te_rt_instance_destroy(te_rt_instance *instance);

/// Lets the following runs use `bytes` of device memory at `arena`, at least
/// the module's arena_bytes, aligned to 16 bytes. It stays the caller's, who
/// frees it once no run uses it any more; the parts of one step need the same
/// arena. A part that was recorded with another arena is recorded again. The
/// arena that te_rt_instance_create allocated, if there is one, is freed.
TE_RT_API te_rt_status te_rt_instance_set_arena(te_rt_instance *instance,
                                                void *arena, int64_t bytes);

/// Enqueues one step. `arguments` are device pointers, inputs then results,
/// num_arguments of them, each aligned to 16 bytes; a result with an
/// `arena_offset` lies in the arena, and any such pointer but NULL stands for
/// it. `stream` is a CUstream, or
/// NULL for the context's own. The first failed launch stops the step and is
/// reported here. Steps of one instance share its arena: run them on one
/// stream, or synchronise in between, and before destroying the instance.
TE_RT_API te_rt_status te_rt_instance_run(te_rt_instance *instance,
                                          void *const *arguments, void *stream);

/// As te_rt_instance_run, but enqueues only the launches of slots `begin` to
/// `end` - 1. A step whose first part computes what its second part reads is
/// run in two calls with the same arguments; what lies in the arena between
/// them is lost by any other run of the instance. Arguments that the part does
/// not use may be any aligned pointer but NULL.
TE_RT_API te_rt_status te_rt_instance_run_part(te_rt_instance *instance,
                                               void *const *arguments,
                                               void *stream, int32_t begin,
                                               int32_t end);

/// As te_rt_instance_run on the context's own stream, but recorded the first
/// time, on cuda into a CUDA graph, and replayed otherwise: then no code of the
/// module runs. Where a pointer or the arena changed the step is recorded again
/// and the graph updated to it. The graph lives as long as the instance, and
/// the memory its arguments are in cannot be freed before.
TE_RT_API te_rt_status te_rt_instance_run_graph(te_rt_instance *instance,
                                                void *const *arguments);

/// As te_rt_instance_run_part, but recorded and replayed as
/// te_rt_instance_run_graph does, on the caller's `stream`. Each part, a pair
/// of `begin` and `end`, has a graph of its own. `stream` may be the default
/// one, which CUDA cannot capture: recording is on the context's own.
TE_RT_API te_rt_status te_rt_instance_run_part_graph(te_rt_instance *instance,
                                                     void *const *arguments,
                                                     void *stream,
                                                     int32_t begin,
                                                     int32_t end);

/// Waits for the context's own stream, and forgets the instance's graphs; one
/// that runs on another stream has to be waited for before.
/// The memory it used may then be freed; the next run records again.
TE_RT_API te_rt_status te_rt_instance_release_graph(te_rt_instance *instance);

/// Bytes that the instance allocated on the device: what holds temporaries, 0
/// where the caller gives that, and what its kernels need beside. A graph uses
/// these and the arguments, and no other memory but that of the driver for its
/// nodes.
TE_RT_API te_rt_status te_rt_instance_memory(const te_rt_instance *instance,
                                             int64_t *arena_bytes,
                                             int64_t *workspace_bytes);

/// Bytes that the launch of `slot` needs beside: the instance has one region of
/// the largest of them, which all launches share.
TE_RT_API te_rt_status te_rt_instance_workspace(const te_rt_instance *instance,
                                                int32_t slot, int64_t *bytes);

/// Where the algorithm of a GEMM comes from.
typedef enum te_rt_gemm_origin {
  /// The launch is no GEMM of cuBLASLt.
  TE_RT_GEMM_ORIGIN_NONE = 0,
  /// The library's first suggestion, as always for so small a GEMM.
  TE_RT_GEMM_ORIGIN_SMALL = 1,
  /// The library's first suggestion: the choice is FIRST, the budget was spent,
  /// or there was no memory to measure in.
  TE_RT_GEMM_ORIGIN_FIRST = 2,
  /// The fastest of those that this context measured, or the only one.
  TE_RT_GEMM_ORIGIN_MEASURED = 3,
  /// The tuning file had it.
  TE_RT_GEMM_ORIGIN_FILE = 4
} te_rt_gemm_origin;

/// What one launch multiplies, and how that was chosen. The texts live as long
/// as the instance; two processes with one `algorithm` for one `gemm` on one
/// machine have the same bits.
typedef struct te_rt_gemm_info {
  /// A te_rt_gemm_origin; if it is NONE, the texts are "".
  int32_t origin;
  int32_t reserved;
  const char *gemm;
  const char *algorithm;
} te_rt_gemm_info;

TE_RT_API te_rt_status te_rt_instance_gemm(const te_rt_instance *instance,
                                           int32_t slot, te_rt_gemm_info *info);

/// Called for every launch of a traced step, in order and after it ended: its
/// slot, the name of its kernel (lives as long as the instance) and how long it
/// took. Must not call this library and, in C++, not throw.
typedef void (*te_rt_trace_fn)(void *user, int32_t slot, const char *kernel,
                               float milliseconds);

/// As te_rt_instance_run on the context's own stream, but waits for each launch
/// and reports it to `trace` with `user`. Gives the same results, slower. Times
/// are taken with the context's timer, so earlier marks are lost; on cuda a
/// time includes what the host needs to enqueue one launch, some microseconds.
TE_RT_API te_rt_status te_rt_instance_trace(te_rt_instance *instance,
                                            void *const *arguments,
                                            te_rt_trace_fn trace, void *user);

/// Marks points on the context's own stream and measures between them; used by
/// benchmarks. `index` is 0 or 1.
TE_RT_API te_rt_status te_rt_timer_mark(te_rt_context *context, int32_t index);
TE_RT_API te_rt_status te_rt_timer_elapsed_ms(te_rt_context *context,
                                              float *milliseconds);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // TEDIALECT_RUNTIME_TE_RUNTIME_H
