//===- Ranks.h - several ranks in one process -----------------------------===//
//
// Ranks are threads of this process, each with a GPU of its own (or a part of
// the CPU). All begin a measurement together, and the slowest counts.
//
//===----------------------------------------------------------------------===//

#ifndef TE_BENCH_RANKS_H
#define TE_BENCH_RANKS_H

#include "Bench.h"

#include <algorithm>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace te::bench {

/// As `check`, for threads of ranks: ends the process at once, as other threads
/// may wait for one another forever.
void need(te_rt_status status, const char *what);

/// Some first ranks of a team.
class Ranks {
public:
  explicit Ranks(std::vector<te_rt_context *> contexts)
      : contexts(std::move(contexts)) {}

  int size() const { return static_cast<int>(contexts.size()); }

  /// Runs `body(context, rank)` on a thread for each, and waits for all.
  template <typename Body> void each(Body body) const {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] { body(contexts[rank], rank); });
    for (std::thread &thread : threads)
      thread.join();
  }

  /// Milliseconds of `count` repetitions of `enqueue(rank, i)`, of the slowest.
  template <typename Enqueue>
  double time(int64_t first, int64_t count, Enqueue enqueue) const {
    std::vector<float> milliseconds(contexts.size());
    std::barrier together(size());
    each([&](te_rt_context *context, int rank) {
      need(te_rt_synchronize(context), "synchronize");
      together.arrive_and_wait();
      need(te_rt_timer_mark(context, 0), "timer");
      for (int64_t i = 0; i < count; ++i)
        enqueue(rank, first + i);
      need(te_rt_timer_mark(context, 1), "timer");
      need(te_rt_timer_elapsed_ms(context, &milliseconds[rank]), "timer");
    });
    return *std::max_element(milliseconds.begin(), milliseconds.end());
  }

  /// As te::bench::measure, all ranks together.
  template <typename Enqueue>
  Timing measure(const Effort &effort, Enqueue enqueue) const {
    time(0, 3, enqueue);
    const double once = std::max(time(0, 3, enqueue) / 3, 1e-3);
    const auto repetitions = [&](double ms) {
      return std::max<int64_t>(3, static_cast<int64_t>(ms / once));
    };
    std::vector<double> rounds;
    const int64_t count = repetitions(effort.burstMs);
    for (int round = 0; round < effort.burstRounds; ++round) {
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::milli>(effort.idleMs));
      rounds.push_back(time(round * count, count, enqueue) /
                       static_cast<double>(count));
    }
    std::sort(rounds.begin(), rounds.end());
    Timing timing;
    timing.burstMs = rounds[rounds.size() / 2];
    const int64_t half = repetitions(effort.sustainedMs / 2);
    time(0, half, enqueue);
    timing.sustainedMs = time(half, half, enqueue) / static_cast<double>(half);
    return timing;
  }

  const std::vector<te_rt_context *> contexts;
};

/// The contexts of ranks, each on a GPU of its own, and their groups.
class Team {
public:
  Team(const std::string &backend, int size);
  /// Closes all groups together.
  ~Team();
  Team(const Team &) = delete;

  Ranks first(int count) const {
    return Ranks({contexts.begin(), contexts.begin() + count});
  }
  /// The first `count` ranks are group `id`.
  void bind(int32_t id, int count);

private:
  class Exchange;

  const bool onGpu;
  std::vector<te_rt_context *> contexts;
  std::vector<std::unique_ptr<Exchange>> exchanges;
};

} // namespace te::bench

#endif // TE_BENCH_RANKS_H
