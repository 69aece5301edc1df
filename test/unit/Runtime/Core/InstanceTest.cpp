//===- InstanceTest.cpp - running a module of several launches ------------===//
//
// y = 2x through the arena: a copy, then an addition, with both ways to run.
//
//===----------------------------------------------------------------------===//

#include "../DoublingModule.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

class Instance : public testing::Test {
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

TEST_F(Instance, RunsByBothWaysWithChangingPointers) {
  for (int round = 0; round < 4; ++round) {
    void *x = nullptr, *y = nullptr;
    ASSERT_EQ(te_rt_alloc(context, kCount * 4, &x), TE_RT_OK);
    ASSERT_EQ(te_rt_alloc(context, kCount * 4, &y), TE_RT_OK);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x) % 256, 0u);
    float host[kCount], result[kCount];
    for (int i = 0; i < kCount; ++i)
      host[i] = static_cast<float>(i + round);
    ASSERT_EQ(te_rt_copy_to_device(context, x, host, sizeof(host)), TE_RT_OK);
    void *arguments[] = {x, y};
    ASSERT_EQ(round % 2 ? te_rt_instance_run(instance, arguments, nullptr)
                        : te_rt_instance_run_graph(instance, arguments),
              TE_RT_OK)
        << te_rt_last_error();
    ASSERT_EQ(te_rt_copy_to_host(context, result, y, sizeof(result)), TE_RT_OK);
    for (int i = 0; i < kCount; ++i)
      ASSERT_EQ(result[i], 2 * host[i]);
    EXPECT_EQ(te_rt_instance_release_graph(instance), TE_RT_OK);
    EXPECT_EQ(te_rt_free(context, x), TE_RT_OK);
    EXPECT_EQ(te_rt_free(context, y), TE_RT_OK);
  }
}

TEST_F(Instance, PartsRunTheirLaunchesAlone) {
  float x[kCount], other[kCount], y[kCount];
  for (int i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(i);
    other[i] = 1000;
    y[i] = -1;
  }
  // The first part copies x to the arena. The second adds it to the current
  // value of the argument.
  void *first[] = {x, y}, *second[] = {other, y};
  ASSERT_EQ(te_rt_instance_run_part(instance, first, nullptr, 0, 1), TE_RT_OK)
      << te_rt_last_error();
  EXPECT_EQ(y[5], -1);
  ASSERT_EQ(te_rt_instance_run_part(instance, second, nullptr, 1, 2), TE_RT_OK);
  EXPECT_EQ(y[5], 1005);
  // The next run of the whole step runs both parts.
  ASSERT_EQ(te_rt_instance_run(instance, first, nullptr), TE_RT_OK);
  EXPECT_EQ(y[5], 10);

  EXPECT_EQ(te_rt_instance_run_part(instance, first, nullptr, 1, 3),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_run_part: expected 0 <= 'begin' <= 'end' <= 2, "
               "but got 1 and 3");
}

int stepsRun = 0;
void countedStep(te_rt_instance *instance, char *arena,
                 void *const *arguments) {
  ++stepsRun;
  step(instance, arena, arguments);
}

TEST_F(Instance, GraphReplaysLaunchesAndNotTheModule) {
  const te_rt_module module = {
      TE_RT_MODULE_MAGIC, TE_RT_VERSION, kCount * 4, 2, 2, load,
      countedStep,        nullptr,       nullptr,    0, 0};
  te_rt_instance *counted = nullptr;
  ASSERT_EQ(te_rt_instance_create(context, &module, &counted), TE_RT_OK);
  float x[kCount], y[kCount], other[kCount];
  void *arguments[] = {x, y}, *others[] = {x, other};
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kCount; ++i)
      x[i] = static_cast<float>(i + round);
    ASSERT_EQ(te_rt_instance_run_graph(counted, arguments), TE_RT_OK);
    for (int i = 0; i < kCount; ++i)
      ASSERT_EQ(y[i], 2 * x[i]);
  }
  EXPECT_EQ(stepsRun, 1);
  ASSERT_EQ(te_rt_instance_run_graph(counted, others), TE_RT_OK);
  EXPECT_EQ(stepsRun, 2);
  EXPECT_EQ(std::memcmp(y, other, sizeof(y)), 0);
  ASSERT_EQ(te_rt_instance_release_graph(counted), TE_RT_OK);
  ASSERT_EQ(te_rt_instance_run_graph(counted, others), TE_RT_OK);
  EXPECT_EQ(stepsRun, 3);
  te_rt_instance_destroy(counted);
}

