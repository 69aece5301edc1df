//===- Bench.h - timing and rows shared by the benchmarks -----------------===//
//
// Every figure is the median of several measurements between two events of the
// runtime's own stream. `burst` runs about 10 ms of work after an idle pause;
// `sustained` runs back to back long enough for the chip to settle at the
// clock its power limit allows. Data is normal random, never constant.
//
//===----------------------------------------------------------------------===//

#ifndef TE_BENCH_BENCH_H
#define TE_BENCH_BENCH_H

#include "TEDialect/Runtime/te_runtime.h"

#include "llvm/Support/JSON.h"

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace te::bench {

struct Timing {
  double burstMs = 0;
  double sustainedMs = 0;
};

/// How long to measure; `--quick` shortens everything for tests.
struct Effort {
  int burstRounds = 7;
  double burstMs = 10;
  double idleMs = 100;
  double sustainedMs = 600;
  int64_t leastRepetitions = 3;
  /// Replays of a graph between two looks at the host's clock.
  int hostRepetitions = 20;
};

/// Exits with the runtime's message when `status` is a failure.
void check(te_rt_status status, const char *what);

/// Times `enqueue(i)`, the i-th repetition, on the context's own stream.
Timing measure(te_rt_context *context, const Effort &effort,
               const std::function<void(int64_t)> &enqueue);

/// Milliseconds of one of the repetitions `enqueue(i)`, long after the first.
double measureSustained(te_rt_context *context, const Effort &effort,
                        const std::function<void(int64_t)> &enqueue);

/// Device memory freed at the end of the benchmark that took it.
class DeviceBuffers {
public:
  explicit DeviceBuffers(te_rt_context *context) : context(context) {}
  ~DeviceBuffers();
  DeviceBuffers(const DeviceBuffers &) = delete;

  te_rt_context *owner() const { return context; }
  void *allocate(int64_t bytes);
  /// Normal random values of `type` with standard deviation `sigma`; bytes
  /// that decode to finite values for the 8-bit types. Of f4E2M1FN, `count`
  /// is in bytes.
  void *allocateRandom(int64_t count, te_rt_dtype type, float sigma);
  void *allocateCopy(const std::vector<int32_t> &values);
  /// `count` times this f32 value.
  void *allocateFilled(int64_t count, float value);

private:
  te_rt_context *context;
  std::vector<void *> pointers;
  /// Seeded alike in every object, so that rows of a table see equal inputs.
  std::mt19937 generator{17};
};

/// Runs the kernels whose row has `filter` in its name at the shapes of the MLP
/// block; prints and returns rows.
llvm::json::Array runKernelBench(te_rt_context *context, const Effort &effort,
                                 const std::string &filter);

/// Compiles and runs programs of elementwise ops whose name has `filter` in it,
/// on a few elements where `small`; prints and returns rows.
llvm::json::Array runRegionBench(te_rt_context *context, const Effort &effort,
                                 bool small, const std::string &filter);

/// Compiles and runs a head and its loss with whole logits and over a few rows
/// at a time, on small sizes where `small`; prints and returns the rows whose
/// name has `filter` in it.
llvm::json::Array runHeadBench(te_rt_context *context, const Effort &effort,
                               bool small, const std::string &filter);

/// Products of groups of rows (experts), and a whole layer of them; prints and
/// returns rows.
llvm::json::Array runGroupedBench(te_rt_context *context, const Effort &effort);

/// Compiles and runs the MLP block under every recipe and override. Sets
/// `failed` when a forward depends on the override.
llvm::json::Array runMlpBench(te_rt_context *context, const Effort &effort,
                              const std::string &file, bool &failed);

/// Compiles and runs the layers of `file` under every transpose policy. Sets
/// `failed` when a result depends on the policy.
llvm::json::Array runMemoryBench(te_rt_context *context, const Effort &effort,
                                 const std::string &file, bool &failed);

/// Compiles, captures and replays the steps of `file` on experts, as first and
/// as later micro-batches; prints and returns rows.
llvm::json::Array runMoeBench(te_rt_context *context, const Effort &effort,
                              const std::string &file);

/// Compiles and runs a tensor-parallel layer over 1, 2, 4, ... to `maxRanks`
/// ranks, each with a GPU of its own; `small` where only that it runs matters.
/// Prints and returns rows, and adds those of experts' rows that are exchanged
/// to `exchanges`. Sets `differ` when a result depends on the streams, or rows
/// come back as others.
llvm::json::Array runParallelBench(const std::string &backend,
                                   const Effort &effort, int maxRanks,
                                   bool small, bool &differ,
                                   llvm::json::Array &exchanges);

/// Compiles and captures the training step of `file` under the recipes with
/// `filter` in their names, over `ranks` ranks; prints and returns rows. The
/// last of `microBatches` steps updates the weights. Sets `failed` when a loss
/// is not finite, or depends on the streams.
llvm::json::Array runModelBench(const std::string &backend,
                                const Effort &effort, const std::string &file,
                                int ranks, int microBatches,
                                const std::string &filter, bool &failed);

/// Compiles `file` under every recipe, and runs nothing; prints and returns
/// how long that took.
llvm::json::Array runCompileBench(const std::string &file);

} // namespace te::bench

#endif // TE_BENCH_BENCH_H
