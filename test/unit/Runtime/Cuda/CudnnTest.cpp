//===- CudnnTest.cpp - attention of the cuda backend on a fake cuDNN ------===//
//
// The real frontend on a library that computes nothing: unsupported cases and
// their messages, the scratch memory of plans, where launches are enqueued, and
// the failure of any call.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include <algorithm>
#include <set>

using namespace te::fake;
using namespace te::rt;

namespace {

using Strings = std::vector<std::string>;

/// Two sequences of 64 tokens, four heads of 32 that share two key-value heads.
template <typename Params> Params shape() {
  Params params{};
  params.tokens = 128;
  params.sequence = 64;
  params.heads = 4;
  params.kv_heads = 2;
  params.head_dim = params.value_dim = 32;
  params.type = TE_RT_BF16;
  params.scale = 0.125f;
  params.causal = 1;
  params.window_left = -1;
  if constexpr (requires { params.deterministic; })
    params.deterministic = 1;
  return params;
}

class CudnnAttention : public FakeCudaTest {
protected:
  void TearDown() override {
    plan.reset();
    backend.reset();
    FakeCudaTest::TearDown();
  }

  /// Memory for `count` buffers, and the plan's scratch memory.
  Status allocate(int count, std::vector<void *> *buffers) {
    for (int i = 0; i < count; ++i) {
      buffers->push_back(nullptr);
      TE_RT_RETURN_IF_FAILED(
          backend->alloc(128 * 4 * 32 * 2, &buffers->back()));
    }
    if (plan->workspaceBytes() == 0)
      return Status::ok();
    void *workspace = nullptr;
    TE_RT_RETURN_IF_FAILED(backend->alloc(plan->workspaceBytes(), &workspace));
    plan->setWorkspace(workspace);
    return Status::ok();
  }

