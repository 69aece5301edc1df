//===- Main.cpp - entry point of te-conformance ---------------------------===//
//
// gtest's main function with two options. --backend=NAME tests only that
// backend; it is then an error if this machine does not have it. --small leaves
// out large values where backends are compared.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Options.h"

#include <cstdio>
#include <string_view>

using namespace te::conformance;

bool te::conformance::onlySmallValues = false;

int main(int argc, char **argv) {
  constexpr std::string_view kFlag = "--backend=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--small")
      onlySmallValues = true;
    if (!argument.starts_with(kFlag))
      continue;
    const std::string backend(argument.substr(kFlag.size()));
    const Device &device = deviceOf(backend);
    if (device.status != TE_RT_OK) {
      std::fprintf(stderr, "te-conformance: %s\n", device.message.c_str());
      return 1;
    }
    restrictBackend(backend);
    std::printf("%s\n", te_rt_context_description(device.context));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
