//===- GroupFault.cpp - a process that fails in the middle of a step ------===//
//
// te-group-fault FAULT TIMEOUT_MS [TOKEN] is started by faults.py under mpirun.
// After one successful collective, the last rank does what FAULT names, and the
// others continue with the next collective. A rank that gets an error prints it
// and ends the job.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Mpi/Processes.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include <unistd.h>

using namespace te::processes;

namespace {

Process::PlanFunction sum(int32_t group) {
  return [=](te_rt_instance *instance) {
    return te_rt_plan_all_reduce_sum(instance, 0, 3, TE_RT_F32, jobSize(),
                                     group);
  };
}

void expectOk(te_rt_status status, const Process &process) {
  if (status == TE_RT_OK)
    return;
  std::fprintf(stderr, "rank %d: status %d: %s\n", jobRank(), status,
               process.message.c_str());
  std::fflush(stderr);
  // Every rank that waits prints its error before the first one ends the job.
  usleep(300000);
  te_mpi_abort(job(), 3);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  const std::string_view fault = argv[1];
  Process process(std::atoi(argv[2]));
  std::vector<int32_t> all(static_cast<size_t>(jobSize()));
  std::iota(all.begin(), all.end(), 0);
  const bool isVictim = jobRank() == jobSize() - 1;

  if (fault == "no-bind" && isVictim)
    pause();
  expectOk(process.bind(0, all), process);
  expectOk(process.bind(1, all), process);
  float x[3] = {1, 2, 3}, y[3];
  expectOk(process.run(sum(0), x, y), process);
  if (isVictim) {
    if (fault == "killed")
      std::raise(SIGKILL);
    if (fault == "stopped")
      std::raise(SIGSTOP);
    if (fault == "aborted")
      std::abort();
    if (fault == "left")
      _exit(0);
    // This rank waits in the other group, which no other rank uses.
    if (fault == "order")
      expectOk(process.run(sum(1), x, y), process);
  }
  expectOk(process.run(sum(0), x, y), process);
  char message[TE_RT_MESSAGE_BYTES];
  if (te_mpi_destroy(job(), 60000, message) != TE_RT_OK)
    te_mpi_abort(job(), 4);
  return 0;
}
