//===- NcclTest.cpp - groups of the cuda backend --------------------------===//
//
// One rank of a group on the fake NCCL: the calls, their order and streams, and
// the failure of any call. test/unit/Runtime/Nccl tests the real library, which
// needs two GPUs.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include "Cuda/Nccl.h"
#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <set>

using namespace te::fake;
using namespace te::rt;

namespace {

using Strings = std::vector<std::string>;

class NcclGroups : public FakeCudaTest {
protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    book().machine.peerMaximum = 1;
  }

  /// A backend that is rank 0 of 2 in group 7.
  Status createBound(std::unique_ptr<Backend> *backend) {
    TE_RT_RETURN_IF_FAILED(create(backend));
    TE_RT_RETURN_IF_FAILED(cuda::createGroupId(fakePaths().nccl, id));
    return (*backend)->bindGroup(7, id, 2, 0);
  }

  /// Binds, runs every collective, one of them also in a graph, and closes.
  Status scenario();

  char id[TE_RT_GROUP_ID_BYTES] = {};
};

/// Those calls of the book that are NCCL's.
Strings ncclCalls() {
  Strings found;
  for (const std::string &call : book().calls)
    if (call.starts_with("nccl"))
      found.push_back(call);
  return found;
}

Status planMaximum(Backend &backend, int32_t group,
                   std::unique_ptr<Plan> *plan) {
  return backend.plan_all_reduce_max({.count = 3, .group_id = group}, plan);
}

Status NcclGroups::scenario() {
  book().machine.peerMaximum = 1;
  std::unique_ptr<Backend> backend;
  TE_RT_RETURN_IF_FAILED(createBound(&backend));
  std::unique_ptr<Plan> plan;
  TE_RT_RETURN_IF_FAILED(planMaximum(*backend, 7, &plan));
  void *memory = nullptr;
  TE_RT_RETURN_IF_FAILED(backend->alloc(3 * sizeof(float), &memory));
  // An exchange of only bytes has no scales.
  void *const buffers[] = {memory, memory, nullptr, nullptr};
  void *const stream = backend->defaultStream();
  TE_RT_RETURN_IF_FAILED(backend->enterThread());
  TE_RT_RETURN_IF_FAILED(plan->launch(stream, buffers));
  for (const auto &makePlan : std::vector<std::function<Status()>>{
           [&] { return backend->plan_all_gather({4, 2, 7}, &plan); },
           [&] {
             return backend->plan_reduce_scatter_sum({1, TE_RT_BF16, 2, 7},
                                                     &plan);
           },
           [&] { return backend->plan_all_to_all({6, 0, 2, 7}, &plan); },
           [&] {
             return backend->plan_all_reduce_sum({3, TE_RT_F32, 2, 7}, &plan);
           }}) {
    TE_RT_RETURN_IF_FAILED(makePlan());
    TE_RT_RETURN_IF_FAILED(plan->launch(stream, buffers));
  }
  TE_RT_RETURN_IF_FAILED(backend->beginCapture(stream));
  Status launched = plan->launch(stream, buffers);
  std::unique_ptr<Backend::Graph> graph;
  Status ended = backend->endCapture(stream, &graph);
  TE_RT_RETURN_IF_FAILED(launched);
  TE_RT_RETURN_IF_FAILED(ended);
  TE_RT_RETURN_IF_FAILED(graph->launch(stream));
  return backend->synchronize();
}

TEST_F(NcclGroups, CallsInOrder) {
  ASSERT_STATUS_OK(scenario());
  // The second all-reduce is the first value of the group, before any step.
  EXPECT_EQ(
      ncclCalls(),
      Strings({"ncclGetUniqueId", "ncclCommInitRankConfig", "ncclAllReduce",
               "ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
               "ncclGroupStart", "ncclSend", "ncclRecv", "ncclSend", "ncclRecv",
               "ncclGroupEnd", "ncclAllReduce", "ncclAllReduce",
               "ncclCommFinalize", "ncclCommDestroy"}));
  // The last one was captured and replayed once. Each reports its position,
  // except for the group's first value.
  EXPECT_EQ(book().executed,
            Strings({"ncclAllReduce", "cuMemsetD32Async", "ncclAllReduce",
                     "cuMemsetD32Async", "ncclAllGather", "cuMemsetD32Async",
                     "ncclReduceScatter", "cuMemsetD32Async", "ncclGroupEnd",
                     "cuMemsetD32Async", "ncclAllReduce", "cuMemsetD32Async",
                     "ncclAllReduce"}));
}

