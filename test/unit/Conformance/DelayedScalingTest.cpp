//===- DelayedScalingTest.cpp - histories and scales over many steps ------===//
//
// The model stores a history as a queue of amaxes, oldest first, and computes
// in f64. A quotient of two f32 that is rounded to f64 and then to f32 is the
// correctly rounded quotient, because f64 has more than twice the bits. Slots
// have zeros, infinities, NaN, tiny and huge amaxes in different steps.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"

#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <tuple>

using namespace te::conformance;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// The model of one slot.
struct Slot {
  std::deque<float> newest; // of the length of the history, oldest first
  float pending = 0;        // measured, not counted yet
  float scale = 1;

  void update(float amax, bool mostRecent, double fp8Max, int margin) {
    const float last = amax != 0 ? amax : pending;
    if (last == 0) {
      if (scale == kInf)
        scale = std::numeric_limits<float>::max();
      return;
    }
    newest.pop_front();
    newest.push_back(last);
    pending = 0;
    double chosen = last;
    if (!mostRecent) {
      chosen = 0;
      for (float each : newest)
        if (each > chosen)
          chosen = each;
    }
    if (chosen > 0 && chosen < kInf)
      scale = static_cast<float>(std::ldexp(fp8Max, -margin) / chosen);
    if (scale == kInf)
      scale = std::numeric_limits<float>::max();
  }

  /// Row `i` of the stored history. Rows that were never counted do not change.
  float row(size_t i) const {
    if (i == 0)
      return pending;
    return newest[i];
  }
};

constexpr int64_t kSlots = 7;

/// The amax of slot `slot` in step `step`.
float measure(int64_t slot, int step, std::mt19937 &random) {
  const float normal =
      std::exp(std::normal_distribution<float>(0.0f, 2.0f)(random));
  switch (slot) {
  case 0: // never used
    return 0;
  case 1: // zeros for a while, and now and then
    return step < 4 || step % 9 == 0 ? 0 : normal;
  case 2: // two infinities
    return step == 7 || step == 30 ? kInf : normal;
  case 3: // NaN, from the second step on
    return step % 6 == 1 ? std::nanf("") : normal;
  case 4: // quotients that overflow, and subnormal amaxes
    return step % 3 == 0 ? 1e-38f : step % 3 == 1 ? 1e-45f : normal;
  case 5: // the largest finite amax once
    return step == 11 ? std::numeric_limits<float>::max() : normal;
  default:
    return normal;
  }
}

bool same(const std::vector<float> &a, const std::vector<float> &b) {
  if (a.size() != b.size())
    return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], 4) != 0 &&
        !(std::isnan(a[i]) && std::isnan(b[i])))
      return false;
  return true;
}

class DelayedScaling : public BackendTest {
protected:
  void check(int64_t length, int32_t algorithm, float fp8Max, int32_t margin,
             bool inPlace) {
    SCOPED_TRACE("length " + std::to_string(length) + " algorithm " +
                 std::to_string(algorithm) + " margin " +
                 std::to_string(margin) + (inPlace ? " in place" : ""));
    std::mt19937 random(17);
    std::vector<Slot> slots(kSlots);
    for (int64_t s = 0; s < kSlots; ++s)
      slots[s].newest.assign(length, 0.0f);
    // The amax of an evaluation, which is not counted yet, and an invalid
    // scale.
    slots[0].pending = 2.5f;
    slots[6].pending = 1e30f;
    slots[1].scale = kInf;
    std::vector<float> history(length * kSlots), scale(kSlots);
    auto expect = [&](std::vector<float> &h, std::vector<float> &s) {
      for (int64_t slot = 0; slot < kSlots; ++slot) {
        s[slot] = slots[slot].scale;
        for (int64_t i = 0; i < length; ++i)
          h[i * kSlots + slot] = slots[slot].row(i);
      }
    };
    expect(history, scale);
    const auto plan = TE_PLAN(delayed_scaling_update, kSlots, length, algorithm,
                              fp8Max, margin);
    for (int step = 0; step < 50; ++step) {
      std::vector<float> amax(kSlots), newHistory(history.size()),
          newScale(kSlots), expectedHistory(history.size()),
          expectedScale(kSlots);
      for (int64_t s = 0; s < kSlots; ++s) {
        amax[s] = measure(s, step, random);
        slots[s].update(amax[s], algorithm == TE_RT_AMAX_MOST_RECENT, fp8Max,
                        margin);
      }
      expect(expectedHistory, expectedScale);
      if (inPlace)
        device().run(plan, {in(amax), in(history), in(scale),
                            outOn(1, newHistory), outOn(2, newScale)});
      else
        device().run(plan, {in(amax), in(history), in(scale), out(newHistory),
                            out(newScale)});
      ASSERT_TRUE(same(newScale, expectedScale)) << "scale, step " << step;
      ASSERT_TRUE(same(newHistory, expectedHistory))
          << "history, step " << step;
      history = newHistory, scale = newScale;
    }
  }
};

