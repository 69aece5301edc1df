//===- CacheTest.cpp - results on disk, and what may be wrong with them ---===//

#include "Support/Cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;
using te::support::Cache;
using te::support::Digest;

namespace {

class CacheFiles : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::path(testing::TempDir()) /
             ("te-cache-" + std::to_string(getpid())) / "code";
  }
  void TearDown() override { fs::remove_all(folder.parent_path()); }

  static Digest keyOf(int number) {
    return te::support::sha256(&number, sizeof(number));
  }
  std::string fileOf(int number) const {
    return (folder / te::support::hexOf(keyOf(number))).string();
  }
  static std::string read(const std::string &file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static void write(const std::string &file, const std::string &text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  size_t numFiles() const {
    return std::distance(fs::directory_iterator(folder), {});
  }

  fs::path folder;
};

TEST_F(CacheFiles, AreFoundByTheirKey) {
  const Cache cache(folder, 1 << 20);
  EXPECT_EQ(cache.find(keyOf(1)), std::nullopt);
  cache.insert(keyOf(1), "one");
  cache.insert(keyOf(2), std::string("t\0wo", 4));
  EXPECT_EQ(cache.find(keyOf(1)), "one");
  EXPECT_EQ(cache.find(keyOf(2)), std::string("t\0wo", 4));
  EXPECT_EQ(numFiles(), 2u);
}

/// Each byte of a file, each length of it, and a file under another name.
TEST_F(CacheFiles, ThatAreDamagedAreReplaced) {
  const Cache cache(folder, 1 << 20);
  cache.insert(keyOf(1), "one");
  const std::string whole = read(fileOf(1));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] ^= 1;
    write(fileOf(1), changed);
    EXPECT_EQ(cache.find(keyOf(1)), std::nullopt) << "byte " << i;
    write(fileOf(1), whole.substr(0, i));
    EXPECT_EQ(cache.find(keyOf(1)), std::nullopt) << "length " << i;
  }
  write(fileOf(2), whole);
  EXPECT_EQ(cache.find(keyOf(2)), std::nullopt);
  cache.insert(keyOf(1), "one");
  EXPECT_EQ(read(fileOf(1)), whole);
}

TEST_F(CacheFiles, ThatAreNoneAreLeftAlone) {
  const Cache cache(folder, 1 << 20);
  fs::create_directories(folder);
  ASSERT_EQ(mkfifo(fileOf(1).c_str(), 0600), 0);
  fs::create_directories(fileOf(2));
  fs::create_symlink("/dev/zero", fileOf(3));
  for (int number : {1, 2, 3}) {
    EXPECT_EQ(cache.find(keyOf(number)), std::nullopt);
    cache.insert(keyOf(number), "one");
    EXPECT_EQ(cache.find(keyOf(number)), std::nullopt);
  }
  EXPECT_TRUE(fs::is_fifo(fileOf(1)));
  EXPECT_TRUE(fs::is_symlink(fileOf(3)));
}

TEST_F(CacheFiles, NeedNoFolder) {
  fs::create_directories(folder.parent_path());
  ASSERT_EQ(mkfifo(folder.c_str(), 0600), 0);
  const Cache cache(folder, 1 << 20);
  cache.insert(keyOf(1), "one");
  EXPECT_EQ(cache.find(keyOf(1)), std::nullopt);
}

TEST_F(CacheFiles, OfLongAgoMakeRoom) {
  const Cache cache(folder, 10000);
  const std::string result(1000, 'x');
  for (int number = 0; number < 9; ++number) {
    cache.insert(keyOf(number), result);
    fs::last_write_time(fileOf(number), fs::file_time_type::clock::now() -
                                            std::chrono::hours(100 - number));
  }
  // It was stored first, and is used now.
  EXPECT_EQ(cache.find(keyOf(0)), result);
  cache.insert(keyOf(9), result);
  EXPECT_EQ(cache.find(keyOf(0)), result);
  EXPECT_EQ(cache.find(keyOf(1)), std::nullopt);
  EXPECT_EQ(cache.find(keyOf(9)), result);
  EXPECT_EQ(numFiles(), 7u);
  // What would take most of the room is not stored.
  cache.insert(keyOf(10), std::string(5000, 'x'));
  EXPECT_EQ(cache.find(keyOf(10)), std::nullopt);
}

/// Two processes store and look without end; a result is whole or absent.
TEST_F(CacheFiles, AreWholeForSeveralProcesses) {
  const Cache cache(folder, 1 << 20);
  const std::string result(100000, 'x');
  const auto run = [&] {
    for (int round = 0; round < 200; ++round) {
      cache.insert(keyOf(round % 3), result);
      const auto found = cache.find(keyOf((round + 1) % 3));
      if (found && *found != result)
        return false;
    }
    return cache.find(keyOf(0)) == result;
  };
  const pid_t child = fork();
  if (child == 0)
    _exit(run() ? 0 : 1);
  EXPECT_TRUE(run());
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

} // namespace
