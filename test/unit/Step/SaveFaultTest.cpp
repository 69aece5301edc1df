//===- SaveFaultTest.cpp - system calls that fail while a file is saved ---===//
//
// Each call of each writer fails once, and from there on: an error names the
// file, the file is as it was or complete, and nothing is left.
//
//===----------------------------------------------------------------------===//

#include "Step/FailingCalls.h"
#include "Support/Npz.h"
#include "te-cpp/Step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;
using te::calls::Plan;
using te::support::OutputFile;

namespace {

constexpr const char *kOld = "what was there before";

class SaveFault : public testing::Test {
protected:
  /// Saves to `path`; returns false, with an error, where that fails.
  using Save = std::function<bool(const std::string &path, std::string &error)>;
  using Calls = std::vector<std::string>;

  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  /// Puts the old file in place, or removes it.
  void prepare(bool exists) const {
    fs::remove_all(path);
    if (!exists)
      return;
    std::ofstream(path) << kOld;
    ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  }
  std::string content() const {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  size_t filesInFolder() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder), {}));
  }
  static size_t openFiles() {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator("/proc/self/fd"), {}));
  }

  /// The calls of a save by what they are about; `result` is whether it
  /// succeeded, and `error` what it said.
  Calls callsOf(const Save &save, const Plan &plan, bool *result,
                std::string *error) const {
    te::calls::record(plan);
    *result = save(path, *error);
    Calls calls = te::calls::stop();
    for (std::string &call : calls) {
      const std::string name = call.substr(0, call.find(' ') + 1),
                        about = call.substr(name.size());
      call = name + (about == path                              ? "file"
                     : about == folder.string()                 ? "folder"
                     : about.find(".tmp-") != std::string::npos ? "temporary"
                                                                : about);
    }
    return calls;
  }

  /// What may fail without harm: whose file it is, a lock that only tells
  /// others that the writer lives, and the end of what is synchronised.
  static bool isHarmless(const std::string &call) {
    return call == "flock temporary" || call == "fchown temporary" ||
           call == "close folder";
  }

  /// Lets each call of `save` fail.
  void sweep(const Save &save, bool exists) const {
    ASSERT_NO_FATAL_FAILURE(prepare(exists));
    bool saved = false;
    std::string error;
    const Calls all = callsOf(save, {}, &saved, &error);
    ASSERT_TRUE(saved) << error;
    const std::string fresh = content();
    ASSERT_NE(fresh, kOld);
    const auto rename =
        std::find(all.begin(), all.end(), "rename temporary") - all.begin();
    const auto count = static_cast<int>(all.size());
    ASSERT_LT(rename, count);
    for (const bool isLasting : {false, true})
      for (const int code : {EIO, ENOSPC})
        for (int n = 0; n < count; ++n) {
          SCOPED_TRACE(all[n] + ", call " + std::to_string(n) +
                       (isLasting ? " and all others" : ""));
          ASSERT_NO_FATAL_FAILURE(prepare(exists));
          const size_t before = openFiles();
          error.clear();
          callsOf(save, {n, code, isLasting}, &saved, &error);
          int fatal = n;
          while (fatal < count && isHarmless(all[fatal]))
            fatal = isLasting ? fatal + 1 : count;
          EXPECT_EQ(saved, fatal == count) << error;
          if (!saved)
            EXPECT_EQ(error,
                      "cannot write '" + path + "': " + std::strerror(code));
          const bool isNew = fatal > rename;
          EXPECT_EQ(content(), isNew ? fresh : exists ? kOld : "");
          EXPECT_EQ(filesInFolder(), isNew || exists ? 1u : 0u);
          struct stat status = {};
          if (exists && stat(path.c_str(), &status) == 0)
            EXPECT_EQ(status.st_mode & 07777, 0640u);
          EXPECT_EQ(openFiles(), before);
        }
  }

  const fs::path folder = fs::canonical(fs::temp_directory_path()) /
                          ("te-save-test-" + std::to_string(getpid()));
  const std::string path = (folder / "a.file").string();
};

// Where a write fails, the commit says why.
bool saveText(const std::string &path, std::string &error) {
  OutputFile file;
  const std::string text(100000, 'n');
  if (!file.open(path, error))
    return false;
  (void)file.write(text.data(), 10);
  (void)file.write(text.data(), text.size());
  return file.commit(error);
}

TEST_F(SaveFault, OfAnOutput) {
  sweep(saveText, /*exists=*/true);
  sweep(saveText, /*exists=*/false);
}