  /// A forward of documents and a backward, each of which is planned and
  /// launched.
  Status scenario() {
    TE_RT_RETURN_IF_FAILED(create(&backend));
    auto forward = shape<attention_params>();
    forward.boundaries = 3;
    TE_RT_RETURN_IF_FAILED(backend->plan_attention(forward, &plan));
    std::vector<void *> buffers;
    TE_RT_RETURN_IF_FAILED(allocate(attention_buffers::count_, &buffers));
    TE_RT_RETURN_IF_FAILED(
        plan->launch(backend->defaultStream(), buffers.data()));
    TE_RT_RETURN_IF_FAILED(backend->plan_attention_backward(
        shape<attention_backward_params>(), &plan));
    buffers.clear();
    TE_RT_RETURN_IF_FAILED(
        allocate(attention_backward_buffers::count_, &buffers));
    return plan->launch(backend->defaultStream(), buffers.data());
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Plan> plan;
};

TEST_F(CudnnAttention, NamesTheMissingLibrary) {
  for (auto [member, name, remedy] :
       {std::tuple(&cuda::LibraryPaths::cudnn, "libcudnn-absent.so.9",
                   "'nvidia-cudnn-cu13'"),
        {&cuda::LibraryPaths::cudart, "libcudart-absent.so.13",
         "'nvidia-cuda-runtime'"}}) {
    cuda::LibraryPaths paths = fakePaths();
    paths.*member = {std::string(TE_FAKE_CUDA_DIR "/") + name};
    ASSERT_STATUS_OK(cuda::createBackend(paths, &backend));
    const Status status =
        backend->plan_attention(shape<attention_params>(), &plan);
    EXPECT_STATUS(status, TE_RT_UNSUPPORTED,
                  std::string(name) + "' did not load");
    EXPECT_STATUS(status, TE_RT_UNSUPPORTED, remedy);
    EXPECT_EQ(plan, nullptr);
    // Steps without attention run.
    void *memory = nullptr;
    EXPECT_STATUS_OK(backend->alloc(16, &memory));
  }
}

TEST_F(CudnnAttention, NamesTheOldestVersion) {
  book().machine.cudnnVersion = 91504;
  ASSERT_STATUS_OK(create(&backend));
  EXPECT_STATUS(backend->plan_attention(shape<attention_params>(), &plan),
                TE_RT_UNSUPPORTED,
                "expected cuDNN 9.16 or newer, but got 9.15");
  EXPECT_EQ(book().count("cudnnCreate"), 0);
}

// The messages are those of cuDNN, for cases that its frontend rejects, and for
// cases without an engine.
TEST_F(CudnnAttention, UnsupportedShapes) {
  ASSERT_STATUS_OK(create(&backend));
  auto params = shape<attention_params>();
  params.head_dim = 60;
  EXPECT_STATUS(backend->plan_attention(params, &plan), TE_RT_UNSUPPORTED,
                "cuDNN has no engine for this attention: ");
  EXPECT_STATUS(backend->plan_attention(params, &plan), TE_RT_UNSUPPORTED,
                "multiple of 8");
  book().machine.cudnnEngines = 0;
  EXPECT_STATUS(backend->plan_attention(shape<attention_params>(), &plan),
                TE_RT_UNSUPPORTED, "cuDNN has no engine for this attention: ");
  EXPECT_STATUS(backend->plan_attention_backward(
                    shape<attention_backward_params>(), &plan),
                TE_RT_UNSUPPORTED, "cuDNN has no engine for this attention: ");
  EXPECT_EQ(plan, nullptr);
  // The next one is planned.
  book().machine.cudnnEngines = 1;
  EXPECT_STATUS_OK(backend->plan_attention(shape<attention_params>(), &plan));
}

// The scratch memory of a step is that of the chosen plan. In a backward there
// are also the sums of rows of the frontend, an f32 for each head and token.
TEST_F(CudnnAttention, WorkspaceIsThatOfThePlan) {
  ASSERT_STATUS_OK(create(&backend));
  for (int64_t bytes : {0, 4096, 1 << 20}) {
    book().machine.cudnnWorkspaceBytes = bytes;
    ASSERT_STATUS_OK(backend->plan_attention(shape<attention_params>(), &plan));
    EXPECT_EQ(plan->workspaceBytes(), bytes);
    ASSERT_STATUS_OK(backend->plan_attention_backward(
        shape<attention_backward_params>(), &plan));
    EXPECT_EQ(plan->workspaceBytes(), bytes + 128 * 4 * 4);
  }
}

// The fake checks the scratch memory.
TEST_F(CudnnAttention, LaunchesBindEveryBuffer) {
  book().machine.cudnnWorkspaceBytes = 4096;
  ASSERT_STATUS_OK(create(&backend));
  auto launch = [&](int count, int documents, int rng) {
    std::vector<void *> buffers;
    EXPECT_STATUS_OK(allocate(count, &buffers));
    // Without 'boundaries' there are no documents, and without 'dropout' there
    // is no state.
    buffers[documents] = buffers[rng] = nullptr;
    book().executed.clear();
    book().attentionPointers.clear();
    EXPECT_STATUS_OK(plan->launch(backend->defaultStream(), buffers.data()));
    EXPECT_EQ(book().executed, Strings({"cudnnBackendExecute"}));
    const std::set<const void *> bound(book().attentionPointers.begin(),
                                       book().attentionPointers.end());
    for (void *buffer : buffers)
      EXPECT_TRUE(!buffer || bound.contains(buffer));
    // The second launch needs no other plan.
    book().calls.clear();
    EXPECT_STATUS_OK(plan->launch(backend->defaultStream(), buffers.data()));
    EXPECT_EQ(book().count("cudnnBackendFinalize"),
              book().count("cudnnBackendExecute"));
  };
  auto forward = shape<attention_params>();
  forward.has_sinks = 1;
  ASSERT_STATUS_OK(backend->plan_attention(forward, &plan));
  launch(attention_buffers::count_, attention_buffers::documents,
         attention_buffers::rng);
  ASSERT_STATUS_OK(backend->plan_attention_backward(
      shape<attention_backward_params>(), &plan));
  launch(attention_backward_buffers::count_,
         attention_backward_buffers::documents,
         attention_backward_buffers::rng);
}

// cuDNN's bound includes the position itself: a window of 20 earlier positions
// is 21. A window that hides nothing is not set.
TEST_F(CudnnAttention, WindowsAreBounds) {
  ASSERT_STATUS_OK(create(&backend));
  auto bounds = [&](int count) {
    std::vector<void *> buffers;
    EXPECT_STATUS_OK(allocate(count, &buffers));
    book().attentionScalars.clear();
    EXPECT_STATUS_OK(plan->launch(backend->defaultStream(), buffers.data()));
    return std::vector<float>(book().attentionScalars);
  };
  auto plain = shape<attention_params>();
  auto plainBackward = shape<attention_backward_params>();
  ASSERT_STATUS_OK(backend->plan_attention(plain, &plan));
  const size_t scalars = bounds(attention_buffers::count_).size();
  ASSERT_STATUS_OK(backend->plan_attention_backward(plainBackward, &plan));
  const size_t scalarsBackward =
      bounds(attention_backward_buffers::count_).size();
  for (int64_t left : {4, 20, 62, 63, 64, 1000}) {
    SCOPED_TRACE(left);
    const auto bound = static_cast<float>(left + 1);
    const ptrdiff_t times = left < 63;
    plain.window_left = plainBackward.window_left = left;
    ASSERT_STATUS_OK(backend->plan_attention(plain, &plan));
    std::vector<float> found = bounds(attention_buffers::count_);
    EXPECT_EQ(std::ranges::count(found, bound), times);
    EXPECT_EQ(found.size() > scalars, times != 0);
    ASSERT_STATUS_OK(backend->plan_attention_backward(plainBackward, &plan));
    found = bounds(attention_backward_buffers::count_);
    EXPECT_EQ(std::ranges::count(found, bound), times);
    EXPECT_EQ(found.size() > scalarsBackward, times != 0);
  }
}

// Sinks are a tensor of the graph, which is bound only if there are sinks. A
// launch without the buffer is then an error.
TEST_F(CudnnAttention, SinksAreBoundWhereThereAreSome) {
  ASSERT_STATUS_OK(create(&backend));
  auto params = shape<attention_params>();
  size_t count[2] = {};
  for (int32_t hasSinks : {0, 1}) {
    params.has_sinks = hasSinks;
    ASSERT_STATUS_OK(backend->plan_attention(params, &plan));
    std::vector<void *> buffers;
    ASSERT_STATUS_OK(allocate(attention_buffers::count_, &buffers));
    book().attentionPointers.clear();
    ASSERT_STATUS_OK(plan->launch(backend->defaultStream(), buffers.data()));
    void *&sinks = buffers[attention_buffers::sinks];
    EXPECT_EQ(std::ranges::count(book().attentionPointers, sinks), hasSinks);
    count[hasSinks] = book().attentionPointers.size();
    sinks = nullptr;
    const Status status =
        plan->launch(backend->defaultStream(), buffers.data());
    EXPECT_EQ(status.code, hasSinks ? TE_RT_INVALID_ARGUMENT : TE_RT_OK)
        << status.message;
  }
  EXPECT_EQ(count[1], count[0] + 1);
}

// Scores are capped before they are masked, and the backward applies the
// derivative of the cap. The cap is a scalar of the graph, which is absent
// without a cap.
TEST_F(CudnnAttention, SoftcapsComeBeforeMasks) {
  ASSERT_STATUS_OK(create(&backend));
  constexpr float cap = 47;
  auto plans = [&](bool causal, int64_t windowLeft, float softcap) {
    auto forward = shape<attention_params>();
    auto backward = shape<attention_backward_params>();
    forward.causal = backward.causal = causal;
    forward.window_left = backward.window_left = windowLeft;
    forward.softcap = backward.softcap = softcap;
    return std::pair(forward, backward);
  };
  // The operations of a plan, and whether a launch binds the cap.
  auto found = [&](const Status &status, int count) {
    EXPECT_STATUS_OK(status);
    Strings modes;
    modes.swap(book().attentionModes);
    std::vector<void *> buffers;
    EXPECT_STATUS_OK(allocate(count, &buffers));
    book().attentionScalars.clear();
    EXPECT_STATUS_OK(plan->launch(backend->defaultStream(), buffers.data()));
    modes.push_back(
        std::to_string(std::ranges::count(book().attentionScalars, cap)));
    return modes;
  };
  const Strings causal = {"index", "index", "select"};
  Strings window = causal;
  window.insert(window.end(), causal.begin(), causal.end());
  for (auto [masks, isCausal, left] : {std::tuple(Strings(), false, -1),
                                       {causal, true, -1},
                                       {window, true, 20}})
    for (float softcap : {0.0f, cap}) {
      SCOPED_TRACE(masks.size() + softcap);
      Strings modes = masks;
      if (softcap != 0)
        modes.insert(modes.begin(), "tanh");
      Strings gradients = modes;
      if (softcap != 0)
        gradients.push_back("tanh gradient");
      const std::string times = softcap != 0 ? "1" : "0";
      modes.push_back(times), gradients.push_back(times);
      const auto [forward, backward] = plans(isCausal, left, softcap);
      EXPECT_EQ(found(backend->plan_attention(forward, &plan),
                      attention_buffers::count_),
                modes);
      EXPECT_EQ(found(backend->plan_attention_backward(backward, &plan),
                      attention_backward_buffers::count_),
                gradients);
    }
}

/// The code that a call fails with changes no access to memory, so one is
/// enough where a sanitizer makes the test a minute long.
#ifdef TE_SANITIZED
constexpr int kNumCodes = 1;
#else
constexpr int kNumCodes = 3;
#endif

// For a failure of any call, the status reports it unless the frontend can
// continue without its result, and nothing remains alive.
TEST_F(CudnnAttention, EveryFailureIsReported) {
  ASSERT_STATUS_OK(scenario());
  std::set<std::string> reported;
  for (int variant = 0; variant < kNumCodes; ++variant)
    for (int index = 0;; ++index) {
      plan.reset();
      backend.reset();
      book().reset();
      book().machine.cudnnWorkspaceBytes = 4096;
      book().failCall(index, variant);
      const Status status = scenario();
      const std::string failed = book().failedCall;
      if (failed.empty())
        break;
      if (status.failed()) {
        EXPECT_FALSE(status.message.empty()) << failed;
        reported.insert(failed);
      }
      plan.reset();
      backend.reset();
      ASSERT_EQ(book().violations, Strings()) << failed << " " << index;
      ASSERT_EQ(book().leaks(), Strings()) << failed << " " << index;
    }
  for (const char *call :
       {"cuMemHostAlloc", "cudnnCreate", "cudnnSetStream",
        "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
        "cudnnBackendFinalize", "cudnnBackendExecute", "cudaGetDevice"})
    EXPECT_TRUE(reported.contains(call)) << call;
}

} // namespace
