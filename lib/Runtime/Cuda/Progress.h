//===- Progress.h - which collective each stream has reached --------------===//
//
// NCCL does not report what it waits for, and neither does a stream. Before
// each collective, the stream therefore writes the number of the plan to host
// memory, where the host can read it while the device waits. A captured step
// contains this write of four bytes too.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CUDA_PROGRESS_H
#define TE_RUNTIME_CUDA_PROGRESS_H

#include "Core/Backend.h"
#include "Cuda/CudaDevice.h"

#include <map>

namespace te::rt::cuda {

class NcclGroup;

class Progress {
public:
  explicit Progress(const CudaDevice &device) : device(device) {}
  ~Progress();
  Progress(const Progress &) = delete;

  /// Allocates the memory, before the first collective.
  Status allocate();

  /// Returns a number for `plan`, which is a collective of `group`.
  uint32_t add(const Plan &plan, const NcclGroup &group);
  void remove(uint32_t number) { collectives.erase(number); }

  /// Enqueues a write that `stream` has reached collective `number`.
  Status reach(uint32_t number, CUstream stream);

  /// The collectives that the streams reached last, such as "all_reduce_sum
  /// (slot 3): group 0 (rank 1 of 4)", joined by "or". For one stream it is the
  /// collective that waits. Empty if there was none.
  std::string describe() const;

private:
  static constexpr size_t kWords = 256;
  struct Collective {
    const Plan *plan;
    const NcclGroup *group;
  };

  const CudaDevice &device;
  /// One number for each stream, zero until it reaches a collective.
  volatile uint32_t *words = nullptr;
  std::map<CUstream, size_t> places;
  std::map<uint32_t, Collective> collectives;
  uint32_t lastNumber = 0;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_PROGRESS_H
