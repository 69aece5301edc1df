//===- MicroscaledPlansTest.cpp - factors and 8-bit scales of products ----===//
//
// GEMMs with a factor in device memory, those of mx, nv and block operands, and
// those of per_tensor operands of any axis, on a GPU of compute capability 10:
// the arguments of cuBLASLt, and the order of the launches. The fake library
// rejects modes that the real one does not have, and checks the memory of
// scales and factors.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include <cublasLt.h>

using namespace te::fake;
using namespace te::rt;

namespace {

using Strings = std::vector<std::string>;

class MicroscaledPlans : public FakeCudaTest {
protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    useMachine(10);
  }
  void TearDown() override {
    product.reset();
    backend.reset();
    FakeCudaTest::TearDown();
  }

  void useMachine(int computeMajor) {
    product.reset();
    backend.reset();
    book().machine.computeMajor = computeMajor;
    ASSERT_STATUS_OK(create(&backend));
  }

  char *memory(int64_t bytes) {
    void *pointer = nullptr;
    EXPECT_STATUS_OK(backend->alloc(bytes, &pointer));
    return static_cast<char *>(pointer);
  }

  /// Plans it and allocates its scratch memory.
  void plan(const scaled_matmul_params &params) {
    ASSERT_STATUS_OK(backend->plan_scaled_matmul(params, &product));
    workspace = nullptr;
    if (product->workspaceBytes() != 0)
      product->setWorkspace(workspace = memory(product->workspaceBytes()));
  }

  /// The required buffers, each of 64 KiB.
  std::vector<void *> buffers(bool amaxes) {
    namespace b = scaled_matmul_buffers;
    std::vector<void *> result(b::count_, nullptr);
    for (int index : {+b::a, +b::a_scale, +b::b, +b::b_scale, +b::out})
      result[index] = memory(1 << 16);
    if (amaxes)
      for (int index : {+b::a_amax, +b::b_amax})
        result[index] = memory(64 * 4);
    return result;
  }

