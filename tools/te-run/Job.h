//===- Job.h - te-run as one process of several ---------------------------===//
//
// Under a launcher every process compiles and runs the same step. This finds
// the launcher, joins its other processes over MPI or, where it only says who
// is the first one (torchrun, Slurm), over TCP, and binds the groups that the
// step names to the processes of the job. Without a launcher there is no job;
// MPI is loaded only under one of MPI.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_JOB_H
#define TE_TOOLS_TE_RUN_JOB_H

#include "Options.h"

#include "TEDialect/JIT/JIT.h"
#include "TEDialect/Runtime/te_runtime_mpi.h"
#include "TEDialect/Runtime/te_runtime_tcp.h"

#include <string>
#include <vector>

namespace te::run {

class Job {
public:
  /// Joins the job that a launcher started this process for, if one did.
  bool join(int64_t timeoutSeconds, std::string &error);
  /// Leaves it, after all processes came here.
  bool leave(std::string &error);
  /// Ends all processes of the job; returns if there is no job.
  void end(ExitCode code);

  int size() const { return numProcesses; }
  int rank() const { return number; }

  /// After a collective timed out: a sentence on which processes still answer,
  /// some seconds later.
  std::string rollCall();

  /// Makes the context for `options`: the same backend on all processes, and on
  /// cuda a GPU for each.
  te_rt_status createContext(const Options &options, te_rt_context **context,
                             std::string &error);

  /// Binds every group that the module of `step` declares.
  te_rt_status bindGroups(const mlir::te::CompiledStep &step,
                          te_rt_context &context, std::string &error);

private:
  bool exists() const { return mpi || tcp; }
  bool joinMpi(std::string &error);
  bool joinTcp(const te_tcp_options &options, std::string &error);
  bool loadMpi(std::string &error);
  /// A communicator of these processes, or a message.
  te_rt_status connect(int32_t tag, const std::vector<int32_t> &ranks,
                       te_rt_communicator &members, char *message);
  /// Receives `bytes` of every process.
  te_rt_status gather(const void *send, void *receive, int64_t bytes,
                      std::string &error);
  te_rt_status bind(te_rt_context &context, int32_t group,
                    const std::vector<int32_t> &ranks, std::string &error);

  te_mpi *mpi = nullptr;
  te_tcp *tcp = nullptr;
  /// On this host, the number of the process: that of its GPU.
  int localRank = 0;
  int numProcesses = 1, number = 0;
  int64_t timeout = 0; // milliseconds
  te_rt_communicator everybody = {};

  // Of libte_mpi.
  decltype(&te_mpi_create) create = nullptr;
  decltype(&te_mpi_destroy) destroy = nullptr;
  decltype(&te_mpi_abort) abort = nullptr;
  decltype(&te_mpi_size) sizeOf = nullptr;
  decltype(&te_mpi_rank) rankOf = nullptr;
  decltype(&te_mpi_local_rank) localRankOf = nullptr;
  decltype(&te_mpi_communicator) communicator = nullptr;
};

/// The ranks of `rank`'s group along `axis` of a mesh with these axis sizes,
/// the last one fastest.
std::vector<int32_t> ranksAlong(const std::vector<int64_t> &axisSizes,
                                size_t axis, int64_t rank);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_JOB_H
