//===- DocumentStepsTest.cpp - steps of packed documents ------------------===//
//
// A step of attention and its backward, run and replayed with boundaries that
// change, some of which are malformed.
//
//===----------------------------------------------------------------------===//

#include "Conformance/AttentionOracle.h"
#include "Conformance/Harness.h"

#include <algorithm>
#include <random>

using namespace te::conformance;

namespace {

/// A step of attention and its backward: q, k, v, dout, documents, o, lse, dq,
/// dk, dv.
struct Step {
  static constexpr Shape s{1, 700, 4, 2, 64, true, 1};
  static constexpr int64_t boundaries = 9, sequence = 320;
  static te_rt_status load(te_rt_instance *instance) {
    const te_rt_status status = te_rt_plan_attention(
        instance, 0, s.tokens(), sequence, s.heads, s.kvHeads, s.headDim,
        s.headDim, TE_RT_BF16, 1, -1, 0.125f, 0.0f, 0, boundaries, 0.0f, 0);
    return status != TE_RT_OK
               ? status
               : te_rt_plan_attention_backward(
                     instance, 1, s.tokens(), sequence, s.heads, s.kvHeads,
                     s.headDim, s.headDim, TE_RT_BF16, 1, -1, 0.125f, 0.0f, 1,
                     boundaries, 0.0f, 0);
  }
  static void run(te_rt_instance *instance, char *, void *const *a) {
    void *forward[] = {a[0], a[1], a[2], nullptr, a[4], nullptr, a[5], a[6]};
    te_rt_launch(instance, 0, forward);
    void *backward[] = {a[3], a[0],    a[1], a[2], a[5], a[6],
                        a[4], nullptr, a[7], a[8], a[9]};
    te_rt_launch(instance, 1, backward);
  }
};

/// A step that is loaded, with memory for its arguments.
class LoadedStep {
public:
  explicit LoadedStep(te_rt_context *context) : context(context) {
    const te_rt_module module = {
        TE_RT_MODULE_MAGIC, TE_RT_VERSION, 10,      2, 0, Step::load,
        Step::run,          nullptr,       nullptr, 0, 0};
    EXPECT_EQ(te_rt_instance_create(context, &module, &instance), TE_RT_OK)
        << te_rt_last_error();
    const Shape s = Step::s;
    uint32_t seed = 0;
    for (size_t size : {s.queries(), s.keys(), s.keys(), s.queries()})
      arrays.push_back(makeArray("normal", TE_RT_BF16, size, ++seed));
    arrays.emplace_back(TE_RT_I32, Step::boundaries);
    arrays.emplace_back(TE_RT_BF16, s.queries());
    arrays.emplace_back(TE_RT_F32, s.tokens() * s.heads);
    for (size_t size : {s.queries(), s.keys(), s.keys()})
      arrays.emplace_back(TE_RT_BF16, size);
    for (const Array &each : arrays) {
      void *&pointer = arguments.emplace_back(nullptr);
      EXPECT_EQ(te_rt_alloc(context, each.bytes.size(), &pointer), TE_RT_OK);
      te_rt_copy_to_device(context, pointer, each.bytes.data(),
                           each.bytes.size());
    }
  }
  ~LoadedStep() {
    destroy();
    for (void *pointer : arguments)
      te_rt_free(context, pointer);
  }
  void destroy() {
    te_rt_instance_destroy(instance);
    instance = nullptr;
  }

  te_rt_status setDocuments(const std::vector<int32_t> &documents) {
    return te_rt_copy_to_device(context, arguments[4], documents.data(),
                                4 * documents.size());
  }
  te_rt_status run() {
    return te_rt_instance_run(instance, arguments.data(), nullptr);
  }
  te_rt_status replay() {
    return te_rt_instance_run_graph(instance, arguments.data());
  }
  /// The bytes of the results, which are overwritten.
  std::vector<std::vector<uint8_t>> takeResults() {
    std::vector<std::vector<uint8_t>> all;
    for (size_t n = 5; n < arrays.size(); ++n) {
      auto &bytes = all.emplace_back(arrays[n].bytes.size());
      te_rt_copy_to_host(context, bytes.data(), arguments[n], bytes.size());
      const std::vector<uint8_t> poison(bytes.size(), kPoison);
      te_rt_copy_to_device(context, arguments[n], poison.data(), bytes.size());
    }
    return all;
  }

