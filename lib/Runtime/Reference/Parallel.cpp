//===- Parallel.cpp - splitting a loop over threads -----------------------===//
//
// Threads live for one loop: starting them costs tens of microseconds, so loops
// below a few hundred thousand operations run where they are.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <thread>
#include <vector>

namespace te::rt::reference {

void parallelFor(int64_t count, int64_t work,
                 const std::function<void(int64_t, int64_t)> &body) {
  constexpr int64_t kWorkPerThread = 1 << 18, kMaxThreads = 16;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t threads =
      std::min({cores, kMaxThreads, work / kWorkPerThread, count});
  if (threads <= 1)
    return body(0, count);
  std::vector<std::jthread> others;
  for (int64_t t = 1; t < threads; ++t)
    others.emplace_back(
        [=, &body] { body(count * t / threads, count * (t + 1) / threads); });
  body(0, count / threads);
}

} // namespace te::rt::reference
