//===- GemmChoiceTest.cpp - how a context chooses algorithms of GEMMs -----===//
//
// The options of a context through the C ABI, on the fake vendor libraries:
// what is measured, read and written, and what the reports say.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Cuda/FakeCudaTest.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <chrono>
#include <fstream>
#include <thread>

using namespace te::fake;

namespace {

// Two large GEMMs, the first of them again, a small one, and one of this
// project's kernels.
constexpr int64_t kRows[] = {512, 1024, 512, 32};

te_rt_status load(te_rt_instance *instance) {
  for (int32_t slot = 0; slot < 4; ++slot)
    te_rt_plan_matmul(instance, slot, kRows[slot], 512, 512, 0, 0, TE_RT_BF16,
                      TE_RT_BF16);
  return te_rt_plan_amax(instance, 4, 128, TE_RT_BF16, TE_RT_BF16);
}
void step(te_rt_instance *, char *, void *const *) {}

constexpr te_rt_module kModule = {TE_RT_MODULE_MAGIC,
                                  TE_RT_VERSION,
                                  0,
                                  5,
                                  0,
                                  load,
                                  step,
                                  nullptr,
                                  nullptr,
                                  0,
                                  0};

constexpr te_rt_gemm_options kTuned = {TE_RT_GEMM_TUNED, 0,      nullptr, 0,
                                       nullptr,          nullptr};
constexpr te_rt_gemm_options kFirst = {TE_RT_GEMM_FIRST, 0,      nullptr, 0,
                                       nullptr,          nullptr};

class GemmChoice : public FakeCudaInstanceTest {
protected:
  void SetUp() override {
    FakeCudaInstanceTest::SetUp();
    file = cacheFolder / "tuned.txt";
    restart(/*fastest=*/2);
  }

  /// As a new process, on a machine that measures another algorithm as the
  /// fastest of three.
  void restart(int fastest) {
    te_rt_instance_destroy(std::exchange(instance, nullptr));
    te_rt_context_destroy(std::exchange(context, nullptr));
    book().machine.algorithms = 3;
    book().machine.algorithmTimes = {{fastest, 0.5f}};
    ASSERT_OK(te_rt_context_create("cuda", &context));
    book().calls.clear();
  }

  te_rt_status create(const te_rt_gemm_options &options, uint32_t flags = 0) {
    const te_rt_status status =
        te_rt_context_set_gemm_options(context, &options);
    return status ? status : createAsIs(flags);
  }
  /// With the options that the context has.
  te_rt_status createAsIs(uint32_t flags) {
    te_rt_instance_destroy(std::exchange(instance, nullptr));
    te_rt_module module = kModule;
    module.flags = flags;
    return te_rt_instance_create(context, &module, &instance);
  }

  te_rt_gemm_info info(int32_t slot) {
    te_rt_gemm_info found = {};
    EXPECT_EQ(te_rt_instance_gemm(instance, slot, &found), TE_RT_OK);
    return found;
  }
  std::vector<int32_t> origins() {
    std::vector<int32_t> all;
    for (int32_t slot = 0; slot < 5; ++slot)
      all.push_back(info(slot).origin);
    return all;
  }
  std::vector<std::string> algorithms() {
    std::vector<std::string> all;
    for (int32_t slot = 0; slot < 5; ++slot)
      all.push_back(info(slot).algorithm);
    return all;
  }
  bool isMeasured() { return book().count("cublasLtMatmul") != 0; }

  te_rt_gemm_options with(int32_t choice, int64_t budget = 0) const {
    return {choice, 0, file.c_str(), budget, nullptr, nullptr};
  }

  static constexpr int32_t none = TE_RT_GEMM_ORIGIN_NONE,
                           small = TE_RT_GEMM_ORIGIN_SMALL,
                           first = TE_RT_GEMM_ORIGIN_FIRST,
                           measured = TE_RT_GEMM_ORIGIN_MEASURED,
                           stored = TE_RT_GEMM_ORIGIN_FILE;
  using Origins = std::vector<int32_t>;

