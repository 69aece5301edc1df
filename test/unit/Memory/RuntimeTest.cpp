//===- RuntimeTest.cpp - the runtime when host memory runs out ------------===//
//
// The life of a context, an instance and a step through the C ABI, for every
// allocation that can fail: a status that says so, nothing leaked, and what
// exists still works or is destroyed.
//
//===----------------------------------------------------------------------===//

#include "Memory/FailingMemory.h"
#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <gtest/gtest.h>

#include <cstring>

using te::memory::Attempt;

namespace {

/// y = 2x on the side stream, z = x * x as [n, n] matrices, and statistics of
/// x. There is enough work for the reference backend to start threads.
constexpr int64_t kRows = 128, kCount = kRows * kRows;

te_rt_status load(te_rt_instance *instance) {
  te_rt_plan_copy(instance, 0, kCount * 4);
  te_rt_plan_bias_add(instance, 1, 1, kCount, TE_RT_F32);
  te_rt_order(instance, 1, 1, 0);
  te_rt_plan_matmul(instance, 2, kRows, kRows, kRows, 0, 1, TE_RT_F32,
                    TE_RT_F32);
  return te_rt_plan_tensor_stats(instance, 3, 8, kCount / 8, TE_RT_F32,
                                 TE_RT_F8E4M3FN, TE_RT_PER_TENSOR, 1, 0, 0);
}

void step(te_rt_instance *instance, char *arena, void *const *arguments) {
  void *copy[] = {arguments[0], arena};
  te_rt_launch(instance, 0, copy);
  void *add[] = {arena, arguments[0], arguments[1]};
  te_rt_launch(instance, 1, add);
  void *multiply[] = {arguments[0], arguments[0], nullptr,
                      nullptr,      nullptr,      arguments[2]};
  te_rt_launch(instance, 2, multiply);
  void *stats[] = {arguments[0], nullptr, nullptr, nullptr, arguments[3]};
  te_rt_launch(instance, 3, stats);
}

constexpr te_rt_kernel_use *kUnchecked = nullptr;
const te_rt_module module = {
    TE_RT_MODULE_MAGIC,
    TE_RT_VERSION,
    kCount * 4,
    4,
    4,
    load,
    step,
    "'y' at a/file.mlir:12:34\0'z' at a/file.mlir:13:34\0\0\0",
    kUnchecked,
    0,
    0};

float x[kCount], y[kCount], z[kCount], stats[16];

/// A call of the runtime as an Attempt wants it.
template <typename Call> auto checked(Call call) {
  return [=](bool &outOfMemory) {
    const te_rt_status status = call();
    outOfMemory = status == TE_RT_OUT_OF_MEMORY && *te_rt_last_error();
    return status == TE_RT_OK;
  };
}

/// Between creation and destruction of all that is needed for it.
template <typename Run> void life(Attempt &attempt, Run run) {
  te_rt_context *context = nullptr;
  te_rt_instance *instance = nullptr;
  void *buffer = nullptr;
  std::memset(y, 0, sizeof(y));
  if (attempt(checked(
          [&] { return te_rt_context_create("reference", &context); })) &&
      attempt(checked([&] { return te_rt_alloc(context, 4096, &buffer); })) &&
      attempt(checked([&] {
        return te_rt_instance_create(context, &module, &instance);
      }))) {
    run(context, instance);
  }
  // What a failed call was to give is not there.
  attempt.expect(!instance || context);
  te_rt_instance_destroy(instance);
  attempt.expect(!buffer || te_rt_free(context, buffer) == TE_RT_OK);
  te_rt_context_destroy(context);
}

void expectResults(Attempt &attempt) {
  for (int64_t i = 0; i < kCount; ++i)
    attempt.expect(y[i] == 2 * x[i]);
  attempt.expect(stats[TE_RT_STAT_AMAX] == 7);
}

class RuntimeOutOfMemory : public testing::Test {
protected:
  void SetUp() override {
    for (int64_t i = 0; i < kCount; ++i)
      x[i] = static_cast<float>(i % 8);
  }
  void *arguments[4] = {x, y, z, stats};
};

TEST_F(RuntimeOutOfMemory, OfEveryWayToRun) {
  te::memory::sweep([&](Attempt &attempt) {
    life(attempt, [&](te_rt_context *context, te_rt_instance *instance) {
      if (attempt(checked([&] {
            return te_rt_instance_run(instance, arguments, nullptr);
          })))
        expectResults(attempt);
      std::memset(y, 0, sizeof(y));
      if (attempt(checked([&] {
            return te_rt_instance_run_part(instance, arguments, nullptr, 0, 2);
          })) &&
          attempt(checked([&] {
            return te_rt_instance_run_part(instance, arguments, nullptr, 2, 4);
          })))
        expectResults(attempt);
      std::memset(y, 0, sizeof(y));
      for (int round = 0; round < 2; ++round)
        if (attempt(checked(
                [&] { return te_rt_instance_run_graph(instance, arguments); })))
          expectResults(attempt);
      int launches = 0;
      const auto count = [](void *user, int32_t, const char *, float) {
        ++*static_cast<int *>(user);
      };
      if (attempt(checked([&] {
            launches = 0;
            return te_rt_instance_trace(instance, arguments, count, &launches);
          })))
        attempt.expect(launches == 4);
      attempt.expect(te_rt_synchronize(context) == TE_RT_OK);
    });
  });
}

// The message of an error is memory, too: without it the code is still right.
TEST_F(RuntimeOutOfMemory, OfMessages) {
  te::memory::sweep([&](Attempt &attempt) {
    life(attempt, [&](te_rt_context *context, te_rt_instance *instance) {
      void *missing[] = {x, nullptr, z, stats};
      const auto refused = [&](te_rt_status status) {
        attempt.expect((status == TE_RT_INVALID_ARGUMENT ||
                        status == TE_RT_OUT_OF_MEMORY) &&
                       *te_rt_last_error());
      };
      refused(te_rt_instance_run(instance, missing, nullptr));
      refused(te_rt_instance_run_part(instance, arguments, nullptr, 3, 9));
      refused(te_rt_launch(instance, 0, missing));
      refused(te_rt_plan_copy(nullptr, 0, 4));
      refused(te_rt_context_bind_group(context, -1, nullptr, 1, 0));
      void *none = &none;
      refused(te_rt_alloc(context, -1, &none));
      attempt.expect(!none);
    });
  });
}

TEST_F(RuntimeOutOfMemory, OfGroups) {
  te::memory::sweep([&](Attempt &attempt) {
    te_rt_context *context = nullptr;
    // A rank that the other one agrees with.
    const te_rt_communicator both = {
        2, 0, nullptr,
        [](void *, const void *send, int64_t, void *receive, int64_t bytes,
           int64_t, char *) {
          std::memcpy(receive, send, bytes);
          std::memcpy(static_cast<char *>(receive) + bytes, send, bytes);
          reinterpret_cast<int32_t *>(static_cast<char *>(receive) + bytes)[6] =
              1;
          return TE_RT_OK;
        }};
    if (attempt(checked(
            [&] { return te_rt_context_create("reference", &context); })) &&
        attempt(checked([&] {
          return te_rt_context_bind_communicator(context, 5, &both);
        })))
      attempt(checked(
          [&] { return te_rt_context_bind_group(context, 6, nullptr, 1, 0); }));
    te_rt_context_destroy(context);
  });
}

} // namespace
