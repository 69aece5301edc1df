//===- Harness.h - running one kernel through the C ABI -------------------===//
//
// The suite sees the runtime only through its public headers. `Device::run`
// makes a module of one plan, gives it device copies of host vectors, runs it
// and copies the outputs back:
//
//   float amax;  std::vector<float> out(1);
//   device().run(TE_PLAN(amax, x.size(), TE_RT_BF16), {in(x), out(amax)});
//
// Outputs are filled with a poison byte before the launch, so that what a
// kernel forgets to write is seen, and guarded behind their end, so that what
// it writes too much is seen. Inputs must come back unchanged, except for those
// whose memory is also an output's.
//
//===----------------------------------------------------------------------===//

#ifndef TE_CONFORMANCE_HARNESS_H
#define TE_CONFORMANCE_HARNESS_H

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace te::conformance {

using PlanFunction = std::function<te_rt_status(te_rt_instance *, int32_t)>;

/// The planning call of one kernel with its parameters.
#define TE_PLAN(kernel, ...)                                                   \
  [=](te_rt_instance *instance_, int32_t slot_) {                              \
    return te_rt_plan_##kernel(instance_, slot_, __VA_ARGS__);                 \
  }

/// What every byte of an output is before the launch.
inline constexpr uint8_t kPoison = 0xcd;

/// A host array that is one buffer of a launch.
struct Buffer {
  void *data = nullptr;
  size_t bytes = 0;
  bool isOutput = false;
  bool isNull = true;
  int sharedWith = -1; // index of the input whose memory an output takes
  int offset = 0;      // bytes from an aligned address
};
template <typename T> Buffer in(const std::vector<T> &values) {
  return {const_cast<T *>(values.data()), values.size() * sizeof(T), false,
          false};
}
template <typename T> Buffer out(std::vector<T> &values) {
  return {values.data(), values.size() * sizeof(T), true, false};
}
/// An output that lies on the input of that index, which has its size.
template <typename T> Buffer outOn(int input, std::vector<T> &values) {
  Buffer buffer = out(values);
  buffer.sharedWith = input;
  return buffer;
}
/// Off every vector's alignment, as no allocation of the runtime is.
inline Buffer unaligned(Buffer buffer, int offset = 1) {
  buffer.offset = offset;
  return buffer;
}
inline Buffer none() { return {}; }

class Device {
public:
  explicit Device(const char *backend);
  ~Device();
  Device(const Device &) = delete;

  te_rt_status status = TE_RT_OK;
  std::string message; // of the creation
  te_rt_context *context = nullptr;

  /// Runs one kernel; on failure returns the status, with the text in
  /// te_rt_last_error().
  te_rt_status tryRun(const PlanFunction &plan, std::vector<Buffer> buffers);
  /// Runs one kernel and fails the test where that fails.
  void run(const PlanFunction &plan, std::vector<Buffer> buffers);
};

/// The device of a backend, made once.
Device &deviceOf(const std::string &backend);

/// Backends to test, from --backend= or what this machine has.
std::vector<std::string> backendsUnderTest();
/// Those apart from reference.
std::vector<std::string> otherBackends();
void restrictBackend(const std::string &backend);

class BackendTest : public testing::TestWithParam<std::string> {
protected:
  Device &device() { return deviceOf(GetParam()); }
};

#define TE_FOR_EACH_BACKEND(Suite)                                             \
  INSTANTIATE_TEST_SUITE_P(                                                    \
      , Suite, testing::ValuesIn(te::conformance::backendsUnderTest()),        \
      [](const auto &info) { return info.param; })

} // namespace te::conformance

#endif // TE_CONFORMANCE_HARNESS_H