  std::string file;
};

TEST_F(GemmChoice, FirstMeasuresAndReadsNothing) {
  ASSERT_OK(create(kTuned));
  const auto tuned = algorithms();
  EXPECT_EQ(origins(), Origins({measured, measured, measured, small, none}));
  EXPECT_STREQ(info(0).gemm, "m=512 n=512 k=512 a=bf16 b=bf16 out=bf16");
  EXPECT_STREQ(info(4).gemm, "");

  restart(/*fastest=*/1);
  ASSERT_OK(create(kFirst));
  EXPECT_FALSE(isMeasured());
  EXPECT_EQ(origins(), Origins({first, first, first, small, none}));
  const auto chosen = algorithms();
  EXPECT_NE(chosen[0], tuned[0]);
  EXPECT_EQ(chosen[3], tuned[3]);
  restart(/*fastest=*/2);
  ASSERT_OK(create(kFirst));
  EXPECT_EQ(algorithms(), chosen);
}

// A trainer tunes; a rollout on a machine that would measure something else
// takes the trainer's algorithms.
TEST_F(GemmChoice, TheFileDecidesInEveryProcess) {
  ASSERT_OK(create(with(TE_RT_GEMM_TUNED)));
  const auto tuned = algorithms();
  EXPECT_FALSE(std::filesystem::exists(cacheFolder / "te-mlir"));
  const auto written = std::filesystem::last_write_time(file);
  for (int32_t choice : {TE_RT_GEMM_FILE, TE_RT_GEMM_TUNED}) {
    restart(/*fastest=*/1);
    ASSERT_OK(create(with(choice)));
    EXPECT_FALSE(isMeasured());
    EXPECT_EQ(origins(), Origins({stored, stored, stored, small, none}));
    EXPECT_EQ(algorithms(), tuned);
  }
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  restart(/*fastest=*/1);
  ASSERT_OK(create(kTuned));
  EXPECT_NE(algorithms(), tuned);
}

// So that 'tuned' leaves a file with which 'file' works.
TEST_F(GemmChoice, TheFileGetsWhatHasOnlyOneAlgorithm) {
  book().machine.algorithms = 1;
  ASSERT_OK(create(with(TE_RT_GEMM_TUNED)));
  EXPECT_FALSE(isMeasured());
  EXPECT_EQ(origins(), Origins({measured, measured, measured, small, none}));
  restart(/*fastest=*/1);
  ASSERT_OK(create(with(TE_RT_GEMM_FILE)));
  EXPECT_EQ(origins(), Origins({stored, stored, stored, small, none}));
}

TEST_F(GemmChoice, FileNamesTheGemmThatIsMissing) {
  EXPECT_EQ(create(with(TE_RT_GEMM_FILE)), TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(te_rt_last_error()),
            "te_rt_context_set_gemm_options: cannot read the tuning file '" +
                file + "': No such file or directory");
  // Only the first one fits into the budget, which measuring exceeds.
  te_rt_gemm_options options = with(TE_RT_GEMM_TUNED, /*budget=*/1);
  options.tuning = [](void *, int32_t, const char *) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  ASSERT_OK(create(options));
  EXPECT_EQ(origins(), Origins({measured, first, measured, small, none}));
  restart(/*fastest=*/1);
  EXPECT_EQ(create(with(TE_RT_GEMM_FILE)), TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(te_rt_last_error()),
            "te_rt_instance_create: matmul (slot 1): expected the tuning file "
            "'" +
                file +
                "' to have [m=1024 n=512 k=512 a=bf16 b=bf16 out=bf16], but it "
                "does not; load the step once with the choice 'tuned' and this "
                "file, or choose 'first'");
  EXPECT_FALSE(isMeasured());
  book().machine.algorithmsFit = false;
  EXPECT_EQ(create(with(TE_RT_GEMM_FILE)), TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(te_rt_last_error())
                .find("expected cuBLASLt to accept the algorithm of [m=512"),
            std::string::npos);
  // The budget is that of a setting: the second one measures the rest.
  book().machine.algorithmsFit = true;
  ASSERT_OK(create(with(TE_RT_GEMM_TUNED)));
  EXPECT_EQ(origins(), Origins({stored, measured, stored, small, none}));
}

TEST_F(GemmChoice, ReportsWhatIsMeasured) {
  std::vector<std::string> seen;
  te_rt_gemm_options options = kTuned;
  options.user = &seen;
  options.tuning = [](void *user, int32_t slot, const char *gemm) {
    static_cast<std::vector<std::string> *>(user)->push_back(
        std::to_string(slot) + ": " + gemm);
  };
  ASSERT_OK(create(options));
  EXPECT_EQ(seen, std::vector<std::string>(
                      {"0: m=512 n=512 k=512 a=bf16 b=bf16 out=bf16",
                       "1: m=1024 n=512 k=512 a=bf16 b=bf16 out=bf16"}));
}

// A module that was compiled with 'deterministic' is never tuned. Other modules
// in the same context still are.
TEST_F(GemmChoice, DeterministicModulesAreNotChosenByTime) {
  ASSERT_OK(createAsIs(TE_RT_IS_DETERMINISTIC));
  EXPECT_FALSE(isMeasured());
  EXPECT_EQ(origins(), Origins({first, first, first, small, none}));
  ASSERT_OK(createAsIs(0));
  EXPECT_EQ(origins(), Origins({measured, measured, measured, small, none}));
  ASSERT_OK(createAsIs(TE_RT_IS_DETERMINISTIC));
  EXPECT_EQ(origins(), Origins({first, first, first, small, none}));

  ASSERT_OK(create(with(TE_RT_GEMM_TUNED)));
  book().calls.clear();
  EXPECT_EQ(createAsIs(TE_RT_IS_DETERMINISTIC), TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(te_rt_last_error()),
            "te_rt_instance_create: expected the choice of the algorithms of "
            "GEMMs to be 'first' or 'file' for a step that was compiled with "
            "'deterministic', but it is 'tuned', which measures times");
  EXPECT_FALSE(isMeasured());
  ASSERT_OK(create(with(TE_RT_GEMM_FILE), TE_RT_IS_DETERMINISTIC));
  EXPECT_EQ(origins(), Origins({stored, stored, stored, small, none}));
}

TEST_F(GemmChoice, RefusesOptionsThatDoNotFit) {
  const struct {
    te_rt_gemm_options options;
    std::string text;
  } cases[] = {
      {{3, 0, nullptr, 0, nullptr, nullptr},
       "expected 'choice' to be 0 (tuned), 1 (first) or 2 (file), but got 3"},
      {{0, 1, nullptr, 0, nullptr, nullptr},
       "expected 'reserved' to be 0, but got 1"},
      {{0, 0, "", 0, nullptr, nullptr}, "expected 'file' not to be empty"},
      {with(TE_RT_GEMM_FIRST),
       "expected no 'file' with the choice 'first', but got '" + file + "'"},
      {with(TE_RT_GEMM_TUNED, -1),
       "expected 'budget_ms' to be zero or more, but got -1"},
      {with(TE_RT_GEMM_FILE, 5),
       "expected 'budget_ms' only with the choice 'tuned', but got it with "
       "'file'"},
  };
  te_rt_context *reference = nullptr;
  ASSERT_OK(te_rt_context_create("reference", &reference));
  for (const auto &one : cases)
    for (te_rt_context *each : {context, reference}) {
      EXPECT_EQ(te_rt_context_set_gemm_options(each, &one.options),
                TE_RT_INVALID_ARGUMENT);
      EXPECT_EQ(std::string(te_rt_last_error()),
                "te_rt_context_set_gemm_options: " + one.text);
    }
  // It has nothing to choose.
  const te_rt_gemm_options fromFile = with(TE_RT_GEMM_FILE);
  EXPECT_EQ(te_rt_context_set_gemm_options(reference, &fromFile), TE_RT_OK);
  te_rt_context_destroy(reference);
}

} // namespace
