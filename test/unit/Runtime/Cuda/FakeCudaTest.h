//===- FakeCudaTest.h - fixture of tests on the fake vendor libraries -----===//
//
// Every test starts with an empty book and an empty cache folder. At its end,
// the book must have no violations and no live objects.
//
//===----------------------------------------------------------------------===//

#ifndef TE_UNITTEST_RUNTIME_CUDA_FAKECUDATEST_H
#define TE_UNITTEST_RUNTIME_CUDA_FAKECUDATEST_H

#include "Cuda/CudaBackend.h"
#include "Runtime/Cuda/FakeCuda.h"
#include "TEDialect/Runtime/te_runtime.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace te::fake {

class FakeCudaTest : public testing::Test {
protected:
  void SetUp() override {
    book().reset();
    std::string pattern = testing::TempDir() + "te-cuda-XXXXXX";
    cacheFolder = mkdtemp(pattern.data());
    setenv("XDG_CACHE_HOME", cacheFolder.c_str(), 1);
    unsetenv("NCCL_NVLS_ENABLE");
  }

  void TearDown() override {
    EXPECT_EQ(book().violations, std::vector<std::string>());
    EXPECT_EQ(book().leaks(), std::vector<std::string>());
    book().reset();
    std::filesystem::remove_all(cacheFolder);
  }

  static rt::cuda::LibraryPaths fakePaths() {
    return {{TE_FAKE_CUDA_DIR "/libcuda.so.1"},
            {TE_FAKE_CUDA_DIR "/libcublasLt.so.13"},
            {TE_FAKE_CUDA_DIR "/libnccl.so.2"},
            {TE_FAKE_CUDA_DIR "/libcudnn.so.9"},
            {TE_FAKE_CUDA_DIR "/libcudart.so.13"}};
  }

  static rt::Status create(std::unique_ptr<rt::Backend> *backend) {
    return rt::cuda::createBackend(fakePaths(), backend);
  }

  std::filesystem::path cacheFolder;
};

/// A context and an instance of the runtime's own interface on the fakes, which
/// it finds by their names.
class FakeCudaInstanceTest : public FakeCudaTest {
protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    // A library that is already loaded is found by its name.
    driver = dlopen(fakePaths().driver[0].c_str(), RTLD_NOW);
    cublasLt = dlopen(fakePaths().cublasLt[0].c_str(), RTLD_NOW);
    ASSERT_NE(driver, nullptr) << dlerror();
    ASSERT_NE(cublasLt, nullptr) << dlerror();
  }

  void TearDown() override {
    te_rt_instance_destroy(instance);
    te_rt_context_destroy(context);
    FakeCudaTest::TearDown();
    dlclose(cublasLt);
    dlclose(driver);
  }

  te_rt_context *context = nullptr;
  te_rt_instance *instance = nullptr;

private:
  void *driver = nullptr, *cublasLt = nullptr;
};

#define ASSERT_OK(call) ASSERT_EQ(call, TE_RT_OK) << te_rt_last_error()

#define EXPECT_STATUS_OK(expression)                                           \
  do {                                                                         \
    const ::te::rt::Status status_ = (expression);                             \
    EXPECT_EQ(status_.code, TE_RT_OK) << status_.message;                      \
  } while (false)
#define ASSERT_STATUS_OK(expression)                                           \
  do {                                                                         \
    const ::te::rt::Status status_ = (expression);                             \
    ASSERT_EQ(status_.code, TE_RT_OK) << status_.message;                      \
  } while (false)

/// Checks that the code is `expected` and that the message contains `text`.
#define EXPECT_STATUS(expression, expected, text)                              \
  do {                                                                         \
    const ::te::rt::Status status_ = (expression);                             \
    EXPECT_EQ(status_.code, expected);                                         \
    EXPECT_NE(status_.message.find(text), std::string::npos)                   \
        << status_.message;                                                    \
  } while (false)

} // namespace te::fake

#endif // TE_UNITTEST_RUNTIME_CUDA_FAKECUDATEST_H