TEST_F(Instance, EachPartHasAGraph) {
  const te_rt_module module = {
      TE_RT_MODULE_MAGIC, TE_RT_VERSION, kCount * 4, 2, 2, load,
      countedStep,        nullptr,       nullptr,    0, 0};
  te_rt_instance *counted = nullptr;
  ASSERT_EQ(te_rt_instance_create(context, &module, &counted), TE_RT_OK);
  float x[kCount] = {}, other[kCount] = {}, y[kCount] = {};
  void *first[] = {x, y}, *second[] = {other, y};
  stepsRun = 0;
  for (int round = 0; round < 3; ++round) {
    x[5] = static_cast<float>(round);
    other[5] = 100;
    ASSERT_EQ(te_rt_instance_run_part_graph(counted, first, nullptr, 0, 1),
              TE_RT_OK)
        << te_rt_last_error();
    ASSERT_EQ(te_rt_instance_run_part_graph(counted, second, nullptr, 1, 2),
              TE_RT_OK);
    ASSERT_EQ(y[5], 100 + x[5]);
  }
  EXPECT_EQ(stepsRun, 2);
  ASSERT_EQ(te_rt_instance_run_graph(counted, first), TE_RT_OK);
  EXPECT_EQ(y[5], 2 * x[5]);
  EXPECT_EQ(stepsRun, 3);
  // The graphs of parts still exist.
  ASSERT_EQ(te_rt_instance_run_part_graph(counted, second, nullptr, 1, 2),
            TE_RT_OK);
  EXPECT_EQ(stepsRun, 3);
  EXPECT_EQ(te_rt_instance_run_part_graph(counted, first, nullptr, 2, 1),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_run_part_graph: expected 0 <= 'begin' <= 'end' "
               "<= 2, but got 2 and 1");
  te_rt_instance_destroy(counted);
}

TEST_F(Instance, MemoryOfAGraphCannotBeFreed) {
  void *memory[3];
  for (void *&pointer : memory)
    ASSERT_EQ(te_rt_alloc(context, 4 * kCount * 4, &pointer), TE_RT_OK);
  // An address inside of an allocation.
  void *arguments[] = {memory[0], static_cast<char *>(memory[1]) + kCount * 4};
  ASSERT_EQ(te_rt_instance_run_graph(instance, arguments), TE_RT_OK);
  for (int i : {0, 1}) {
    EXPECT_EQ(te_rt_free(context, memory[i]), TE_RT_INVALID_ARGUMENT);
    EXPECT_EQ(te_rt_last_error(),
              "te_rt_free: expected memory that no captured graph uses, but it "
              "holds argument " +
                  std::to_string(i) +
                  " of one; call te_rt_instance_release_graph, or destroy the "
                  "instance, before");
  }
  EXPECT_EQ(te_rt_free(context, memory[2]), TE_RT_OK);
  // The memory still exists: the graph runs, and the memory can be read.
  ASSERT_EQ(te_rt_instance_run_graph(instance, arguments), TE_RT_OK);
  EXPECT_EQ(te_rt_instance_release_graph(instance), TE_RT_OK);
  EXPECT_EQ(te_rt_free(context, memory[0]), TE_RT_OK);
  // An instance that is destroyed with its graph does not keep the memory.
  arguments[0] = memory[1];
  ASSERT_EQ(te_rt_instance_run_graph(instance, arguments), TE_RT_OK);
  EXPECT_EQ(te_rt_free(context, memory[1]), TE_RT_INVALID_ARGUMENT);
  te_rt_instance_destroy(instance);
  instance = nullptr;
  EXPECT_EQ(te_rt_free(context, memory[1]), TE_RT_OK);
}

