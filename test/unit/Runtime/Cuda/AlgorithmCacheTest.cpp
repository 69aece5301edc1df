//===- AlgorithmCacheTest.cpp - the file of tuned algorithms --------------===//
//
// What several processes and unusual files do to it. GemmPlannerTest tests its
// use while planning, and damaged records.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include "Gemm/AlgorithmCache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

using namespace te::fake;
using namespace te::rt::cuda;

namespace {

class AlgorithmCacheFile : public FakeCudaTest {};

GemmProblem problemOf(int64_t m) {
  GemmProblem problem;
  problem.m = m;
  problem.n = problem.k = 8;
  return problem;
}

/// Returns what the cache has then.
GemmAlgorithm insert(AlgorithmCache &cache, int64_t m, GemmAlgorithm algorithm,
                     bool replaces = false) {
  EXPECT_STATUS_OK(cache.insert(problemOf(m), replaces, &algorithm));
  return algorithm;
}

GemmAlgorithm algorithmOf(int64_t workspaceBytes) {
  GemmAlgorithm algorithm;
  algorithm.workspaceBytes = workspaceBytes;
  return algorithm;
}

/// Each process inserts problems of its own, all at once.
TEST_F(AlgorithmCacheFile, KeepsTheEntriesOfAllProcesses) {
  constexpr int kProcesses = 4, kEach = 50;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      AlgorithmCache cache("machine");
      for (int i = 0; i < kEach; ++i)
        insert(cache, 1 + process * kEach + i, {});
      _exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  AlgorithmCache cache("machine");
  for (int m = 1; m <= kProcesses * kEach; ++m)
    EXPECT_TRUE(cache.find(problemOf(m)).has_value()) << m;
}

// A FIFO without a writer would block a reader forever.
TEST_F(AlgorithmCacheFile, DoesNotWaitForAFifo) {
  const std::string file = AlgorithmCache("machine").file();
  std::filesystem::create_directories(
      std::filesystem::path(file).parent_path());
  for (const char *suffix : {"", ".lock"})
    ASSERT_EQ(mkfifo((file + suffix).c_str(), 0600), 0);
  AlgorithmCache cache("machine");
  EXPECT_FALSE(cache.find(problemOf(1)).has_value());
  insert(cache, 1, {});
  EXPECT_TRUE(cache.find(problemOf(1)).has_value());
  // It is replaced by a file.
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
  EXPECT_TRUE(AlgorithmCache("machine").find(problemOf(1)).has_value());
}

// A file of a terabyte is not read.
TEST_F(AlgorithmCacheFile, IgnoresAnEndlessFile) {
  const std::string file = AlgorithmCache("machine").file();
  std::filesystem::create_directories(
      std::filesystem::path(file).parent_path());
  std::ofstream(file) << "\n";
  ASSERT_EQ(truncate(file.c_str(), off_t(1) << 40), 0);
  EXPECT_FALSE(AlgorithmCache("machine").find(problemOf(1)).has_value());
}

// Processes that tune one problem at the same time use one algorithm.
TEST_F(AlgorithmCacheFile, TheFirstOfTwoProcessesChooses) {
  AlgorithmCache first("machine"), second("machine");
  EXPECT_FALSE(first.find(problemOf(1)) || second.find(problemOf(1)));
  EXPECT_EQ(insert(first, 1, algorithmOf(100)).workspaceBytes, 100);
  EXPECT_EQ(insert(second, 1, algorithmOf(200)).workspaceBytes, 100);
  EXPECT_EQ(second.find(problemOf(1))->workspaceBytes, 100);
  // Unless the library does not accept it.
  insert(second, 1, algorithmOf(200), /*replaces=*/true);
  EXPECT_EQ(AlgorithmCache("machine").find(problemOf(1))->workspaceBytes, 200);
}

// What is wrong with a file that the user names is an error, and the cache is
// as it was.
TEST_F(AlgorithmCacheFile, RefusesANamedFile) {
  const std::string file = cacheFolder / "tuned.txt";
  AlgorithmCache cache("machine");
  EXPECT_STATUS(cache.open(file.c_str(), true), TE_RT_INVALID_ARGUMENT,
                "cannot read the tuning file '" + file +
                    "': No such file or directory");
  ASSERT_STATUS_OK(cache.open(file.c_str(), false));
  insert(cache, 1, algorithmOf(100));
  insert(cache, 2, algorithmOf(200));
  EXPECT_FALSE(std::filesystem::exists(cacheFolder / "te-mlir"));

  AlgorithmCache other("other machine");
  EXPECT_STATUS(other.open(file.c_str(), false), TE_RT_INVALID_ARGUMENT,
                "tuned on [other machine], but it was on [machine]");
  std::ofstream(file, std::ios::app) << "rubbish\n";
  EXPECT_STATUS(AlgorithmCache("machine").open(file.c_str(), true),
                TE_RT_INVALID_ARGUMENT, "its line 4 is damaged");
  GemmAlgorithm algorithm;
  EXPECT_STATUS(cache.insert(problemOf(3), false, &algorithm),
                TE_RT_INVALID_ARGUMENT, "its line 4 is damaged");
  std::ofstream(file) << "x = 1\n";
  EXPECT_STATUS(AlgorithmCache("machine").open(file.c_str(), true),
                TE_RT_INVALID_ARGUMENT, "starts with 'te-mlir-gemm-1'");
  EXPECT_STATUS(cache.open(cacheFolder.c_str(), true), TE_RT_INVALID_ARGUMENT,
                "expected a regular file");
  EXPECT_EQ(cache.file(), file);

  const std::string nowhere = cacheFolder / "no folder/tuned.txt";
  ASSERT_STATUS_OK(cache.open(nowhere.c_str(), false));
  EXPECT_STATUS(cache.insert(problemOf(1), false, &algorithm),
                TE_RT_INVALID_ARGUMENT,
                "cannot write the tuning file '" + nowhere +
                    "': No such file or directory");
}

} // namespace
