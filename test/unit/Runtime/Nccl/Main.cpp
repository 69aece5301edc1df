//===- Main.cpp - entry point of te-collective-check ----------------------===//
//
// gtest's main function with the options --ranks=N and --json=F, and a time
// limit for ranks that wait for one that failed.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Nccl/Ranks.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

static void onTimeout(int) {
  constexpr std::string_view kText =
      "te-collective-check: a rank has waited for another for five minutes\n";
  (void)!write(STDERR_FILENO, kText.data(), kText.size());
  _exit(1);
}

int main(int argc, char **argv) {
  constexpr std::string_view kFlag = "--ranks=", kJson = "--json=";
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with(kFlag))
      te::ranks::numRanks() = std::atoi(argv[i] + kFlag.size());
    else if (std::string_view(argv[i]).starts_with(kJson))
      te::ranks::jsonFile() = argv[i] + kJson.size();
  if (te::ranks::numRanks() < 2) {
    std::fprintf(stderr, "te-collective-check: expected '--ranks' to be two or "
                         "more\n");
    return 1;
  }
  std::signal(SIGALRM, onTimeout);
  alarm(300);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
