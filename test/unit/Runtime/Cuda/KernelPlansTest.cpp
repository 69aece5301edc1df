//===- KernelPlansTest.cpp - every kernel plans and launches --------------===//
//
// For each row of Kernels.td, every combination of a few values of its
// parameters that Capabilities permit is planned, so every kernel that it names
// is in the embedded images. A launch only enqueues work. The conformance suite
// tests the results of the kernels. This runs once for each compute capability
// of the support table; cases that it does not support are skipped.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"
#include "Runtime/Cuda/Odometer.h"

#include "Core/Capabilities.h"
#include "Core/Workspaces.h"
#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <set>

using namespace te::fake;
using namespace te::rt;

namespace {

constexpr te_rt_generated kGenerated = {
    "nothing", nullptr, ".version 8.0\n.visible .entry nothing() { ret; }",
    "nothing", 128,     128,
    60 * 1024, 0,       0};

std::vector<int64_t> sizes(const std::string &name) {
  // The code of 'generated'.
  if (name == "function")
    return {reinterpret_cast<int64_t>(&kGenerated)};
  // An empty sum with a bias is an error. GemmPlannerTest tests empty GEMMs.
  // The members of a group.
  if ((name.starts_with("count") || name.starts_with("slots")) &&
      std::isdigit(name.back()))
    return {name.ends_with("s1") || name == "count1" ? 0 : 37};
  if (name == "k")
    return {16, 256};
  if (name == "groups" || name == "multiple")
    return {2};
  if (name == "chosen_groups")
    return {1, 2};
  if (name == "matrices")
    return {3};
  if (name == "block_rows" || name == "block_cols")
    return {1, 16, 32, 128};
  // The schemes need multiples of 16, 32 and 128.
  if (name == "window_left")
    return {-1, 20};
  if (name == "alignment")
    return {256};
  // Attention has many parameters.
  if (name == "heads")
    return {4};
  if (name == "kv_heads")
    return {2};
  if (name == "head_dim" || name == "value_dim")
    return {37, 64};
  if (name == "boundaries")
    return {0, 37};
  return {0, 37, 256};
}

std::vector<int32_t> integers(const std::string &name) {
  if (name == "kind")
    return {TE_RT_GELU,   TE_RT_SILU,  TE_RT_RELU,          TE_RT_SRELU,
            TE_RT_SWIGLU, TE_RT_GEGLU, TE_RT_CLAMPED_SWIGLU};
  // Parameters that few rules read.
  if (name.starts_with("seed"))
    return {1};
  // The tensors of a sum of squares.
  if (name.starts_with("type") && name != "type" && name != "type0")
    return {name == "type2" ? TE_RT_BF16 : TE_RT_F16};
  if (name == "b_axis" || name == "swizzled" || name == "stream")
    return {1};
  // The operands of a GEMM, which have many combinations. No scheme has wide
  // types.
  if (name == "a_type" || name == "b_type")
    return {TE_RT_F8E4M3FN, TE_RT_F8E5M2, TE_RT_F4E2M1FN};
  if (name == "a_scheme" || name == "b_scheme")
    return {TE_RT_PER_TENSOR, TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128,
            TE_RT_MX_1X32, TE_RT_NV_1X16};
  if (name == "a_scale_max" || name == "b_scale_max")
    return {0, 448};
  if (name.ends_with("scheme"))
    return {TE_RT_PER_TENSOR, TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128,
            TE_RT_MX_1X32,    TE_RT_MX_32X32,    TE_RT_NV_1X16,
            TE_RT_NV_16X16};
  if (name == "scale_max")
    return {0, 448, 256};
  if (name == "four_over_six")
    return {0, 1, 2};
  if (name.ends_with("type"))
    return {TE_RT_F32,      TE_RT_BF16,   TE_RT_F16,
            TE_RT_F8E4M3FN, TE_RT_F8E5M2, TE_RT_F4E2M1FN};
  return {0, 1};
}

std::vector<float> reals(const std::string &name) {
  if (name == "softcap")
    return {0, 0.5f};
  return {0.5f};
}

class KernelPlans : public FakeCudaTest,
                    public testing::WithParamInterface<int> {
protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    book().machine.computeMajor = GetParam();
    ASSERT_STATUS_OK(create(&backend));
    // This block is used for every buffer of every launch.
    ASSERT_STATUS_OK(backend->alloc(1 << 20, &memory));
  }
  void TearDown() override {
    backend.reset();
    FakeCudaTest::TearDown();
  }