  te_rt_context *const context;
  te_rt_instance *instance = nullptr;

private:
  std::vector<Array> arrays;
  std::vector<void *> arguments;
};

class DocumentSteps : public BackendTest {
protected:
  bool isReference() const { return GetParam() == "reference"; }
};

// One graph is replayed for any packing, and has the bits of an eager run.
TEST_P(DocumentSteps, ReplayOneGraph) {
  LoadedStep step(device().context);
  std::mt19937 random(7);
  const int packings = isReference() ? 10 : 1000;
  for (int n = 0; n < packings; ++n) {
    // Lengths of 0 to 320 rows that fit, some of them equal to these ends.
    std::vector<int32_t> documents = {static_cast<int32_t>(random() % 40)};
    for (int64_t d = 1; d < Step::boundaries; ++d) {
      const int64_t room = std::min<int64_t>(
          Step::sequence, Step::s.tokens() - documents.back());
      const int64_t wanted = random() % 5 == 0   ? 0
                             : random() % 5 == 0 ? Step::sequence
                                                 : random() % 200;
      documents.push_back(documents.back() +
                          static_cast<int32_t>(std::min(room, wanted)));
    }
    ASSERT_EQ(step.setDocuments(documents), TE_RT_OK) << te_rt_last_error();
    ASSERT_EQ(step.replay(), TE_RT_OK) << te_rt_last_error();
    const auto replayed = step.takeResults();
    ASSERT_EQ(step.run(), TE_RT_OK) << te_rt_last_error();
    ASSERT_EQ(replayed, step.takeResults()) << "packing " << n;
  }
}

const std::vector<int32_t> kDecreasing = {0, 9, 4, 9, 9, 9, 9, 9, 9};
const std::vector<int32_t> kIncreasing = {0, 4, 9, 9, 9, 9, 9, 9, 9};

// A host program that has streams of its own may not wait for that of the
// context. The step that is refused launches nothing.
TEST_P(DocumentSteps, TheNextStepReportsMalformedBoundaries) {
  if (isReference())
    GTEST_SKIP() << "'reference' refuses them before it launches";
  LoadedStep step(device().context);
  ASSERT_EQ(step.setDocuments(kDecreasing), TE_RT_OK);
  ASSERT_EQ(step.run(), TE_RT_OK) << te_rt_last_error();
  // The copy waits for the step, and reports it.
  ASSERT_EQ(step.setDocuments(kIncreasing), TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(te_rt_last_error())
                .find("te_rt_copy_to_device: attention (slot 0): "
                      "expected 'documents[2]'"),
            std::string::npos)
      << te_rt_last_error();
  EXPECT_EQ(step.run(), TE_RT_OK) << te_rt_last_error();
  EXPECT_EQ(step.setDocuments(kDecreasing), TE_RT_OK) << te_rt_last_error();
  EXPECT_EQ(step.run(), TE_RT_OK) << te_rt_last_error();
  // Waits, and reports nothing.
  EXPECT_EQ(te_rt_instance_release_graph(step.instance), TE_RT_OK);
  EXPECT_EQ(step.run(), TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(te_rt_last_error())
                .find("te_rt_instance_run: attention (slot 0): "),
            std::string::npos)
      << te_rt_last_error();
  // The instance may be gone when the error is reported.
  EXPECT_EQ(step.run(), TE_RT_OK) << te_rt_last_error();
  step.destroy();
  EXPECT_EQ(te_rt_synchronize(device().context), TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(te_rt_last_error()).find("attention (slot 0): "),
            std::string::npos)
      << te_rt_last_error();
  EXPECT_EQ(te_rt_synchronize(device().context), TE_RT_OK);
}

TEST_P(DocumentSteps, AReplayReportsMalformedBoundaries) {
  if (isReference())
    GTEST_SKIP() << "'reference' refuses them before it launches";
  LoadedStep step(device().context);
  for (bool isMalformed : {false, true, false, true, true, false}) {
    ASSERT_EQ(step.setDocuments(isMalformed ? kDecreasing : kIncreasing),
              TE_RT_OK)
        << te_rt_last_error();
    ASSERT_EQ(step.replay(), TE_RT_OK) << te_rt_last_error();
    EXPECT_EQ(te_rt_synchronize(step.context),
              isMalformed ? TE_RT_INVALID_ARGUMENT : TE_RT_OK);
  }
}

TE_FOR_EACH_BACKEND(DocumentSteps);

} // namespace
