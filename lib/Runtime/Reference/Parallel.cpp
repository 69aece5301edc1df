//===- Parallel.cpp - splitting a loop over threads -----------------------===//
//
// Threads live for one loop: starting them costs tens of microseconds, so loops
// below a few hundred thousand operations run where they are.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <exception>
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
  // What a body throws ends the loop's caller, and not the process.
  std::vector<std::exception_ptr> failures(threads);
  const auto run = [&](int64_t t) {
    try {
      body(count * t / threads, count * (t + 1) / threads);
    } catch (...) {
      failures[t] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(threads - 1);
    for (int64_t t = 1; t < threads; ++t)
      others.emplace_back(run, t);
    run(0);
  }
  for (const std::exception_ptr &failure : failures)
    if (failure)
      std::rethrow_exception(failure);
}

} // namespace te::rt::reference
