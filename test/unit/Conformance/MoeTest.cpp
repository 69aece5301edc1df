//===- MoeTest.cpp - routing tokens, against their definitions ------------===//
//
// The choice of experts is compared with a sort, rows with the maps, and
// gradients with f64 formulas. Routing and moving rows is exact. Results that
// depend on exp are within bounds, and have the same bits on every backend,
// because the formulas are shared.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

using namespace te::conformance;

namespace {

class Moe : public BackendTest {};
TE_FOR_EACH_BACKEND(Moe);

constexpr int64_t kTokens = 37, kExperts = 12, kChoices = 3;

std::vector<int32_t> someIds(uint32_t seed) {
  std::vector<int32_t> ids(kTokens * kChoices);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((seed + i * i * 7 + i) % kExperts);
  return ids;
}

/// The indices in descending order of their keys; NaNs are last.
std::vector<int32_t> ranked(const std::vector<float> &keys,
                            std::vector<int32_t> indices) {
  std::sort(indices.begin(), indices.end(), [&](int32_t a, int32_t b) {
    const float x = keys[a], y = keys[b];
    if (std::isnan(x) != std::isnan(y))
      return std::isnan(y);
    return std::isnan(x) || x == y ? a < b : x > y;
  });
  return indices;
}
/// From `begin`, as many as there are.
std::vector<int32_t> numbers(int64_t begin, int64_t count) {
  std::vector<int32_t> found(count);
  std::iota(found.begin(), found.end(), static_cast<int32_t>(begin));
  return found;
}

/// Whether two numbers are equal, or both NaN.
bool isSame(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

TEST_P(Moe, RouterChoosesTheLargestScores) {
  for (int32_t type : {TE_RT_BF16, TE_RT_F32, TE_RT_F16})
    for (const char *kind :
         {"normal", "zeros", "inf", "nan", "negzero", "wide"})
      for (int32_t score : {0, 1})
        for (int32_t normalize : {0, 1}) {
          const Array logits(type,
                             makeValues(kind, type, kTokens * kExperts, 21));
          std::vector<int32_t> ids(kTokens * kChoices);
          std::vector<float> probs(ids.size()), scores(kTokens * kExperts);
          device().run(
              TE_PLAN(router_topk, kTokens, kExperts, kChoices, type, score,
                      normalize, 1, 1),
              {in(logits.bytes), none(), out(ids), out(probs), out(scores)});
          for (int64_t t = 0; t < kTokens; ++t) {
            const float *s = &scores[t * kExperts];
            const std::vector<int32_t> order =
                ranked({s, s + kExperts}, numbers(0, kExperts));
            float sum = 0.0f;
            for (int64_t j = 0; j < kChoices; ++j) {
              ASSERT_EQ(ids[t * kChoices + j], order[j]) << kind << t;
              sum += s[order[j]];
            }
            for (int64_t j = 0; j < kChoices; ++j) {
              const float expected =
                  normalize ? s[order[j]] / (sum + 1e-20f) : s[order[j]];
              EXPECT_TRUE(isSame(probs[t * kChoices + j], expected));
            }
            // The scores from f64. exp errs by 2 ulp, the sum of n terms by n
            // roundings, the quotient by one: fewer than n + 4 ulp together,
            // plus what underflows.
            std::vector<double> exact(kExperts);
            double max = -INFINITY, total = 0;
            bool finite = true;
            for (int64_t e = 0; e < kExperts; ++e) {
              exact[e] = logits.at(t * kExperts + e);
              finite &= std::isfinite(exact[e]);
              max = std::max(max, exact[e]);
            }
            if (!finite)
              continue;
            for (double &x : exact) {
              x = score == 1 ? 1 / (1 + std::exp(-x)) : std::exp(x - max);
              total += x;
            }
            for (int64_t e = 0; e < kExperts; ++e) {
              const double wanted = score == 1 ? exact[e] : exact[e] / total;
              EXPECT_NEAR(s[e], wanted,
                          wanted * (kExperts + 6) * 0x1p-23 + 0x1p-126)
                  << kind;
            }
          }
        }
}

// Biases and groups decide which experts are chosen, and change no score.
// Biases are multiples of 1/4, so that keys of equal scores are often equal.
TEST_P(Moe, RouterChoosesByBiasAndGroups) {
  for (const char *kind : {"normal", "zeros", "inf", "nan"})
    for (int32_t score : {0, 1})
      for (auto [biased, groups, chosenGroups] : {std::tuple(true, 1, 1),
                                                  {false, 4, 2},
                                                  {true, 4, 2},
                                                  {true, 3, 1},
                                                  {true, 6, 3},
                                                  {true, 4, 4}}) {
        const Array logits(TE_RT_F32,
                           makeValues(kind, TE_RT_F32, kTokens * kExperts, 21));
        const auto random = makeValues(kind, TE_RT_F32, kExperts, 22);
        std::vector<float> bias(kExperts), keys(kExperts);
        for (int64_t e = 0; e < kExperts; ++e)
          bias[e] = std::round(static_cast<float>(random[e])) / 4;
        std::vector<int32_t> ids(kTokens * kChoices);
        std::vector<float> probs(ids.size()), scores(kTokens * kExperts),
            plain(scores);
        device().run(TE_PLAN(router_topk, kTokens, kExperts, kChoices,
                             TE_RT_F32, score, 1, groups, chosenGroups),
                     {in(logits.bytes), biased ? in(bias) : none(), out(ids),
                      out(probs), out(scores)});
        for (int64_t t = 0; t < kTokens; ++t) {
          const float *s = &scores[t * kExperts];
          for (int64_t e = 0; e < kExperts; ++e)
            keys[e] = biased ? s[e] + bias[e] : s[e];
          const int64_t size = kExperts / groups;
          std::vector<float> sums(groups);
          for (int64_t g = 0; g < groups; ++g) {
            const auto best = ranked(keys, numbers(g * size, size));
            sums[g] = keys[best[0]] + keys[best[1]];
          }
          const auto order = ranked(sums, numbers(0, groups));
          std::vector<int32_t> candidates;
          for (int64_t i = 0; i < chosenGroups; ++i)
            for (int32_t e : numbers(order[i] * size, size))
              candidates.push_back(e);
          const auto wanted = ranked(keys, candidates);
          float sum = 0.0f;
          for (int64_t j = 0; j < kChoices; ++j) {
            ASSERT_EQ(ids[t * kChoices + j], wanted[j]) << kind << t;
            sum += s[wanted[j]];
          }
          for (int64_t j = 0; j < kChoices; ++j)
            EXPECT_TRUE(
                isSame(probs[t * kChoices + j], s[wanted[j]] / (sum + 1e-20f)));
        }
        device().run(
            TE_PLAN(router_topk, kTokens, kExperts, kChoices, TE_RT_F32, score,
                    1, 1, 1),
            {in(logits.bytes), none(), out(ids), out(probs), out(plain)});
        for (size_t i = 0; i < scores.size(); ++i)
          EXPECT_TRUE(isSame(scores[i], plain[i]));
      }
}

TEST_P(Moe, RouterGradientSkipsIdsOfNoExpert) {
  const auto values = [](int64_t count, uint32_t seed) {
    const auto random = makeValues("normal", TE_RT_F32, count, seed);
    return std::vector<float>(random.begin(), random.end());
  };
  const std::vector<float> scores = values(kTokens * kExperts, 24);
  for (int32_t score : {0, 1})
    for (int32_t normalize : {0, 1}) {
      std::vector<int32_t> ids = someIds(5), others;
      const std::vector<float> dprobs = values(kTokens * kChoices, 25),
                               probs = values(kTokens * kChoices, 26);
      std::vector<float> otherDprobs, otherProbs;
      for (int64_t i = 0; i < kTokens * kChoices; ++i) {
        if (i % kChoices == 1) {
          constexpr int32_t kBad[] = {kExperts, -1, INT32_MAX, INT32_MIN};
          ids[i] = kBad[i / kChoices % 4];
          continue;
        }
        others.push_back(ids[i]);
        otherDprobs.push_back(dprobs[i]);
        otherProbs.push_back(probs[i]);
      }
      Array dlogits(TE_RT_F32, kTokens * kExperts), expected = dlogits;
      device().run(
          TE_PLAN(router_topk_backward, kTokens, kExperts, kChoices, TE_RT_F32,
                  score, normalize),
          {in(dprobs), in(ids), in(probs), in(scores), out(dlogits.bytes)});
      device().run(TE_PLAN(router_topk_backward, kTokens, kExperts,
                           kChoices - 1, TE_RT_F32, score, normalize),
                   {in(otherDprobs), in(others), in(otherProbs), in(scores),
                    out(expected.bytes)});
      EXPECT_EQ(dlogits.bytes, expected.bytes);
    }
}

TEST_P(Moe, RouterGradientIsTheDerivative) {
  for (int32_t score : {0, 1})
    for (int32_t normalize : {0, 1}) {
      const Array logits(
          TE_RT_F32, makeValues("normal", TE_RT_F32, kTokens * kExperts, 22));
      const auto seeds =
          makeValues("normal", TE_RT_F32, kTokens * kChoices, 23);
      const std::vector<float> dprobs(seeds.begin(), seeds.end());
      // A bias and groups change only which experts are chosen.
      const auto shifts = makeValues("normal", TE_RT_F32, kExperts, 24);
      const std::vector<float> bias(shifts.begin(), shifts.end());
      std::vector<int32_t> ids(kTokens * kChoices);
      std::vector<float> probs(ids.size()), scores(kTokens * kExperts);
      device().run(
          TE_PLAN(router_topk, kTokens, kExperts, kChoices, TE_RT_F32, score,
                  normalize, 4, 2),
          {in(logits.bytes), in(bias), out(ids), out(probs), out(scores)});
      Array dlogits(TE_RT_F32, kTokens * kExperts);
      device().run(
          TE_PLAN(router_topk_backward, kTokens, kExperts, kChoices, TE_RT_F32,
                  score, normalize),
          {in(dprobs), in(ids), in(probs), in(scores), out(dlogits.bytes)});
      // sum_j dprobs[j] probs[j] of the experts chosen, in f64, by central
      // differences: truncation h^2 and rounding 2^-53 / h stay below 1e-8
      // times the size of the derivatives, f32 errs by far more.
      for (int64_t t = 0; t < kTokens; ++t) {
        auto loss = [&](int64_t moved, double by) {
          std::vector<double> s(kExperts);
          double max = -INFINITY, total = 0, chosen = 0, result = 0;
          for (int64_t e = 0; e < kExperts; ++e) {
            s[e] = logits.at(t * kExperts + e) + (e == moved ? by : 0);
            max = std::max(max, s[e]);
          }
          for (double &x : s) {
            x = score == 1 ? 1 / (1 + std::exp(-x)) : std::exp(x - max);
            total += x;
          }
          for (int64_t j = 0; j < kChoices; ++j)
            chosen += s[ids[t * kChoices + j]];
          for (int64_t j = 0; j < kChoices; ++j) {
            const double one = s[ids[t * kChoices + j]];
            result += dprobs[t * kChoices + j] * (normalize    ? one / chosen
                                                  : score == 1 ? one
                                                               : one / total);
          }
          return result;
        };
        double size = 0;
        for (int64_t j = 0; j < kChoices; ++j)
          size = std::max<double>(size, std::fabs(dprobs[t * kChoices + j]));
        constexpr double kStep = 1e-5;
        for (int64_t e = 0; e < kExperts; ++e)
          // About 4 k + 10 roundings of terms not above 2 k size, and the
          // differences.
          EXPECT_NEAR(dlogits.at(t * kExperts + e),
                      (loss(e, kStep) - loss(e, -kStep)) / (2 * kStep),
                      size * 2 * kChoices * (4 * kChoices + 20) * 0x1p-23);
      }
    }
}

/// Every third token is not used; the mask of others is any number but 0.
std::vector<float> someUsed() {
  std::vector<float> used(kTokens);
  for (int64_t t = 0; t < kTokens; ++t)
    used[t] = t % 3 != 1   ? 1.0f / static_cast<float>(t - 8)
              : t % 2 == 0 ? 0.0f
                           : -0.0f;
  return used;
}

/// Routes `ids`, of which those of tokens whose `used` is 0 count for nothing,
/// and compares with a walk over the entries for each expert.
void checkRouting(Device &device, const std::vector<int32_t> &ids,
                  const std::vector<float> *used, int64_t choices,
                  int64_t experts, int64_t rows, int64_t alignment,
                  int64_t capacity) {
  const auto tokens = static_cast<int64_t>(ids.size()) / choices;
  auto exists = [&](size_t entry) {
    return !used || (*used)[entry / choices] != 0;
  };
  std::vector<int32_t> sizes(experts), rowOf(ids.size()), entryOf(rows),
      dropped(1);
  device.run(TE_PLAN(moe_route, tokens, choices, experts, rows, alignment,
                     capacity, 0),
             {in(ids), used ? in(*used) : none(), out(sizes), out(rowOf),
              out(entryOf), out(dropped)});
  std::vector<int32_t> wantedRow(ids.size(), -1), wantedEntry(rows, -1);
  int64_t start = 0, taken = 0;
  for (int32_t g = 0; g < experts; ++g) {
    int64_t place = start;
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] == g && exists(i) && place < rows &&
          (capacity == 0 || place - start < capacity)) {
        wantedRow[i] = static_cast<int32_t>(place);
        wantedEntry[place++] = static_cast<int32_t>(i);
      }
    EXPECT_EQ(sizes[g], place - start);
    taken += place - start;
    start += (place - start + alignment - 1) / alignment * alignment;
  }
  EXPECT_EQ(rowOf, wantedRow);
  EXPECT_EQ(entryOf, wantedEntry);
  int64_t all = 0;
  for (size_t i = 0; i < ids.size(); ++i)
    all += exists(i);
  EXPECT_EQ(dropped[0], all - taken);
}

