//===- InitializeTest.cpp - parameters before the first step --------------===//

#include "Core/Types.h"
#include "te-cpp/Step.h"

#include "gtest/gtest.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace {

class StepInitialize : public testing::Test {
protected:
  void TearDown() override {
    step.reset();
    te_rt_context_destroy(context);
    std::filesystem::remove(path);
  }
  /// As te-compile writes it.
  void load(const char *object) {
    te::Bytes bytes = te::readFile(object);
    const std::string checksum = te::support::stepChecksum(bytes);
    bytes.insert(bytes.end(), checksum.begin(), checksum.end());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    step = std::make_unique<te::Step>(path, context);
  }
  std::vector<float> valuesOf(const char *name) {
    const te::Bytes bytes = step->read(name);
    const bool isHalf = step->info(name).dtype == TE_RT_F16;
    std::vector<float> values;
    for (size_t at = 0; at < bytes.size(); at += 2) {
      const uint16_t bits = bytes[at] | bytes[at + 1] << 8;
      values.push_back(isHalf ? te::rt::f16ToFloat(bits)
                              : te::rt::bf16ToFloat(bits));
    }
    return values;
  }

  te_rt_context *const context = te::makeContext("reference");
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("te-initialize-test-" + std::to_string(getpid()) + ".so"))
          .string();
  std::unique_ptr<te::Step> step;
};

TEST_F(StepInitialize, DrawsParametersOfEveryWidth) {
  load(TE_STEP_PARAMETERS);
  step->set("x", std::vector<uint16_t>(256, 7));
  const te::Bytes x = step->read("x");
  step->initialize(1);
  // "fixed" is no state.
  for (const char *name : {"w", "h", "fixed"}) {
    const std::vector<float> values = valuesOf(name);
    double sum = 0, squares = 0;
    for (float value : values)
      sum += value, squares += double(value) * value;
    // 16384 of normal(0, 1/16): five standard deviations of the estimates.
    EXPECT_LE(std::abs(sum / 16384), 5 / 16.0 / 128) << name;
    EXPECT_NEAR(squares / 16384 * 256, 1, 5 * std::sqrt(2.0) / 128) << name;
  }
  EXPECT_NE(valuesOf("w"), valuesOf("fixed"));
  EXPECT_EQ(valuesOf("gamma"), std::vector<float>(256, 1));
  EXPECT_EQ(valuesOf("m"), std::vector<float>(256, 0.5f));
  const te::Bytes count = step->read("count");
  for (size_t at = 0; at < count.size(); at += 4) {
    int32_t value;
    std::memcpy(&value, &count[at], 4);
    EXPECT_EQ(value, -3);
  }
  // NaN.
  EXPECT_EQ(step->read("cached"), te::Bytes(256, 0xff));
  // What is neither a state nor a parameter stays.
  EXPECT_EQ(step->read("x"), x);
  const te::Bytes first = step->read("h");
  step->initialize(2);
  EXPECT_NE(step->read("h"), first);
  step->initialize(1);
  EXPECT_EQ(step->read("h"), first);
}

TEST_F(StepInitialize, RefusesTypesThatItCannotDraw) {
  load(TE_STEP_PARAMETERS_F8);
  step->set("gamma", std::vector<uint16_t>(256, 7));
  const te::Bytes before = step->read("gamma");
  try {
    step->initialize(1);
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(),
                 "expected parameter 'fixed' to be f32, bf16 or f16, but got "
                 "tensor<64x256xf8E4M3FN>; set it by name");
  }
  EXPECT_EQ(step->read("gamma"), before);
}

} // namespace
