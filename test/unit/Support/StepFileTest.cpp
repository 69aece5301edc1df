//===- StepFileTest.cpp - steps that are cut off or damaged ---------------===//

#include "Support/StepFile.h"

#include <gtest/gtest.h>

#include <vector>

using namespace te::support;

namespace {

TEST(StepFile, EveryDamageIsFound) {
  std::vector<uint8_t> file;
  for (int i = 0; i < 700; ++i)
    file.push_back(static_cast<uint8_t>(i * 131));
  const std::string checksum = stepChecksum(file);
  file.insert(file.end(), checksum.begin(), checksum.end());
  std::string error;
  ASSERT_TRUE(checkStep(file, error)) << error;
  for (size_t size = 0; size < file.size(); ++size) {
    error.clear();
    EXPECT_FALSE(checkStep({file.data(), size}, error)) << size;
    EXPECT_NE(error, "");
  }
  for (size_t i = 0; i < file.size(); ++i)
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      file[i] ^= flip;
      EXPECT_FALSE(checkStep(file, error)) << i;
      file[i] ^= flip;
    }
  EXPECT_TRUE(checkStep(file, error));
}

TEST(StepFile, AbsentFilesAreNamed) {
  std::string error;
  EXPECT_FALSE(checkStepFile("/absent/step.so", error));
  EXPECT_EQ(error, "cannot open '/absent/step.so': No such file or directory");
}

} // namespace