TEST_F(NcclGroups, ReducesOverItsPeers) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(createBound(&backend));
  std::unique_ptr<Plan> plan;
  ASSERT_STATUS_OK(planMaximum(*backend, 7, &plan));
  void *x = nullptr, *y = nullptr;
  ASSERT_STATUS_OK(backend->alloc(3 * sizeof(float), &x));
  ASSERT_STATUS_OK(backend->alloc(3 * sizeof(float), &y));
  const float sent[] = {0, 3, INFINITY};
  float received[3] = {};
  ASSERT_STATUS_OK(backend->copyToDevice(x, sent, sizeof(sent)));
  book().machine.peerMaximum = 2;
  book().calls.clear();
  void *const buffers[] = {x, y};
  ASSERT_STATUS_OK(plan->launch(backend->defaultStream(), buffers));
  EXPECT_EQ(book().calls, Strings({"cuMemsetD32Async", "ncclAllReduce"}));
  ASSERT_STATUS_OK(backend->copyToHost(received, y, sizeof(received)));
  EXPECT_EQ(received[0], 2);
  EXPECT_EQ(received[1], 3);
  EXPECT_EQ(received[2], INFINITY);
  ASSERT_STATUS_OK(backend->copyToHost(received, x, sizeof(received)));
  EXPECT_EQ(received[0], 0);
}

