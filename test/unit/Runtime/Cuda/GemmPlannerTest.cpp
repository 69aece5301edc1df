//===- GemmPlannerTest.cpp - what is decided while planning a product -----===//
//
// Plans of matmul and scaled_matmul on the fake vendor libraries: the calls of
// a launch, the algorithm that is chosen, and the cache file.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include <fstream>
#include <sstream>

using namespace te::fake;
using namespace te::rt;

namespace {

using Strings = std::vector<std::string>;

class GemmPlanner : public FakeCudaTest {
protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    ASSERT_STATUS_OK(create(&backend));
  }
  void TearDown() override {
    backend.reset();
    FakeCudaTest::TearDown();
  }

  void *memory(int64_t bytes) {
    void *pointer = nullptr;
    EXPECT_STATUS_OK(backend->alloc(bytes, &pointer));
    return pointer;
  }

  /// Plans it like a new process would.
  void restart() {
    backend.reset();
    ASSERT_STATUS_OK(create(&backend));
    book().calls.clear();
    book().usedAlgorithms.clear();
  }

  /// Plans it and allocates its scratch memory.
  std::unique_ptr<Plan> plan(const scaled_matmul_params &params) {
    std::unique_ptr<Plan> result;
    EXPECT_STATUS_OK(backend->plan_scaled_matmul(params, &result));
    if (result && result->workspaceBytes() != 0)
      result->setWorkspace(memory(result->workspaceBytes()));
    return result;
  }

  std::filesystem::path cacheFile() {
    for (const auto &entry :
         std::filesystem::directory_iterator(cacheFolder / "te-mlir"))
      return entry.path();
    return {};
  }

  std::unique_ptr<Backend> backend;
};

constexpr scaled_matmul_params smallTensor = {
    .m = 32,
    .n = 48,
    .k = 64,
    .a_type = TE_RT_F8E4M3FN,
    .a_scheme = TE_RT_PER_TENSOR,
    .b_type = TE_RT_F8E5M2,
    .b_scheme = TE_RT_PER_TENSOR,
    .out_type = TE_RT_BF16,
    .fast_accumulation = 1,
    .a_axis = 1,
    .b_axis = 1,
    .swizzled = 0,
    .a_row_scaled = 0,
    .a_scale_max = 0,
    .b_scale_max = 0,
};

/// The smallest size that is tuned.
constexpr scaled_matmul_params largeTensor = {
    .m = 512,
    .n = 512,
    .k = 512,
    .a_type = TE_RT_F8E4M3FN,
    .a_scheme = TE_RT_PER_TENSOR,
    .b_type = TE_RT_F8E4M3FN,
    .b_scheme = TE_RT_PER_TENSOR,
    .out_type = TE_RT_BF16,
    .fast_accumulation = 0,
    .a_axis = 1,
    .b_axis = 1,
    .swizzled = 0,
    .a_row_scaled = 0,
    .a_scale_max = 0,
    .b_scale_max = 0,
};

TEST_F(GemmPlanner, LaunchIsOneCall) {
  std::unique_ptr<Plan> product = plan(smallTensor);
  ASSERT_NE(product, nullptr);
  void *buffers[scaled_matmul_buffers::count_] = {
      memory(32 * 64), memory(4), nullptr, memory(48 * 64),    memory(4),
      nullptr,         nullptr,   nullptr, memory(32 * 48 * 2)};
  void *const stream = backend->defaultStream();

  book().calls.clear();
  ASSERT_STATUS_OK(product->launch(stream, buffers));
  // The descriptor gets the addresses of the scales at the launch.
  EXPECT_EQ(book().calls,
            Strings({"cublasLtMatmulDescSetAttribute",
                     "cublasLtMatmulDescSetAttribute", "cublasLtMatmul"}));
  book().calls.clear();
  for (int i = 0; i < 3; ++i)
    ASSERT_STATUS_OK(product->launch(stream, buffers));
  EXPECT_EQ(book().calls, Strings(3, "cublasLtMatmul"));
}

TEST_F(GemmPlanner, BiasAndAccumulationAreLaunchArguments) {
  std::unique_ptr<Plan> product = plan(smallTensor);
  ASSERT_NE(product, nullptr);
  void *buffers[scaled_matmul_buffers::count_] = {
      memory(32 * 64), memory(4),           nullptr,
      memory(48 * 64), memory(4),           nullptr,
      memory(48 * 2),  memory(32 * 48 * 2), memory(32 * 48 * 2)};
  ASSERT_STATUS_OK(product->launch(backend->defaultStream(), buffers));
  buffers[scaled_matmul_buffers::bias] = nullptr;
  buffers[scaled_matmul_buffers::c] = buffers[scaled_matmul_buffers::out];
  ASSERT_STATUS_OK(product->launch(backend->defaultStream(), buffers));
  EXPECT_EQ(book().executed, Strings(2, "cublasLtMatmul"));
}

