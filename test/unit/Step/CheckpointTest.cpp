//===- CheckpointTest.cpp - saving and loading the states of a step -------===//

#include "te-cpp/Step.h"

#include "gtest/gtest.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;
using te::support::Safetensors;

namespace {

class StepCheckpoint : public testing::Test {
protected:
  void SetUp() override {
    fs::create_directories(folder);
    // As te-compile does it.
    te::Bytes object = te::readFile(TE_STEP_FIXTURE);
    const std::string checksum = te::support::stepChecksum(object);
    object.insert(object.end(), checksum.begin(), checksum.end());
    writeBytes(stepPath, object);
    step = std::make_unique<te::Step>(stepPath, context);
    step->set("w", first);
    step->set("m", std::vector<float>(6, 9));
    step->set("s", std::vector<float>{7, 7});
    step->save(path, 5);
  }
  void TearDown() override {
    step.reset();
    te_rt_context_destroy(context);
    fs::remove_all(folder);
  }

  /// What fails in `call`; "" if nothing does.
  static std::string failureOf(const std::function<void()> &call) {
    try {
      call();
      return "";
    } catch (const std::runtime_error &error) {
      return error.what();
    }
  }
  std::vector<float> valuesOf(const char *name) {
    const te::Bytes bytes = step->read(name);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  /// The checkpoint, after `change`, in place of the old one.
  void rewrite(const std::function<void(Safetensors &)> &change) {
    const te::Bytes bytes = te::readFile(path);
    Safetensors file;
    std::string error;
    ASSERT_TRUE(te::support::parseSafetensors(bytes, file, error)) << error;
    change(file);
    std::ofstream os(path, std::ios::binary);
    ASSERT_TRUE(te::support::writeSafetensors(
        [&](const void *from, size_t size) {
          return bool(os.write(static_cast<const char *>(from), size));
        },
        file, error))
        << error;
  }
  static void writeBytes(const std::string &path, const te::Bytes &bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }
  /// Beside the step.
  size_t filesInFolder() const {
    return static_cast<size_t>(
               std::distance(fs::directory_iterator(folder), {})) -
           1;
  }

  te_rt_context *const context = te::makeContext("reference");
  const fs::path folder = fs::temp_directory_path() /
                          ("te-checkpoint-test-" + std::to_string(getpid()));
  const std::string path = (folder / "states.safetensors").string();
  const std::string stepPath = (folder / "step.so").string();
  const std::vector<float> first = {1, 2, 3, 4, 5, 6};
  std::unique_ptr<te::Step> step;
};

TEST_F(StepCheckpoint, ResumesWhereItWasSaved) {
  step->run();
  EXPECT_EQ(valuesOf("w"), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(valuesOf("m"), first);
  EXPECT_EQ(step->load(path), 5);
  EXPECT_EQ(valuesOf("w"), first);
  EXPECT_EQ(valuesOf("m"), std::vector<float>(6, 9));
}

// Nothing of a file that does not fit is applied.
TEST_F(StepCheckpoint, RefusesTheWholeFile) {
  const struct {
    std::function<void(Safetensors &)> change;
    const char *text;
  } cases[] = {
      {[](Safetensors &file) { file.metadata["te.format"] = "2"; },
       "'te.format' of"},
      {[](Safetensors &file) { file.metadata.erase("te.format"); },
       "to be '1', but got none"},
      {[](Safetensors &file) { file.metadata["te.recipe_states"] = "s"; },
       "expected metadata 'te.recipe_states' of"},
      {[](Safetensors &file) {
         file.metadata["te.recipe_states"] = std::string(1 << 20, '[');
       },
       "to be a JSON array of names, but got '[["},
      {[](Safetensors &file) {
         file.metadata["te.recipe_states"] = R"(["s", ["w"]])";
       },
       R"(but got '["s", ["w"]]')"},
      // Only states of recipes may be others.
      {[](Safetensors &file) {
         file.metadata["te.recipe"] = "another";
         file.tensors["z"] = file.tensors["w"];
       },
       "but got 'z' (F32 [2, 3])"},
      {[](Safetensors &file) {
         file.metadata["te.step"] = "100000000000000000000";
       },
       "to be a number of steps below 9223372036854775807, but got "
       "'100000000000000000000'"},
      {[](Safetensors &file) {
         file.metadata["te.step"] = "9223372036854775807";
       },
       "but got '9223372036854775807'"},
      {[](Safetensors &file) { file.metadata["te.step"] = ""; }, "but got ''"},
      {[](Safetensors &file) { file.tensors["w"].shape = {3, 2}; },
       "to be F32 [2, 3], but got F32 [3, 2]"},
      {[](Safetensors &file) {
         file.tensors["w"].shape = std::vector<int64_t>(2000000, 1);
         file.tensors["w"].data = file.tensors["w"].data.first(4);
       },
       "1, 1, 1, ... (2000000 dimensions)]"},
      {[](Safetensors &file) { file.tensors["w"].dtype = "I32"; },
       "but got I32 [2, 3]"},
      {[](Safetensors &file) { file.tensors.erase("w"); },
       "to have state 'w' (F32 [2, 3])"},
      {[](Safetensors &file) { file.tensors["z"] = file.tensors["w"]; },
       "to have states of the step only, but got 'z' (F32 [2, 3])"},
  };
  step->run();
  const std::vector<float> w = valuesOf("w"), m = valuesOf("m");
  const te::Bytes good = te::readFile(path);
  for (const auto &[change, text] : cases) {
    writeBytes(path, good);
    ASSERT_NO_FATAL_FAILURE(rewrite(change));
    const std::string said = failureOf([&] { step->load(path); });
    EXPECT_NE(said.find(text), std::string::npos) << said;
    EXPECT_EQ(valuesOf("w"), w) << text;
    EXPECT_EQ(valuesOf("m"), m) << text;
  }
}

TEST_F(StepCheckpoint, NamesOfRecipeStatesAreAnArrayOfNames) {
  const te::Bytes good = te::readFile(path);
  for (const char *text :
       {"", "3", "\"s\"", "{\"s\": 1}", "[1]", "[-1]", "[1.5]", "[true]",
        "[null]", "[[]]", "[{}]", "[\"s\"", "[\"s\"] []", "[\"s\",]"}) {
    writeBytes(path, good);
    ASSERT_NO_FATAL_FAILURE(rewrite(
        [&](Safetensors &file) { file.metadata["te.recipe_states"] = text; }));
    EXPECT_EQ(failureOf([&] { step->load(path); }),
              "expected metadata 'te.recipe_states' of '" + path +
                  "' to be a JSON array of names, but got '" + text + "'");
  }
  for (const char *text : {"[]", " [ \"s\" , \"a\\u00e9\" ] "}) {
    writeBytes(path, good);
    ASSERT_NO_FATAL_FAILURE(rewrite(
        [&](Safetensors &file) { file.metadata["te.recipe_states"] = text; }));
    EXPECT_EQ(failureOf([&] { step->load(path); }), "");
  }
}

// A run may go on under another recipe: states of recipes that are not there
// start from their initial values, and others are left, with one warning.
TEST_F(StepCheckpoint, GoesOnUnderAnotherRecipe) {
  const te::Bytes good = te::readFile(path);
  const std::string other = "'" + path +
                            "' was saved under another, but this step has "
                            "#te.recipe<fixture>",
                    same = "'" + path +
                           "' was saved under #te.recipe<fixture>, and this "
                           "step has #te.recipe<fixture>",
                    isNew = "; 1 state of this step's recipes starts from its "
                            "initial value",
                    left = "; 2 states of recipes in the file are not used";
  const auto another = [](Safetensors &file) {
    file.metadata["te.recipe"] = "another";
  };
  const auto without = [](Safetensors &file) { file.tensors.erase("s"); };
  const auto longer = [](Safetensors &file) {
    static const uint8_t zeros[12] = {};
    file.tensors["s"] = {"F32", {3}, zeros};
  };
  const auto more = [](Safetensors &file) {
    file.metadata["te.recipe_states"] = R"(["s", "a.scale", "b"])";
    file.tensors["a.scale"] = file.tensors["b"] = file.tensors["w"];
  };
  const struct {
    std::vector<std::function<void(Safetensors &)>> changes;
    std::string warning;
    float s;
  } cases[] = {
      {{}, "", 7},
      {{another}, other, 7},
      {{another, without}, other + isNew, 1},
      {{another, more}, other + left, 7},
      {{another, longer, more}, other + left + isNew, 1},
      {{without}, same + isNew, 1},
      {{[](Safetensors &file) { file.metadata.erase("te.recipe"); }, without},
       "'" + path +
           "' was saved under a recipe without a name, but this step has "
           "#te.recipe<fixture>" +
           isNew,
       1},
      // Of an earlier release.
      {{[](Safetensors &file) { file.metadata.erase("te.recipe_states"); }},
       "",
       7},
  };
  for (const auto &[changes, warning, s] : cases) {
    writeBytes(path, good);
    for (const auto &change : changes)
      ASSERT_NO_FATAL_FAILURE(rewrite(change));
    step->set("s", std::vector<float>{5, 5});
    std::string said;
    EXPECT_EQ(step->load(path, [&](const std::string &text) { said += text; }),
              5);
    EXPECT_EQ(said, warning);
    EXPECT_EQ(valuesOf("w"), first);
    EXPECT_EQ(valuesOf("s"), std::vector<float>(2, s)) << warning;
  }
  // What is saved again belongs to this recipe.
  step->save(path, 6);
  rewrite([](Safetensors &file) {
    EXPECT_EQ(file.metadata["te.recipe"], "#te.recipe<fixture>");
    EXPECT_EQ(file.metadata["te.recipe_states"], R"(["s"])");
  });
}

TEST_F(StepCheckpoint, KeepsTheModeOfTheFileItReplaces) {
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  step->save(path, 6);
  struct stat status = {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(step->load(path), 6);
  EXPECT_EQ(filesInFolder(), 1u);
}

// A link that somebody else put at a name next to the file is not followed.
TEST_F(StepCheckpoint, FollowsNoLinkBesideTheFile) {
  const fs::path other = folder / "precious";
  std::ofstream(other) << "precious";
  fs::create_symlink(other, path + ".part");
  fs::create_symlink(other, path + ".tmp");
  step->save(path, 7);
  EXPECT_EQ(te::readFile(other.string()).size(), 8u);
  EXPECT_EQ(step->load(path), 7);
}

// A limit of the file size, or a full disk, is an error that changes nothing.
TEST_F(StepCheckpoint, AFileThatDoesNotFitIsAnError) {
  const te::Bytes good = te::readFile(path);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string said = failureOf([&] { step->save(path, 8); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(said, "cannot write '" + path + "': File too large");
  EXPECT_EQ(te::readFile(path), good);
  EXPECT_EQ(filesInFolder(), 1u);
  EXPECT_EQ(failureOf([&] { step->save("/dev/full", 8); }),
            "cannot write '/dev/full': No space left on device");
  EXPECT_NE(failureOf([&] {
              step->save((folder / "absent" / "states").string(), 8);
            }).find("No such file or directory"),
            std::string::npos);
}

// Damage is found before the dynamic linker reads the file.
TEST_F(StepCheckpoint, ADamagedStepIsRefused) {
  const te::Bytes good = te::readFile(stepPath);
  const std::string other = (folder / "other.so").string();
  const auto failure = [&](const te::Bytes &bytes) {
    writeBytes(other, bytes);
    return failureOf([&] { te::Step(other, context); });
  };
  EXPECT_EQ(failure(good), "");
  for (size_t size : {size_t(0), size_t(1), size_t(64), good.size() / 3,
                      good.size() - 48, good.size() - 1})
    EXPECT_NE(failure({good.begin(), good.begin() + size}).find("cut off"),
              std::string::npos)
        << size;
  for (size_t at = 0; at < good.size() - 48; at += good.size() / 50) {
    te::Bytes damaged = good;
    damaged[at] ^= 0x80;
    EXPECT_NE(failure(damaged).find("is damaged"), std::string::npos) << at;
  }
}

} // namespace