TEST_F(Instance, SaysWhatMemoryItHas) {
  int64_t arena = -1, workspace = -1;
  ASSERT_EQ(te_rt_instance_memory(instance, &arena, &workspace), TE_RT_OK);
  EXPECT_EQ(arena, kCount * 4);
  EXPECT_EQ(workspace, 0);
  EXPECT_EQ(te_rt_instance_memory(instance, nullptr, &workspace),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_memory: 'arena_bytes' is null");
  EXPECT_EQ(te_rt_instance_workspace(instance, 0, &workspace), TE_RT_OK);
  EXPECT_EQ(workspace, 0);
  for (int32_t slot : {-1, 1 << 20}) {
    EXPECT_EQ(te_rt_instance_workspace(instance, slot, &workspace),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(te_rt_last_error())
                  .find("te_rt_instance_workspace: expected 0 <= 'slot' < "),
              std::string::npos)
        << te_rt_last_error();
  }
  EXPECT_EQ(te_rt_instance_workspace(nullptr, 0, &workspace),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_workspace: 'instance' is null");
  EXPECT_EQ(te_rt_instance_release_graph(nullptr), TE_RT_INVALID_ARGUMENT);
}

TEST(GroupSizes, TheFirstBadOneIsNamed) {
  auto message = [](std::vector<int32_t> sizes, int64_t rows,
                    int64_t alignment) -> std::string {
    return te_rt_check_group_sizes(sizes.data(),
                                   static_cast<int32_t>(sizes.size()), rows,
                                   alignment) == TE_RT_OK
               ? ""
               : te_rt_last_error();
  };
  EXPECT_EQ(message({3, 0, 16, 5}, 64, 16), "");
  EXPECT_EQ(message({}, 0, 16), "");
  EXPECT_EQ(
      message({3, -1, 70}, 64, 16),
      "te_rt_check_group_sizes: expected 'group_sizes[1]' to be from 0 to "
      "the 48 rows that are left of 64, but got -1");
  // 3 rows need the space of 16.
  EXPECT_EQ(
      message({3, 49}, 64, 16),
      "te_rt_check_group_sizes: expected 'group_sizes[1]' to be from 0 to "
      "the 48 rows that are left of 64, but got 49");
  EXPECT_EQ(message({3}, 60, 16),
            "te_rt_check_group_sizes: expected 'rows' to be a multiple of "
            "'alignment', but got 60 and 16");
}

struct Traced {
  int32_t slot;
  std::string kernel;
  float milliseconds;
};

void note(void *user, int32_t slot, const char *kernel, float milliseconds) {
  static_cast<std::vector<Traced> *>(user)->push_back(
      {slot, kernel, milliseconds});
}

TEST_F(Instance, TraceReportsEachLaunchAndComputesTheSame) {
  float x[kCount], y[kCount] = {};
  for (int i = 0; i < kCount; ++i)
    x[i] = static_cast<float>(i);
  void *arguments[] = {x, y};
  std::vector<Traced> traced;
  ASSERT_EQ(te_rt_instance_trace(instance, arguments, note, &traced), TE_RT_OK)
      << te_rt_last_error();
  for (int i = 0; i < kCount; ++i)
    ASSERT_EQ(y[i], 2 * x[i]);
  ASSERT_EQ(traced.size(), 2u);
  EXPECT_EQ(traced[0].slot, 0);
  EXPECT_EQ(traced[0].kernel, "copy");
  EXPECT_EQ(traced[1].slot, 1);
  EXPECT_EQ(traced[1].kernel, "bias_add");
  for (const Traced &launch : traced)
    EXPECT_GE(launch.milliseconds, 0);

  // A later run reports nothing.
  ASSERT_EQ(te_rt_instance_run(instance, arguments, nullptr), TE_RT_OK);
  EXPECT_EQ(traced.size(), 2u);
}

TEST_F(Instance, TraceChecksWhatItIsGiven) {
  float x[kCount] = {}, y[kCount];
  void *arguments[] = {x, y}, *missing[] = {x, nullptr};
  EXPECT_EQ(te_rt_instance_trace(instance, arguments, nullptr, nullptr),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(), "te_rt_instance_trace: 'trace' is null");
  EXPECT_EQ(te_rt_instance_trace(instance, missing, note, nullptr),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_trace: argument 1 of 2 is null");
}

TEST_F(Instance, Timers) {
  float milliseconds = -1;
  EXPECT_EQ(te_rt_timer_mark(context, 0), TE_RT_OK);
  EXPECT_EQ(te_rt_timer_mark(context, 1), TE_RT_OK);
  EXPECT_EQ(te_rt_timer_elapsed_ms(context, &milliseconds), TE_RT_OK);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(te_rt_timer_mark(context, 2), TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_timer_mark: expected 'index' to be 0 or 1, but got 2");
}

TEST(Version, IsTheHeaders) { EXPECT_EQ(te_rt_version(), TE_RT_VERSION); }

TEST(Allocation, EmptyOnesAreUnique) {
  te_rt_context *context = nullptr;
  ASSERT_EQ(te_rt_context_create("reference", &context), TE_RT_OK);
  void *a = nullptr, *b = nullptr;
  EXPECT_EQ(te_rt_alloc(context, 0, &a), TE_RT_OK);
  EXPECT_EQ(te_rt_alloc(context, 0, &b), TE_RT_OK);
  EXPECT_NE(a, b);
  void *none = nullptr;
  EXPECT_EQ(te_rt_alloc(context, -1, &none), TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(te_rt_alloc(context, INT64_MAX, &none), TE_RT_OUT_OF_MEMORY);
  EXPECT_EQ(te_rt_free(context, a), TE_RT_OK);
  EXPECT_EQ(te_rt_free(context, b), TE_RT_OK);
  te_rt_context_destroy(context);
}

//===----------------------------------------------------------------------===//
// Two streams
//===----------------------------------------------------------------------===//

// Copies x, copies that to the result's summand on the side stream, and then
// overwrites the first copy with y, with or without waiting for the second.
bool waitsBeforeItWrites = true;
te_rt_status loadStreams(te_rt_instance *instance) {
  for (int32_t slot = 0; slot < 4; ++slot) {
    te_rt_plan_copy(instance, slot, kCount * 4);
    if (slot == 1)
      te_rt_order(instance, 1, 1, 0);
    if (slot == 2 && waitsBeforeItWrites)
      te_rt_order(instance, 2, 0, 1);
  }
  return te_rt_order(instance, 3, 0, 1);
}
void stepStreams(te_rt_instance *instance, char *arena,
                 void *const *arguments) {
  void *const launches[][2] = {{arguments[0], arena},
                               {arena, arena + kCount * 4},
                               {arguments[1], arena},
                               {arena + kCount * 4, arguments[2]}};
  for (int32_t slot = 0; slot < 4; ++slot)
    te_rt_launch(instance, slot, launches[slot]);
}

// The side stream is delayed as long as its waits permit, so that a missing
// wait changes the result in every run.
TEST_F(Instance, SideStreamIsLate) {
  float x[kCount], y[kCount], z[kCount];
  void *arguments[] = {x, y, z};
  for (int i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(i);
    y[i] = -1;
  }
  for (bool waits : {true, false}) {
    waitsBeforeItWrites = waits;
    const te_rt_module module = {
        TE_RT_MODULE_MAGIC, TE_RT_VERSION, kCount * 8, 4, 3, loadStreams,
        stepStreams,        nullptr,       nullptr,    0, 0};
    te_rt_instance *streams = nullptr;
    ASSERT_EQ(te_rt_instance_create(context, &module, &streams), TE_RT_OK)
        << te_rt_last_error();
    for (int way = 0; way < 4; ++way) {
      std::memset(z, 0, sizeof(z));
      if (way == 0)
        ASSERT_EQ(te_rt_instance_run(streams, arguments, nullptr), TE_RT_OK);
      else if (way < 3)
        ASSERT_EQ(te_rt_instance_run_graph(streams, arguments), TE_RT_OK);
      else
        for (int32_t slot = 0; slot < 4; ++slot)
          ASSERT_EQ(te_rt_instance_run_part(streams, arguments, nullptr, slot,
                                            slot + 1),
                    TE_RT_OK);
      // A part ends with both streams, so it leaves no work for later.
      EXPECT_EQ(z[7], waits || way == 3 ? 7 : -1) << "way " << way;
    }
    te_rt_instance_destroy(streams);
  }
}

} // namespace