TEST_P(DelayedScaling, FiftySteps) {
  for (int64_t length : {1, 2, 8, 33, 256, 1024, 1025})
    for (int32_t algorithm : {TE_RT_AMAX_MAX, TE_RT_AMAX_MOST_RECENT})
      for (bool inPlace : {false, true}) {
        check(length, algorithm, 448.0f, 0, inPlace);
        check(length, algorithm, 57344.0f, 3, inPlace);
        check(length, algorithm, 448.0f, -2, inPlace);
      }
}

/// The most members of a group.
constexpr int kMost = 32;
using Sizes = std::array<int64_t, kMost>;

/// A member of a group: what it reads, and what it gets.
struct History {
  std::vector<float> amax, history, scale, newHistory, newScale;

  History(int64_t slots, int64_t length, int seed)
      : amax(slots), history(length * slots), scale(slots, 2.0f),
        newHistory(length * slots), newScale(slots) {
    std::mt19937 random(seed);
    for (int64_t i = 0; i < slots; ++i)
      amax[i] = measure((i + seed) % kSlots, seed, random);
    for (size_t i = 0; i < history.size(); ++i)
      history[i] = measure(6, 1, random);
  }
  std::vector<float> *array(int k) {
    std::vector<float> *const arrays[] = {&amax, &history, &scale, &newHistory,
                                          &newScale};
    return arrays[k];
  }
};

// delayed_scaling_group has the bits of an update of each member, in place or
// not.
TEST_P(DelayedScaling, Groups) {
  for (int64_t length : {1, 16, 1025})
    for (int numMembers : {1, 3, kMost})
      for (bool inPlace : {false, true}) {
        Sizes sizes{};
        std::vector<History> members, apart;
        for (int i = 0; i < kMost; ++i) {
          // One is absent, in the middle.
          sizes[i] = i >= numMembers || i == 2 ? 0 : 1 + i * 5 % 9;
          members.emplace_back(sizes[i], length, i);
        }
        apart = members;
        std::vector<Buffer> buffers;
        for (int k = 0; k < 5; ++k)
          for (int i = 0; i < kMost; ++i) {
            std::vector<float> &values = *members[i].array(k);
            if (sizes[i] == 0)
              buffers.push_back(none());
            else if (k < 3)
              buffers.push_back(in(values));
            else
              buffers.push_back(inPlace ? outOn((k - 2) * kMost + i, values)
                                        : out(values));
          }
        device().run(
            [=](te_rt_instance *instance, int32_t slot) {
              return std::apply(
                  [&](auto... slots) {
                    return te_rt_plan_delayed_scaling_group(
                        instance, slot, length, TE_RT_AMAX_MAX, 448.0f, 1,
                        slots...);
                  },
                  sizes);
            },
            buffers);
        for (int i = 0; i < kMost; ++i) {
          if (sizes[i] == 0)
            continue;
          History &own = apart[i];
          device().run(TE_PLAN(delayed_scaling_update, sizes[i], length,
                               TE_RT_AMAX_MAX, 448.0f, 1),
                       {in(own.amax), in(own.history), in(own.scale),
                        out(own.newHistory), out(own.newScale)});
          ASSERT_TRUE(same(members[i].newHistory, own.newHistory)) << i;
          ASSERT_TRUE(same(members[i].newScale, own.newScale)) << i;
        }
      }
}

TEST_P(DelayedScaling, GroupsNeedAllBuffers) {
  std::vector<Buffer> buffers(5 * kMost, none());
  EXPECT_EQ(device().tryRun(
                [](te_rt_instance *instance, int32_t slot) {
                  Sizes sizes{0, 3};
                  return std::apply(
                      [&](auto... slots) {
                        return te_rt_plan_delayed_scaling_group(
                            instance, slot, 4, 0, 448.0f, 0, slots...);
                      },
                      sizes);
                },
                buffers),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(
      std::string(te_rt_last_error())
          .find("expected all buffers of tensor 1, whose number of slots is 3"),
      std::string::npos)
      << te_rt_last_error();
}

TEST_P(DelayedScaling, NoSlots) {
  std::vector<float> none_, newHistory, newScale;
  device().run(
      TE_PLAN(delayed_scaling_update, 0, 8, 0, 448.0f, 0),
      {in(none_), in(none_), in(none_), out(newHistory), out(newScale)});
}

TE_FOR_EACH_BACKEND(DelayedScaling);

} // namespace
