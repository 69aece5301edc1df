//===- ThreadsTest.cpp - one context used by many threads -----------------===//
//
// Threads create, run, record and destroy steps of one context beside each
// other, or run one instance. Each finds its own results. ThreadSanitizer runs
// this too (preset tsan). On a machine with a GPU, for minutes:
//
//   TE_THREADS_BACKEND=cuda te-threads-test --gtest_repeat=200
//
//===----------------------------------------------------------------------===//

#include "../DoublingModule.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 16, kRounds = 40;
/// The addition runs on the second stream.
te_rt_status loadStreams(te_rt_instance *instance) {
  load(instance);
  return te_rt_order(instance, 1, 1, 0);
}

const te_rt_module module = makeModule(loadStreams);

class Threads : public testing::Test {
protected:
  void SetUp() override {
    const char *backend = std::getenv("TE_THREADS_BACKEND");
    ASSERT_EQ(te_rt_context_create(backend ? backend : "reference", &context),
              TE_RT_OK)
        << te_rt_last_error();
  }
  void TearDown() override { te_rt_context_destroy(context); }

  /// Calls body(number) in threads that begin together. What it returns is
  /// empty, or what was wrong.
  void inThreads(const std::function<std::string(int)> &body) {
    std::latch start(kThreads);
    std::vector<std::string> wrong(kThreads);
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
          start.arrive_and_wait();
          wrong[t] = body(t);
        });
    }
    for (const std::string &text : wrong)
      EXPECT_EQ(text, "");
  }

  te_rt_context *context = nullptr;
};

/// Memory of the context in which one thread keeps its x and y.
struct Buffers {
  explicit Buffers(te_rt_context *context) : context(context) {
    for (void *&pointer : arguments)
      te_rt_alloc(context, kCount * 4, &pointer);
  }
  ~Buffers() {
    for (void *pointer : arguments)
      te_rt_free(context, pointer);
  }
  void set(float value) {
    const std::vector<float> x(kCount, value), y(kCount, -1.0f);
    te_rt_copy_to_device(context, arguments[0], x.data(), kCount * 4);
    te_rt_copy_to_device(context, arguments[1], y.data(), kCount * 4);
  }
  bool hold(float value) {
    std::vector<float> y(kCount);
    te_rt_copy_to_host(context, y.data(), arguments[1], kCount * 4);
    return y == std::vector<float>(kCount, value);
  }

  te_rt_context *context;
  void *arguments[2] = {};
};

TEST_F(Threads, HaveStepsOfTheirOwn) {
  inThreads([&](int t) -> std::string {
    for (int round = 0; round < kRounds; ++round) {
      const auto value = static_cast<float>(t * kRounds + round);
      Buffers buffers(context);
      te_rt_instance *instance = nullptr;
      if (te_rt_instance_create(context, &module, &instance) != TE_RT_OK)
        return te_rt_last_error();
      std::string wrong;
      const auto check = [&](const char *what, auto run) {
        buffers.set(value);
        if (run() != TE_RT_OK)
          wrong = te_rt_last_error();
        else if (!buffers.hold(2 * value))
          wrong = std::string(what) + ": other results";
      };
      check("run", [&] {
        return te_rt_instance_run(instance, buffers.arguments, nullptr);
      });
      check("graph", [&] {
        return te_rt_instance_run_graph(instance, buffers.arguments);
      });
      int launches = 0;
      check("trace", [&] {
        return te_rt_instance_trace(
            instance, buffers.arguments,
            [](void *user, int32_t, const char *, float) {
              ++*static_cast<int *>(user);
            },
            &launches);
      });
      if (launches != 2)
        wrong = "trace: other launches";
      te_rt_instance_destroy(instance);
      if (!wrong.empty())
        return wrong;
    }
    return "";
  });
}

TEST_F(Threads, ShareAnInstance) {
  te_rt_instance *instance = nullptr;
  ASSERT_EQ(te_rt_instance_create(context, &module, &instance), TE_RT_OK);
  inThreads([&](int t) -> std::string {
    Buffers buffers(context);
    for (int round = 0; round < kRounds; ++round) {
      const auto value = static_cast<float>(t * kRounds + round);
      buffers.set(value);
      const te_rt_status status =
          round % 2 ? te_rt_instance_run_graph(instance, buffers.arguments)
                    : te_rt_instance_run(instance, buffers.arguments, nullptr);
      if (status != TE_RT_OK)
        return te_rt_last_error();
      if (!buffers.hold(2 * value))
        return "other results";
    }
    return te_rt_instance_release_graph(instance) == TE_RT_OK
               ? ""
               : te_rt_last_error();
  });
  te_rt_instance_destroy(instance);
}

/// A function of the host program may call the runtime again.
TEST_F(Threads, MayCallFromACallback) {
  Buffers buffers(context);
  te_rt_instance *instance = nullptr;
  ASSERT_EQ(te_rt_instance_create(context, &module, &instance), TE_RT_OK);
  EXPECT_EQ(te_rt_instance_trace(
                instance, buffers.arguments,
                [](void *user, int32_t, const char *, float) {
                  EXPECT_EQ(
                      te_rt_synchronize(static_cast<te_rt_context *>(user)),
                      TE_RT_OK);
                },
                context),
            TE_RT_OK);
  te_rt_instance_destroy(instance);
}

} // namespace
