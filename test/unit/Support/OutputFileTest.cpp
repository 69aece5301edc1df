//===- OutputFileTest.cpp - files of writers that are killed --------------===//

#include "Support/OutputFile.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;
using te::support::OutputFile;

namespace {

class OutputFiles : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::path(testing::TempDir()) /
             ("te-output-" + std::to_string(getpid()));
    fs::create_directories(folder);
    file = (folder / "a.npz").string();
  }
  void TearDown() override { fs::remove_all(folder); }

  void save(const std::string &text) {
    OutputFile output;
    std::string error;
    ASSERT_TRUE(output.open(file, error)) << error;
    ASSERT_TRUE(output.write(text.data(), text.size()));
    ASSERT_TRUE(output.commit(error)) << error;
  }
  std::string content() const {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::vector<fs::path> others() const {
    std::vector<fs::path> found;
    for (const auto &entry : fs::directory_iterator(folder))
      if (entry.path() != file)
        found.push_back(entry.path());
    return found;
  }
  static void makeOld(const fs::path &path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() -
                                  std::chrono::hours(1));
  }

  fs::path folder;
  std::string file;
};

/// A process that saves without end is killed at 20 moments: the file is always
/// one of the whole ones, and the next save long after leaves it alone.
TEST_F(OutputFiles, OfKilledWritersAreWholeAndTheRestIsRemoved) {
  const std::string first(300000, 'a'), second(400000, 'b');
  save(first);
  for (int moment = 0; moment < 20; ++moment) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) {
        save(first);
        save(second);
      }
    }
    usleep(1000 + 700 * moment);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string found = content();
    EXPECT_TRUE(found == first || found == second);
  }
  // At least one, whatever the moments were.
  std::ofstream(file + ".tmp-0123abcd") << "half";
  for (const fs::path &left : others())
    makeOld(left);
  save(second);
  EXPECT_EQ(others(), std::vector<fs::path>());
  EXPECT_EQ(content(), second);
}

/// Two processes save to one file, again and again, and a third one reads it.
TEST_F(OutputFiles, OfTwoProcessesAreOneOfBoth) {
  constexpr int kSaves = 50;
  const std::string texts[] = {std::string(300000, 'a'),
                               std::string(400000, 'b')};
  save(texts[0]);
  std::vector<pid_t> children;
  for (const std::string &text : texts) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0; i < kSaves; ++i)
        save(text);
      _exit(HasFailure());
    }
    children.push_back(child);
  }
  const auto isWhole = [&](const std::string &found) {
    return found == texts[0] || found == texts[1];
  };
  // Until both have ended.
  for (const pid_t child : children) {
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0)
      ASSERT_PRED1(isWhole, content());
    EXPECT_EQ(status, 0);
  }
  EXPECT_PRED1(isWhole, content());
  EXPECT_EQ(others(), std::vector<fs::path>());
}

TEST_F(OutputFiles, OfOthersStay) {
  // Young, of a name that is not ours, of another output, and a link.
  std::ofstream(file + ".tmp-00000000") << "young";
  for (const char *name : {".tmp-0000000", ".tmp-0000000g", ".tmp-000000000"}) {
    std::ofstream(file + name) << "user's";
    makeOld(file + name);
  }
  fs::create_symlink(file + ".tmp-00000000", file + ".tmp-00000001");
  // Of a writer that is slow.
  OutputFile slow;
  std::string error;
  ASSERT_TRUE(slow.open(file, error)) << error;
  for (const fs::path &path : others())
    if (path.extension().string().size() == 13 && fs::file_size(path) == 0)
      makeOld(path);
  save("new");
  EXPECT_EQ(others().size(), 6u);
  EXPECT_TRUE(slow.commit(error)) << error;
}

} // namespace