// The arguments of each collective: bytes of any type are gathered as bytes,
// and sums have their type. The fake's other ranks send zeros, or the values of
// this rank.
TEST_F(NcclGroups, GathersAndSums) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(create(&backend));
  ASSERT_STATUS_OK(cuda::createGroupId(fakePaths().nccl, id));
  book().machine.peerMaximum = 2;
  ASSERT_STATUS_OK(backend->bindGroup(7, id, 3, 1));
  void *x = nullptr, *y = nullptr;
  ASSERT_STATUS_OK(backend->alloc(18, &x));
  ASSERT_STATUS_OK(backend->alloc(18, &y));
  const std::string sent = "abcdefghijklmnopqr";
  const auto run = [&](const Strings &call, const std::unique_ptr<Plan> &plan) {
    EXPECT_STATUS_OK(backend->copyToDevice(x, sent.data(), 18));
    EXPECT_STATUS_OK(backend->copyToDevice(y, "..................", 18));
    book().calls.clear();
    void *const buffers[] = {x, y, nullptr, nullptr};
    EXPECT_STATUS_OK(plan->launch(backend->defaultStream(), buffers));
    EXPECT_EQ(ncclCalls(), call);
    std::string received(18, ' ');
    EXPECT_STATUS_OK(backend->copyToHost(received.data(), y, 18));
    return received;
  };
  std::unique_ptr<Plan> plan;
  ASSERT_STATUS_OK(backend->plan_all_gather({5, 3, 7}, &plan));
  EXPECT_EQ(run({"ncclAllGather"}, plan), "abcdeabcdeabcde...");
  const struct {
    int32_t type;
    const char *sum, *shard;
  } cases[] = {{TE_RT_F32, "abcd..............", "efgh.............."},
               {TE_RT_BF16, "ab................", "cd................"},
               {TE_RT_F16, "ab................", "cd................"}};
  for (const auto &each : cases) {
    ASSERT_STATUS_OK(backend->plan_all_reduce_sum({1, each.type, 3, 7}, &plan));
    EXPECT_EQ(run({"ncclAllReduce"}, plan), each.sum);
    ASSERT_STATUS_OK(
        backend->plan_reduce_scatter_sum({1, each.type, 3, 7}, &plan));
    EXPECT_EQ(run({"ncclReduceScatter"}, plan), each.shard);
  }
  ASSERT_STATUS_OK(backend->plan_all_to_all({5, 0, 3, 7}, &plan));
  EXPECT_EQ(run({"ncclGroupStart", "ncclSend", "ncclRecv", "ncclSend",
                 "ncclRecv", "ncclSend", "ncclRecv", "ncclGroupEnd"},
                plan),
            "abcdeghijkmnopq...");
  // Scales are exchanged with the data, in one operation.
  void *scales = nullptr, *otherScales = nullptr;
  ASSERT_STATUS_OK(backend->alloc(18, &scales));
  ASSERT_STATUS_OK(backend->alloc(18, &otherScales));
  ASSERT_STATUS_OK(backend->copyToDevice(scales, "ABCDEFGHIJKLMNOPQR", 18));
  ASSERT_STATUS_OK(
      backend->copyToDevice(otherScales, "..................", 18));
  ASSERT_STATUS_OK(backend->copyToDevice(x, sent.data(), 18));
  ASSERT_STATUS_OK(backend->copyToDevice(y, "..................", 18));
  ASSERT_STATUS_OK(backend->plan_all_to_all({5, 2, 3, 7}, &plan));
  book().calls.clear();
  void *const buffers[] = {x, y, scales, otherScales};
  EXPECT_STATUS_OK(plan->launch(backend->defaultStream(), buffers));
  Strings calls = {"ncclGroupStart"};
  for (int i = 0; i < 6; ++i)
    calls.insert(calls.end(), {"ncclSend", "ncclRecv"});
  calls.push_back("ncclGroupEnd");
  EXPECT_EQ(ncclCalls(), calls);
  std::string received(18, ' ');
  EXPECT_STATUS_OK(backend->copyToHost(received.data(), otherScales, 18));
  EXPECT_EQ(received, "ABDEGH............");
  EXPECT_STATUS_OK(backend->copyToHost(received.data(), y, 18));
  EXPECT_EQ(received, "abcdeghijkmnopq...");
}

TEST_F(NcclGroups, OneRankNeedsNoNccl) {
  cuda::LibraryPaths paths = fakePaths();
  paths.nccl = {TE_FAKE_CUDA_DIR "/libnccl-absent.so.2"};
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(cuda::createBackend(paths, &backend));
  EXPECT_STATUS_OK(backend->bindGroup(3, nullptr, 1, 0));
  std::unique_ptr<Plan> plan;
  ASSERT_STATUS_OK(planMaximum(*backend, 3, &plan));
  void *memory = nullptr;
  ASSERT_STATUS_OK(backend->alloc(6 * sizeof(float), &memory));
  void *const buffers[] = {memory, static_cast<float *>(memory) + 3};
  EXPECT_STATUS_OK(plan->launch(backend->defaultStream(), buffers));
  EXPECT_EQ(book().executed, Strings({"cuMemcpyDtoDAsync"}));
  EXPECT_EQ(ncclCalls(), Strings());

  const Status status = backend->bindGroup(4, id, 2, 0);
  EXPECT_STATUS(status, TE_RT_UNSUPPORTED, "libnccl-absent.so.2' did not load");
  EXPECT_STATUS(status, TE_RT_UNSUPPORTED, "'nvidia-nccl-cu13'");
  EXPECT_STATUS(cuda::createGroupId(paths.nccl, id), TE_RT_UNSUPPORTED,
                "libnccl-absent.so.2' did not load");
}

TEST_F(NcclGroups, NothingToReduceIsNoCall) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(createBound(&backend));
  std::unique_ptr<Plan> plan;
  ASSERT_STATUS_OK(
      backend->plan_all_reduce_max({.count = 0, .group_id = 7}, &plan));
  void *memory = nullptr;
  ASSERT_STATUS_OK(backend->alloc(0, &memory));
  void *const buffers[] = {memory, memory};
  book().calls.clear();
  EXPECT_STATUS_OK(plan->launch(backend->defaultStream(), buffers));
  EXPECT_EQ(ncclCalls(), Strings());
}