  void launch(Plan &plan, const std::vector<bool> &optional) {
    if (plan.workspaceBytes() != 0) {
      void *workspace = nullptr;
      ASSERT_STATUS_OK(backend->alloc(plan.workspaceBytes(), &workspace));
      plan.setWorkspace(workspace);
      workspaces.push_back(workspace);
    }
    std::vector<void *> buffers(optional.size(), memory);
    void *const stream = backend->defaultStream();
    // A matmul supports a bias only if the result has the operands' type.
    const Status first = plan.launch(stream, buffers.data());
    if (first.code == TE_RT_UNSUPPORTED &&
        first.message.find("bias") != std::string::npos)
      buffers[matmul_buffers::bias] = nullptr;
    else
      EXPECT_STATUS_OK(first);
    book().calls.clear();
    EXPECT_STATUS_OK(plan.launch(stream, buffers.data()));
    for (const std::string &call : book().calls)
      // The host also runs the preparations of cuDNN's frontend.
      EXPECT_TRUE(enqueueing.contains(call) || call.starts_with("cudnn"))
          << call;

    // Some kernels need at least one of their optional results.
    for (size_t i = 0; i < optional.size(); ++i)
      if (optional[i])
        buffers[i] = nullptr;
    const Status status = plan.launch(stream, buffers.data());
    EXPECT_TRUE(status.code == TE_RT_OK ||
                status.code == TE_RT_INVALID_ARGUMENT)
        << status.message;

    for (void *workspace : workspaces)
      EXPECT_STATUS_OK(backend->free(workspace));
    workspaces.clear();
  }

  const std::set<std::string> enqueueing = {
      "cuLaunchKernelEx", "cublasLtMatmul", "cuMemcpyDtoDAsync",
      "cuMemsetD8Async"};
  std::unique_ptr<Backend> backend;
  void *memory = nullptr;
  std::vector<void *> workspaces;
};

/// Whether the error names something that the machine does not have.
bool isNotThere(const Status &planned) {
  return planned.code == TE_RT_UNSUPPORTED &&
         (planned.message.starts_with("expected a product that 'sm_90' has") ||
          planned.message.starts_with("expected the operands of a per_tensor "
                                      "matmul to be quantised for the axis") ||
          planned.message.find("for attention on the cuda backend") !=
              std::string::npos ||
          planned.message.find("cuDNN") != std::string::npos);
}

/// Whether the row of a kernel states about what cuDNN takes, and not the most.
bool takesWhatCudnnSays(std::string_view kernel) {
  return kernel == "attention" || kernel == "attention_backward";
}