TEST_F(SaveFault, OfArrays) {
  const te::support::NpzArchive arrays = {
      {"a", {"<f4", {100, 1000}, std::vector<uint8_t>(400000, 7)}},
      {"b", {"|V2", {3}, {1, 2, 3, 4, 5, 6}}}};
  for (const bool deflate : {false, true})
    sweep(
        [&](const std::string &path, std::string &error) {
          return te::support::writeNpz(path, arrays, deflate, error);
        },
        /*exists=*/true);
  sweep(
      [&](const std::string &path, std::string &error) {
        return te::support::writeNpy(path, arrays.at("a"), error);
      },
      /*exists=*/true);
}

TEST_F(SaveFault, OfACheckpoint) {
  const std::string stepPath = folder.string() + ".so";
  te::Bytes object = te::readFile(TE_STEP_FIXTURE);
  const std::string checksum = te::support::stepChecksum(object);
  object.insert(object.end(), checksum.begin(), checksum.end());
  std::ofstream(stepPath, std::ios::binary)
      .write(reinterpret_cast<const char *>(object.data()),
             static_cast<std::streamsize>(object.size()));
  te_rt_context *const context = te::makeContext("reference");
  {
    te::Step step(stepPath, context);
    step.initialize(0);
    const Save save = [&](const std::string &path, std::string &error) {
      try {
        step.save(path, 3);
        return true;
      } catch (const std::runtime_error &exception) {
        error = exception.what();
        return false;
      }
    };
    sweep(save, /*exists=*/true);
    sweep(save, /*exists=*/false);
  }
  te_rt_context_destroy(context);
  fs::remove(stepPath);
}

// The bytes are on the disk before the name is, and the name is before the end.
TEST_F(SaveFault, TheOrderOfItsCalls) {
  ASSERT_NO_FATAL_FAILURE(prepare(/*exists=*/true));
  bool saved = false;
  std::string error;
  const Calls last = {"fsync temporary", "close temporary", "rename temporary",
                      "open folder",     "fsync folder",    "close folder"};
  Calls expected = {"stat file",        "access file",     "open temporary",
                    "flock temporary",  "write temporary", "write temporary",
                    "fchown temporary", "fchmod temporary"};
  expected.insert(expected.end(), last.begin(), last.end());
  EXPECT_EQ(callsOf(saveText, {}, &saved, &error), expected);
  ASSERT_NO_FATAL_FAILURE(prepare(/*exists=*/false));
  expected = {"stat file", "open temporary", "flock temporary",
              "write temporary", "write temporary"};
  expected.insert(expected.end(), last.begin(), last.end());
  EXPECT_EQ(callsOf(saveText, {}, &saved, &error), expected);
}

// A write that takes a part, or that a signal interrupts, goes on.
TEST_F(SaveFault, WritesOfParts) {
  bool saved = false;
  std::string error;
  callsOf(saveText, {.mostBytes = 999}, &saved, &error);
  EXPECT_TRUE(saved) << error;
  EXPECT_EQ(content(), std::string(100010, 'n'));
  ASSERT_NO_FATAL_FAILURE(prepare(/*exists=*/true));
  const Calls calls =
      callsOf(saveText, {.failing = 4, .code = EINTR}, &saved, &error);
  EXPECT_TRUE(saved) << error;
  EXPECT_EQ(calls[4], "write temporary");
  EXPECT_EQ(content(), std::string(100010, 'n'));
}

// The folder may be one that cannot be read, or one of a file system that
// cannot synchronise folders.
TEST_F(SaveFault, OfFoldersThatCannotBeSynchronised) {
  const struct {
    int failing, code;
    const char *call;
  } cases[] = {{11, EACCES, "open folder"},
               {12, EINVAL, "fsync folder"},
               {12, ENOTSUP, "fsync folder"},
               {12, EROFS, "fsync folder"}};
  for (const auto &each : cases) {
    ASSERT_NO_FATAL_FAILURE(prepare(/*exists=*/true));
    bool saved = false;
    std::string error;
    const Calls calls = callsOf(
        saveText, {.failing = each.failing, .code = each.code}, &saved, &error);
    EXPECT_TRUE(saved) << error;
    EXPECT_EQ(calls[static_cast<size_t>(each.failing)], each.call);
    EXPECT_EQ(content(), std::string(100010, 'n'));
  }
}

// What is no regular file is written in place.
TEST_F(SaveFault, OfADevice) {
  const auto save = [](const std::string &, std::string &error) {
    return saveText("/dev/null", error);
  };
  bool saved = false;
  std::string error;
  const Calls expected = {"stat /dev/null", "open /dev/null", "write /dev/null",
                          "write /dev/null", "close /dev/null"};
  EXPECT_EQ(callsOf(save, {}, &saved, &error), expected);
  EXPECT_TRUE(saved) << error;
  for (const int n : {0, 1, 4}) {
    callsOf(save, {.failing = n, .code = EIO}, &saved, &error);
    EXPECT_FALSE(saved);
    EXPECT_EQ(error, "cannot write '/dev/null': Input/output error");
  }
}

} // namespace
