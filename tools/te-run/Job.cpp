//===- Job.cpp - te-run as one process of several -------------------------===//
//
// See Job.h.
//
//===----------------------------------------------------------------------===//

#include "Job.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <dlfcn.h>

namespace te::run {

// The job's own; groups have their numbers.
constexpr int32_t kJobTag = 32766;

static const char *const kLibrary = "libte_mpi.so.0";

/// Set for each process by Open MPI, by PMIx launchers (srun --mpi=pmix), and
/// by MPICH and its relatives.
static bool hasLauncher() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMIX_RANK") ||
         std::getenv("PMI_RANK") || std::getenv("PMI_ID");
}

bool Job::load(std::string &error) {
  // Open MPI's components look for its symbols among the global ones.
  void *library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    error = std::string("a launcher of MPI started this process, but '") +
            kLibrary + "' did not load: " + dlerror() +
            "; build with MPI (Debian packages 'openmpi-bin' and "
            "'libopenmpi-dev'), or start one process without a launcher";
    return false;
  }
  const auto find = [&](const char *name, auto &function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(
        dlsym(library, name));
    if (!function)
      error = std::string("'") + kLibrary + "' has no '" + name + "'";
    return function != nullptr;
  };
  return find("te_mpi_create", create) && find("te_mpi_destroy", destroy) &&
         find("te_mpi_abort", abort) && find("te_mpi_size", sizeOf) &&
         find("te_mpi_rank", rankOf) &&
         find("te_mpi_local_rank", localRankOf) &&
         find("te_mpi_communicator", communicator);
}

bool Job::join(int64_t timeoutSeconds, std::string &error) {
  if (!hasLauncher())
    return true;
  if (!load(error))
    return false;
  timeout = timeoutSeconds * 1000;
  char message[TE_RT_MESSAGE_BYTES] = "";
  if (create(&mpi, message) != TE_RT_OK) {
    error = message;
    return false;
  }
  numProcesses = sizeOf(mpi);
  number = rankOf(mpi);
  std::vector<int32_t> all;
  for (int32_t rank = 0; rank < numProcesses; ++rank)
    all.push_back(rank);
  if (communicator(mpi, kJobTag, all.data(), numProcesses, &everybody,
                   message) == TE_RT_OK)
    return true;
  error = message;
  return false;
}

bool Job::leave(std::string &error) {
  if (!mpi)
    return true;
  char message[TE_RT_MESSAGE_BYTES] = "";
  if (destroy(mpi, timeout, message) == TE_RT_OK) {
    mpi = nullptr;
    return true;
  }
  error = std::string("at the end: ") + message;
  return false;
}

void Job::end(ExitCode code) {
  if (!mpi || numProcesses == 1)
    return;
  // Others that fail for the same reason have their say first.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  abort(mpi, code);
}

te_rt_status Job::gather(const void *send, void *receive, int64_t bytes,
                         std::string &error) {
  char message[TE_RT_MESSAGE_BYTES] = "";
  const te_rt_status status = everybody.exchange(
      everybody.user, send, 0, receive, bytes, timeout, message);
  error = message;
  return status;
}

te_rt_status Job::createContext(const Options &options, te_rt_context **context,
                                std::string &error) {
  const auto created = [&](te_rt_status status) {
    error = status == TE_RT_OK ? "" : te_rt_last_error();
    return status;
  };
  if (!mpi)
    return created(te_rt_context_create(options.backend.c_str(), context));

  te_rt_status status = TE_RT_OK;
  std::string backend = options.backend;
  if (backend != "reference") {
    // A GPU for each process of this host.
    status = created(
        te_rt_context_create_on_device("cuda", localRankOf(mpi), context));
    if (status == TE_RT_OK)
      backend = "cuda";
    else if (backend == "auto" && status == TE_RT_UNSUPPORTED)
      backend = "reference";
    else
      return status;
  }
  if (backend == "reference") {
    status = created(te_rt_context_create("reference", context));
    if (status != TE_RT_OK)
      return status;
  }
  std::vector<char> all(static_cast<size_t>(numProcesses));
  if (te_rt_status gathered = gather(backend.data(), all.data(), 1, error))
    return gathered;
  for (int rank = 0; rank < numProcesses; ++rank)
    if (all[static_cast<size_t>(rank)] != backend[0]) {
      error = "expected all processes to have one backend, but rank " +
              std::to_string(number) + " has '" + backend + "' and rank " +
              std::to_string(rank) +
              " another; name it with '--backend', or start a process for each "
              "GPU";
      return TE_RT_INVALID_ARGUMENT;
    }
  return created(te_rt_context_set_group_timeout(*context, timeout));
}

