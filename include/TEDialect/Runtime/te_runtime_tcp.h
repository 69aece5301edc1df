//===- te_runtime_tcp.h - groups of processes that know a host and a port -===//
//
// libte_tcp is a separate library beside the runtime. It makes
// te_rt_communicators of the processes of a launcher that gives each its rank
// and the address of the first one, as torchrun and Slurm do. Nothing in it
// waits without a time limit.
//
// Calls are made by one thread at a time. A failed call writes a sentence to
// `message`, unless that is NULL; destroying NULL is allowed.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_RUNTIME_TE_RUNTIME_TCP_H
#define TEDIALECT_RUNTIME_TE_RUNTIME_TCP_H

#include "TEDialect/Runtime/te_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// This process's connections to the others of a job.
typedef struct te_tcp te_tcp;

typedef struct te_tcp_options {
  /// Where process 0 listens, and nowhere else: at this address of its host,
  /// on the first free one of `num_ports` ports from `port` on. The same in all
  /// processes. The others listen where they reach it.
  const char *host;
  int32_t port, num_ports;
  /// Any text that is the same in all processes of the job and differs from
  /// that of other jobs: who else listens on those ports is passed by.
  const char *job;
  int32_t size, rank;
  int64_t timeout_ms;
  /// What only the processes of the job know, 16 bytes or more: each side of a
  /// connection proves that it has it. NULL is allowed where `host` is a
  /// loopback address, if it is NULL in all processes: they agree on a secret
  /// in a file that only their user can read, in $XDG_RUNTIME_DIR or the folder
  /// of temporary files, which is gone when the job is made.
  const char *secret;
} te_tcp_options;

/// Joins the job: all its processes call this.
TE_RT_API te_rt_status te_tcp_create(const te_tcp_options *options,
                                     te_tcp **tcp,
                                     char message[TE_RT_MESSAGE_BYTES]);

/// Waits for all processes of the job, at most `timeout_ms`, and closes the
/// connections, also where it failed.
TE_RT_API te_rt_status te_tcp_destroy(te_tcp *tcp, int64_t timeout_ms,
                                      char message[TE_RT_MESSAGE_BYTES]);

/// A communicator of `size` processes: its rank r is process ranks[r] of the
/// job, and this process is one of them. Two that share two processes or more
/// need different `tag`s, zero or more. Waits for nobody. Lives as long as
/// `tcp`. An exchange ends at once, as TE_RT_TIMED_OUT, where a process has
/// closed its connections: it died.
TE_RT_API te_rt_status te_tcp_communicator(te_tcp *tcp, int32_t tag,
                                           const int32_t *ranks, int32_t size,
                                           te_rt_communicator *communicator,
                                           char message[TE_RT_MESSAGE_BYTES]);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // TEDIALECT_RUNTIME_TE_RUNTIME_TCP_H
