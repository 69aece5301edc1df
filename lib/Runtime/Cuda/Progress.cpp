//===- Progress.cpp - which collective each stream has reached ------------===//
//
// See Progress.h.
//
//===----------------------------------------------------------------------===//

#include "Cuda/Progress.h"

#include "Cuda/Nccl.h"

#include <set>

namespace te::rt::cuda {

Progress::~Progress() {
  if (words)
    (void)device.driver->cuMemFreeHost(const_cast<uint32_t *>(words));
}

Status Progress::allocate() {
  if (words)
    return Status::ok();
  void *memory = nullptr;
  TE_RT_RETURN_IF_FAILED(device.check(
      device.driver->cuMemHostAlloc(&memory, kWords * sizeof(uint32_t),
                                    CU_MEMHOSTALLOC_DEVICEMAP),
      "cuMemHostAlloc"));
  words = static_cast<uint32_t *>(memory);
  for (size_t i = 0; i < kWords; ++i)
    words[i] = 0;
  return Status::ok();
}

uint32_t Progress::add(const Plan &plan, const NcclGroup &group) {
  collectives[++lastNumber] = {&plan, &group};
  return lastNumber;
}

Status Progress::reach(uint32_t number, CUstream stream) {
  const size_t place =
      places.try_emplace(stream, places.size() % kWords).first->second;
  // The memory has the same address on host and device.
  return device.check(
      device.driver->cuMemsetD32Async(
          reinterpret_cast<CUdeviceptr>(words + place), number, 1, stream),
      "cuMemsetD32Async");
}

std::string Progress::describe() const {
  std::set<uint32_t> reached;
  for (size_t i = 0; words && i < kWords; ++i)
    reached.insert(uint32_t{words[i]});
  std::string text;
  for (uint32_t number : reached) {
    const auto found = collectives.find(number);
    if (found == collectives.end())
      continue;
    const auto &[plan, group] = found->second;
    text += (text.empty() ? "" : " or ") +
            (plan->name().empty() ? "" : plan->name() + ": ") + group->name();
  }
  return text;
}

} // namespace te::rt::cuda
