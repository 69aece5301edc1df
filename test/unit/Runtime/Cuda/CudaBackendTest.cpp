//===- CudaBackendTest.cpp - context, memory, timer, graphs ---------------===//
//
// The backend without the C ABI, on the fake vendor libraries.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include "Kernels/EmbeddedKernels.h"

#include <thread>

using namespace te::fake;
using namespace te::rt;
using te::rt::cuda::LibraryPaths;

namespace {

using CudaBackend = FakeCudaTest;

TEST_F(CudaBackend, ContextReleasesEverything) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(create(&backend));
  EXPECT_STREQ(backend->name(), "cuda");
  EXPECT_EQ(backend->description(),
            "Fake GPU (compute capability 9.0, 132 multiprocessors), CUDA 13.0 "
            "driver, cuBLASLt 13.1");
  EXPECT_NE(backend->defaultStream(), nullptr);
  EXPECT_FALSE(book().leaks().empty());
  backend.reset();
  EXPECT_EQ(book().leaks(), std::vector<std::string>());
}

TEST_F(CudaBackend, TwoContextsShareThePrimaryOne) {
  std::unique_ptr<Backend> one, two;
  ASSERT_STATUS_OK(create(&one));
  ASSERT_STATUS_OK(create(&two));
  one.reset();
  void *pointer = nullptr;
  EXPECT_STATUS_OK(two->alloc(16, &pointer));
}

TEST_F(CudaBackend, NamesTheMissingLibrary) {
  std::unique_ptr<Backend> backend;
  LibraryPaths paths = fakePaths();
  paths.driver = {TE_FAKE_CUDA_DIR "/libcuda-absent.so.1"};
  Status status = cuda::createBackend(paths, &backend);
  EXPECT_STATUS(status, TE_RT_UNSUPPORTED, "libcuda-absent.so.1' did not load");
  EXPECT_STATUS(status, TE_RT_UNSUPPORTED, "install the NVIDIA driver 580");

  paths = fakePaths();
  paths.cublasLt = {"libcublasLt-absent.so.13", "libcublasLt-absent.so"};
  status = cuda::createBackend(paths, &backend);
  EXPECT_STATUS(status, TE_RT_UNSUPPORTED,
                "'libcublasLt-absent.so.13' did not load");
  EXPECT_STATUS(status, TE_RT_UNSUPPORTED, "'nvidia-cublas'");
  EXPECT_EQ(backend, nullptr);
}

// Only steps with attention need cuDNN, and only attention that it supports.
TEST_F(CudaBackend, AttentionOfNothingNeedsNoLibrary) {
  std::unique_ptr<Backend> backend;
  LibraryPaths paths = fakePaths();
  paths.cudnn = {TE_FAKE_CUDA_DIR "/libcudnn-absent.so.9"};
  ASSERT_STATUS_OK(cuda::createBackend(paths, &backend));
  attention_params params{};
  params.tokens = 128;
  params.sequence = params.head_dim = params.value_dim = 64;
  params.heads = params.kv_heads = 2;
  params.type = TE_RT_BF16;
  params.scale = 0.125f;
  params.window_left = -1;
  std::unique_ptr<Plan> plan;
  EXPECT_STATUS(backend->plan_attention(params, &plan), TE_RT_UNSUPPORTED,
                "cuDNN");
  params.type = TE_RT_F32;
  EXPECT_STATUS(backend->plan_attention(params, &plan), TE_RT_UNSUPPORTED,
                "expected 'type' to be 'bf16' or 'f16'");
  EXPECT_EQ(plan, nullptr);
  params.type = TE_RT_F16;
  params.tokens = 0;
  EXPECT_STATUS_OK(backend->plan_attention(params, &plan));
}

TEST_F(CudaBackend, NamesTheMissingSymbol) {
  std::unique_ptr<Backend> backend;
  LibraryPaths paths = fakePaths();
  paths.driver = fakePaths().cublasLt;
  EXPECT_STATUS(cuda::createBackend(paths, &backend), TE_RT_UNSUPPORTED,
                "has no symbol 'cuCtxGetCurrent'");
}

TEST_F(CudaBackend, LaterPathsAreTried) {
  std::unique_ptr<Backend> backend;
  LibraryPaths paths = fakePaths();
  paths.cublasLt.insert(paths.cublasLt.begin(), "libcublasLt-absent.so.13");
  EXPECT_STATUS_OK(cuda::createBackend(paths, &backend));
}

TEST_F(CudaBackend, SaysThatThereIsNoGpu) {
  std::unique_ptr<Backend> backend;
  book().machine.deviceCount = 0;
  EXPECT_STATUS(create(&backend), TE_RT_UNSUPPORTED, "reports no GPU");
  book().machine.deviceCount = -1;
  EXPECT_STATUS(create(&backend), TE_RT_UNSUPPORTED, "found no GPU");
}

TEST_F(CudaBackend, RefusesOldGpusAndDrivers) {
  std::unique_ptr<Backend> backend;
  book().machine.computeMajor = 8;
  EXPECT_STATUS(create(&backend), TE_RT_UNSUPPORTED,
                "expected a GPU of compute capability 9.0 or newer, but got "
                "8.0 ('Fake GPU')");
  book().machine.computeMajor = 9;
  book().machine.driverVersion = 12040;
  EXPECT_STATUS(create(&backend), TE_RT_UNSUPPORTED,
                "expected a driver for CUDA 13.0 or newer, but got one for "
                "12.4");
}

