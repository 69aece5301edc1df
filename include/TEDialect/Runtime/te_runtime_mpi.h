//===- te_runtime_mpi.h - groups of the processes of an MPI job -----------===//
//
// libte_mpi is a separate library, because the runtime needs no MPI. It makes
// te_rt_communicators from lists of ranks of the job. Only joining the job
// (te_mpi_create) has no time limit.
//
// Calls are made by one thread at a time. A failed call writes a sentence to
// `message`, unless that is NULL; destroying NULL is allowed, and the numbers
// of NULL are 0.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_RUNTIME_TE_RUNTIME_MPI_H
#define TEDIALECT_RUNTIME_TE_RUNTIME_MPI_H

#include "TEDialect/Runtime/te_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// This process's place in an MPI job.
typedef struct te_mpi te_mpi;

/// Joins the job: all its processes call this. Initialises MPI where the
/// program has not done so.
TE_RT_API te_rt_status te_mpi_create(te_mpi **mpi,
                                     char message[TE_RT_MESSAGE_BYTES]);

/// Waits for all processes of the job, at most `timeout_ms`, and leaves it;
/// ends MPI if te_mpi_create began it. After a failure nothing was released and
/// only te_mpi_abort is left.
TE_RT_API te_rt_status te_mpi_destroy(te_mpi *mpi, int64_t timeout_ms,
                                      char message[TE_RT_MESSAGE_BYTES]);

/// Ends all processes of the job, this one with `exit_code`. Does not return.
TE_RT_API void te_mpi_abort(te_mpi *mpi, int32_t exit_code);

TE_RT_API int32_t te_mpi_size(const te_mpi *mpi);
TE_RT_API int32_t te_mpi_rank(const te_mpi *mpi);
/// Among the processes of this host, from 0: which GPU to take.
TE_RT_API int32_t te_mpi_local_rank(const te_mpi *mpi);

/// A communicator of `size` processes: its rank r is process ranks[r] of the
/// job, and this process is one of them. Two that share two processes or more
/// need different `tag`s, from 0 to 32766. Waits for nobody. Lives as long as
/// `mpi`.
TE_RT_API te_rt_status te_mpi_communicator(te_mpi *mpi, int32_t tag,
                                           const int32_t *ranks, int32_t size,
                                           te_rt_communicator *communicator,
                                           char message[TE_RT_MESSAGE_BYTES]);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // TEDIALECT_RUNTIME_TE_RUNTIME_MPI_H
