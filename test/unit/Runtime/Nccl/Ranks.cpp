//===- Ranks.cpp - one context and one thread for each rank ---------------===//
//
// See Ranks.h.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Nccl/Ranks.h"

#include <thread>

namespace te::ranks {

int &numRanks() {
  static int number = 2;
  return number;
}

std::string &jsonFile() {
  static std::string path;
  return path;
}

// The functions of a module have only the instance as an argument. Loading and
// running call them on this thread.
static thread_local const Step *currentStep;

te_rt_instance *Rank::load(const Step &step) {
  const te_rt_module module = {
      TE_RT_MODULE_MAGIC,
      TE_RT_VERSION,
      step.arenaBytes,
      step.numPlans,
      step.numArguments,
      [](te_rt_instance *instance) {
        currentStep->load(instance);
        return TE_RT_OK;
      },
      [](te_rt_instance *instance, char *arena, void *const *arguments) {
        currentStep->step(instance, arena, arguments);
      },
      nullptr,
      nullptr,
      0,
      0};
  currentStep = &step;
  te_rt_instance *instance = nullptr;
  TE_EXPECT_OK(te_rt_instance_create(context, &module, &instance));
  return instance;
}

void Rank::run(te_rt_instance *instance, const Step &step,
               const std::vector<void *> &arguments, bool captured) {
  currentStep = &step;
  TE_EXPECT_OK(captured
                   ? te_rt_instance_run_graph(instance, arguments.data())
                   : te_rt_instance_run(instance, arguments.data(), nullptr));
}

void *Rank::allocate(size_t bytes) {
  void *pointer = nullptr;
  TE_EXPECT_OK(te_rt_alloc(context, static_cast<int64_t>(bytes), &pointer));
  return pointer;
}
void Rank::free(void *pointer) { TE_EXPECT_OK(te_rt_free(context, pointer)); }

void Rank::copyTo(void *to, const void *from, size_t bytes) {
  TE_EXPECT_OK(
      te_rt_copy_to_device(context, to, from, static_cast<int64_t>(bytes)));
}
void Rank::copyFrom(void *to, const void *from, size_t bytes) {
  TE_EXPECT_OK(
      te_rt_copy_to_host(context, to, from, static_cast<int64_t>(bytes)));
}

void RanksTest::SetUp() {
  for (int rank = 0; rank < numRanks(); ++rank) {
    te_rt_context *context = nullptr;
    const te_rt_status status =
        te_rt_context_create_on_device("cuda", rank, &context);
    if (status == TE_RT_UNSUPPORTED)
      GTEST_SKIP() << numRanks()
                   << " ranks need as many GPUs: " << te_rt_last_error();
    ASSERT_EQ(status, TE_RT_OK) << te_rt_last_error();
    contexts.push_back(context);
  }
}

void RanksTest::TearDown() {
  // Closing a group is a collective operation.
  onEachRank([](Rank &rank) { te_rt_context_destroy(rank.context); });
}

void RanksTest::onEachRank(const std::function<void(Rank &)> &body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < contexts.size(); ++i)
    threads.emplace_back([&, i] {
      Rank rank(contexts[i], static_cast<int>(i));
      body(rank);
    });
  for (std::thread &thread : threads)
    thread.join();
}

void RanksTest::bind(int32_t group, bool reversed) {
  char id[TE_RT_GROUP_ID_BYTES];
  ASSERT_EQ(te_rt_group_unique_id(id), TE_RT_OK) << te_rt_last_error();
  onEachRank([&](Rank &rank) {
    const int place = reversed ? numRanks() - 1 - rank.number : rank.number;
    TE_EXPECT_OK(
        te_rt_context_bind_group(rank.context, group, id, numRanks(), place));
  });
}

} // namespace te::ranks