TEST_F(NcclGroups, RanksThatDisagreeAreAnError) {
  book().machine.peerMaximum = 5;
  std::unique_ptr<Backend> backend;
  EXPECT_STATUS(createBound(&backend), TE_RT_DEVICE_ERROR,
                "expected the largest rank of the group to be 1, but its ranks "
                "agreed on 5");
  EXPECT_EQ(book().count("ncclCommAbort"), 1);
  EXPECT_EQ(book().count("ncclCommDestroy"), 0);
}

TEST_F(NcclGroups, BrokenGroupsAreAborted) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(createBound(&backend));
  book().machine.progressPolls = 1;
  book().machine.communicatorsFail = true;
  backend.reset();
  EXPECT_EQ(book().count("ncclCommAbort"), 1);
  EXPECT_EQ(book().count("ncclCommDestroy"), 0);
}

// Calls that are in progress are polled, also captured ones, and nothing is
// enqueued in between.
TEST_F(NcclGroups, WaitsForCallsInProgress) {
  book().machine.progressPolls = 3;
  ASSERT_STATUS_OK(scenario());
  // One to connect, seven collectives, one to close.
  EXPECT_EQ(book().count("ncclCommGetAsyncError"), 9 * 4);
  EXPECT_EQ(book().count("ncclCommDestroy"), 1);
  EXPECT_EQ(book().violations, Strings());
}

TEST_F(NcclGroups, MissingRanksAreTimedOutInABind) {
  const char *const text = "group 7 (rank 0 of 2): other ranks did not come in "
                           "time (20 ms)";
  // Either NCCL does not get ready, or NCCL is ready but no value arrives.
  for (bool connects : {false, true}) {
    std::unique_ptr<Backend> backend;
    ASSERT_STATUS_OK(create(&backend));
    ASSERT_STATUS_OK(cuda::createGroupId(fakePaths().nccl, id));
    backend->groupTimeout = 20;
    book().machine.progressPolls = connects ? 0 : -1;
    book().machine.peersAreMissing = connects;
    book().calls.clear();
    EXPECT_STATUS(backend->bindGroup(7, id, 2, 0), TE_RT_TIMED_OUT, text);
    EXPECT_EQ(book().count("ncclCommAbort"), 1);
    EXPECT_EQ(book().count("ncclCommDestroy"), 0);
    backend.reset();
    EXPECT_EQ(book().violations, Strings());
    EXPECT_EQ(book().leaks(), Strings());
  }
}

// In a step, the collective is enqueued at once, and the error is found when
// the host waits for the stream.
TEST_F(NcclGroups, MissingRanksAreTimedOutInAStep) {
  for (const char *how : {"synchronize", "copyToHost", "copyToDevice", "timer",
                          "destroy", "launch"}) {
    SCOPED_TRACE(how);
    book().machine.progressPolls = 0;
    book().machine.peersAreMissing = false;
    std::unique_ptr<Backend> backend;
    ASSERT_STATUS_OK(createBound(&backend));
    backend->groupTimeout = 20;
    std::unique_ptr<Plan> plan;
    ASSERT_STATUS_OK(planMaximum(*backend, 7, &plan));
    void *memory = nullptr;
    ASSERT_STATUS_OK(backend->alloc(3 * sizeof(float), &memory));
    void *const buffers[] = {memory, memory};
    void *const stream = backend->defaultStream();
    const std::string_view name = how;
    // NCCL connects some algorithms at their first use.
    book().machine.progressPolls = name == "launch" ? -1 : 0;
    book().machine.peersAreMissing = true;
    for (int index : {0, 1})
      ASSERT_STATUS_OK(backend->timerMark(index));
    Status status = plan->launch(stream, buffers);
    float value[3];
    if (name != "launch") {
      ASSERT_STATUS_OK(status);
      if (name == "synchronize")
        status = backend->synchronize();
      if (name == "copyToHost")
        status = backend->copyToHost(value, memory, sizeof(value));
      if (name == "copyToDevice")
        status = backend->copyToDevice(memory, value, sizeof(value));
      if (name == "timer")
        status = backend->timerElapsed(value);
    }
    if (name != "destroy") {
      EXPECT_STATUS(status, TE_RT_TIMED_OUT,
                    "group 7 (rank 0 of 2): other ranks did not come in time "
                    "(20 ms)");
      // The group cannot be used any more, and reports that without another
      // wait.
      EXPECT_TRUE(plan->launch(stream, buffers).failed());
    }
    book().calls.clear();
    plan.reset();
    backend.reset();
    EXPECT_EQ(book().count("ncclCommDestroy"), 0);
    EXPECT_EQ(book().violations, Strings());
    EXPECT_EQ(book().leaks(), Strings());
  }
}

