//===- CudaForkTest.cpp - cuda contexts in a child of fork ----------------===//
//
// The driver's state does not survive a fork, so the child must not call it.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <sys/wait.h>
#include <unistd.h>

using namespace te::fake;

namespace {

te_rt_status load(te_rt_instance *instance) {
  te_rt_plan_matmul(instance, 0, 32, 32, 32, 0, 0, TE_RT_BF16, TE_RT_BF16);
  // On the side stream, with events.
  te_rt_plan_copy(instance, 1, 32);
  return te_rt_order(instance, 1, 1, 0);
}

void step(te_rt_instance *instance, char *arena, void *const *arguments) {
  void *const product[] = {arguments[0], arguments[1], nullptr,
                           nullptr,      nullptr,      arena};
  te_rt_launch(instance, 0, product);
  void *const copy[] = {arena, arguments[2]};
  te_rt_launch(instance, 1, copy);
}

constexpr te_rt_module module = {TE_RT_MODULE_MAGIC,
                                 TE_RT_VERSION,
                                 32 * 32 * 2,
                                 2,
                                 3,
                                 load,
                                 step,
                                 nullptr,
                                 nullptr,
                                 0,
                                 0};

class CudaFork : public FakeCudaInstanceTest {
protected:
  void SetUp() override {
    FakeCudaInstanceTest::SetUp();
    ASSERT_OK(te_rt_context_create("cuda", &context));
    for (void *&argument : arguments)
      ASSERT_OK(te_rt_alloc(context, 32 * 32 * 2, &argument));
    ASSERT_OK(te_rt_alloc(context, 16, &unused));
    ASSERT_OK(te_rt_instance_create(context, &module, &instance));
    ASSERT_OK(te_rt_instance_run_graph(instance, arguments));
    ASSERT_OK(te_rt_timer_mark(context, 0));
    ASSERT_OK(te_rt_timer_mark(context, 1));
  }

  void refuses(te_rt_status status, const char *function) const {
    EXPECT_EQ(status, TE_RT_INVALID_ARGUMENT) << function;
    EXPECT_EQ(te_rt_last_error(),
              std::string(function) + ": expected process " +
                  std::to_string(getppid()) +
                  ", which created the cuda context, but got process " +
                  std::to_string(getpid()) +
                  ", which was forked from it; create the context after the "
                  "fork, or start processes without fork");
  }
#define REFUSES(function, ...) refuses(function(__VA_ARGS__), #function)

  /// What the child does.
  void useAll() {
    book().calls.clear();
    char bytes[32] = {};
    void *pointer = nullptr;
    float time = 0;
    void *const stream = arguments[0];
    te_rt_instance *other = nullptr;
    REFUSES(te_rt_alloc, context, 16, &pointer);
    REFUSES(te_rt_free, context, unused);
    REFUSES(te_rt_copy_to_device, context, arguments[0], bytes, 32);
    REFUSES(te_rt_copy_to_device, context, arguments[0], bytes, 0);
    REFUSES(te_rt_copy_to_host, context, bytes, arguments[0], 32);
    REFUSES(te_rt_synchronize, context);
    REFUSES(te_rt_timer_mark, context, 0);
    REFUSES(te_rt_timer_elapsed_ms, context, &time);
    REFUSES(te_rt_instance_run, instance, arguments, nullptr);
    REFUSES(te_rt_instance_run, instance, arguments, stream);
    REFUSES(te_rt_instance_run_part, instance, arguments, stream, 0, 1);
    REFUSES(te_rt_instance_run_graph, instance, arguments);
    REFUSES(te_rt_instance_run_part_graph, instance, arguments, stream, 0, 1);
    REFUSES(te_rt_instance_release_graph, instance);
    REFUSES(te_rt_instance_set_arena, instance, arguments[0], 32 * 32 * 2);
    REFUSES(
        te_rt_instance_trace, instance, arguments,
        [](void *, int32_t, const char *, float) {}, nullptr);
    EXPECT_EQ(te_rt_instance_create(context, &module, &other),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(te_rt_last_error()).find("was forked"),
              std::string::npos)
        << te_rt_last_error();
    // What needs no device works.
    EXPECT_STREQ(te_rt_context_backend(context), "cuda");
    te_rt_gemm_info info;
    EXPECT_EQ(te_rt_instance_gemm(instance, 0, &info), TE_RT_OK);
    te_rt_instance_destroy(instance);
    te_rt_context_destroy(context);
    EXPECT_EQ(book().calls, std::vector<std::string>());
  }

  void *arguments[3] = {}, *unused = nullptr;
};

TEST_F(CudaFork, TheChildLeavesTheDeviceAlone) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    useAll();
    _exit(HasFailure());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(te_rt_instance_run_graph(instance, arguments), TE_RT_OK)
      << te_rt_last_error();
}

} // namespace
