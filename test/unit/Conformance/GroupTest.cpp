//===- GroupTest.cpp - groups of one rank, on every backend ---------------===//
//
// Tests of groups that need only one GPU. Those with several ranks are in
// test/unit/Runtime/Nccl.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>
#include <cstring>

using namespace te::conformance;

namespace {

class Groups : public BackendTest {
protected:
  // Bindings last as long as their context, so each test creates one.
  Device own{GetParam().c_str()};
};
TE_FOR_EACH_BACKEND(Groups);

TEST_P(Groups, MaximumOverOneRankIsTheValue) {
  ASSERT_EQ(te_rt_context_bind_group(own.context, 5, nullptr, 1, 0), TE_RT_OK)
      << te_rt_last_error();
  const std::vector<float> x{0, -2, 1e-45f, INFINITY, -INFINITY};
  std::vector<float> y(x.size()), inPlace(x.size());
  own.run(TE_PLAN(all_reduce_max, 5, 5), {in(x), out(y)});
  EXPECT_EQ(x, y);
  own.run(TE_PLAN(all_reduce_max, 5, 5), {in(x), outOn(0, inPlace)});
  EXPECT_EQ(x, inPlace);
}

// Gathers copy values of every type, also of an empty shard. NaN, -0 and
// subnormals do not change.
TEST_P(Groups, CollectivesOverOneRankAreCopies) {
  ASSERT_EQ(te_rt_context_bind_group(own.context, 5, nullptr, 1, 0), TE_RT_OK)
      << te_rt_last_error();
  for (int32_t type : {TE_RT_F32, TE_RT_BF16, TE_RT_F16})
    for (int64_t count : {0, 1, 7, 1001}) {
      const Array x = makeArray("nan", type, count);
      const int64_t bytes = static_cast<int64_t>(x.bytes.size());
      Array gathered(type, count), sum(type, count), shard(type, count);
      Array inPlace(type, count), exchanged(type, count);
      const std::vector<float> scales{0.5f, -0.0f, NAN};
      std::vector<float> otherScales(3);
      own.run(TE_PLAN(all_to_all, bytes, 0, 1, 5),
              {in(x.bytes), out(exchanged.bytes), none(), none()});
      EXPECT_EQ(x.bytes, exchanged.bytes);
      exchanged = Array(type, count);
      own.run(
          TE_PLAN(all_to_all, bytes, 12, 1, 5),
          {in(x.bytes), out(exchanged.bytes), in(scales), out(otherScales)});
      EXPECT_EQ(std::memcmp(scales.data(), otherScales.data(), 12), 0);
      own.run(TE_PLAN(all_gather, bytes, 1, 5),
              {in(x.bytes), out(gathered.bytes)});
      own.run(TE_PLAN(all_reduce_sum, count, type, 1, 5),
              {in(x.bytes), out(sum.bytes)});
      own.run(TE_PLAN(all_reduce_sum, count, type, 1, 5),
              {in(x.bytes), outOn(0, inPlace.bytes)});
      own.run(TE_PLAN(reduce_scatter_sum, count, type, 1, 5),
              {in(x.bytes), out(shard.bytes)});
      for (const Array *y : {&gathered, &sum, &inPlace, &shard, &exchanged})
        EXPECT_EQ(x.bytes, y->bytes);
    }
}

TEST_P(Groups, ExchangesOfScalesNeedTheirBuffers) {
  std::vector<float> x(2), y(2);
  const std::vector<float> scale(1);
  std::vector<float> otherScale(1);
  const auto refuses = [&](Buffer from, Buffer to) {
    EXPECT_EQ(
        own.tryRun(TE_PLAN(all_to_all, 8, 4, 1, 5), {in(x), out(y), from, to}),
        TE_RT_INVALID_ARGUMENT);
    EXPECT_NE(own.message.find("expected buffers 'x_scale' and 'y_scale' for "
                               "'scale_bytes' 4, but got null"),
              std::string::npos)
        << own.message;
  };
  refuses(none(), none());
  refuses(in(scale), none());
  refuses(none(), out(otherScale));
}

// A process without a launcher is one rank, and not silently one of several.
TEST_P(Groups, AnotherNumberOfRanksIsRefused) {
  std::vector<float> x(4), y(4);
  const auto refuses = [&](const PlanFunction &plan, const char *text) {
    EXPECT_EQ(own.tryRun(plan, {in(x), out(y)}), TE_RT_INVALID_ARGUMENT);
    EXPECT_NE(own.message.find(text), std::string::npos) << own.message;
  };
  const char *const alone = "expected group 5 to have 2 ranks, but the context "
                            "has no groups: the process is by itself";
  const char *const bound = "expected group 5 to have 2 ranks, but it is bound "
                            "with 1";
  for (const char *text : {alone, bound}) {
    refuses(TE_PLAN(all_gather, 8, 2, 5), text);
    refuses(TE_PLAN(all_to_all, 8, 4, 2, 5), text);
    refuses(TE_PLAN(all_reduce_sum, 4, TE_RT_F32, 2, 5), text);
    refuses(TE_PLAN(reduce_scatter_sum, 2, TE_RT_F32, 2, 5), text);
    if (text == alone) {
      ASSERT_EQ(te_rt_context_bind_group(own.context, 5, nullptr, 1, 0),
                TE_RT_OK)
          << te_rt_last_error();
    }
  }
}

TEST_P(Groups, UnboundOneIsRefusedOnceThereAreGroups) {
  const std::vector<float> x{1};
  std::vector<float> y(1);
  own.run(TE_PLAN(all_reduce_max, 1, 4), {in(x), out(y)});
  EXPECT_EQ(x, y);
  ASSERT_EQ(te_rt_context_bind_group(own.context, 5, nullptr, 1, 0), TE_RT_OK)
      << te_rt_last_error();
  EXPECT_EQ(own.tryRun(TE_PLAN(all_reduce_max, 1, 4), {in(x), out(y)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(te_rt_last_error()).find("(5), but got 4"),
            std::string::npos)
      << te_rt_last_error();
}

} // namespace