TEST_P(Moe, RoutingGivesEveryEntryItsRow) {
  const std::vector<float> used = someUsed();
  for (auto [seed, masked] :
       {std::pair(0u, false), {5u, false}, {0u, true}, {5u, true}})
    for (int64_t alignment : {1, 16})
      for (int64_t capacity : {0, 4})
        for (int64_t rows : {kTokens * kChoices + kExperts * 16, int64_t{64}}) {
          std::vector<int32_t> ids = someIds(seed);
          ids[3] = -1, ids[7] = kExperts;
          checkRouting(device(), ids, masked ? &used : nullptr, kChoices,
                       kExperts, rows / alignment * alignment, alignment,
                       capacity);
        }
}

// More entries than one block of a GPU has, and the last block has few.
TEST_P(Moe, RoutingOfManyEntriesKeepsTheirOrder) {
  constexpr int64_t kMany = 3203, kFew = 5;
  std::vector<int32_t> ids;
  std::vector<float> used;
  for (int64_t i = 0; i < 2 * kMany; ++i)
    ids.push_back(static_cast<int32_t>(i * i % 13 % (kFew + 1)));
  for (int64_t t = 0; t < kMany; ++t)
    used.push_back(t % 1000 < 900 ? 1.0f : 0.0f);
  for (int64_t rows : {6512, 3008})
    for (int64_t capacity : {0, 700}) {
      checkRouting(device(), ids, nullptr, 2, kFew, rows, 16, capacity);
      checkRouting(device(), ids, &used, 2, kFew, rows, 16, capacity);
    }
}

