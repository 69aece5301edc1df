//===- XlaTest.cpp - custom calls of XLA when host memory runs out --------===//

#include "Memory/FailingMemory.h"
#include "Runtime/DoublingModule.h"
#include "TEDialect/Runtime/te_runtime.h"
#include "te-c/te_xla.h"
#include "xla/ffi/api/c_api.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

using te::memory::Attempt;

namespace {

/// What an error of XLA's API is here; without memory for another one.
struct XlaError {
  bool isThere = false, isOfMemory = false;
} xlaError;

XLA_FFI_Error *createError(XLA_FFI_Error_Create_Args *arguments) {
  xlaError = {true, arguments->errc == XLA_FFI_Error_Code_RESOURCE_EXHAUSTED &&
                        *arguments->message};
  return reinterpret_cast<XLA_FFI_Error *>(&xlaError);
}

/// A call of y = 2x with temporaries, as XLA makes it.
class Frame {
public:
  explicit Frame(int64_t *call) : scalar{XLA_FFI_DataType_S64, call} {
    api.XLA_FFI_Error_Create = createError;
    for (XLA_FFI_Buffer *buffer : {&x, &y, &arena}) {
      buffer->dtype = XLA_FFI_DataType_F32;
      buffer->rank = 1;
      buffer->dims = &count;
    }
    x.data = values;
    y.data = doubled;
    arena.data = temporaries;
    frame.api = &api;
    frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    frame.args.size = 1;
    frame.args.args = arguments;
    frame.rets.size = 2;
    frame.rets.rets = results;
    frame.attrs.size = 1;
    frame.attrs.types = &attributeType;
    frame.attrs.names = &attributeName;
    frame.attrs.attrs = &attribute;
  }

  bool run(bool &outOfMemory) {
    std::fill(doubled, doubled + kCount, 0.0f);
    xlaError = {};
    if (!te_xla_execute_cpu(&frame))
      return true;
    outOfMemory = xlaError.isOfMemory;
    return false;
  }
  bool isRight() const {
    return std::all_of(doubled, doubled + kCount,
                       [](float value) { return value == 6; });
  }

  alignas(64) float values[kCount], doubled[kCount], temporaries[kCount];

private:
  int64_t count = kCount;
  XLA_FFI_Api api = {};
  XLA_FFI_Buffer x = {}, y = {}, arena = {};
  void *arguments[1] = {&x}, *results[2] = {&y, &arena};
  XLA_FFI_Scalar scalar;
  XLA_FFI_ByteSpan name = {"call", 4};
  XLA_FFI_ByteSpan *attributeName = &name;
  XLA_FFI_AttrType attributeType = XLA_FFI_AttrType_SCALAR;
  void *attribute = &scalar;
  XLA_FFI_CallFrame frame = {};
};

/// A call of libte_xla as an Attempt wants it.
template <typename Call> auto checked(Call call) {
  return [=](bool &outOfMemory) {
    const te_rt_status status = call();
    outOfMemory = status == TE_RT_OUT_OF_MEMORY && *te_xla_last_error();
    return status == TE_RT_OK;
  };
}

void life(Attempt &attempt) {
  static const te_rt_module module = makeModule();
  static const int64_t shape[] = {kCount};
  static const te_rt_argument_info arguments[] = {
      {"an argument whose name needs memory", "tensor<100xf32>", shape,
       kCount * 4, 1, TE_RT_F32, TE_RT_ARGUMENT, TE_RT_PART_VALUE, -1, 0, 0, 0,
       -1},
      {"y", "tensor<100xf32>", shape, kCount * 4, 1, TE_RT_F32, TE_RT_RESULT,
       TE_RT_PART_VALUE, -1, 0, 0, 0, -1}};
  int64_t program = 0, call = 0, runs = 0, instances = 0;
  const int32_t argumentPlaces[] = {0}, resultPlaces[] = {1, TE_XLA_ARENA};
  te_xla_call_request request = {sizeof(request), 0,           2, 1, 2,
                                 argumentPlaces,  resultPlaces};
  Frame frame(&call);
  std::fill(frame.values, frame.values + kCount, 3.0f);
  if (attempt(checked([&] {
        return te_xla_program_create(&module, arguments, "reference", 0,
                                     "a program whose name needs memory",
                                     &program);
      })) &&
      attempt(checked(
          [&] { return te_xla_call_create(program, &request, &call); }))) {
    const bool ran =
        attempt([&](bool &outOfMemory) { return frame.run(outOfMemory); });
    attempt.expect(!ran || frame.isRight());
    if (attempt(checked(
            [&] { return te_xla_program_counts(program, &runs, &instances); })))
      attempt.expect(runs == (ran ? 1 : 0) && instances == 1);
    // A call of no program is an error, whether there is memory for its text
    // or not.
    const int64_t right = call;
    call = -1;
    bool ignored = false;
    attempt.expect(!frame.run(ignored) && xlaError.isThere);
    call = right;
  }
  te_xla_program_destroy(program);
}

TEST(XlaOutOfMemory, OfAProgram) {
  // The device stays.
  Attempt first(te::memory::Reaction::GiveUp);
  life(first);
  ASSERT_EQ(first.failures(), 0);
  te::memory::sweep(life);
}

} // namespace
