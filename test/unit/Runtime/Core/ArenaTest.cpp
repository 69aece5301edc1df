//===- ArenaTest.cpp - running a module on the caller's arena -------------===//
//
// y = 2x through the arena: a copy, then an addition.
//
//===----------------------------------------------------------------------===//

#include "../DoublingModule.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace {

class Arena : public testing::Test {
protected:
  void SetUp() override {
    const te_rt_module module = makeModule();
    ASSERT_EQ(te_rt_context_create("reference", &context), TE_RT_OK);
    ASSERT_EQ(te_rt_instance_create(context, &module, &instance), TE_RT_OK);
  }
  void TearDown() override {
    te_rt_instance_destroy(instance);
    te_rt_context_destroy(context);
  }

  te_rt_context *context = nullptr;
  te_rt_instance *instance = nullptr;
};

TEST_F(Arena, TheCallerGivesTheArena) {
  const te_rt_module module = makeModule();
  te_rt_instance *given = nullptr;
  ASSERT_EQ(te_rt_instance_create_without_arena(context, &module, &given),
            TE_RT_OK);
  int64_t own = -1, workspace = -1;
  ASSERT_EQ(te_rt_instance_memory(given, &own, &workspace), TE_RT_OK);
  EXPECT_EQ(own, 0);
  float x[kCount], y[kCount] = {};
  for (int i = 0; i < kCount; ++i)
    x[i] = static_cast<float>(i);
  void *arguments[] = {x, y};
  EXPECT_EQ(te_rt_instance_run(given, arguments, nullptr),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_run: expected an arena of 400 bytes, but the "
               "instance was created without one; call "
               "te_rt_instance_set_arena before");

  alignas(16) float first[kCount] = {}, second[kCount] = {};
  ASSERT_EQ(te_rt_instance_set_arena(given, first, sizeof(first)), TE_RT_OK);
  // Temporaries stay in the arena between the parts of a step.
  ASSERT_EQ(te_rt_instance_run_part(given, arguments, nullptr, 0, 1), TE_RT_OK);
  EXPECT_EQ(std::memcmp(first, x, sizeof(x)), 0);
  first[5] = 100;
  ASSERT_EQ(te_rt_instance_run_part(given, arguments, nullptr, 1, 2), TE_RT_OK);
  EXPECT_EQ(y[5], 105);
  ASSERT_EQ(te_rt_instance_set_arena(given, second, sizeof(second)), TE_RT_OK);
  ASSERT_EQ(te_rt_instance_run(given, arguments, nullptr), TE_RT_OK);
  EXPECT_EQ(y[5], 10);
  EXPECT_EQ(first[5], 100);
  EXPECT_EQ(second[5], 5);
  te_rt_instance_destroy(given);
}

TEST_F(Arena, AGivenArenaIsChecked) {
  alignas(16) char memory[kCount * 4 + 16];
  auto message = [&](te_rt_instance *of, void *arena, int64_t bytes) {
    EXPECT_EQ(te_rt_instance_set_arena(of, arena, bytes),
              TE_RT_INVALID_ARGUMENT);
    return std::string(te_rt_last_error());
  };
  EXPECT_EQ(message(nullptr, memory, 400),
            "te_rt_instance_set_arena: 'instance' is null");
  EXPECT_EQ(message(instance, nullptr, 400),
            "te_rt_instance_set_arena: 'arena' is null");
  EXPECT_EQ(message(instance, memory, 399),
            "te_rt_instance_set_arena: expected 'bytes' to be at least the 400 "
            "of the module's arena, but got 399");
  EXPECT_EQ(message(instance, memory + 8, 400),
            "te_rt_instance_set_arena: expected 'arena' to be aligned to 16 "
            "bytes, but it is not");
  const te_rt_module module = makeModule();
  te_rt_instance *none = nullptr;
  EXPECT_EQ(te_rt_instance_create_without_arena(context, nullptr, &none),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_create_without_arena: 'module' is null");
  // The instance still has its own.
  int64_t own = 0, workspace = 0;
  ASSERT_EQ(te_rt_instance_memory(instance, &own, &workspace), TE_RT_OK);
  EXPECT_EQ(own, module.arena_bytes);
  // A given one takes its place, and the runtime frees only its own.
  ASSERT_EQ(te_rt_instance_set_arena(instance, memory, 416), TE_RT_OK);
  ASSERT_EQ(te_rt_instance_memory(instance, &own, &workspace), TE_RT_OK);
  EXPECT_EQ(own, 0);
  float x[kCount] = {1}, y[kCount];
  void *arguments[] = {x, y};
  ASSERT_EQ(te_rt_instance_run(instance, arguments, nullptr), TE_RT_OK);
  EXPECT_EQ(y[0], 2);
}

int stepsRun = 0;
void countedStep(te_rt_instance *instance, char *arena,
                 void *const *arguments) {
  ++stepsRun;
  step(instance, arena, arguments);
}

TEST_F(Arena, AGraphIsRecordedAgainForAnotherArena) {
  te_rt_module module = makeModule();
  module.step = countedStep;
  te_rt_instance *counted = nullptr;
  ASSERT_EQ(te_rt_instance_create_without_arena(context, &module, &counted),
            TE_RT_OK);
  void *arenas[2];
  for (void *&arena : arenas)
    ASSERT_EQ(te_rt_alloc(context, kCount * 4, &arena), TE_RT_OK);
  float x[kCount] = {1}, y[kCount];
  void *arguments[] = {x, y};
  stepsRun = 0;
  for (int round : {0, 0, 1, 1, 0}) {
    ASSERT_EQ(te_rt_instance_set_arena(counted, arenas[round], kCount * 4),
              TE_RT_OK);
    x[0] = static_cast<float>(round + 1);
    ASSERT_EQ(te_rt_instance_run_graph(counted, arguments), TE_RT_OK);
    EXPECT_EQ(y[0], 2 * x[0]);
    EXPECT_EQ(*static_cast<float *>(arenas[round]), x[0]);
  }
  EXPECT_EQ(stepsRun, 3);
  // The graph uses the memory.
  EXPECT_EQ(te_rt_free(context, arenas[1]), TE_RT_OK);
  EXPECT_EQ(te_rt_free(context, arenas[0]), TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_free: expected memory that no captured graph uses, but "
               "it holds the arena of one; call te_rt_instance_release_graph, "
               "or destroy the instance, before");
  te_rt_instance_destroy(counted);
  EXPECT_EQ(te_rt_free(context, arenas[0]), TE_RT_OK);
}

} // namespace