TEST_F(GemmPlanner, RefusesUnalignedMatrices) {
  std::unique_ptr<Plan> product = plan(smallTensor);
  ASSERT_NE(product, nullptr);
  auto *a = static_cast<char *>(memory(32 * 64 + 8));
  void *buffers[scaled_matmul_buffers::count_] = {
      a + 8,   memory(4), nullptr, memory(48 * 64),    memory(4),
      nullptr, nullptr,   nullptr, memory(32 * 48 * 2)};
  EXPECT_STATUS(product->launch(backend->defaultStream(), buffers),
                TE_RT_INVALID_ARGUMENT, "multiple of 16 bytes");
}

// For every scheme, storage and pair of types, the layouts fit together, which
// the fake checks, in either form.
TEST_F(GemmPlanner, LayoutsFitTogether) {
  for (int32_t a : {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128})
    for (int32_t b : {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128}) {
      scaled_matmul_params params = smallTensor;
      params.a_scheme = a;
      params.b_scheme = b;
      params.fast_accumulation = 0;
      std::unique_ptr<Plan> product;
      if (a == TE_RT_BLOCK_128X128 && b == TE_RT_BLOCK_128X128) {
        EXPECT_STATUS(backend->plan_scaled_matmul(params, &product),
                      TE_RT_UNSUPPORTED, "nearest supported pair");
        continue;
      }
      product = plan(params);
      ASSERT_NE(product, nullptr);
      void *buffers[scaled_matmul_buffers::count_] = {
          memory(32 * 64), memory(256), nullptr,
          memory(48 * 64), memory(256), nullptr,
          nullptr,         nullptr,     memory(32 * 48 * 2)};
      EXPECT_STATUS_OK(product->launch(backend->defaultStream(), buffers));
    }
  for (int32_t transA : {0, 1})
    for (int32_t transB : {0, 1}) {
      std::unique_ptr<Plan> product;
      ASSERT_STATUS_OK(backend->plan_matmul({.m = 24,
                                             .n = 40,
                                             .k = 56,
                                             .trans_a = transA,
                                             .trans_b = transB,
                                             .type = TE_RT_BF16,
                                             .out_type = TE_RT_F32},
                                            &product));
      void *buffers[matmul_buffers::count_] = {
          memory(24 * 56 * 2), memory(40 * 56 * 2), nullptr, nullptr, nullptr,
          memory(24 * 40 * 4)};
      EXPECT_STATUS_OK(product->launch(backend->defaultStream(), buffers));
    }
}

TEST_F(GemmPlanner, EmptyProducts) {
  std::unique_ptr<Plan> product;
  matmul_params params = {.m = 0,
                          .n = 8,
                          .k = 8,
                          .trans_a = 0,
                          .trans_b = 0,
                          .type = TE_RT_F32,
                          .out_type = TE_RT_F32};
  void *stream = backend->defaultStream();
  void *const nothing[matmul_buffers::count_] = {};
  ASSERT_STATUS_OK(backend->plan_matmul(params, &product));
  ASSERT_STATUS_OK(product->launch(stream, nothing));
  EXPECT_EQ(book().executed, Strings());

  // An empty sum is zero, plus c.
  params.m = 4;
  params.k = 0;
  ASSERT_STATUS_OK(backend->plan_matmul(params, &product));
  float c[32], out[32];
  std::fill(std::begin(c), std::end(c), 3.0f);
  void *buffers[matmul_buffers::count_] = {memory(0), memory(0),   nullptr,
                                           nullptr,   memory(128), memory(128)};
  ASSERT_STATUS_OK(
      backend->copyToDevice(buffers[matmul_buffers::c], c, sizeof(c)));
  ASSERT_STATUS_OK(product->launch(stream, buffers));
  ASSERT_STATUS_OK(
      backend->copyToHost(out, buffers[matmul_buffers::out], sizeof(out)));
  EXPECT_EQ(out[31], 3.0f);
  buffers[matmul_buffers::c] = nullptr;
  ASSERT_STATUS_OK(product->launch(stream, buffers));
  ASSERT_STATUS_OK(
      backend->copyToHost(out, buffers[matmul_buffers::out], sizeof(out)));
  EXPECT_EQ(out[31], 0.0f);
  buffers[matmul_buffers::bias] = buffers[0];
  EXPECT_STATUS(product->launch(stream, buffers), TE_RT_UNSUPPORTED,
                "'k' to be at least 1 in a matmul with a bias");
}

