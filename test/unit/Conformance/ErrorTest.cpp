//===- ErrorTest.cpp - refusals of modules, launches and contexts ---------===//

#include "Conformance/Errors.h"

using namespace te::conformance;

namespace {

TEST_P(Errors, BadMagicNamesBothValues) {
  te_rt_module m = module(0, loadNothing);
  m.magic = 0x12345678;
  EXPECT_EQ(create(m), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'magic'", "0x4d524554", "0x12345678"}));
}

TEST_P(Errors, BadVersionNamesBothValues) {
  te_rt_module m = module(0, loadNothing);
  m.version = TE_RT_VERSION + 7;
  EXPECT_EQ(create(m), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'version'", std::to_string(TE_RT_VERSION).c_str(),
                            std::to_string(TE_RT_VERSION + 7).c_str()}));
}

TEST_P(Errors, ModuleFields) {
  te_rt_module m = module(-1, loadNothing);
  EXPECT_EQ(create(m), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'num_plans'", "-1"}));
  m = module(0, nullptr);
  EXPECT_EQ(create(m), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'load'", "null"}));
  m = module(0, loadNothing);
  m.flags = 2;
  EXPECT_EQ(create(m), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(
      lastErrorHas({"expected the module's 'flags' to be 0 or 1, but got 2"}));
  m = module(0, loadNothing);
  m.arena_bytes = INT64_MAX / 2;
  EXPECT_EQ(create(m), TE_RT_OUT_OF_MEMORY);
}

TEST_P(Errors, SlotOutOfRange) {
  for (int32_t slot : {-1, 2, 100}) {
    static int32_t wanted;
    wanted = slot;
    EXPECT_EQ(create(module(2,
                            [](te_rt_instance *i) {
                              return te_rt_plan_copy(i, wanted, 4);
                            })),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_TRUE(
        lastErrorHas({"copy", "'num_plans' 2", std::to_string(slot).c_str()}));
  }
}

TEST_P(Errors, SlotPlannedTwiceOrNever) {
  EXPECT_EQ(create(module(1,
                          [](te_rt_instance *i) {
                            te_rt_plan_copy(i, 0, 4);
                            return te_rt_plan_amax(i, 0, 4, TE_RT_F32,
                                                   TE_RT_F32);
                          })),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"amax (slot 0)", "'copy'"}));
  EXPECT_EQ(create(module(
                2, [](te_rt_instance *i) { return te_rt_plan_copy(i, 0, 4); })),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"no plan for slot 1 of 2"}));
}

TEST_P(Errors, FirstFailureOfALoadIsReported) {
  EXPECT_EQ(create(module(1,
                          [](te_rt_instance *i) {
                            te_rt_plan_copy(i, 0, -4);
                            te_rt_plan_copy(i, 5, 4);
                            return TE_RT_OK;
                          })),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'bytes'", "-4"}));
}

TEST_P(Errors, NullRequiredBufferIsNamed) {
  std::vector<float> amax(1), x(4);
  EXPECT_EQ(
      device().tryRun(TE_PLAN(amax, 4, TE_RT_F32, TE_RT_F32), {in(x), none()}),
      TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(device().message.find("amax (slot 0): required buffer 'amax'"),
            std::string::npos)
      << device().message;
  EXPECT_EQ(device().tryRun(TE_PLAN(amax, 4, TE_RT_F32, TE_RT_F32),
                            {none(), out(amax)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(device().message.find("'x'"), std::string::npos);
}

TEST_P(Errors, FailedLaunchStopsTheStep) {
  static void *buffers[2];
  static te_rt_status second;
  te_rt_instance *instance = nullptr;
  const te_rt_module m = module(
      1, [](te_rt_instance *i) { return te_rt_plan_copy(i, 0, 4); },
      [](te_rt_instance *i, char *, void *const *) {
        te_rt_launch(i, 3, buffers);
        second = te_rt_launch(i, 0, buffers);
      });
  ASSERT_EQ(te_rt_instance_create(device().context, &m, &instance), TE_RT_OK);
  for (int run = 0; run < 2; ++run) {
    second = TE_RT_OK;
    EXPECT_EQ(te_rt_instance_run(instance, nullptr, nullptr),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_TRUE(lastErrorHas({"te_rt_launch", "'num_plans' 1", "3"}));
    EXPECT_EQ(second, TE_RT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(te_rt_launch(instance, 0, buffers), TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(te_rt_plan_copy(instance, 0, 4), TE_RT_INVALID_ARGUMENT);
  te_rt_instance_destroy(instance);
}

TEST_P(Errors, NullArgumentIsNumbered) {
  te_rt_module m = module(0, loadNothing);
  m.num_arguments = 2;
  te_rt_instance *instance = nullptr;
  ASSERT_EQ(te_rt_instance_create(device().context, &m, &instance), TE_RT_OK);
  int x;
  void *arguments[] = {&x, nullptr};
  for (auto status : {te_rt_instance_run(instance, arguments, nullptr),
                      te_rt_instance_run_graph(instance, arguments)})
    EXPECT_EQ(status, TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"argument 1 of 2 is null"}));
  te_rt_instance_destroy(instance);
}

TEST(Context, UnknownBackend) {
  te_rt_context *context = nullptr;
  EXPECT_EQ(te_rt_context_create("metal", &context), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'reference', 'cuda' or 'auto'", "'metal'"}));
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(te_rt_context_create(nullptr, &context), TE_RT_INVALID_ARGUMENT);
}

TEST(Context, CudaWithoutGpuSaysWhatIsMissing) {
  Device &cuda = deviceOf("cuda");
  if (cuda.status == TE_RT_OK)
    GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(cuda.status, TE_RT_UNSUPPORTED);
  EXPECT_GT(cuda.message.size(), 30u) << cuda.message;
  Device automatic("auto");
  ASSERT_EQ(automatic.status, TE_RT_OK);
  EXPECT_STREQ(te_rt_context_backend(automatic.context), "reference");
  EXPECT_NE(std::string(te_rt_context_description(automatic.context))
                .find("cuda is not used"),
            std::string::npos);
}

TE_FOR_EACH_BACKEND(Errors);

} // namespace