// So many that the counts of few warps, and of one, fit in the shared memory of
// a block of a GPU.
TEST_P(Moe, RoutingToManyGroups) {
  for (int64_t experts : {6000, 19370}) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < 700; ++i)
      ids.push_back(static_cast<int32_t>(i * 7919 % 40 * (experts / 40)));
    checkRouting(device(), ids, nullptr, 1, experts, 720, 1, 0);
    checkRouting(device(), ids, nullptr, 1, experts, 160, 4, 3);
  }
}

// Groups of a fixed size, including an expert without entries and one with all
// of them.
TEST_P(Moe, PaddedGroupsHaveTheirCapacity) {
  const std::vector<float> used = someUsed();
  for (int64_t experts : {5, 70})
    for (int64_t capacity : {16, 48, 128}) {
      const int64_t rows = experts * capacity;
      std::vector<int32_t> ids(kTokens * kChoices);
      for (size_t i = 0; i < ids.size(); ++i)
        ids[i] = i % 2 == 0 ? 3 : static_cast<int32_t>(i % experts);
      std::replace(ids.begin(), ids.end(), 1, 4);
      ids[3] = -1, ids[8] = static_cast<int32_t>(experts);
      std::vector<int32_t> sizes(experts), rowOf(ids.size()), entryOf(rows),
          dropped(1);
      device().run(
          TE_PLAN(moe_route, kTokens, kChoices, experts, rows, 16, capacity, 1),
          {in(ids), in(used), out(sizes), out(rowOf), out(entryOf),
           out(dropped)});
      std::vector<int32_t> wantedRow(ids.size(), -1), wantedEntry(rows, -1);
      std::vector<int64_t> size(experts);
      int32_t lost = 0;
      for (size_t i = 0; i < ids.size(); ++i) {
        const int32_t g = ids[i];
        if (used[i / kChoices] == 0)
          continue;
        if (g < 0 || g >= experts || size[g] == capacity) {
          ++lost;
          continue;
        }
        wantedRow[i] = static_cast<int32_t>(g * capacity + size[g]++);
        wantedEntry[wantedRow[i]] = static_cast<int32_t>(i);
      }
      EXPECT_EQ(size[1], 0);
      EXPECT_EQ(sizes, std::vector<int32_t>(experts, capacity));
      EXPECT_EQ(rowOf, wantedRow);
      EXPECT_EQ(entryOf, wantedEntry);
      EXPECT_EQ(dropped[0], lost);
    }
}

