//===- Processes.h - one process of a job, with a context -----------------===//
//
// Helpers of both programs in this folder: the job, groups given as lists of
// ranks, and steps with one launch.
//
//===----------------------------------------------------------------------===//

#ifndef TE_UNITTEST_RUNTIME_MPI_PROCESSES_H
#define TE_UNITTEST_RUNTIME_MPI_PROCESSES_H

#include "TEDialect/Runtime/te_runtime_compiled.h"
#include "TEDialect/Runtime/te_runtime_mpi.h"

#include <functional>
#include <string>
#include <vector>

namespace te::processes {

/// This process's job, which the first call joins.
te_mpi *job();
int jobSize();
int jobRank();

/// A context of the reference backend.
class Process {
public:
  explicit Process(int64_t timeout);
  ~Process();
  Process(const Process &) = delete;

  /// Binds group `number` to the processes `ranks` of the job. Returns the
  /// status, with the text in `message`.
  te_rt_status bind(int32_t number, const std::vector<int32_t> &ranks);
  te_rt_status bind(int32_t number, const te_rt_communicator &communicator);

  using PlanFunction = std::function<te_rt_status(te_rt_instance *)>;
  /// Plans one collective and runs it on x and y.
  te_rt_status run(const PlanFunction &plan, const void *x, void *y);

  std::string message;

private:
  te_rt_context *context = nullptr;
};

/// A communicator of the job; ends the job if there is none.
te_rt_communicator communicatorOf(int32_t tag,
                                  const std::vector<int32_t> &ranks);

} // namespace te::processes

#endif // TE_UNITTEST_RUNTIME_MPI_PROCESSES_H
