//===- StepTest.cpp - the header for training programs --------------------===//

#include "te-cpp/Step.h"

#include "gtest/gtest.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace {

/// A path of this process that does not exist.
class BindGroup : public testing::Test {
protected:
  void SetUp() override { std::filesystem::remove(path); }
  void TearDown() override { std::filesystem::remove(path); }

  /// The result of joining as the second of two ranks.
  std::string join(std::chrono::seconds patience) {
    te_rt_context *const context = te::makeContext("reference");
    std::string said;
    try {
      te::bindGroup(context, 3, 2, 1, path, patience);
    } catch (const std::runtime_error &error) {
      said = error.what();
    }
    te_rt_context_destroy(context);
    return said;
  }

  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("te-step-test-" + std::to_string(getpid()) + ".id"))
          .string();
};

TEST_F(BindGroup, NamesTheFileThatDoesNotCome) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(join(std::chrono::seconds(1)),
            "expected rank 0 of group 3 to write '" + path +
                "' within 1 s, but it is not there");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, std::chrono::seconds(1));
}

// The CPU does not support a handle of a GPU's library. This is reported after
// the file was read.
TEST_F(BindGroup, WaitsForTheFile) {
  std::thread first([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const std::string part = path + ".part";
    std::ofstream(part, std::ios::binary)
        << std::string(TE_RT_GROUP_ID_BYTES, 'i');
    std::rename(part.c_str(), path.c_str());
  });
  const std::string said = join(std::chrono::seconds(60));
  first.join();
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(said.find("within"), std::string::npos) << said;
  EXPECT_NE(said, "");
}

TEST_F(BindGroup, RefusesAFileThatIsCutOff) {
  std::ofstream(path, std::ios::binary) << "short";
  EXPECT_EQ(join(std::chrono::seconds(1)), "cannot read '" + path + "'");
}

} // namespace
