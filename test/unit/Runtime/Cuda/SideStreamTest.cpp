//===- SideStreamTest.cpp - steps on two streams --------------------------===//
//
// A step whose collective runs beside a launch of the caller's stream, on the
// fake libraries: the work of each stream, which stream waits for which, and
// that a capture contains both. The fake rejects a capture whose streams are
// not joined.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <dlfcn.h>

#include <algorithm>

using namespace te::fake;

namespace {

using Strings = std::vector<std::string>;

constexpr int64_t kBytes = 1024;

// Copies x, takes the maximum of the copy over group 9 on the side stream,
// copies y at the same time, and then copies the maximum to z.
te_rt_status load(te_rt_instance *instance) {
  te_rt_plan_copy(instance, 0, kBytes);
  te_rt_plan_all_reduce_max(instance, 1, kBytes / 4, 9);
  te_rt_order(instance, 1, 1, 0);
  te_rt_plan_copy(instance, 2, kBytes);
  te_rt_plan_copy(instance, 3, kBytes);
  return te_rt_order(instance, 3, 0, 1);
}
void step(te_rt_instance *instance, char *arena, void *const *arguments) {
  char *const summand = arena, *const sum = arena + kBytes;
  char *const other = arena + 2 * kBytes;
  void *const launches[][2] = {{arguments[0], summand},
                               {summand, sum},
                               {arguments[1], other},
                               {sum, arguments[2]}};
  for (int32_t slot = 0; slot < 4; ++slot)
    te_rt_launch(instance, slot, launches[slot]);
}
constexpr te_rt_module overlapped = {TE_RT_MODULE_MAGIC,
                                     TE_RT_VERSION,
                                     3 * kBytes,
                                     4,
                                     3,
                                     load,
                                     step,
                                     nullptr,
                                     nullptr,
                                     0,
                                     0};

class SideStream : public FakeCudaTest {
protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    book().machine.peerMaximum = 2;
    // A library that is already loaded is found by its name.
    const te::rt::cuda::LibraryPaths paths = fakePaths();
    for (const std::string &path :
         {paths.driver[0], paths.cublasLt[0], paths.nccl[0]}) {
      libraries.push_back(dlopen(path.c_str(), RTLD_NOW));
      ASSERT_NE(libraries.back(), nullptr) << dlerror();
    }
  }

  void TearDown() override {
    close();
    FakeCudaTest::TearDown();
    for (void *library : libraries)
      dlclose(library);
  }

  te_rt_status create(const te_rt_module &module) {
    te_rt_status status = te_rt_context_create_on_device("cuda", 0, &context);
    char id[TE_RT_GROUP_ID_BYTES];
    if (status == TE_RT_OK)
      status = te_rt_group_unique_id(id);
    if (status == TE_RT_OK)
      status = te_rt_context_bind_group(context, 9, id, 3, 1);
    for (void *&argument : arguments)
      if (status == TE_RT_OK)
        status = te_rt_alloc(context, kBytes, &argument);
    if (status == TE_RT_OK)
      status = te_rt_instance_create(context, &module, &instance);
    return status;
  }

  void close() {
    te_rt_instance_destroy(instance);
    te_rt_context_destroy(context);
    instance = nullptr;
    context = nullptr;
  }

  /// The work on the streams since `placed` was cleared, as "main copy" and
  /// "side wait 1", with events numbered from 0. The side stream is that of the
  /// collective.
  static Strings placed() {
    const void *side = book().collectiveStreams.back();
    Strings lines, events;
    for (const auto &[stream, what] : book().placed) {
      const size_t space = what.find(' ');
      std::string text = what == "cuMemcpyDtoDAsync"  ? "copy"
                         : what == "cuMemsetD32Async" ? "note"
                                                      : what;
      if (space != what.npos) {
        const std::string event = what.substr(space);
        const auto found = std::find(events.begin(), events.end(), event);
        text = what.substr(0, space) + " " +
               std::to_string(found - events.begin());
        if (found == events.end())
          events.push_back(event);
      }
      lines.push_back((stream == side ? "side " : "main ") + text);
    }
    return lines;
  }

  std::vector<void *> libraries;
  te_rt_context *context = nullptr;
  te_rt_instance *instance = nullptr;
  void *arguments[3] = {};
};

const Strings wholeStep = {
    // The side stream starts after the caller's work.
    "main record 0", "side wait 0",
    // The maximum reads the copy, and the next copy does not wait for it.
    "main copy", "main record 1", "side wait 1", "side note",
    "side ncclAllReduce", "side record 2", "main copy", "main wait 2",
    "main copy",
    // The caller's stream ends after the side stream.
    "side record 3", "main wait 3"};

TEST_F(SideStream, ForksAndJoins) {
  ASSERT_OK(create(overlapped));
  for (int round = 0; round < 2; ++round) {
    book().placed.clear();
    book().calls.clear();
    ASSERT_OK(te_rt_instance_run(instance, arguments, nullptr));
    EXPECT_EQ(placed(), wholeStep);
    // Events are created when the step is loaded, and the host does not wait.
    EXPECT_EQ(book().count("cuEventCreate"), 0);
    EXPECT_EQ(book().count("cuStreamSynchronize"), 0);
    EXPECT_EQ(book().count("cuEventSynchronize"), 0);
  }
}

