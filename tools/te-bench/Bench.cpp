//===- Bench.cpp - timing and rows shared by the benchmarks ---------------===//

#include "Bench.h"

#include "TEDialect/Pipelines/PipelineGuard.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace te::bench;

void te::bench::check(te_rt_status status, const char *what) {
  if (status == TE_RT_OK)
    return;
  llvm::errs() << "te-bench: " << what << ": " << te_rt_last_error() << "\n";
  std::exit(status == TE_RT_INTERNAL ? mlir::te::kInternal
                                     : mlir::te::kDiagnostics);
}

/// Milliseconds of `count` repetitions from `first` on.
static double timeRun(te_rt_context *context, int64_t first, int64_t count,
                      const std::function<void(int64_t)> &enqueue) {
  float milliseconds = 0;
  check(te_rt_timer_mark(context, 0), "timer");
  for (int64_t i = 0; i < count; ++i)
    enqueue(first + i);
  check(te_rt_timer_mark(context, 1), "timer");
  check(te_rt_timer_elapsed_ms(context, &milliseconds), "timer");
  return milliseconds;
}

/// The number of repetitions that take `ms`. The first run pays for lazy
/// loading.
static int64_t repetitions(te_rt_context *context, const Effort &effort,
                           double ms,
                           const std::function<void(int64_t)> &enqueue) {
  const int64_t least = effort.leastRepetitions;
  timeRun(context, 0, least, enqueue);
  const double once = timeRun(context, 0, least, enqueue) / least;
  return std::max(least, static_cast<int64_t>(ms / std::max(once, 1e-3)));
}

double
te::bench::measureSustained(te_rt_context *context, const Effort &effort,
                            const std::function<void(int64_t)> &enqueue) {
  const int64_t half =
      repetitions(context, effort, effort.sustainedMs / 2, enqueue);
  // The first half only warms the chip.
  timeRun(context, 0, half, enqueue);
  return timeRun(context, half, half, enqueue) / half;
}

Timing te::bench::measure(te_rt_context *context, const Effort &effort,
                          const std::function<void(int64_t)> &enqueue) {
  std::vector<double> rounds;
  const int64_t count = repetitions(context, effort, effort.burstMs, enqueue);
  for (int round = 0; round < effort.burstRounds; ++round) {
    std::this_thread::sleep_for(
        std::chrono::duration<double, std::milli>(effort.idleMs));
    rounds.push_back(timeRun(context, round * count, count, enqueue) / count);
  }
  std::sort(rounds.begin(), rounds.end());
  return {rounds[rounds.size() / 2],
          measureSustained(context, effort, enqueue)};
}

DeviceBuffers::~DeviceBuffers() {
  for (void *pointer : pointers)
    te_rt_free(context, pointer);
}

void *DeviceBuffers::allocate(int64_t bytes) {
  void *pointer = nullptr;
  check(te_rt_alloc(context, bytes, &pointer), "allocation");
  pointers.push_back(pointer);
  return pointer;
}

void *DeviceBuffers::allocateFilled(int64_t count, float value) {
  const std::vector<float> values(static_cast<size_t>(count), value);
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  void *pointer = allocate(bytes);
  check(te_rt_copy_to_device(context, pointer, values.data(), bytes), "copy");
  return pointer;
}

void *DeviceBuffers::allocateCopy(const std::vector<int32_t> &values) {
  const auto bytes = static_cast<int64_t>(4 * values.size());
  void *pointer = allocate(bytes);
  check(te_rt_copy_to_device(context, pointer, values.data(), bytes), "copy");
  return pointer;
}

void *DeviceBuffers::allocateRandom(int64_t count, te_rt_dtype type,
                                    float sigma) {
  // One block of distinct values, repeated: power and numerics behave as on
  // random data, and filling gigabytes stays quick.
  constexpr int64_t period = (1 << 20) + 7;
  std::normal_distribution<float> normal(0.0f, sigma);
  const int64_t size = type == TE_RT_F32 || type == TE_RT_I32    ? 4
                       : type == TE_RT_BF16 || type == TE_RT_F16 ? 2
                                                                 : 1;
  const int64_t distinct = std::min(count, period);
  std::vector<char> host(count * size);
  for (int64_t i = 0; i < distinct; ++i) {
    char *to = host.data() + i * size;
    if (type == TE_RT_F32) {
      float value = std::fabs(normal(generator)) + 1e-3f;
      std::memcpy(to, &value, 4);
    } else if (type == TE_RT_I32) {
      int32_t value = static_cast<int32_t>(generator() % 1000);
      std::memcpy(to, &value, 4);
    } else if (type == TE_RT_BF16) {
      float value = normal(generator);
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      uint16_t half = static_cast<uint16_t>(bits >> 16);
      std::memcpy(to, &half, 2);
    } else if (sigma != 0) { // else 0
      // E4M3 of a normal value scaled to use the range; E5M2 reads the same
      // bytes as finite values too.
      uint8_t exponent = static_cast<uint8_t>(
          std::clamp(10.0f + normal(generator) / sigma * 2.0f, 1.0f, 14.0f));
      *to = static_cast<char>((generator() & 0x87) | (exponent << 3));
    }
  }
  for (int64_t done = distinct; done < count; done += distinct)
    std::memcpy(host.data() + done * size, host.data(),
                std::min(distinct, count - done) * size);
  void *pointer = allocate(count * size);
  check(te_rt_copy_to_device(context, pointer, host.data(), count * size),
        "copy");
  return pointer;
}
