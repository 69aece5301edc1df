//===- HostGroup.h - a group of processes on the reference backend --------===//
//
// The host program's communicator moves bytes; everything else is here. Before
// a collective moves its data the ranks tell each other which one it is, so
// that programs that disagree end with a text instead of with each other's
// bytes.
//
// A group that failed once stays failed: its ranks no longer agree on what
// comes next.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_REFERENCE_HOSTGROUP_H
#define TE_RUNTIME_REFERENCE_HOSTGROUP_H

#include "Core/Kernels.h"
#include "Core/Status.h"
#include "TEDialect/Runtime/te_runtime.h"

#include <vector>

namespace te::rt::reference {

/// For a type, where a collective moves bytes.
constexpr int32_t kBytes = -1;

class HostGroup {
public:
  /// `timeout` is the context's, in milliseconds, and may change later.
  HostGroup(int32_t number, const te_rt_communicator &communicator,
            const int64_t &timeout)
      : number(number), communicator(communicator), timeout(timeout) {}

  int32_t size() const { return communicator.size; }
  int32_t rank() const { return communicator.rank; }

  /// Waits until all ranks came here for the first time, and checks that every
  /// one is where this one believes it is.
  Status greet();

  /// Begins the collective `kernel` (a string that is never freed) on `count`
  /// elements of `type`. An error on all ranks if they do not agree.
  Status begin(const char *kernel, int64_t count, int32_t type);

  /// Receives `bytes` of every rank, in their order. All ranks get the same
  /// bytes if `stride` is 0; otherwise those at `send` + r * stride go to rank
  /// r.
  Status exchange(const void *send, int64_t stride, void *receive,
                  int64_t bytes);

private:
  /// What the ranks tell each other about a collective.
  struct Announcement {
    int64_t sequence, count;
    int32_t group, size, rank, type;
    char kernel[32];
  };

  Status announce(const Announcement &mine, std::vector<Announcement> *all);
  Status fail(te_rt_status code, std::string message);

  const int32_t number;
  const te_rt_communicator communicator;
  const int64_t &timeout;
  int64_t sequence = 0;
  Status failure;
};

/// Kernels that depend on the number of this rank, without communication.
Status overGroup(const partial_amax_params &p, HostGroup &group,
                 void *const *buffers);
Status overGroup(const quantize_nvfp4_shard_params &p, HostGroup &group,
                 void *const *buffers);
Status overGroup(const quantize_shard_params &p, HostGroup &group,
                 void *const *buffers);

/// The collectives over a group of several ranks.
Status overGroup(const all_gather_params &p, HostGroup &group,
                 void *const *buffers);
Status overGroup(const all_reduce_max_params &p, HostGroup &group,
                 void *const *buffers);
Status overGroup(const all_reduce_sum_params &p, HostGroup &group,
                 void *const *buffers);
Status overGroup(const all_to_all_params &p, HostGroup &group,
                 void *const *buffers);
Status overGroup(const reduce_scatter_sum_params &p, HostGroup &group,
                 void *const *buffers);

} // namespace te::rt::reference

#endif // TE_RUNTIME_REFERENCE_HOSTGROUP_H