TEST_P(Moe, RowsMoveThereAndBack) {
  for (int32_t type : {TE_RT_BF16, TE_RT_F32, TE_RT_F16})
    for (const char *kind : {"normal", "inf", "nan", "negzero", "subnormal"})
      for (auto [weighted, cols] : {std::pair(false, int64_t{300}),
                                    {true, 300},
                                    {false, 296},
                                    {true, 296}}) {
        const int64_t alignment = 16, rows = 192;
        const std::vector<int32_t> ids = someIds(1);
        std::vector<int32_t> sizes(kExperts), rowOf(ids.size()), entryOf(rows),
            dropped(1);
        device().run(TE_PLAN(moe_route, kTokens, kChoices, kExperts, rows,
                             alignment, 8, 0),
                     {in(ids), none(), out(sizes), out(rowOf), out(entryOf),
                      out(dropped)});
        ASSERT_GT(dropped[0], 0);
        const Array x(type, makeValues(kind, type, kTokens * cols, 24));
        const auto weights = makeValues("normal", TE_RT_F32, ids.size(), 25);
        const std::vector<float> probs(weights.begin(), weights.end());
        Array y(type, rows * cols), back(type, kTokens * cols);
        device().run(TE_PLAN(moe_permute, kTokens, kChoices, rows, cols, type),
                     {in(x.bytes), in(entryOf), weighted ? in(probs) : none(),
                      out(y.bytes)});
        Array expected(type, rows * cols), sum(type, kTokens * cols);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < cols && entryOf[r] >= 0; ++c) {
            const auto value =
                static_cast<float>(x.at(entryOf[r] / kChoices * cols + c));
            expected.set(r * cols + c,
                         weighted ? value * probs[entryOf[r]] : value);
          }
        EXPECT_TRUE(sameBits(expected, y)) << kind;
        device().run(
            TE_PLAN(moe_unpermute, kTokens, kChoices, rows, cols, type),
            {in(y.bytes), in(rowOf), weighted ? in(probs) : none(),
             out(back.bytes)});
        std::vector<float> dprobs(ids.size());
        device().run(
            TE_PLAN(moe_prob_grad, kTokens, kChoices, rows, cols, type),
            {in(x.bytes), in(y.bytes), in(rowOf), out(dprobs)});
        for (int64_t t = 0; t < kTokens; ++t)
          for (int64_t c = 0; c < cols; ++c) {
            float acc = 0.0f;
            for (int64_t i = t * kChoices; i < (t + 1) * kChoices; ++i)
              if (rowOf[i] >= 0) {
                const auto value =
                    static_cast<float>(y.at(rowOf[i] * cols + c));
                acc += weighted ? value * probs[i] : value;
              }
            sum.set(t * cols + c, acc);
          }
        EXPECT_TRUE(sameBits(sum, back)) << kind;
        for (size_t i = 0; i < ids.size(); ++i) {
          // A lane sum: 256 lanes, then a tree.
          std::vector<float> lanes(256, 0.0f);
          for (int64_t c = 0; c < cols && rowOf[i] >= 0; ++c)
            lanes[c % 256] +=
                static_cast<float>(x.at(i / kChoices * cols + c)) *
                static_cast<float>(y.at(rowOf[i] * cols + c));
          for (int s = 128; s != 0; s /= 2)
            for (int k = 0; k < s; ++k)
              lanes[k] += lanes[k + s];
          EXPECT_TRUE(dprobs[i] == lanes[0] ||
                      (std::isnan(dprobs[i]) && std::isnan(lanes[0])))
              << kind << i;
        }
      }
}

