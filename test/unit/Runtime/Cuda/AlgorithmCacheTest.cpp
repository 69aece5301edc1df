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
        cache.insert(problemOf(1 + process * kEach + i), {});
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
  cache.insert(problemOf(1), {});
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

} // namespace