TEST_F(NcclGroups, ErrorsOfOthersEndAWait) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(createBound(&backend));
  std::unique_ptr<Plan> plan;
  ASSERT_STATUS_OK(planMaximum(*backend, 7, &plan));
  void *memory = nullptr;
  ASSERT_STATUS_OK(backend->alloc(3 * sizeof(float), &memory));
  void *const buffers[] = {memory, memory};
  book().machine.peersAreMissing = true;
  ASSERT_STATUS_OK(plan->launch(backend->defaultStream(), buffers));
  book().machine.communicatorsFail = true;
  // This is long before the ten minutes.
  EXPECT_STATUS(backend->synchronize(), TE_RT_DEVICE_ERROR,
                "ncclCommGetAsyncError: a text of NCCL (more of it)");
  EXPECT_EQ(book().count("ncclCommAbort"), 1);
}

TEST_F(NcclGroups, LostDeviceIsNotWaitedFor) {
  std::unique_ptr<Backend> backend;
  ASSERT_STATUS_OK(createBound(&backend));
  // The calls are the context and the last synchronisation.
  book().failCall(1, 1);
  backend.reset();
  EXPECT_EQ(book().failedCall, "cuStreamQuery");
  EXPECT_EQ(book().count("ncclCommAbort"), 1);
  EXPECT_EQ(book().count("ncclCommDestroy"), 0);
}

TEST_F(NcclGroups, MulticastIsOffUnlessTheUserSpeaksOfIt) {
  cuda::Nccl nccl;
  ASSERT_STATUS_OK(cuda::Nccl::load(fakePaths().nccl, &nccl));
  EXPECT_STREQ(getenv("NCCL_NVLS_ENABLE"), "0");
  for (const char *chosen : {"1", "2", ""}) {
    setenv("NCCL_NVLS_ENABLE", chosen, 1);
    ASSERT_STATUS_OK(cuda::Nccl::load(fakePaths().nccl, &nccl));
    EXPECT_STREQ(getenv("NCCL_NVLS_ENABLE"), chosen);
  }
}

/// Calls whose failure may be ignored.
const std::set<std::string> mayPass = {
    "cuDevicePrimaryCtxRelease",
    "cuEventDestroy",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuMemFree",
    "cuMemFreeHost",
    "cuModuleUnload",
    "cuStreamDestroy",
    "cublasLtDestroy",
    "ncclCommAbort",
    "ncclCommDestroy",
    // Calls of destructors.
    "cuCtxSetCurrent",
    "cuStreamQuery",
    "ncclCommFinalize",
};

