//===- CudaInstanceTest.cpp - compiled steps on the cuda backend ----------===//
//
// The C ABI of the cuda backend on the fake vendor libraries, which are found
// by name like the real ones.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <thread>

using namespace te::fake;

namespace {

using Strings = std::vector<std::string>;

// out = (x w^T) w^T, for 32 x 32 bf16 matrices; arguments x, w, out.
te_rt_status load(te_rt_instance *instance) {
  for (int32_t slot : {0, 1})
    te_rt_plan_matmul(instance, slot, 32, 32, 32, 0, 0, TE_RT_BF16, TE_RT_BF16);
  return TE_RT_OK;
}

void step(te_rt_instance *instance, char *arena, void *const *arguments) {
  void *const first[] = {arguments[0], arguments[1], nullptr,
                         nullptr,      nullptr,      arena};
  void *const second[] = {arena,   arguments[1], nullptr,
                          nullptr, nullptr,      arguments[2]};
  te_rt_launch(instance, 0, first);
  te_rt_launch(instance, 1, second);
}

constexpr te_rt_module twoProducts = {TE_RT_MODULE_MAGIC,
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

class CudaInstance : public FakeCudaInstanceTest {
protected:
  void SetUp() override {
    FakeCudaInstanceTest::SetUp();
    ASSERT_OK(te_rt_context_create("cuda", &context));
    for (void *&argument : arguments)
      ASSERT_OK(te_rt_alloc(context, 32 * 32 * 2, &argument));
    ASSERT_OK(te_rt_instance_create(context, &twoProducts, &instance));
    book().calls.clear();
  }

  void *arguments[3] = {};
};

TEST_F(CudaInstance, RunIsItsLaunches) {
  EXPECT_STREQ(te_rt_context_backend(context), "cuda");
  for (int i = 0; i < 3; ++i) {
    book().calls.clear();
    ASSERT_OK(te_rt_instance_run(instance, arguments, nullptr));
    EXPECT_EQ(book().calls,
              Strings({"cuCtxSetCurrent", "cublasLtMatmul", "cublasLtMatmul"}));
  }
  EXPECT_EQ(book().executed, Strings(6, "cublasLtMatmul"));
}

TEST_F(CudaInstance, RunsOnAnotherThread) {
  std::thread([&] {
    EXPECT_EQ(te_rt_instance_run(instance, arguments, nullptr), TE_RT_OK)
        << te_rt_last_error();
    EXPECT_EQ(te_rt_instance_run_graph(instance, arguments), TE_RT_OK)
        << te_rt_last_error();
  }).join();
  EXPECT_EQ(book().executed, Strings(4, "cublasLtMatmul"));
}

TEST_F(CudaInstance, GraphIsCapturedOnceAndReplayed) {
  for (int i = 0; i < 3; ++i)
    ASSERT_OK(te_rt_instance_run_graph(instance, arguments));
  EXPECT_EQ(book().executed, Strings(6, "cublasLtMatmul"));
  EXPECT_EQ(book().count("cuStreamBeginCapture"), 1);
  EXPECT_EQ(book().count("cublasLtMatmul"), 2);
  EXPECT_EQ(book().count("cuGraphLaunch"), 3);

  // A replay only launches the graph.
  book().calls.clear();
  ASSERT_OK(te_rt_instance_run_graph(instance, arguments));
  EXPECT_EQ(book().calls, Strings({"cuCtxSetCurrent", "cuGraphLaunch"}));
}

TEST_F(CudaInstance, GraphIsUpdatedForOtherPointers) {
  ASSERT_OK(te_rt_instance_run_graph(instance, arguments));
  void *other[] = {arguments[1], arguments[1], arguments[2]};
  ASSERT_OK(te_rt_instance_run_graph(instance, other));
  EXPECT_EQ(book().count("cuStreamBeginCapture"), 2);
  EXPECT_EQ(book().count("cuGraphExecUpdate"), 1);
  EXPECT_EQ(book().count("cuGraphInstantiate"), 1);
  EXPECT_EQ(book().count("cuGraphExecDestroy"), 0);
  EXPECT_EQ(book().executed, Strings(4, "cublasLtMatmul"));
}

TEST_F(CudaInstance, GraphThatCannotBeUpdatedIsMadeAgain) {
  ASSERT_OK(te_rt_instance_run_graph(instance, arguments));
  void *other[] = {arguments[1], arguments[1], arguments[2]};
  book().calls.clear();
  // The calls are: context, begin, two GEMMs, end, the update.
  book().failCall(6, 1);
  ASSERT_OK(te_rt_instance_run_graph(instance, other));
  EXPECT_EQ(book().failedCall, "cuGraphExecUpdate");
  EXPECT_EQ(book().count("cuGraphExecDestroy"), 1);
  EXPECT_EQ(book().count("cuGraphInstantiate"), 1);
  EXPECT_EQ(book().executed, Strings(4, "cublasLtMatmul"));
}

TEST_F(CudaInstance, MemoryOfAGraphIsFreedAfterTheGraph) {
  ASSERT_OK(te_rt_instance_run_graph(instance, arguments));
  EXPECT_EQ(te_rt_free(context, arguments[1]), TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(book().count("cuMemFree"), 0);
  ASSERT_OK(te_rt_instance_release_graph(instance));
  EXPECT_EQ(book().count("cuGraphExecDestroy"), 1);
  ASSERT_OK(te_rt_free(context, arguments[1]));
}

TEST_F(CudaInstance, FailedLaunchIsLocatedAndEndsTheCapture) {
  book().failCall(1, 1);
  EXPECT_EQ(te_rt_instance_run(instance, arguments, nullptr),
            TE_RT_DEVICE_ERROR);
  EXPECT_NE(std::string(te_rt_last_error())
                .find("cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"),
            std::string::npos)
      << te_rt_last_error();
  // The calls are: context, begin, first GEMM, second GEMM.
  book().failCall(4, 1);
  EXPECT_EQ(te_rt_instance_run_graph(instance, arguments), TE_RT_DEVICE_ERROR);
  ASSERT_OK(te_rt_instance_run_graph(instance, arguments));
  EXPECT_EQ(book().executed, Strings(2, "cublasLtMatmul"));
}

void noteSlot(void *user, int32_t slot, const char *kernel, float) {
  static_cast<Strings *>(user)->push_back(std::to_string(slot) + " " + kernel);
}

TEST_F(CudaInstance, TraceWaitsForEachLaunchBetweenItsEvents) {
  Strings traced;
  ASSERT_OK(te_rt_instance_trace(instance, arguments, noteSlot, &traced));
  EXPECT_EQ(traced, Strings({"0 matmul", "1 matmul"}));
  EXPECT_EQ(book().executed, Strings(2, "cublasLtMatmul"));
  std::erase(book().calls, "cuCtxSetCurrent");
  Strings once = {"cuEventRecord", "cublasLtMatmul", "cuEventRecord",
                  "cuEventSynchronize", "cuEventElapsedTime"};
  Strings twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(book().calls, twice);
}

TEST_F(CudaInstance, TraceStopsAtAFailedLaunchAndIsOverThen) {
  // The calls are: context, its event, the first GEMM.
  Strings traced;
  book().failCall(3, 1);
  EXPECT_EQ(te_rt_instance_trace(instance, arguments, noteSlot, &traced),
            TE_RT_DEVICE_ERROR);
  EXPECT_EQ(book().failedCall, "cublasLtMatmul");
  EXPECT_NE(std::string(te_rt_last_error()).find("matmul (slot 0): "),
            std::string::npos)
      << te_rt_last_error();
  EXPECT_EQ(traced, Strings());
  ASSERT_OK(te_rt_instance_run(instance, arguments, nullptr));
  EXPECT_EQ(traced, Strings());
}

TEST_F(CudaInstance, StreamOfAnotherDeviceIsRefused) {
  Object *own = book().create(Kind::stream);
  Object *foreign = book().create(Kind::stream);
  foreign->device = 1;
  ASSERT_OK(te_rt_instance_run(instance, arguments, own));
  ASSERT_OK(te_rt_instance_run_part(instance, arguments, own, 0, 2));
  ASSERT_OK(te_rt_instance_run_part_graph(instance, arguments, own, 0, 2));
  book().calls.clear();
  EXPECT_EQ(te_rt_instance_run(instance, arguments, foreign),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_run: expected 'stream' to be one of GPU 0, but "
               "got one of GPU 1");
  EXPECT_EQ(te_rt_instance_run_part(instance, arguments, foreign, 0, 2),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(te_rt_instance_run_part_graph(instance, arguments, foreign, 0, 2),
            TE_RT_INVALID_ARGUMENT);
  const Strings refused = {"cuCtxSetCurrent", "cuStreamIsCapturing",
                           "cuStreamGetDevice"};
  Strings expected;
  for (int i = 0; i < 3; ++i)
    expected.insert(expected.end(), refused.begin(), refused.end());
  EXPECT_EQ(book().calls, expected);
  book().destroy(own, Kind::stream, "test");
  book().destroy(foreign, Kind::stream, "test");
}

// As when PyTorch captures a whole training step.
TEST_F(CudaInstance, StreamThatACallerCaptures) {
  Object *own = book().create(Kind::stream);
  ASSERT_OK(te_rt_instance_run_part(instance, arguments, own, 0, 2));
  own->capturing = true;
  own->origin = own;
  const size_t before = own->work.size();
  EXPECT_EQ(te_rt_instance_run_part(instance, arguments, own, 0, 2), TE_RT_OK)
      << te_rt_last_error();
  EXPECT_GT(own->work.size(), before);
  EXPECT_EQ(te_rt_instance_run(instance, arguments, own), TE_RT_OK)
      << te_rt_last_error();
  EXPECT_TRUE(book().endCapture(own));
  book().destroy(own, Kind::stream, "test");
}

TEST_F(CudaInstance, MisalignedArgumentIsTheCallersError) {
  arguments[0] = static_cast<char *>(arguments[0]) + 2;
  EXPECT_EQ(te_rt_instance_run(instance, arguments, nullptr),
            TE_RT_INVALID_ARGUMENT);
  arguments[0] = static_cast<char *>(arguments[0]) - 2;
}

} // namespace
