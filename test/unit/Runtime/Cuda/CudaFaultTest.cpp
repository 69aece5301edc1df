//===- CudaFaultTest.cpp - every vendor call fails once -------------------===//
//
// One long scenario is run repeatedly. Each time, another call fails with each
// of three codes. In all cases, the status names the call, nothing is used
// after its end, and nothing remains alive.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include <set>

using namespace te::fake;
using namespace te::rt;

namespace {

class CudaFault : public FakeCudaTest {
protected:
  /// A context, memory, tuned and untuned plans, a captured step, a timer.
  Status scenario();
};

Status runOnce(Backend &backend) {
  std::unique_ptr<Plan> plans[3];
  TE_RT_RETURN_IF_FAILED(
      backend.plan_scaled_matmul({.m = 512,
                                  .n = 512,
                                  .k = 512,
                                  .a_type = TE_RT_F8E4M3FN,
                                  .a_scheme = TE_RT_BLOCK_1X128,
                                  .b_type = TE_RT_F8E4M3FN,
                                  .b_scheme = TE_RT_BLOCK_128X128,
                                  .out_type = TE_RT_BF16,
                                  .fast_accumulation = 0,
                                  .a_axis = 1,
                                  .b_axis = 1,
                                  .swizzled = 0,
                                  .a_row_scaled = 0,
                                  .a_scale_max = 0,
                                  .b_scale_max = 0},
                                 &plans[0]));
  TE_RT_RETURN_IF_FAILED(backend.plan_matmul({.m = 512,
                                              .n = 512,
                                              .k = 64,
                                              .trans_a = 0,
                                              .trans_b = 1,
                                              .type = TE_RT_BF16,
                                              .out_type = TE_RT_F32},
                                             &plans[1]));
  TE_RT_RETURN_IF_FAILED(backend.plan_transpose_scaled(
      {.matrices = 1, .rows = 512, .cols = 512, .scheme = TE_RT_BLOCK_128X128},
      &plans[2]));
  // One block is used for all operands and results.
  void *memory = nullptr, *scratch = nullptr;
  TE_RT_RETURN_IF_FAILED(backend.alloc(512 * 512 * 4, &memory));
  TE_RT_RETURN_IF_FAILED(backend.alloc(1 << 16, &scratch));
  float value = 1.0f;
  TE_RT_RETURN_IF_FAILED(backend.copyToDevice(memory, &value, sizeof(value)));
  for (std::unique_ptr<Plan> &plan : plans)
    plan->setWorkspace(scratch);
  void *const stream = backend.defaultStream();
  const auto step = [&]() -> Status {
    void *const scaled[] = {memory,  memory,  nullptr, memory, memory,
                            nullptr, nullptr, nullptr, memory};
    void *const wide[] = {memory, memory, memory, nullptr, memory, memory};
    void *const transposed[] = {memory, memory,  nullptr, memory,
                                memory, nullptr, nullptr};
    TE_RT_RETURN_IF_FAILED(plans[0]->launch(stream, scaled));
    TE_RT_RETURN_IF_FAILED(plans[1]->launch(stream, wide));
    return plans[2]->launch(stream, transposed);
  };
  TE_RT_RETURN_IF_FAILED(backend.timerMark(0));
  TE_RT_RETURN_IF_FAILED(step());
  TE_RT_RETURN_IF_FAILED(backend.timerMark(1));
  float milliseconds = 0;
  TE_RT_RETURN_IF_FAILED(backend.timerElapsed(&milliseconds));

  TE_RT_RETURN_IF_FAILED(backend.beginCapture(stream));
  Status status = step();
  std::unique_ptr<Backend::Graph> graph;
  Status ended = backend.endCapture(stream, &graph);
  TE_RT_RETURN_IF_FAILED(status);
  TE_RT_RETURN_IF_FAILED(ended);
  TE_RT_RETURN_IF_FAILED(graph->launch(stream));
  TE_RT_RETURN_IF_FAILED(backend.copyToHost(&value, memory, sizeof(value)));
  TE_RT_RETURN_IF_FAILED(backend.synchronize());
  graph.reset();
  return backend.free(memory);
}

Status CudaFault::scenario() {
  book().machine.algorithms = 2;
  std::unique_ptr<Backend> backend;
  TE_RT_RETURN_IF_FAILED(create(&backend));
  return runOnce(*backend);
}

/// Calls whose failure may be ignored: releases, and calls that only serve to
/// find a better algorithm.
const std::set<std::string> mayPass = {
    "cuDevicePrimaryCtxRelease",
    "cuEventDestroy",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuMemFree",
    "cuModuleUnload",
    "cuStreamDestroy",
    "cublasLtDestroy",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatrixLayoutDestroy",
    // Calls of destructors.
    "cuCtxSetCurrent",
    "cuStreamSynchronize",
    // Calls while tuning.
    "cuMemAlloc",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoCheck",
    "cublasLtMatmulDescSetAttribute",
    // "Not supported" is a valid result.
    "cublasLtMatmulAlgoGetHeuristic",
};

TEST_F(CudaFault, EveryCallMayFail) {
  ASSERT_STATUS_OK(scenario());
  const int numCalls = static_cast<int>(book().calls.size());
  ASSERT_GT(numCalls, 100);

  int numFailures = 0;
  for (int call = 0; call < numCalls; ++call)
    for (int variant : {0, 1, 2}) {
      book().reset();
      std::filesystem::remove_all(cacheFolder / "te-mlir");
      book().failCall(call, variant);
      const Status status = scenario();
      SCOPED_TRACE("call " + std::to_string(call) + ", '" + book().failedCall +
                   "', variant " + std::to_string(variant) + ": " +
                   status.message);
      ASSERT_NE(book().failedCall, "");
      ASSERT_EQ(book().violations, std::vector<std::string>());
      ASSERT_EQ(book().leaks(), std::vector<std::string>());
      if (!status.failed()) {
        EXPECT_EQ(mayPass.count(book().failedCall), 1u);
        continue;
      }
      ++numFailures;
      // The error of a launch names the kernel.
      const std::string name =
          book().failedCall == "cuLaunchKernelEx" ? "te_" : book().failedCall;
      EXPECT_NE(status.message.find(name), std::string::npos);
      const te_rt_status codes[] = {TE_RT_OUT_OF_MEMORY, TE_RT_DEVICE_ERROR,
                                    TE_RT_UNSUPPORTED};
      EXPECT_EQ(status.code, codes[variant]);
    }
  // Most calls must not be ignored.
  EXPECT_GT(numFailures, numCalls);
}

} // namespace
