//===- Job.cpp - te-run as one process of several -------------------------===//
//
// See Job.h.
//
//===----------------------------------------------------------------------===//

#include "Job.h"

#include "Support/Files.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <cerrno>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace te::run {

// The job's own; groups have their numbers.
constexpr int32_t kJobTag = 32766;

static const char *const kLibrary = "libte_mpi.so.0";

//===----------------------------------------------------------------------===//
// Launchers
//===----------------------------------------------------------------------===//

/// A variable of a launcher; nothing else of the environment is read.
static const char *fromLauncher(const char *variable) {
  return std::getenv(variable);
}

/// Set for each process by Open MPI, by PMIx launchers (srun --mpi=pmix), and
/// by MPICH and its relatives.
static bool hasMpiLauncher() {
  return fromLauncher("OMPI_COMM_WORLD_SIZE") || fromLauncher("PMIX_RANK") ||
         fromLauncher("PMI_RANK") || fromLauncher("PMI_ID");
}

namespace {

/// A launcher that says only where the first process is.
struct Place {
  int size = 1, rank = 0, localRank = 0;
  std::string host, job, secret;
  int port = 0;
};

class Environment {
public:
  /// The number in `variable`; sets `error` where it is not one.
  int number(const char *variable, int least, int most) {
    const char *text = fromLauncher(variable);
    int value = 0;
    if (!text)
      fail(std::string("expected '") + variable + "' to be set");
    else if (llvm::StringRef(text).getAsInteger(10, value) || value < least ||
             value > most)
      fail(std::string("expected '") + variable + "' to be a number from " +
           std::to_string(least) + " to " + std::to_string(most) +
           ", but got '" + text + "'");
    return value;
  }
  std::string text(const char *variable) {
    const char *text = fromLauncher(variable);
    if (!text || !*text)
      fail(std::string("expected '") + variable + "' to be set");
    return text ? text : "";
  }
  void fail(std::string message) {
    if (error.empty())
      error = std::move(message);
  }
  std::string error;
};

} // namespace

static std::string orEmpty(const char *variable) {
  const char *text = fromLauncher(variable);
  return text ? text : "";
}

/// Reads what the processes of a job prove to each other: the text in
/// TE_JOB_SECRET, or in the file TE_JOB_SECRET_FILE, which only its owner may
/// read. Empty if neither is set.
static std::string readSecret(std::string &error) {
  if (std::string secret = orEmpty("TE_JOB_SECRET"); !secret.empty())
    return secret;
  const std::string path = orEmpty("TE_JOB_SECRET_FILE");
  if (path.empty())
    return "";
  constexpr off_t kMost = 4096;
  struct stat status = {};
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string secret;
  if (file < 0 || fstat(file, &status) != 0) {
    error = "cannot read 'TE_JOB_SECRET_FILE' " + support::inQuotes(path) +
            ": " + std::strerror(errno);
  } else if (!S_ISREG(status.st_mode) || status.st_mode & 077 ||
             status.st_uid != geteuid() || status.st_size > kMost) {
    error = "expected 'TE_JOB_SECRET_FILE' " + support::inQuotes(path) +
            " to be a file of this user, of mode 600 and at most " +
            std::to_string(kMost) + " bytes; 'chmod 600' makes it one";
  } else {
    secret.resize(status.st_size);
    const ssize_t got = read(file, secret.data(), secret.size());
    secret.resize(std::max<ssize_t>(got, 0));
    // Of an editor.
    while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r'))
      secret.pop_back();
    if (secret.empty())
      error = "expected 'TE_JOB_SECRET_FILE' " + support::inQuotes(path) +
              " not to be empty";
  }
  if (file >= 0)
    close(file);
  return secret;
}