  /// Launches it and returns the arguments of the library's call.
  Product launch(const std::vector<void *> &given) {
    book().executed.clear();
    book().products.clear();
    EXPECT_STATUS_OK(product->launch(backend->defaultStream(), given.data()));
    EXPECT_EQ(book().products.size(), 1u);
    return book().products.empty() ? Product() : book().products.front();
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Plan> product;
  char *workspace = nullptr;
};

scaled_matmul_params params(int32_t scheme) {
  const bool nv = isNv(scheme);
  return {.m = 64,
          .n = 96,
          .k = 160,
          .a_type = nv ? TE_RT_F4E2M1FN : TE_RT_F8E4M3FN,
          .a_scheme = scheme,
          .b_type = nv ? TE_RT_F4E2M1FN : TE_RT_F8E5M2,
          .b_scheme = scheme,
          .out_type = TE_RT_BF16,
          .fast_accumulation = 0,
          .a_axis = 1,
          .b_axis = 1,
          .swizzled = 1,
          .a_row_scaled = 0,
          .a_scale_max = nv ? 448 : 0,
          .b_scale_max = nv ? 256 : 0};
}

// alpha of a matmul: its pointer is passed to the library, with a beta in
// device memory. Without alpha, nothing changes.
TEST_F(MicroscaledPlans, AlphaOfAMatmul) {
  useMachine(9);
  ASSERT_STATUS_OK(backend->plan_matmul({.m = 32,
                                         .n = 48,
                                         .k = 64,
                                         .trans_a = 0,
                                         .trans_b = 1,
                                         .type = TE_RT_BF16,
                                         .out_type = TE_RT_BF16},
                                        &product));
  namespace b = matmul_buffers;
  std::vector<void *> given(b::count_, nullptr);
  for (int index : {+b::a, +b::b, +b::out})
    given[index] = memory(1 << 14);
  void *const alpha = memory(4), *const bias = memory(1 << 10);

  EXPECT_FALSE(launch(given).deviceScalars);
  for (bool withBias : {false, true})
    for (bool withC : {false, true}) {
      given[b::alpha] = alpha;
      given[b::bias] = withBias ? bias : nullptr;
      given[b::c] = withC ? given[b::out] : nullptr;
      const Product made = launch(given);
      EXPECT_TRUE(made.deviceScalars);
      EXPECT_EQ(made.alpha, alpha);
      EXPECT_EQ(made.beta, withC ? 1.0f : 0.0f);
      EXPECT_EQ(made.hasBias, withBias);
    }
  given[b::alpha] = nullptr;
  EXPECT_EQ(launch(given).beta, 1.0f);
  // A step only enqueues work.
  given[b::alpha] = alpha;
  book().calls.clear();
  launch(given);
  EXPECT_EQ(book().calls, Strings({"cublasLtMatmul"}));
}

// Every variant that does not use the plain algorithm has its own, and the
// scratch memory is that of the largest.
TEST_F(MicroscaledPlans, AlphaFindsItsOwnAlgorithm) {
  book().machine.algorithmsFit = false;
  ASSERT_STATUS_OK(backend->plan_matmul({.m = 32,
                                         .n = 48,
                                         .k = 64,
                                         .trans_a = 0,
                                         .trans_b = 0,
                                         .type = TE_RT_F32,
                                         .out_type = TE_RT_F32},
                                        &product));
  // The variants: plain, bias, alpha, both.
  EXPECT_EQ(book().count("cublasLtMatmulAlgoGetHeuristic"), 4);
}

// Our second operand is the library's first. The storage for axis 0 is its form
// without transposition.
TEST_F(MicroscaledPlans, MxIsOneProduct) {
  for (int32_t aAxis : {0, 1})
    for (int32_t bAxis : {0, 1}) {
      scaled_matmul_params p = params(TE_RT_MX_1X32);
      p.b_scheme = TE_RT_MX_32X32;
      p.a_axis = aAxis;
      p.b_axis = bAxis;
      p.fast_accumulation = 1;
      plan(p);
      const std::vector<void *> given = buffers(false);
      const Product made = launch(given);
      EXPECT_EQ(book().executed, Strings({"cublasLtMatmul"}));
      EXPECT_EQ(made.firstType, CUDA_R_8F_E5M2);
      EXPECT_EQ(made.secondType, CUDA_R_8F_E4M3);
      EXPECT_EQ(made.firstScaleMode, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0);
      EXPECT_EQ(made.secondScaleMode, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0);
      EXPECT_EQ(made.firstTransposed, bAxis == 1);
      EXPECT_EQ(made.secondTransposed, aAxis == 0);
      EXPECT_EQ(made.firstScale, given[scaled_matmul_buffers::b_scale]);
      EXPECT_EQ(made.secondScale, given[scaled_matmul_buffers::a_scale]);
      EXPECT_FALSE(made.deviceScalars);
    }
}

// One scale is valid for any axis: fprop, dgrad and wgrad read the casts for
// rows. Tensor cores of other generations need operands in which k is
// contiguous.
TEST_F(MicroscaledPlans, PerTensorOfAnyAxis) {
  scaled_matmul_params p = params(TE_RT_PER_TENSOR);
  p.swizzled = 0;
  for (int computeMajor : {10, 11, 13}) {
    useMachine(computeMajor);
    for (int32_t aAxis : {0, 1})
      for (int32_t bAxis : {0, 1}) {
        p.a_axis = aAxis;
        p.b_axis = bAxis;
        plan(p);
        const Product made = launch(buffers(false));
        EXPECT_EQ(book().executed, Strings({"cublasLtMatmul"}));
        EXPECT_EQ(made.firstTransposed, bAxis == 1);
        EXPECT_EQ(made.secondTransposed, aAxis == 0);
        EXPECT_EQ(made.firstScaleMode, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
      }
  }
  for (int computeMajor : {9, 12}) {
    useMachine(computeMajor);
    for (auto [aAxis, bAxis] : {std::pair{0, 1}, {1, 0}, {0, 0}}) {
      p.a_axis = aAxis;
      p.b_axis = bAxis;
      EXPECT_STATUS(backend->plan_scaled_matmul(p, &product), TE_RT_UNSUPPORTED,
                    "'a_axis' " + std::to_string(aAxis) + " and 'b_axis' " +
                        std::to_string(bAxis) + " on compute capability " +
                        std::to_string(computeMajor));
    }
    p.a_axis = p.b_axis = 1;
    plan(p);
    EXPECT_TRUE(launch(buffers(false)).firstTransposed);
  }
}

TEST_F(MicroscaledPlans, NvReadsItsFactorFromTheDevice) {
  namespace b = scaled_matmul_buffers;
  scaled_matmul_params p = params(TE_RT_NV_1X16);
  p.b_scheme = TE_RT_NV_16X16;
  plan(p);
  std::vector<void *> given = buffers(true);
  Product made = launch(given);
  EXPECT_EQ(book().executed, Strings({"te_nvfp4_alpha", "cublasLtMatmul"}));
  EXPECT_EQ(made.firstType, CUDA_R_4F_E2M1);
  EXPECT_EQ(made.secondType, CUDA_R_4F_E2M1);
  EXPECT_EQ(made.outType, CUDA_R_16BF);
  EXPECT_EQ(made.firstScaleMode, CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3);
  EXPECT_EQ(made.secondScaleMode, CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3);
  EXPECT_TRUE(made.firstTransposed);
  EXPECT_FALSE(made.secondTransposed);
  EXPECT_EQ(made.alpha, workspace);
  EXPECT_EQ(made.beta, 0.0f);

  given[b::c] = given[b::out];
  given[b::bias] = memory(96 * 2);
  made = launch(given);
  EXPECT_EQ(made.alpha, workspace);
  EXPECT_EQ(made.beta, 1.0f);
  EXPECT_TRUE(made.hasBias);
}

// cuBLASLt has one factor for all rows, so the GEMM has none, and bias and c
// are added after the factors.
TEST_F(MicroscaledPlans, RowScaledNvIsFinishedByAKernel) {
  namespace b = scaled_matmul_buffers;
  for (int32_t outType : {TE_RT_BF16, TE_RT_F32}) {
    scaled_matmul_params p = params(TE_RT_NV_1X16);
    p.a_row_scaled = 1;
    p.out_type = outType;
    plan(p);
    std::vector<void *> given = buffers(true);
    given[b::c] = given[b::out];
    given[b::bias] = memory(96 * 2);
    const Product made = launch(given);
    EXPECT_EQ(book().executed,
              Strings({"te_nvfp4_alpha", "cublasLtMatmul",
                       outType == TE_RT_F32 ? "te_scale_rows_f32"
                                            : "te_scale_rows_bf16"}));
    EXPECT_EQ(made.outType, CUDA_R_32F);
    EXPECT_FALSE(made.deviceScalars);
    EXPECT_FALSE(made.hasBias);
    EXPECT_EQ(made.beta, 0.0f);
    // The factors, and the f32 GEMM result of 64 x 96.
    EXPECT_GE(product->workspaceBytes(), 64 * 4 + 64 * 96 * 4);
  }
}

TEST_F(MicroscaledPlans, BlockScalesBecomeExponents) {
  namespace b = scaled_matmul_buffers;
  scaled_matmul_params p = params(TE_RT_BLOCK_1X128);
  p.b_scheme = TE_RT_BLOCK_128X128;
  p.swizzled = 0;
  plan(p);
  std::vector<void *> given = buffers(false);
  Product made = launch(given);
  EXPECT_EQ(book().executed,
            Strings({"te_block_to_mx_scales", "te_block_to_mx_scales",
                     "cublasLtMatmul"}));
  EXPECT_EQ(made.firstScaleMode, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0);
  EXPECT_TRUE(made.firstTransposed);
  EXPECT_FALSE(made.secondTransposed);
  // The exponents of [up(64, 128), up(160 / 32, 4)], then those of the other
  // operand.
  EXPECT_EQ(made.secondScale, workspace);
  EXPECT_EQ(made.firstScale, workspace + 128 * 8);

  // c is added to the rounded product.
  given[b::c] = given[b::out];
  made = launch(given);
  ASSERT_EQ(book().executed.size(), 4u);
  EXPECT_EQ(book().executed.back().rfind("te_bias_add", 0), 0u)
      << book().executed.back();
  EXPECT_EQ(made.beta, 0.0f);

  // Rounding an f32 result changes nothing.
  p.out_type = TE_RT_F32;
  plan(p);
  made = launch(given);
  EXPECT_EQ(book().executed.size(), 3u);
  EXPECT_EQ(made.beta, 1.0f);
}

// A block GEMM is the mx GEMM that was timed before.
TEST_F(MicroscaledPlans, LargeProductsAreTuned) {
  book().machine.algorithms = 2;
  for (int32_t scheme : {TE_RT_MX_1X32, TE_RT_NV_1X16, TE_RT_BLOCK_1X128}) {
    scaled_matmul_params p = params(scheme);
    p.m = p.n = p.k = 512;
    book().products.clear();
    plan(p);
    EXPECT_EQ(book().products.size(), scheme == TE_RT_BLOCK_1X128 ? 0u : 12u);
  }
}

TEST_F(MicroscaledPlans, SaysWhatIsMissing) {
  scaled_matmul_params p = params(TE_RT_MX_1X32);
  p.swizzled = 0;
  EXPECT_STATUS(backend->plan_scaled_matmul(p, &product), TE_RT_UNSUPPORTED,
                "'swizzle_scales'");

  plan(params(TE_RT_NV_1X16));
  std::vector<void *> given = buffers(true);
  given[scaled_matmul_buffers::b_amax] = nullptr;
  EXPECT_STATUS(product->launch(backend->defaultStream(), given.data()),
                TE_RT_INVALID_ARGUMENT, "'b_amax'");

  useMachine(9);
  EXPECT_STATUS(backend->plan_scaled_matmul(params(TE_RT_NV_1X16), &product),
                TE_RT_UNSUPPORTED,
                "got 'nv_1x16' and 'nv_1x16': the tensor cores of sm_90 read "
                "no FP4; the nearest supported is 'target=sm_100', or the "
                "pipeline option 'emulate'");
}

} // namespace
