//===- Progress.h - which collective each stream has come to --------------===//
//
// NCCL does not say what it waits for, and a stream cannot be asked. So it
// writes, before each collective, the number of the plan to host memory, where
// it can be read whatever the device waits for. That is four bytes that a
// captured step writes too.
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

  /// Makes the memory; before the first collective.
  Status allocate();

  /// A number for `plan`, a collective of `group`.
  uint32_t add(const Plan &plan, const NcclGroup &group);
  void remove(uint32_t number) { collectives.erase(number); }

  /// Enqueues that `stream` has come to collective `number`.
  Status reach(uint32_t number, CUstream stream);

  /// What streams have come to last, as "all_reduce_sum (slot 3): group 0 (rank
  /// 1 of 4)", joined by "or": of one stream it is the one that waits. Empty
  /// where there was none.
  std::string describe() const;

private:
  static constexpr size_t kWords = 256;
  struct Collective {
    const Plan *plan;
    const NcclGroup *group;
  };

  const CudaDevice &device;
  /// One for each stream; zero until it came to a collective.
  volatile uint32_t *words = nullptr;
  std::map<CUstream, size_t> places;
  std::map<uint32_t, Collective> collectives;
  uint32_t lastNumber = 0;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_PROGRESS_H