TEST_F(GemmPlanner, NamesTheProductWithoutAlgorithm) {
  book().machine.algorithms = 0;
  std::unique_ptr<Plan> product;
  EXPECT_STATUS(backend->plan_scaled_matmul(smallTensor, &product),
                TE_RT_UNSUPPORTED,
                "no algorithm for [m=32 n=48 k=64 a=f8E4M3FN/per_tensor "
                "b=f8E5M2/per_tensor out=bf16 fast] on 'Fake GPU' (compute "
                "capability 9.0)");
}

// Cases that the support table excludes do not reach the library.
TEST_F(GemmPlanner, RefusesWhatTheTableRefuses) {
  scaled_matmul_params params = smallTensor;
  params.b_type = TE_RT_F8E4M3FN;
  params.a_scheme = params.b_scheme = TE_RT_MX_1X32;
  std::unique_ptr<Plan> product;
  EXPECT_STATUS(backend->plan_scaled_matmul(params, &product),
                TE_RT_UNSUPPORTED,
                "'sm_90' has, but got 'mx_1x32' and 'mx_1x32': the tensor "
                "cores of sm_90 read no E8M0 scales; the nearest supported is "
                "'target=sm_100'");
  params.a_scheme = TE_RT_BLOCK_128X128;
  params.b_scheme = TE_RT_BLOCK_1X128;
  params.fast_accumulation = 0;
  ASSERT_STATUS_OK(backend->plan_scaled_matmul(params, &product));
  book().machine.cublasLtVersion = 120803;
  EXPECT_STATUS(backend->plan_scaled_matmul(params, &product),
                TE_RT_UNSUPPORTED, "expected cuBLASLt 12.9 or newer");
  book().machine.cublasLtVersion = 130100;
}

TEST_F(GemmPlanner, SmallProductsAreNotTuned) {
  book().machine.algorithms = 8;
  ASSERT_NE(plan(smallTensor), nullptr);
  EXPECT_EQ(book().count("cublasLtMatmul"), 0);
  EXPECT_FALSE(std::filesystem::exists(cacheFolder / "te-mlir"));
}

TEST_F(GemmPlanner, KeepsTheFastestAlgorithmOnDisk) {
  book().machine.algorithms = 5;
  book().machine.algorithmTimes = {{3, 0.5f}};
  std::unique_ptr<Plan> product = plan(largeTensor);
  ASSERT_NE(product, nullptr);
  // There are one warm-up launch and five timed launches of each.
  EXPECT_EQ(book().count("cublasLtMatmul"), 30);

  void *buffers[scaled_matmul_buffers::count_] = {
      memory(512 * 512), memory(4), nullptr, memory(512 * 512),    memory(4),
      nullptr,           nullptr,   nullptr, memory(512 * 512 * 2)};
  book().usedAlgorithms.clear();
  ASSERT_STATUS_OK(product->launch(backend->defaultStream(), buffers));
  EXPECT_EQ(book().usedAlgorithms, std::vector<int>({3}));
  EXPECT_EQ(product->workspaceBytes(), 3 * 1024);
  product.reset();

  // The same problem again, in this process and in the next one.
  for (int i = 0; i < 2; ++i) {
    book().calls.clear();
    EXPECT_EQ(plan(largeTensor)->workspaceBytes(), 3 * 1024);
    EXPECT_EQ(book().count("cublasLtMatmul"), 0);
    EXPECT_EQ(book().count("cublasLtMatmulAlgoGetHeuristic"), 0);
    restart();
  }

  // Another version of the driver counts as another machine.
  book().machine.driverVersion = 13010;
  restart();
  ASSERT_NE(plan(largeTensor), nullptr);
  EXPECT_EQ(book().count("cublasLtMatmul"), 30);
}

TEST_F(GemmPlanner, KeepsEveryProblemOfEveryProcess) {
  book().machine.algorithms = 2;
  std::unique_ptr<Backend> other;
  ASSERT_STATUS_OK(create(&other));
  scaled_matmul_params wide = largeTensor;
  wide.n = 1024;
  ASSERT_NE(plan(largeTensor), nullptr);
  std::unique_ptr<Plan> product;
  ASSERT_STATUS_OK(other->plan_scaled_matmul(wide, &product));
  product.reset();
  other.reset();
  restart();
  ASSERT_NE(plan(largeTensor), nullptr);
  ASSERT_NE(plan(wide), nullptr);
  EXPECT_EQ(book().count("cublasLtMatmul"), 0);
}