TEST_F(NcclGroups, EveryCallMayFail) {
  ASSERT_STATUS_OK(scenario());
  const Strings calls = book().calls;
  int numNccl = 0;
  for (size_t call = 0; call < calls.size(); ++call)
    for (int variant : {0, 1, 2}) {
      book().reset();
      book().failCall(static_cast<int>(call), variant);
      const Status status = scenario();
      SCOPED_TRACE("call " + std::to_string(call) + ", '" + book().failedCall +
                   "', variant " + std::to_string(variant) + ": " +
                   status.message);
      ASSERT_EQ(book().failedCall, calls[call]);
      ASSERT_EQ(book().violations, Strings());
      ASSERT_EQ(book().leaks(), Strings());
      if (!status.failed()) {
        EXPECT_EQ(mayPass.count(book().failedCall), 1u);
        continue;
      }
      EXPECT_NE(status.message.find(book().failedCall), std::string::npos);
      if (!book().failedCall.starts_with("nccl"))
        continue;
      ++numNccl;
      EXPECT_EQ(status.code, TE_RT_DEVICE_ERROR);
      EXPECT_NE(status.message.find(": a text of NCCL (more of it)"),
                std::string::npos);
      // Nothing waits for a communicator that reported an error.
      const bool made = book().failedCall != "ncclGetUniqueId" &&
                        book().failedCall != "ncclCommInitRankConfig";
      EXPECT_EQ(book().count("ncclCommAbort"), made ? 1 : 0);
      EXPECT_EQ(book().count("ncclCommDestroy"), 0);
    }
  // An id, the initialisation, four all-reduces, two others, and six for the
  // parts of the exchange.
  EXPECT_EQ(numNccl, 14 * 3);
}

//===----------------------------------------------------------------------===//
// Tests through the C ABI
//===----------------------------------------------------------------------===//

// The maximum of an argument over group 9, in place.
te_rt_status load(te_rt_instance *instance) {
  return te_rt_plan_all_reduce_max(instance, 0, 4, 9);
}
void step(te_rt_instance *instance, char *, void *const *arguments) {
  void *const buffers[] = {arguments[0], arguments[0]};
  te_rt_launch(instance, 0, buffers);
}
constexpr te_rt_module maximum = {
    TE_RT_MODULE_MAGIC,        TE_RT_VERSION, 0, 1, 1, load, step,
    "'y' at step.mlir:4:10\0", nullptr,       0, 0};

// The same, then over group 4.
te_rt_status loadTwo(te_rt_instance *instance) {
  load(instance);
  return te_rt_plan_all_reduce_max(instance, 1, 4, 4);
}
void stepTwo(te_rt_instance *instance, char *, void *const *arguments) {
  void *const buffers[] = {arguments[0], arguments[0]};
  te_rt_launch(instance, 0, buffers);
  te_rt_launch(instance, 1, buffers);
}
constexpr te_rt_module twoGroups = {
    TE_RT_MODULE_MAGIC,
    TE_RT_VERSION,
    0,
    2,
    1,
    loadTwo,
    stepTwo,
    "'y' at step.mlir:4:10\0at step.mlir:5:10\0",
    nullptr,
    0,
    0};

class NcclInstance : public FakeCudaTest {
protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    book().machine.peerMaximum = 2;
    // A library that is already loaded is found by its name.
    const cuda::LibraryPaths paths = fakePaths();
    for (const std::string &path :
         {paths.driver[0], paths.cublasLt[0], paths.nccl[0]}) {
      libraries.push_back(dlopen(path.c_str(), RTLD_NOW));
      ASSERT_NE(libraries.back(), nullptr) << dlerror();
    }
    ASSERT_OK(te_rt_context_create_on_device("cuda", 0, &context));
    ASSERT_OK(te_rt_group_unique_id(id));
  }

  void TearDown() override {
    te_rt_instance_destroy(instance);
    te_rt_context_destroy(context);
    FakeCudaTest::TearDown();
    for (void *library : libraries)
      dlclose(library);
  }

  std::vector<void *> libraries;
  te_rt_context *context = nullptr;
  te_rt_instance *instance = nullptr;
  char id[TE_RT_GROUP_ID_BYTES] = {};
};

