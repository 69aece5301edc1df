//===- Processes.cpp - one process of a job, with a context ---------------===//

#include "Runtime/Mpi/Processes.h"

#include <cstdio>
#include <cstdlib>

namespace te::processes {

static void endJob(const char *message) {
  std::fprintf(stderr, "te-group-test: %s\n", message);
  std::_Exit(1);
}

te_mpi *job() {
  static te_mpi *const joined = [] {
    te_mpi *mpi = nullptr;
    char message[TE_RT_MESSAGE_BYTES];
    if (te_mpi_create(&mpi, message) != TE_RT_OK)
      endJob(message);
    return mpi;
  }();
  return joined;
}
int jobSize() { return te_mpi_size(job()); }
int jobRank() { return te_mpi_rank(job()); }

te_rt_communicator communicatorOf(int32_t tag,
                                  const std::vector<int32_t> &ranks) {
  te_rt_communicator communicator;
  char message[TE_RT_MESSAGE_BYTES];
  if (te_mpi_communicator(job(), tag, ranks.data(),
                          static_cast<int32_t>(ranks.size()), &communicator,
                          message) != TE_RT_OK)
    endJob(message);
  return communicator;
}

Process::Process(int64_t timeout) {
  if (te_rt_context_create("reference", &context) != TE_RT_OK ||
      te_rt_context_set_group_timeout(context, timeout) != TE_RT_OK)
    endJob(te_rt_last_error());
}
Process::~Process() { te_rt_context_destroy(context); }

te_rt_status Process::bind(int32_t number,
                           const te_rt_communicator &communicator) {
  const te_rt_status status =
      te_rt_context_bind_communicator(context, number, &communicator);
  message = te_rt_last_error();
  return status;
}
te_rt_status Process::bind(int32_t number, const std::vector<int32_t> &ranks) {
  return bind(number, communicatorOf(number, ranks));
}

// The functions of a module have only the instance as an argument.
static const Process::PlanFunction *currentPlan;

te_rt_status Process::run(const PlanFunction &plan, const void *x, void *y) {
  currentPlan = &plan;
  const te_rt_module module = {
      TE_RT_MODULE_MAGIC,
      TE_RT_VERSION,
      0,
      1,
      2,
      [](te_rt_instance *instance) { return (*currentPlan)(instance); },
      [](te_rt_instance *instance, char *, void *const *arguments) {
        te_rt_launch(instance, 0, arguments);
      },
      nullptr,
      nullptr,
      0,
      0};
  te_rt_instance *instance = nullptr;
  te_rt_status status = te_rt_instance_create(context, &module, &instance);
  if (status == TE_RT_OK) {
    // An empty vector has no address.
    static char nothing[16];
    // The optional scales of an exchange are absent.
    void *const arguments[] = {x ? const_cast<void *>(x) : nothing,
                               y ? y : nothing, nullptr, nullptr};
    status = te_rt_instance_run(instance, arguments, nullptr);
  }
  message = te_rt_last_error();
  te_rt_instance_destroy(instance);
  return status;
}

} // namespace te::processes