/// Reads the variables of torchrun and other launchers of torch.distributed, or
/// those of srun. False if neither is set, or with an `error`.
static bool findPlace(Place &place, std::string &error) {
  Environment environment;
  constexpr int kMost = 1 << 20;
  std::string launcher;
  if (fromLauncher("RANK") && fromLauncher("WORLD_SIZE")) {
    launcher = "'RANK' and 'WORLD_SIZE' are set, as by torchrun";
    place.size = environment.number("WORLD_SIZE", 1, kMost);
    place.rank = environment.number("RANK", 0, kMost);
    // A launcher of one process for each host may leave it out.
    if (fromLauncher("LOCAL_RANK"))
      place.localRank = environment.number("LOCAL_RANK", 0, kMost);
    place.job = "torch " + orEmpty("TORCHELASTIC_RUN_ID") + " " +
                orEmpty("TORCHELASTIC_RESTART_COUNT");
  } else if (fromLauncher("SLURM_PROCID") && fromLauncher("SLURM_STEP_ID")) {
    // Those of the step, if srun starts a part of the job; a batch script,
    // which is not a process of a step, has neither.
    launcher = "srun started this process";
    place.size = environment.number(fromLauncher("SLURM_STEP_NUM_TASKS")
                                        ? "SLURM_STEP_NUM_TASKS"
                                        : "SLURM_NTASKS",
                                    1, kMost);
    place.rank = environment.number("SLURM_PROCID", 0, kMost);
    place.localRank = environment.number("SLURM_LOCALID", 0, kMost);
    place.job =
        "slurm " + orEmpty("SLURM_JOB_ID") + " " + orEmpty("SLURM_STEP_ID");
  } else {
    return false;
  }
  if (environment.error.empty() && place.size > 1) {
    place.host = environment.text("MASTER_ADDR");
    place.port = environment.number("MASTER_PORT", 1, 65000);
    // The agent of torchrun has a store of its own there.
    if (orEmpty("TORCHELASTIC_USE_AGENT_STORE") == "True")
      ++place.port;
    // Launchers without a number of the job give its jobs different ports.
    place.job +=
        " " + std::to_string(place.port) + " " + std::to_string(geteuid());
    std::string secretError;
    place.secret = readSecret(secretError);
    if (!secretError.empty())
      environment.fail(secretError);
  }
  if (environment.error.empty() && place.rank >= place.size)
    environment.fail("expected the rank of this process to be below " +
                     std::to_string(place.size) + ", but got " +
                     std::to_string(place.rank));
  if (!environment.error.empty())
    error = launcher + ", but " + environment.error;
  return environment.error.empty();
}

