//===- StepTest.cpp - te::Step when host memory runs out ------------------===//

#include "te-cpp/Step.h"
#include "Memory/FailingMemory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <unistd.h>

namespace fs = std::filesystem;
using te::memory::Attempt;

namespace {

/// `body` as an Attempt wants it.
template <typename Body> auto checked(Body body) {
  return [=](bool &outOfMemory) {
    try {
      body();
      return true;
    } catch (const std::bad_alloc &) {
      outOfMemory = true;
    } catch (const std::exception &exception) {
      outOfMemory = std::strstr(exception.what(), "memory") ||
                    std::strstr(exception.what(), "cannot allocate");
    }
    return false;
  };
}

/// The step of ../Step/Fixture.c, whose symbols are this program's.
class StepOutOfMemory : public testing::Test {
protected:
  void SetUp() override {
    fs::create_directories(folder);
    te::Bytes object = te::readFile(TE_MEMORY_FIXTURE);
    const std::string checksum = te::support::stepChecksum(object);
    object.insert(object.end(), checksum.begin(), checksum.end());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(object.data()),
               static_cast<std::streamsize>(object.size()));
    // What the first one leaves in the libraries is no leak.
    te::Step(path, context).initialize(0);
  }
  void TearDown() override {
    te_rt_context_destroy(context);
    fs::remove_all(folder);
  }

  static bool hold(const te::Step &step, const std::string &name, float value) {
    const auto *values = static_cast<const float *>(step.pointer(name));
    return std::all_of(values, values + 6,
                       [=](float each) { return each == value; });
  }
  /// The states are 3, 5 and what the recipe says.
  void fill(te::Step &step) {
    step.set("w", threes);
    step.set("m", fives);
  }

  te_rt_context *const context = te::makeContext("reference");
  /// In memory, where there is such a folder: many files are synchronised.
  const fs::path folder = (fs::exists("/dev/shm") ? fs::path("/dev/shm")
                                                  : fs::temp_directory_path()) /
                          ("te-memory-test-" + std::to_string(getpid()));
  const std::string path = (folder / "step.so").string();
  const std::string saved = (folder / "states.safetensors").string();
  const std::string w = "w", m = "m";
  const std::vector<float> threes = std::vector<float>(6, 3),
                           fives = std::vector<float>(6, 5);
};

TEST_F(StepOutOfMemory, OfItsLife) {
  te::memory::sweep([&](Attempt &attempt) {
    std::unique_ptr<te::Step> step;
    if (!attempt(
            checked([&] { step = std::make_unique<te::Step>(path, context); })))
      return;
    if (!attempt(checked([&] { step->initialize(1); })) ||
        !attempt(checked([&] { fill(*step); })) ||
        !attempt(checked([&] { step->run(); })))
      return;
    attempt.expect(hold(*step, w, 6) && hold(*step, m, 3));
    attempt(checked([&] { attempt.expect(step->read("w").size() == 24); }));
  });
}

TEST_F(StepOutOfMemory, WhileItSaves) {
  te::Step step(path, context);
  fill(step);
  step.save(saved, 1);
  const te::Bytes before = te::readFile(saved);
  const auto files = [&] {
    const te::memory::Exempt exempt;
    return std::distance(fs::directory_iterator(folder), {});
  };
  te::memory::sweep([&](Attempt &attempt) {
    // The file is as it was, or that of the next step; nothing else is left.
    const bool works = attempt(checked([&] { step.save(saved, 2); }));
    const te::memory::Exempt exempt;
    attempt.expect(files() == 2);
    attempt.expect((te::readFile(saved) == before) == !works);
    if (works)
      step.save(saved, 1);
  });
}

// Under another recipe, whose states start as the step says.
TEST_F(StepOutOfMemory, WhileItLoads) {
  te::Step step(path, context);
  fill(step);
  step.save(saved, 7);
  te::Bytes bytes = te::readFile(saved);
  te::support::Safetensors file;
  std::string error;
  ASSERT_TRUE(te::support::parseSafetensors(bytes, file, error)) << error;
  file.metadata["te.recipe"] = "#te.recipe<another>";
  file.metadata["te.recipe_states"] = "[]";
  file.tensors.erase("s");
  std::ofstream os(saved, std::ios::binary);
  ASSERT_TRUE(te::support::writeSafetensors(
      [&](const void *from, size_t size) {
        return bool(os.write(static_cast<const char *>(from),
                             static_cast<std::streamsize>(size)));
      },
      file, error))
      << error;
  os.close();
  auto *const s = static_cast<float *>(step.pointer("s"));
  te::memory::sweep([&](Attempt &attempt) {
    auto *const first = static_cast<float *>(step.pointer(w)),
                *const second = static_cast<float *>(step.pointer(m));
    std::fill(first, first + 6, 1.0f);
    std::fill(second, second + 6, 2.0f);
    std::fill(s, s + 2, 4.0f);
    const auto load = checked([&] {
      attempt.expect(step.load(saved, [](const std::string &) {}) == 7);
    });
    bool outOfMemory = false;
    if (!load(outOfMemory)) {
      attempt.expect(outOfMemory);
      attempt.expect(hold(step, w, 1) && hold(step, m, 2) && s[0] == 4 &&
                     s[1] == 4);
      te::memory::recover();
      attempt.expect(load(outOfMemory));
    }
    attempt.expect(hold(step, w, 3) && hold(step, m, 5) && s[0] != 4);
  });
}

} // namespace
