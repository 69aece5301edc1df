//===- Harness.h - running one kernel through the C ABI -------------------===//
//
// The suite sees the runtime only through its public headers. `Device::run`
// makes a module of one plan, gives it device copies of host vectors, runs it
// and copies the outputs back:
//
//   float amax;  std::vector<float> out(1);
//   device().run(TE_PLAN(amax, x.size(), TE_RT_BF16, TE_RT_BF16), {in(x),
//   out(amax)});
//
// Outputs are filled with a poison byte before the launch, so that bytes that a
// kernel does not write are noticed, and have guards after their end, so that
// writes out of bounds are noticed. Inputs must not change, except those that
// share memory with an output.
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

/// Tensors of sum_of_squares, and the planning call of tensors of these sizes
/// and types, of which the last ones are absent.
inline constexpr size_t kSquaresGroup = 32;
PlanFunction planOfSquares(std::vector<int64_t> counts,
                           std::vector<int32_t> types);

/// The value of every byte of an output before the launch.
inline constexpr uint8_t kPoison = 0xcd;

/// A host array for one buffer of a launch.
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
/// An output in the memory of the input of that index, which has the same size.
template <typename T> Buffer outOn(int input, std::vector<T> &values) {
  Buffer buffer = out(values);
  buffer.sharedWith = input;
  return buffer;
}
/// An address without the alignment of any vector, which the runtime never
/// allocates.
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
  std::string message; // of the creation, or of the last run
  te_rt_context *context = nullptr;

  /// Runs one kernel. On failure, returns the status; the text is in `message`.
  /// Outputs are also copied if the failure is one that waiting reports.
  te_rt_status tryRun(const PlanFunction &plan, std::vector<Buffer> buffers);
  /// Runs one kernel, and fails the test if that fails.
  void run(const PlanFunction &plan, std::vector<Buffer> buffers);
};

/// The device of a backend, which is created once.
Device &deviceOf(const std::string &backend);

/// The backends to test, from --backend= or all that this machine has.
std::vector<std::string> backendsUnderTest();
/// The backends except reference.
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