TEST_F(GemmPlanner, TunesAgainWhatTheLibraryRefuses) {
  book().machine.algorithms = 2;
  ASSERT_NE(plan(largeTensor), nullptr);
  restart();
  book().machine.algorithmsFit = false;
  ASSERT_NE(plan(largeTensor), nullptr);
  EXPECT_EQ(book().count("cublasLtMatmul"), 12);
}

TEST_F(GemmPlanner, IgnoresDamagedCacheFiles) {
  book().machine.algorithms = 2;
  ASSERT_NE(plan(largeTensor), nullptr);
  const std::filesystem::path file = cacheFile();
  std::stringstream stream;
  stream << std::ifstream(file).rdbuf();
  const std::string intact = stream.str();
  ASSERT_GT(intact.size(), 200u);

  // The file ends anywhere in the last record, or any one byte is changed. A
  // file that ends between records only lacks records, so the start of the last
  // record is not tested.
  std::vector<std::string> damaged = {"", "\n", intact + "rubbish\n",
                                      intact + intact};
  const size_t record = intact.find('\n') + 1;
  for (size_t cut : {record + 1, record + 60, intact.size() - 2})
    damaged.push_back(intact.substr(0, cut));
  for (size_t i = 0; i < intact.size() - 1; i += 7) {
    damaged.push_back(intact);
    damaged.back()[i] ^= 1;
  }
  for (const std::string &text : damaged) {
    std::ofstream(file, std::ios::trunc) << text;
    restart();
    ASSERT_NE(plan(largeTensor), nullptr);
    EXPECT_EQ(book().count("cublasLtMatmul"), 12) << text;
    std::stringstream now;
    now << std::ifstream(file).rdbuf();
    EXPECT_EQ(now.str(), intact);
  }
}

/// The file of a tuned algorithm with another field (2: bytes of scratch
/// memory, 3: the algorithm), and the sum that fits.
std::string forged(const std::string &intact, int field,
                   const std::string &value) {
  const size_t record = intact.find('\n') + 1;
  std::istringstream fields(intact.substr(record, intact.rfind('\t') - record));
  std::string body, text;
  for (int i = 0; std::getline(fields, text, '\t'); ++i)
    body += (i == 0 ? "" : "\t") + (i == field ? value : text);
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char c : body)
    hash = (hash ^ c) * 0x100000001b3u;
  char sum[17];
  std::snprintf(sum, sizeof(sum), "%016llx",
                static_cast<unsigned long long>(hash));
  return intact.substr(0, record) + body + '\t' + sum + '\n';
}

// What a file says about scratch memory is not believed, and an algorithm that
// wants too much of it is tuned again.
TEST_F(GemmPlanner, ForgedScratchMemoryIsNotAllocated) {
  book().machine.algorithms = 2;
  book().machine.algorithmTimes = {{1, 0.5f}};
  ASSERT_NE(plan(largeTensor), nullptr);
  const std::filesystem::path file = cacheFile();
  std::stringstream stream;
  stream << std::ifstream(file).rdbuf();
  const std::string intact = stream.str();
  ASSERT_EQ(forged(intact, 2, "1024"), intact);
  const size_t algorithm = intact.find("\t1024\t") + 6;
  const std::string hex =
      intact.substr(algorithm, intact.rfind('\t') - algorithm);
  const struct {
    int field;
    std::string value;
    bool isTaken;
  } cases[] = {
      {2, "9223372036854775807", true},
      {2, "-9223372036854775808", true},
      {2, "0", true},
      {2, "9223372036854775808", false},
      {2, "many", false},
      // The library says that this one needs two terabytes.
      {3, "ffffff7f" + hex.substr(8), false},
  };
  for (const auto &each : cases) {
    std::ofstream(file, std::ios::trunc)
        << forged(intact, each.field, each.value);
    restart();
    const auto product = plan(largeTensor);
    ASSERT_NE(product, nullptr);
    EXPECT_EQ(product->workspaceBytes(), 1024) << each.value;
    EXPECT_EQ(book().count("cublasLtMatmul"), each.isTaken ? 0 : 12)
        << each.value;
  }
}

TEST_F(GemmPlanner, WorksWithoutACacheFolder) {
  book().machine.algorithms = 2;
  // A file has the path of the folder.
  std::ofstream(cacheFolder / "te-mlir") << "in the way";
  ASSERT_NE(plan(largeTensor), nullptr);
  restart();
  ASSERT_NE(plan(largeTensor), nullptr);
  EXPECT_EQ(book().count("cublasLtMatmul"), 12);
}

