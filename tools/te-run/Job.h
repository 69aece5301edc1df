//===- Job.h - te-run as one process of several ---------------------------===//
//
// Under a launcher of MPI every process compiles and runs the same step. This
// finds the launcher, loads libte_mpi, and binds the groups that the step names
// to the processes of the job. Without a launcher there is no job, and no MPI
// is loaded.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_JOB_H
#define TE_TOOLS_TE_RUN_JOB_H

#include "Options.h"

#include "TEDialect/JIT/JIT.h"
#include "TEDialect/Runtime/te_runtime_mpi.h"

#include <string>
#include <vector>

namespace te::run {

class Job {
public:
  /// Joins the job that a launcher started this process for, if one did.
  bool join(int64_t timeoutSeconds, std::string &error);
  /// Leaves it, after all processes came here.
  bool leave(std::string &error);
  /// Ends all processes of the job; returns where there is no job.
  void end(ExitCode code);

  int size() const { return mpi ? numProcesses : 1; }
  int rank() const { return mpi ? number : 0; }

  /// Makes the context for `options`: the same backend on all processes, and on
  /// cuda a GPU for each.
  te_rt_status createContext(const Options &options, te_rt_context **context,
                             std::string &error);

  /// Binds every group that the module of `step` declares.
  te_rt_status bindGroups(const mlir::te::CompiledStep &step,
                          te_rt_context &context, std::string &error);

private:
  bool load(std::string &error);
  /// Receives `bytes` of every process.
  te_rt_status gather(const void *send, void *receive, int64_t bytes,
                      std::string &error);
  te_rt_status bind(te_rt_context &context, int32_t group,
                    const std::vector<int32_t> &ranks, std::string &error);

  te_mpi *mpi = nullptr;
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