TEST_F(NcclInstance, ReducesOnTheStepsStream) {
  ASSERT_OK(te_rt_context_bind_group(context, 9, id, 3, 1));
  ASSERT_OK(te_rt_instance_create(context, &maximum, &instance));
  void *memory = nullptr;
  ASSERT_OK(te_rt_alloc(context, 4 * sizeof(float), &memory));
  auto *const streamCreate = reinterpret_cast<decltype(&cuStreamCreate)>(
      dlsym(libraries[0], "cuStreamCreate"));
  auto *const streamDestroy = reinterpret_cast<decltype(&cuStreamDestroy)>(
      dlsym(libraries[0], "cuStreamDestroy_v2"));
  ASSERT_NE(streamCreate, nullptr);
  ASSERT_NE(streamDestroy, nullptr);
  CUstream stream = nullptr;
  ASSERT_EQ(streamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);

  book().collectiveStreams.clear();
  book().calls.clear();
  ASSERT_OK(te_rt_instance_run(instance, &memory, stream));
  EXPECT_EQ(book().calls, Strings({"cuCtxSetCurrent", "cuStreamIsCapturing",
                                   "cuStreamGetDevice", "cuMemsetD32Async",
                                   "ncclAllReduce"}));
  EXPECT_EQ(book().collectiveStreams, std::vector<const void *>({stream}));

  // A captured step, and its replays.
  for (int i = 0; i < 3; ++i)
    ASSERT_OK(te_rt_instance_run_graph(instance, &memory));
  EXPECT_EQ(book().count("ncclAllReduce"), 2);
  EXPECT_NE(book().collectiveStreams[1], stream);
  // Binding, the step without capture, the replays.
  Strings executed = {"ncclAllReduce"};
  for (int i = 0; i < 1 + 3; ++i)
    executed.insert(executed.end(), {"cuMemsetD32Async", "ncclAllReduce"});
  EXPECT_EQ(book().executed, executed);
  EXPECT_EQ(streamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(NcclInstance, FailedLaunchNamesTheKernel) {
  ASSERT_OK(te_rt_context_bind_group(context, 9, id, 3, 1));
  ASSERT_OK(te_rt_instance_create(context, &maximum, &instance));
  void *memory = nullptr;
  ASSERT_OK(te_rt_alloc(context, 4 * sizeof(float), &memory));
  // The calls are the context and the query of the stream.
  book().failCall(2, 0);
  EXPECT_EQ(te_rt_instance_run(instance, &memory, nullptr), TE_RT_DEVICE_ERROR);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_run: all_reduce_max (slot 0, 'y' at step.mlir:"
               "4:10): ncclAllReduce: a text of NCCL (more of it)");
}

// Two collectives over two groups: the error of the call that waits names the
// collective at which the stream stopped, and its group.
TEST_F(NcclInstance, WaitInVainNamesTheCollective) {
  for (int missing : {0, 1}) {
    SCOPED_TRACE(missing);
    if (missing == 1) {
      te_rt_instance_destroy(instance);
      te_rt_context_destroy(context);
      instance = nullptr;
      book().machine.peersAreMissing = false;
      ASSERT_OK(te_rt_context_create_on_device("cuda", 0, &context));
      ASSERT_OK(te_rt_group_unique_id(id));
    }
    ASSERT_OK(te_rt_context_bind_group(context, 9, id, 3, 1));
    ASSERT_OK(te_rt_group_unique_id(id));
    ASSERT_OK(te_rt_context_bind_group(context, 4, id, 3, 2));
    ASSERT_OK(te_rt_context_set_group_timeout(context, 20));
    ASSERT_OK(te_rt_instance_create(context, &twoGroups, &instance));
    void *memory = nullptr;
    ASSERT_OK(te_rt_alloc(context, 4 * sizeof(float), &memory));
    book().machine.peersAreMissing = missing == 0;
    ASSERT_OK(te_rt_instance_run_part(instance, &memory, nullptr, 0, 1));
    book().machine.peersAreMissing = true;
    ASSERT_OK(te_rt_instance_run_part(instance, &memory, nullptr, 1, 2));
    EXPECT_EQ(te_rt_synchronize(context), TE_RT_TIMED_OUT);
    EXPECT_STREQ(
        te_rt_last_error(),
        missing == 0
            ? "te_rt_synchronize: all_reduce_max (slot 0, 'y' at step.mlir:"
              "4:10): group 9 (rank 1 of 3): other ranks did not come in time "
              "(20 ms)"
            : "te_rt_synchronize: all_reduce_max (slot 1, at step.mlir:5:10): "
              "group 4 (rank 2 of 3): other ranks did not come in time "
              "(20 ms)");
  }
}

TEST_F(NcclInstance, FailedBindingBindsNothing) {
  // The calls are the context, two kinds of memory, then NCCL.
  book().failCall(3, 1);
  EXPECT_EQ(te_rt_context_bind_group(context, 9, id, 3, 1), TE_RT_DEVICE_ERROR);
  EXPECT_STREQ(
      te_rt_last_error(),
      "te_rt_context_bind_group: ncclCommInitRankConfig: a text of NCCL "
      "(more of it)");
  ASSERT_OK(te_rt_group_unique_id(id));
  ASSERT_OK(te_rt_context_bind_group(context, 9, id, 3, 1));
}

// The program's own communicator is used, but neither closed nor aborted.
TEST_F(NcclInstance, UsesTheProgramsCommunicator) {
  cuda::Nccl nccl;
  ASSERT_STATUS_OK(cuda::Nccl::load(fakePaths().nccl, &nccl));
  cuda::NcclUniqueId unique;
  std::memcpy(unique.bytes, id, sizeof(id));
  cuda::NcclComm comm = nullptr;
  cuda::NcclConfig config;
  ASSERT_EQ(nccl.ncclCommInitRankConfig(&comm, 3, unique, 1, &config),
            cuda::NcclResult::success);
  EXPECT_EQ(te_rt_context_bind_nccl(context, 9, comm, 3, 2),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_context_bind_nccl: expected 'size' and 'rank' to be the "
               "communicator's, 3 and 1, but got 3 and 2");
  ASSERT_OK(te_rt_context_bind_nccl(context, 9, comm, 3, 1));
  ASSERT_OK(te_rt_instance_create(context, &maximum, &instance));
  void *memory = nullptr;
  ASSERT_OK(te_rt_alloc(context, 4 * sizeof(float), &memory));
  ASSERT_OK(te_rt_instance_run(instance, &memory, nullptr));
  EXPECT_EQ(book().count("ncclAllReduce"), 1);
  te_rt_instance_destroy(instance);
  instance = nullptr;
  EXPECT_EQ(nccl.ncclCommDestroy(comm), cuda::NcclResult::success);
  te_rt_context_destroy(context);
  context = nullptr;
  EXPECT_EQ(book().count("ncclCommDestroy"), 1);
  EXPECT_EQ(book().count("ncclCommAbort"), 0);
}

TEST_F(NcclInstance, CommunicatorsOfHostMemoryAreForReference) {
  const te_rt_communicator communicator = {2, 0, nullptr,
                                           [](void *, const void *, int64_t,
                                              void *, int64_t, int64_t,
                                              char *) { return TE_RT_OK; }};
  EXPECT_EQ(te_rt_context_bind_communicator(context, 9, &communicator),
            TE_RT_UNSUPPORTED);
  EXPECT_NE(std::string(te_rt_last_error()).find("te_rt_context_bind_nccl"),
            std::string::npos)
      << te_rt_last_error();
}

TEST_F(NcclInstance, EachGroupHasItsOwnId) {
  ASSERT_OK(te_rt_context_bind_group(context, 9, id, 3, 1));
  EXPECT_EQ(te_rt_context_bind_group(context, 10, id, 3, 1),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_context_bind_group: the id is group 9's already; every "
               "group needs one of its own from te_rt_group_unique_id");
  ASSERT_OK(te_rt_group_unique_id(id));
  ASSERT_OK(te_rt_context_bind_group(context, 10, id, 3, 1));
}

} // namespace
