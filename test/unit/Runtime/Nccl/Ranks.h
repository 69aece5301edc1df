//===- Ranks.h - one context and one thread for each rank -----------------===//
//
// The ranks of these tests are threads of one process, each with a context on
// its own GPU. Contexts are created one after another, so that a missing GPU is
// found before a rank waits for another. Collective calls run on all threads at
// once.
//
//===----------------------------------------------------------------------===//

#ifndef TE_UNITTEST_RUNTIME_NCCL_RANKS_H
#define TE_UNITTEST_RUNTIME_NCCL_RANKS_H

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace te::ranks {

/// The number of ranks of the tests.
int &numRanks();
/// The file for measured bandwidths, with a JSON object per line; empty for
/// none.
std::string &jsonFile();

#define TE_EXPECT_OK(call) EXPECT_EQ(call, TE_RT_OK) << te_rt_last_error()

/// A compiled step as two functions. It consists of consecutive launches, whose
/// pointers are its arguments and its arena.
struct Step {
  int32_t numPlans;
  int32_t numArguments;
  int64_t arenaBytes;
  std::function<void(te_rt_instance *)> load;
  std::function<void(te_rt_instance *, char *, void *const *)> step;
};

/// The data of one rank's thread.
class Rank {
public:
  Rank(te_rt_context *context, int number) : context(context), number(number) {}

  te_rt_instance *load(const Step &step);
  /// Runs a step that `load` created, with or without capture.
  void run(te_rt_instance *instance, const Step &step,
           const std::vector<void *> &arguments, bool captured);
  template <typename T> void *upload(const std::vector<T> &values) {
    void *pointer = allocate(values.size() * sizeof(T));
    write(pointer, values);
    return pointer;
  }
  template <typename T> void write(void *to, const std::vector<T> &values) {
    copyTo(to, values.data(), values.size() * sizeof(T));
  }
  template <typename T = float>
  std::vector<T> download(const void *from, size_t count) {
    std::vector<T> values(count);
    copyFrom(values.data(), from, count * sizeof(T));
    return values;
  }
  void *allocate(size_t bytes);
  void free(void *pointer);

  te_rt_context *const context;
  const int number;

private:
  void copyTo(void *to, const void *from, size_t bytes);
  void copyFrom(void *to, const void *from, size_t bytes);
};

/// Skips the test, with a reason, if there are too few GPUs.
class RanksTest : public testing::Test {
protected:
  void SetUp() override;
  void TearDown() override;

  /// Runs `body` on a thread for each rank, and waits for all.
  void onEachRank(const std::function<void(Rank &)> &body);
  /// Binds `group` to all ranks, in this or in the reverse order.
  void bind(int32_t group, bool reversed = false);

  std::vector<te_rt_context *> contexts;
};

} // namespace te::ranks

#endif // TE_UNITTEST_RUNTIME_NCCL_RANKS_H
