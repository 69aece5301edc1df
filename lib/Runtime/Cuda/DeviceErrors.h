//===- DeviceErrors.h - errors that kernels find in device memory ---------===//
//
// A launch does not wait for the values that its kernels read. A kernel that
// finds them malformed computes nothing and writes an error word to host
// memory, which the host reads at the next synchronisation or step. This works
// in captured graphs too, whose replays run no code of the host.
//
// A word has the number of its source in the upper half and a detail of the
// kernel in the lower one, so that it is written in one piece. The word behind
// it has the value that is malformed in its lower half; it is written first. A
// kernel writes only where no error is, so the first one is reported. If two
// kernels on two streams write at once, one of them is, and if the value is of
// the other one, it is left out.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CUDA_DEVICEERRORS_H
#define TE_RUNTIME_CUDA_DEVICEERRORS_H

#include "Core/Backend.h"
#include "Cuda/CudaDevice.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace te::rt::cuda {

class DeviceErrors {
public:
  explicit DeviceErrors(const CudaDevice &device) : device(device) {}
  ~DeviceErrors();
  DeviceErrors(const DeviceErrors &) = delete;

  /// What a detail and the malformed value mean, for a message.
  using Describe =
      std::function<std::string(uint32_t detail, std::optional<int32_t> value)>;

  /// A plan whose kernels may write the word. It exists as long as the plan.
  class Source {
  public:
    Source(DeviceErrors &errors, uint32_t number, Describe describe)
        : describe(std::move(describe)), errors(errors), number(number) {}
    ~Source();
    Source(const Source &) = delete;

    /// The word, and behind it that of the value.
    uint64_t *word() const { return errors.word; }
    /// The word of detail 0, and that of the value 0.
    uint64_t first() const { return uint64_t{number} << 32; }

    /// Messages name it.
    const Plan *plan = nullptr;
    const Describe describe;

  private:
    DeviceErrors &errors;
    const uint32_t number;
  };
  Status add(Describe describe, std::shared_ptr<Source> *source);

  /// Returns the error that was written since the last call, if there is one.
  Status take();

private:
  /// Empties the word.
  Status read();

  const CudaDevice &device;
  /// Zero, or an error, and behind it the value. Null until there is a source.
  uint64_t *word = nullptr;
  std::map<uint32_t, const Source *> sources;
  uint32_t lastNumber = 0;
  /// The error of a source that does not exist any more.
  Status left;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_DEVICEERRORS_H
