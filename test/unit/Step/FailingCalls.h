//===- FailingCalls.h - system calls that fail when a test says so --------===//
//
// A program that links FailingCalls.cpp with the options of its CMakeLists.txt
// has the calls of a writer of files recorded on request, and failing.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TEST_UNIT_STEP_FAILINGCALLS_H
#define TE_TEST_UNIT_STEP_FAILINGCALLS_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace te::calls {

/// What is done to calls from `record` on.
struct Plan {
  /// The number of the first call that fails, and with which errno; -1: none.
  int failing = -1, code = 0;
  /// Whether all calls fail from there on.
  bool isLasting = false;
  /// The most bytes that a call of write takes.
  size_t mostBytes = SIZE_MAX;
};

/// Begins to record calls, and follows `plan`.
void record(const Plan &plan);

/// Ends what `record` began. Returns the calls, each as its name and the path
/// of its file: "fsync /a/folder".
std::vector<std::string> stop();

} // namespace te::calls

#endif // TE_TEST_UNIT_STEP_FAILINGCALLS_H
