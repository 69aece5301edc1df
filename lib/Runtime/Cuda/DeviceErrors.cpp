//===- DeviceErrors.cpp - errors that kernels find in device memory -------===//
//
// See DeviceErrors.h.
//
//===----------------------------------------------------------------------===//

#include "Cuda/DeviceErrors.h"

#include <atomic>
#include <utility>

namespace te::rt::cuda {

DeviceErrors::~DeviceErrors() {
  if (word)
    (void)device.driver->cuMemFreeHost(word);
}

Status DeviceErrors::add(Describe describe, std::shared_ptr<Source> *source) {
  if (!word) {
    void *memory = nullptr;
    TE_RT_RETURN_IF_FAILED(
        device.check(device.driver->cuMemHostAlloc(&memory, 2 * sizeof(*word),
                                                   CU_MEMHOSTALLOC_DEVICEMAP),
                     "cuMemHostAlloc"));
    // The memory has the same address on host and device.
    word = static_cast<uint64_t *>(memory);
    word[0] = word[1] = 0;
  }
  *source = std::make_shared<Source>(*this, ++lastNumber, std::move(describe));
  sources[lastNumber] = source->get();
  return Status::ok();
}

// Its plan still exists: it owns the source.
DeviceErrors::Source::~Source() {
  if (std::atomic_ref(*errors.word).load() >> 32 == number)
    errors.left = errors.read();
  errors.sources.erase(number);
}

Status DeviceErrors::read() {
  // The value is read first: the kernel of the next error may write it as soon
  // as the word is empty.
  const uint64_t found = std::atomic_ref(*word).load();
  const uint64_t value = std::atomic_ref(word[1]).load();
  const uint64_t error = std::atomic_ref(*word).exchange(0);
  const auto source = sources.find(static_cast<uint32_t>(error >> 32));
  if (source == sources.end())
    return Status::ok();
  const Plan *const plan = source->second->plan;
  return {TE_RT_INVALID_ARGUMENT,
          (plan ? plan->name() + ": " : "") +
              source->second->describe(
                  static_cast<uint32_t>(error),
                  found == error && value >> 32 == error >> 32
                      ? std::optional(static_cast<int32_t>(value))
                      : std::nullopt)};
}

Status DeviceErrors::take() {
  if (left.failed())
    return std::exchange(left, Status::ok());
  return word ? read() : Status::ok();
}

} // namespace te::rt::cuda