// Both forms of a mixed block pair are timed; a bias needs the second form. The
// result is f16, because this project's kernel computes bf16 and f32 results.
TEST_F(GemmPlanner, MixedBlocksAreTriedInBothForms) {
  book().machine.algorithms = 2;
  scaled_matmul_params params = largeTensor;
  params.a_scheme = TE_RT_BLOCK_1X128;
  params.b_scheme = TE_RT_BLOCK_128X128;
  params.out_type = TE_RT_F16;
  ASSERT_NE(plan(params), nullptr);
  EXPECT_EQ(book().count("cublasLtMatmul"), 24);
  book().calls.clear();
  params.b_scheme = TE_RT_BLOCK_1X128;
  ASSERT_NE(plan(params), nullptr);
  EXPECT_EQ(book().count("cublasLtMatmul"), 12);
}

// Each operand and its scales have a tensor map, which is encoded only when an
// address changes.
TEST_F(GemmPlanner, BlockProductsKeepTheirTensorMaps) {
  scaled_matmul_params params = largeTensor;
  params.a_scheme = params.b_scheme = TE_RT_BLOCK_1X128;
  params.out_type = TE_RT_BF16;
  std::unique_ptr<Plan> product = plan(params);
  ASSERT_NE(product, nullptr);
  alignas(16) char memory[64];
  std::vector<void *> buffers(scaled_matmul_buffers::count_, memory);
  buffers[scaled_matmul_buffers::bias] = nullptr;
  book().calls.clear();
  for (int i = 0; i < 3; ++i)
    EXPECT_STATUS_OK(product->launch(backend->defaultStream(), buffers.data()));
  EXPECT_EQ(book().count("cuTensorMapEncodeTiled"), 4);
  buffers[scaled_matmul_buffers::b] = memory + 16;
  EXPECT_STATUS_OK(product->launch(backend->defaultStream(), buffers.data()));
  EXPECT_EQ(book().count("cuTensorMapEncodeTiled"), 5);
  buffers[scaled_matmul_buffers::out] = memory + 8;
  const Status status =
      product->launch(backend->defaultStream(), buffers.data());
  EXPECT_EQ(status.code, TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(status.message.find("'out'"), std::string::npos);
}

// On sm_90, block GEMMs with a bf16 result do not use cuBLASLt.
TEST_F(GemmPlanner, BlockProductsAreTheOwnKernels) {
  scaled_matmul_params params = largeTensor;
  params.a_scheme = params.b_scheme = TE_RT_BLOCK_1X128;
  params.out_type = TE_RT_BF16;
  ASSERT_NE(plan(params), nullptr);
  EXPECT_EQ(book().count("cublasLtMatmulAlgoGetHeuristic"), 0);
}

// So do large per-tensor GEMMs with split accumulation. Their scales need no
// alignment.
TEST_F(GemmPlanner, LargeTensorProductsAreTheOwnKernel) {
  const scaled_matmul_params own = {
      .m = 8192,
      .n = 4096,
      .k = 14336,
      .a_type = TE_RT_F8E5M2,
      .a_scheme = TE_RT_PER_TENSOR,
      .b_type = TE_RT_F8E4M3FN,
      .b_scheme = TE_RT_PER_TENSOR,
      .out_type = TE_RT_BF16,
      .fast_accumulation = 0,
      .a_axis = 1,
      .b_axis = 1,
      .swizzled = 0,
      .a_row_scaled = 0,
      .a_scale_max = 0,
      .b_scale_max = 0,
  };
  const auto asksLibrary = [&](auto change) {
    scaled_matmul_params params = own;
    change(params);
    book().calls.clear();
    EXPECT_NE(plan(params), nullptr);
    return book().count("cublasLtMatmulAlgoGetHeuristic") != 0;
  };
  EXPECT_FALSE(asksLibrary([](auto &) {}));
  EXPECT_FALSE(asksLibrary([](auto &p) { p.out_type = TE_RT_F32; }));
  EXPECT_TRUE(asksLibrary([](auto &p) { p.fast_accumulation = 1; }));
  EXPECT_TRUE(asksLibrary([](auto &p) { p.k = 2048; }));
  // 144 tiles for 66 clusters.
  EXPECT_TRUE(asksLibrary([](auto &p) { p.m = 2112; }));

  std::unique_ptr<Plan> product = plan(own);
  ASSERT_NE(product, nullptr);
  alignas(16) char memory[64];
  std::vector<void *> buffers(scaled_matmul_buffers::count_, memory);
  buffers[scaled_matmul_buffers::bias] = nullptr;
  buffers[scaled_matmul_buffers::a_scale] = memory + 4;
  EXPECT_STATUS_OK(product->launch(backend->defaultStream(), buffers.data()));
}

} // namespace