TEST_F(CudaBackend, TakesTheDeviceItIsGiven) {
  book().machine.deviceCount = 2;
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(cuda::createBackend(fakePaths(), &backend, 1));
  EXPECT_EQ(backend->description().find("Fake GPU 1 ("), 0u)
      << backend->description();
  backend.reset();
  EXPECT_STATUS(cuda::createBackend(fakePaths(), &backend, 2),
                TE_RT_UNSUPPORTED,
                "expected 'device' to be below the number of GPUs, 2, but got "
                "2; check 'nvidia-smi'");
}

TEST_F(CudaBackend, CopiesThereAndBack) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(create(&backend));
  void *memory = nullptr;
  ASSERT_STATUS_OK(backend->alloc(7, &memory));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
  const char sent[] = "abcdef";
  char received[7] = "";
  EXPECT_STATUS_OK(backend->copyToDevice(memory, sent, 7));
  EXPECT_STATUS_OK(backend->copyToHost(received, memory, 7));
  EXPECT_STREQ(received, sent);
  EXPECT_STATUS_OK(backend->copyToHost(nullptr, nullptr, 0));
  EXPECT_STATUS_OK(backend->free(memory));
}

TEST_F(CudaBackend, TracksAllocations) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(create(&backend));
  void *one = nullptr, *two = nullptr;
  ASSERT_STATUS_OK(backend->alloc(0, &one));
  ASSERT_STATUS_OK(backend->alloc(0, &two));
  EXPECT_NE(one, two);
  EXPECT_STATUS(backend->alloc(-1, &one), TE_RT_INVALID_ARGUMENT, "got -1");
  EXPECT_STATUS_OK(backend->free(one));
  EXPECT_STATUS(backend->free(one), TE_RT_INVALID_ARGUMENT, "freed already");
  int local;
  EXPECT_STATUS(backend->free(&local), TE_RT_INVALID_ARGUMENT,
                "come from this context");
  EXPECT_STATUS_OK(backend->free(nullptr));
  // `two` is released with the backend.
}

TEST_F(CudaBackend, MeasuresBetweenMarks) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(create(&backend));
  float milliseconds = 0;
  EXPECT_STATUS(backend->timerElapsed(&milliseconds), TE_RT_INVALID_ARGUMENT,
                "both timer marks");
  EXPECT_STATUS(backend->timerMark(2), TE_RT_INVALID_ARGUMENT, "but got 2");
  ASSERT_STATUS_OK(backend->timerMark(0));
  book().clock += 2.5f;
  ASSERT_STATUS_OK(backend->timerMark(1));
  ASSERT_STATUS_OK(backend->timerElapsed(&milliseconds));
  EXPECT_EQ(milliseconds, 2.5f);
}

TEST_F(CudaBackend, WorksFromAnotherThread) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(create(&backend));
  std::thread([&] {
    void *memory = nullptr;
    EXPECT_STATUS_OK(backend->alloc(16, &memory));
    EXPECT_STATUS_OK(backend->copyToDevice(memory, "abc", 4));
    EXPECT_STATUS_OK(backend->free(memory));
    EXPECT_STATUS_OK(backend->synchronize());
    backend.reset();
  }).join();
}

TEST_F(CudaBackend, FindsKernelsByName) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(create(&backend));
  cuda::Driver driver;
  cuda::Library library;
  ASSERT_STATUS_OK(cuda::Library::open(fakePaths().driver, "", &library));
#define TE_CUDA_SYMBOL(name, versioned)                                        \
  ASSERT_STATUS_OK(library.symbol(#versioned, &driver.name));
#include "Cuda/DriverSymbols.inc"
#undef TE_CUDA_SYMBOL
  cuda::CudaDevice device;
  device.driver = &driver;
  for (const cuda::EmbeddedKernel *family = cuda::embeddedKernels; family->name;
       ++family) {
    CUmodule module;
    ASSERT_EQ(driver.cuModuleLoadData(&module, family->image), CUDA_SUCCESS);
    ASSERT_STATUS_OK(device.addModule(module));
  }

  CUfunction function = nullptr;
  EXPECT_STATUS_OK(device.function("te_fill_4", &function));
  EXPECT_EQ(book().count("cuFuncSetAttribute"), 0);
  EXPECT_STATUS_OK(device.function("te_fill_4", &function, 100 * 1024));
  EXPECT_EQ(book().count("cuFuncSetAttribute"), 1);
  EXPECT_STATUS(device.function("te_no_such_kernel", &function), TE_RT_INTERNAL,
                "no embedded module has the kernel 'te_no_such_kernel'");
  // No module is asked for a kernel that it does not have, because such calls
  // fail and tools that observe the driver report them.
  EXPECT_EQ(book().count("cuModuleGetFunction"), 2);
  for (CUmodule module : device.modules)
    driver.cuModuleUnload(module);
}

} // namespace
