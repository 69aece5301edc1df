//===- GroupTest.cpp - groups of one rank, on every backend ---------------===//
//
// What needs no second GPU. Groups of several ranks: test/unit/Runtime/Nccl.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"

#include <cmath>

using namespace te::conformance;

namespace {

class Groups : public BackendTest {
protected:
  // Bindings last as long as their context, so each test has its own.
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