TEST_P(Moe, WhatIsInNoRangeOfAMapCountsAsNone) {
  const int64_t rows = 192, cols = 40;
  const std::vector<int32_t> wild = {-2, INT32_MIN, INT32_MAX, 1 << 24};
  std::vector<int32_t> rowOf(kTokens * kChoices), entryOf(rows);
  std::iota(rowOf.begin(), rowOf.end(), 0);
  std::iota(entryOf.begin(), entryOf.end(), 0);
  std::fill(entryOf.begin() + kTokens * kChoices, entryOf.end(), -1);
  std::vector<int32_t> wildRowOf = rowOf, wildEntryOf = entryOf;
  for (size_t i = 0; i < wild.size(); ++i) {
    rowOf[3 * i] = entryOf[5 * i] = -1;
    wildRowOf[3 * i] = wildEntryOf[5 * i] = wild[i];
  }
  // The first invalid id.
  wildRowOf[1] = static_cast<int32_t>(rows);
  wildEntryOf[1] = static_cast<int32_t>(kTokens * kChoices);
  rowOf[1] = entryOf[1] = -1;
  for (int32_t type : {TE_RT_BF16, TE_RT_F32}) {
    const Array x(type, makeValues("normal", type, kTokens * cols, 26));
    const Array y(type, makeValues("normal", type, rows * cols, 27));
    const auto weights = makeValues("normal", TE_RT_F32, rowOf.size(), 28);
    const std::vector<float> probs(weights.begin(), weights.end());
    auto run = [&](const std::vector<int32_t> &rowOf,
                   const std::vector<int32_t> &entryOf) {
      Array permuted(type, rows * cols), sums(type, kTokens * cols);
      Array dprobs(TE_RT_F32, kTokens * kChoices);
      device().run(TE_PLAN(moe_permute, kTokens, kChoices, rows, cols, type),
                   {in(x.bytes), in(entryOf), in(probs), out(permuted.bytes)});
      device().run(TE_PLAN(moe_unpermute, kTokens, kChoices, rows, cols, type),
                   {in(y.bytes), in(rowOf), in(probs), out(sums.bytes)});
      device().run(TE_PLAN(moe_prob_grad, kTokens, kChoices, rows, cols, type),
                   {in(x.bytes), in(y.bytes), in(rowOf), out(dprobs.bytes)});
      return std::vector<std::vector<uint8_t>>{permuted.bytes, sums.bytes,
                                               dprobs.bytes};
    };
    EXPECT_EQ(run(wildRowOf, wildEntryOf), run(rowOf, entryOf));
  }
}

} // namespace