std::vector<int32_t> ranksAlong(const std::vector<int64_t> &axisSizes,
                                size_t axis, int64_t rank) {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < axisSizes.size(); ++i)
    stride *= axisSizes[i];
  const int64_t place = rank / stride % axisSizes[axis];
  std::vector<int32_t> ranks;
  for (int64_t i = 0; i < axisSizes[axis]; ++i)
    ranks.push_back(static_cast<int32_t>(rank + (i - place) * stride));
  return ranks;
}

te_rt_status Job::bind(te_rt_context &context, int32_t group,
                       const std::vector<int32_t> &ranks, std::string &error) {
  const auto size = static_cast<int32_t>(ranks.size());
  const auto bound = [&](te_rt_status status) {
    error = status == TE_RT_OK ? "" : te_rt_last_error();
    return status;
  };
  if (size == 1)
    return bound(te_rt_context_bind_group(&context, group, nullptr, 1, 0));
  te_rt_communicator members;
  char message[TE_RT_MESSAGE_BYTES] = "";
  if (te_rt_status status =
          communicator(mpi, group, ranks.data(), size, &members, message)) {
    error = message;
    return status;
  }
  if (llvm::StringRef(te_rt_context_backend(&context)) == "reference")
    return bound(te_rt_context_bind_communicator(&context, group, &members));

  // The first rank's id goes to the others. Without one it sends zeros, so that
  // nobody waits for it.
  char id[TE_RT_GROUP_ID_BYTES] = "";
  te_rt_status status = TE_RT_OK;
  if (members.rank == 0)
    status = bound(te_rt_group_unique_id(id));
  std::vector<char> ids(static_cast<size_t>(size) * sizeof(id));
  if (te_rt_status sent = members.exchange(members.user, id, 0, ids.data(),
                                           sizeof(id), timeout, message)) {
    error = message;
    return sent;
  }
  if (status != TE_RT_OK)
    return status;
  return bound(te_rt_context_bind_group(&context, group, ids.data(), size,
                                        members.rank));
}

te_rt_status Job::bindGroups(const mlir::te::CompiledStep &step,
                             te_rt_context &context, std::string &error) {
  llvm::MapVector<llvm::StringRef, int64_t> axes;
  for (const mlir::te::GroupInfo &group : step.groups())
    axes.insert({group.axis, group.size});
  std::vector<int64_t> sizes;
  int64_t ranks = 1;
  for (const auto &[axis, size] : axes) {
    sizes.push_back(size);
    ranks *= size;
  }
  if (ranks != numProcesses) {
    error = "expected " + std::to_string(ranks) +
            " processes, the ranks of the groups of the module, but got " +
            std::to_string(numProcesses) + "; start them with 'mpirun -n " +
            std::to_string(ranks) + " te-run ...'";
    if (!mpi && std::getenv("WORLD_SIZE"))
      error += "; the variables of torchrun are not read";
    return TE_RT_INVALID_ARGUMENT;
  }
  if (!mpi)
    return TE_RT_OK;
  // In the order of the module, so that all processes bind in one order.
  for (const mlir::te::GroupInfo &group : step.groups()) {
    const auto axis = static_cast<size_t>(axes.find(group.axis) - axes.begin());
    if (te_rt_status status =
            bind(context, group.id, ranksAlong(sizes, axis, number), error))
      return status;
  }
  return TE_RT_OK;
}

} // namespace te::run