bool Job::loadMpi(std::string &error) {
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

bool Job::joinMpi(std::string &error) {
  if (!loadMpi(error))
    return false;
  char message[TE_RT_MESSAGE_BYTES] = "";
  if (create(&mpi, message) != TE_RT_OK) {
    error = message;
    return false;
  }
  numProcesses = sizeOf(mpi);
  number = rankOf(mpi);
  localRank = localRankOf(mpi);
  return true;
}

bool Job::joinTcp(const te_tcp_options &options, std::string &error) {
#if TE_HAS_TCP
  char message[TE_RT_MESSAGE_BYTES] = "";
  const te_rt_status status = te_tcp_create(&options, &tcp, message);
  if (status == TE_RT_OK)
    return true;
  error = message;
  if (status == TE_RT_INVALID_ARGUMENT && !options.secret)
    error +=
        "; 'TE_JOB_SECRET' or 'TE_JOB_SECRET_FILE', set for all processes, "
        "is the secret of a job";
#else
  error = "torchrun or srun started this process, but this te-run was built "
          "without Asio (Debian package 'libasio-dev'); use 'mpirun'";
#endif
  return false;
}

bool Job::join(int64_t timeoutSeconds, std::string &error) {
  timeout = timeoutSeconds * 1000;
  Place place;
  // A launcher of MPI may have been started by another one, and the other way
  // round; torchrun's agent is the one that names itself.
  const bool torch = fromLauncher("TORCHELASTIC_RUN_ID");
  if (!torch && hasMpiLauncher()) {
    if (!joinMpi(error))
      return false;
  } else if (findPlace(place, error)) {
    if (place.size == 1)
      return true;
    numProcesses = place.size;
    number = place.rank;
    localRank = place.localRank;
    // Others may have taken a port, so a few are tried.
    if (!joinTcp({place.host.c_str(), place.port, 16, place.job.c_str(),
                  place.size, place.rank, timeout,
                  place.secret.empty() ? nullptr : place.secret.c_str()},
                 error))
      return false;
  } else {
    return error.empty();
  }
  std::vector<int32_t> all;
  for (int32_t rank = 0; rank < numProcesses; ++rank)
    all.push_back(rank);
  char message[TE_RT_MESSAGE_BYTES] = "";
  if (connect(kJobTag, all, everybody, message) == TE_RT_OK)
    return true;
  error = message;
  return false;
}

te_rt_status Job::connect(int32_t tag, const std::vector<int32_t> &ranks,
                          te_rt_communicator &members, char *message) {
  const auto size = static_cast<int32_t>(ranks.size());
#if TE_HAS_TCP
  if (tcp)
    return te_tcp_communicator(tcp, tag, ranks.data(), size, &members, message);
#endif
  return communicator(mpi, tag, ranks.data(), size, &members, message);
}

//===----------------------------------------------------------------------===//
// Leaving
//===----------------------------------------------------------------------===//

bool Job::leave(std::string &error) {
  if (!exists())
    return true;
  char message[TE_RT_MESSAGE_BYTES] = "";
  te_rt_status status = TE_RT_OK;
#if TE_HAS_TCP
  if (tcp)
    status = te_tcp_destroy(std::exchange(tcp, nullptr), timeout, message);
#endif
  if (mpi && (status = destroy(mpi, timeout, message)) == TE_RT_OK)
    mpi = nullptr;
  if (status == TE_RT_OK)
    return true;
  error = std::string("at the end: ") + message;
  return false;
}

void Job::end(ExitCode code) {
  if (!exists() || numProcesses == 1)
    return;
  // Others that fail for the same reason have their say first.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (mpi)
    abort(mpi, code);
  // With this process its connections end, which the others see. What is left
  // of a collective on a GPU must not be waited for.
  std::_Exit(code);
}

std::string Job::rollCall() {
  // All that wait for a process do so for as long, and come here.
  constexpr int64_t kPatience = 1500;
  if (!exists())
    return "there are no other processes";
  char message[TE_RT_MESSAGE_BYTES] = "";
  std::vector<char> all(static_cast<size_t>(numProcesses));
  if (everybody.exchange(everybody.user, "", 0, all.data(), 1, kPatience,
                         message) == TE_RT_OK)
    return "all processes of the job still answer, so they wait in different "
           "collectives, or one is slow";
  return std::string("asked again, ") + message;
}

//===----------------------------------------------------------------------===//
// Contexts and groups
//===----------------------------------------------------------------------===//

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
  if (!exists())
    return created(te_rt_context_create(options.backend.c_str(), context));

  te_rt_status status = TE_RT_OK;
  std::string backend = options.backend;
  if (backend != "reference") {
    // A GPU for each process of this host.
    status =
        created(te_rt_context_create_on_device("cuda", localRank, context));
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
  if (te_rt_status status = connect(group, ranks, members, message)) {
    error = message;
    return status;
  }
  if (llvm::StringRef(te_rt_context_backend(&context)) == "reference")
    return bound(te_rt_context_bind_communicator(&context, group, &members));

  // The first rank's id goes to the others. Without one it sends zeros, so that
  // no rank waits for it.
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
            std::to_string(ranks) + " te-run ...' or 'torchrun --no-python " +
            "--nproc-per-node=" + std::to_string(ranks) + " te-run ...'";
    return TE_RT_INVALID_ARGUMENT;
  }
  if (!exists())
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