#define TE_RT_I64(name) params.name = odometer.choose(#name, sizes);
#define TE_RT_I32(name) params.name = odometer.choose(#name, integers);
#define TE_RT_F32(name) params.name = odometer.choose(#name, reals);
#define TE_RT_IN(name) false,
#define TE_RT_OUT(name) false,
#define TE_RT_IN_OPT(name) true,
#define TE_RT_OUT_OPT(name) true,
#define TE_RT_KERNEL(kernel, parameters, buffers)                              \
  TEST_P(KernelPlans, kernel) {                                                \
    Odometer odometer;                                                         \
    int numPlanned = 0, numRefused = 0;                                        \
    do {                                                                       \
      kernel##_params params;                                                  \
      parameters if (checkSupported(params).failed()) continue;                \
      SCOPED_TRACE(odometer.text());                                           \
      std::unique_ptr<Plan> plan;                                              \
      const Status planned = backend->plan_##kernel(params, &plan);            \
      if (isNotThere(planned))                                                 \
        continue;                                                              \
      if (planned.code == TE_RT_UNSUPPORTED &&                                 \
          planned.message.ends_with("supported is the 'reference' backend")) { \
        ++numRefused;                                                          \
        continue;                                                              \
      }                                                                        \
      ASSERT_STATUS_OK(planned);                                               \
      ASSERT_NE(plan, nullptr);                                                \
      if (!takesWhatCudnnSays(#kernel))                                        \
        EXPECT_LE(plan->workspaceBytes(), workspaceBytes(params));             \
      ++numPlanned;                                                            \
      launch(*plan, {buffers});                                                \
      if (HasFailure())                                                        \
        return;                                                                \
    } while (odometer.next());                                                 \
    EXPECT_GT(numPlanned + numRefused, 0);                                     \
    RecordProperty("planned", numPlanned);                                     \
  }
#include "TEDialect/Runtime/te_runtime_kernels.inc"

// A plan for few groups needs less shared memory than one of the same kernel
// for many. A program may launch both in any order.
TEST_P(KernelPlans, PlansKeepTheSharedMemoryTheyAskedFor) {
  if (GetParam() != 9)
    GTEST_SKIP() << "products of groups have own kernels on sm_90";
  auto plan = [&](int64_t groups) {
    std::unique_ptr<Plan> result;
    EXPECT_STATUS_OK(backend->plan_grouped_matmul(
        {512, 96, 64, groups, 128, 1, TE_RT_BF16, TE_RT_BF16}, &result));
    return result;
  };
  const std::unique_ptr<Plan> many = plan(300), few = plan(2), some = plan(64);
  for (Plan *each : {many.get(), few.get(), some.get()})
    launch(*each, {false, false, false, true, true, false});
}

// Tensor maps have their own rules: boxes larger than a matrix are valid, but
// rows that are not a multiple of 16 bytes are not.
TEST_P(KernelPlans, ProductsOfGroupsTakeSmallAndUnevenShapes) {
  if (GetParam() != 9)
    GTEST_SKIP() << "products of groups have own kernels on sm_90";
  const std::vector<bool> rowBuffers = {false, false, false, true, true, false},
                          wgradBuffers = {false, false, false, true,
                                          true,  false, true},
                          scaledBuffers = {false, false, true, false, false,
                                           true,  false, true, false},
                          scaledWgradBuffers = {false, false, true,  false,
                                                false, true,  false, true,
                                                false, true};
  for (int64_t groups : {1, 3})
    for (int64_t rows : {16, 272})
      for (int64_t n : {8, 40, 264})
        for (int64_t k : {8, 72})
          for (int32_t out : {TE_RT_BF16, TE_RT_F32}) {
            SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(n) + "x" +
                         std::to_string(k));
            std::unique_ptr<Plan> plan;
            for (int32_t transposed : {0, 1}) {
              ASSERT_STATUS_OK(backend->plan_grouped_matmul(
                  {rows, n, k, groups, 16, transposed, TE_RT_BF16, out},
                  &plan));
              launch(*plan, rowBuffers);
            }
            ASSERT_STATUS_OK(backend->plan_grouped_wgrad(
                {rows, n, k, groups, 16, TE_RT_BF16, out}, &plan));
            launch(*plan, wgradBuffers);
            for (int32_t scheme : {TE_RT_PER_TENSOR, TE_RT_BLOCK_1X128}) {
              const int64_t unit = scheme == TE_RT_PER_TENSOR ? 16 : 128;
              ASSERT_STATUS_OK(backend->plan_grouped_scaled_matmul(
                  {unit * rows, n, 16 * k, groups, unit, TE_RT_F8E4M3FN, scheme,
                   TE_RT_F8E4M3FN, scheme, out, 0, 1, 0, 0, 0},
                  &plan));
              launch(*plan, scaledBuffers);
              ASSERT_STATUS_OK(backend->plan_grouped_scaled_wgrad(
                  {unit * rows, n, k, groups, unit, TE_RT_F8E5M2, scheme,
                   TE_RT_F8E4M3FN, scheme, out, 0, 0, 0},
                  &plan));
              launch(*plan, scaledWgradBuffers);
            }
          }
}

// Rows are kept in registers if they fit, and read once if there is a strip for
// each multiprocessor.
TEST_P(KernelPlans, NormGradientsKeepShortRows) {
  struct Case {
    int64_t rows, cols;
    int32_t type;
    std::string kernel;
  };
  for (const Case &c : {
           Case{8192, 4096, TE_RT_BF16, "strips_bf16"},
           Case{8192, 2048, TE_RT_F32, "strips_f32"},
           Case{4193, 3072, TE_RT_F16, "strips_f16"},
           Case{4192, 3072, TE_RT_F16, "short_f16"},
           Case{8192, 4088, TE_RT_BF16, "short_bf16"},
           Case{8192, 2048, TE_RT_BF16, "short_bf16"},
           Case{8192, 4104, TE_RT_BF16, "any_bf16"},
           Case{8192, 1001, TE_RT_BF16, "any_bf16"},
       }) {
    auto executed = [&](Plan &plan, size_t count) {
      launch(plan, std::vector<bool>(count, false));
      const auto &names = book().executed;
      return names.size() < 2 ? std::vector<std::string>()
                              : std::vector(names.end() - 2, names.end());
    };
    const std::string sum =
        "te_strip_sum_" + c.kernel.substr(c.kernel.find('_') + 1);
    std::unique_ptr<Plan> rms, layer;
    ASSERT_STATUS_OK(
        backend->plan_rms_norm_backward({c.rows, c.cols, c.type, 0}, &rms));
    EXPECT_EQ(executed(*rms, rms_norm_backward_buffers::count_),
              (std::vector{"te_rms_norm_backward_" + c.kernel, sum}));
    ASSERT_STATUS_OK(
        backend->plan_layer_norm_backward({c.rows, c.cols, c.type, 1}, &layer));
    EXPECT_EQ(executed(*layer, layer_norm_backward_buffers::count_),
              (std::vector{"te_layer_norm_backward_" + c.kernel, sum}));
    EXPECT_EQ(layer->workspaceBytes(), (c.rows + 31) / 32 * 2 * c.cols * 4);
  }
}

INSTANTIATE_TEST_SUITE_P(, KernelPlans, testing::Values(9, 10),
                         [](const auto &info) {
                           return "sm_" + std::to_string(info.param) + "0";
                         });

} // namespace