TEST_F(SideStream, IsCapturedWithTheCallersStream) {
  ASSERT_OK(create(overlapped));
  book().placed.clear();
  book().executed.clear();
  ASSERT_OK(te_rt_instance_run_graph(instance, arguments));
  Strings captured = placed();
  captured.resize(wholeStep.size());
  EXPECT_EQ(captured, wholeStep);
  ASSERT_OK(te_rt_instance_run_graph(instance, arguments));
  // Each replay contains all work, and nothing ran during the capture.
  const Strings once = {"cuMemcpyDtoDAsync", "cuMemsetD32Async",
                        "ncclAllReduce", "cuMemcpyDtoDAsync",
                        "cuMemcpyDtoDAsync"};
  Strings twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(book().executed, twice);
  // This run is not captured.
  ASSERT_OK(te_rt_instance_run(instance, arguments, nullptr));
  EXPECT_EQ(book().executed.size(), 15u);
}

TEST_F(SideStream, PartsWaitForWhatIsInThem) {
  ASSERT_OK(create(overlapped));
  book().placed.clear();
  ASSERT_OK(te_rt_instance_run_part(instance, arguments, nullptr, 0, 2));
  EXPECT_EQ(placed(), Strings({"main record 0", "side wait 0", "main copy",
                               "main record 1", "side wait 1", "side note",
                               "side ncclAllReduce", "side record 2",
                               "side record 3", "main wait 3"}));
  book().placed.clear();
  // The maximum ended with its part.
  ASSERT_OK(te_rt_instance_run_part(instance, arguments, nullptr, 2, 4));
  EXPECT_EQ(placed(), Strings({"main record 0", "side wait 0", "main copy",
                               "main copy", "side record 1", "main wait 1"}));
}

TEST_F(SideStream, TracedStepsAreOnOneStream) {
  ASSERT_OK(create(overlapped));
  book().collectiveStreams.clear();
  book().placed.clear();
  ASSERT_OK(te_rt_instance_trace(
      instance, arguments, [](void *, int32_t, const char *, float) {},
      nullptr));
  for (const auto &[stream, what] : book().placed) {
    EXPECT_EQ(stream, book().collectiveStreams.back()) << what;
    EXPECT_FALSE(what.starts_with("wait")) << what;
  }
}

// The caller's stream ends after the side stream also if a launch failed.
TEST_F(SideStream, JoinsAfterAFailure) {
  ASSERT_OK(create(overlapped));
  // The calls are: context, record, wait, copy, record, wait, note, then NCCL.
  book().failCall(7, 1);
  book().placed.clear();
  EXPECT_EQ(te_rt_instance_run(instance, arguments, nullptr),
            TE_RT_DEVICE_ERROR);
  EXPECT_EQ(book().failedCall, "ncclAllReduce");
  ASSERT_GE(book().placed.size(), 2u);
  EXPECT_TRUE(book().placed.back().second.starts_with("wait"));
  EXPECT_NE(book().placed.back().first, book().placed.rbegin()[1].first);
}

TEST_F(SideStream, EveryCallMayFail) {
  const auto scenario = [&]() -> te_rt_status {
    te_rt_status status = create(overlapped);
    if (status == TE_RT_OK)
      status = te_rt_instance_run(instance, arguments, nullptr);
    if (status == TE_RT_OK)
      status = te_rt_instance_run_graph(instance, arguments);
    close();
    return status;
  };
  ASSERT_OK(scenario());
  const Strings calls = book().calls;
  int numSide = 0;
  for (size_t call = 0; call < calls.size(); ++call) {
    book().reset();
    book().machine.peerMaximum = 2;
    book().failCall(static_cast<int>(call), 1);
    const te_rt_status status = scenario();
    SCOPED_TRACE("call " + std::to_string(call) + ", '" + book().failedCall +
                 "': " + te_rt_last_error());
    ASSERT_EQ(book().failedCall, calls[call]);
    ASSERT_EQ(book().violations, Strings());
    ASSERT_EQ(book().leaks(), Strings());
    for (const char *name :
         {"cuCtxGetStreamPriorityRange", "cuStreamCreateWithPriority",
          "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"})
      if (book().failedCall == name) {
        ++numSide;
        EXPECT_EQ(status, TE_RT_DEVICE_ERROR);
        EXPECT_NE(std::string(te_rt_last_error()).find(name),
                  std::string::npos);
      }
  }
  // A range, a stream, two timers and four events, then four pairs of record
  // and wait in each of two runs.
  EXPECT_EQ(numSide, 1 + 1 + 2 + 4 + 2 * 8);
}

/// Invalid calls of te_rt_order, in a module of two copies.
struct Refused {
  int32_t slot, side, wait;
  const char *message;
};
const Refused *refused = nullptr;
te_rt_status loadRefused(te_rt_instance *instance) {
  te_rt_plan_copy(instance, 0, kBytes);
  te_rt_plan_copy(instance, 1, kBytes);
  return te_rt_order(instance, refused->slot, refused->side, refused->wait);
}

TEST_F(SideStream, RefusesOrdersThatMeanNothing) {
  ASSERT_OK(create(overlapped));
  const te_rt_module module = {TE_RT_MODULE_MAGIC,
                               TE_RT_VERSION,
                               kBytes,
                               2,
                               3,
                               loadRefused,
                               step,
                               nullptr,
                               nullptr,
                               0,
                               0};
  const Refused cases[] = {
      {2, 1, -1, "te_rt_order (slot 2): expected a slot that has a plan"},
      {1, 2, -1,
       "te_rt_order (slot 1): expected 'side' to be 0 or 1, but got 2"},
      {1, 1, 1,
       "te_rt_order (slot 1): expected 'wait' to be -1 or a lower slot, but "
       "got 1"},
      {1, 0, 0,
       "te_rt_order (slot 1): expected slot 0, which it waits for, to be on "
       "the other stream"},
  };
  for (const Refused &each : cases) {
    refused = &each;
    te_rt_instance *other = nullptr;
    EXPECT_EQ(te_rt_instance_create(context, &module, &other),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_EQ(te_rt_last_error(),
              std::string("te_rt_instance_create: ") + each.message);
  }
}

} // namespace
