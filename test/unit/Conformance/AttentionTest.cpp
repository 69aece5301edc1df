//===- AttentionTest.cpp - attention and its gradients against f64 --------===//

#include "Conformance/AttentionOracle.h"
#include "Conformance/Harness.h"

#include <algorithm>
#include <cmath>

using namespace te::conformance;

namespace {

constexpr Shape kShapes[] = {
    {2, 100, 4, 4, 64, false, 1}, {2, 100, 4, 4, 64, true, 1},
    {2, 64, 4, 1, 128, true, 1},  {1, 72, 8, 2, 64, false, 1},
    {1, 129, 2, 2, 128, true, 8}, {2, 40, 4, 2, 64, false, 30},
};
/// Windows of one key (the position's own), of two, across the blocks of any
/// kernel, of all keys but one, of all keys, and of more keys than there are.
constexpr Shape kWindows[] = {
    {2, 100, 4, 4, 64, true, 1, 0},   {2, 100, 4, 2, 64, true, 1, 1},
    {1, 129, 2, 2, 128, true, 8, 31}, {1, 321, 4, 1, 64, true, 1, 64},
    {1, 256, 4, 2, 64, true, 1, 127}, {2, 77, 4, 2, 64, true, 1, 75},
    {2, 77, 4, 2, 64, true, 1, 76},   {2, 77, 4, 2, 64, true, 1, 500},
};
/// Caps that change most scores, that change none, and that all scores are
/// near. They also have masks and windows, which are applied after the cap.
constexpr Shape kCaps[] = {
    {2, 100, 4, 4, 64, false, 1, -1, 0.5f},
    {2, 100, 4, 2, 64, true, 1, -1, 50},
    {1, 129, 2, 2, 128, true, 8, -1, 50},
    {1, 129, 4, 1, 128, true, 8, 31, 30},
    {2, 77, 4, 2, 64, true, 1, 0, 0.5f},
    {1, 256, 4, 2, 64, true, 4, 127, 30},
    {1, 100, 2, 1, 256, true, 1, -1, 50},
    {2, 40, 4, 2, 64, false, 3, -1, 2},
};
/// Sinks of 0, of the magnitude of the scores, and large ones, which have most
/// of the weight of some rows. They also have masks, windows and caps, which do
/// not affect the sinks.
constexpr Shape kSinks[] = {
    {2, 100, 4, 4, 64, false, 1, -1, 0, 0},
    {2, 100, 4, 2, 64, true, 1, -1, 0, 1},
    {2, 64, 8, 1, 64, true, 1, 15, 0, 1},
    {1, 129, 2, 2, 128, true, 8, -1, 0, 100},
    {1, 321, 4, 1, 64, true, 1, 127, 0, 4},
    {2, 77, 4, 2, 64, true, 1, 0, 0, 2},
    {1, 256, 4, 2, 128, false, 1, -1, 0, 4},
};
/// The cuda backend may not support these with caps.
constexpr Shape kSinksAndCaps[] = {
    {2, 100, 4, 2, 64, true, 1, -1, 0.5f, 1},
    {1, 129, 4, 1, 128, true, 8, 31, 30, 30},
};
/// Values with other widths than keys, smaller and larger, also with masks,
/// windows and caps. The first is that of multi-head latent attention.
constexpr double kNoSinks = std::numeric_limits<double>::quiet_NaN();
constexpr Shape kValueDims[] = {
    {2, 100, 4, 4, 192, true, 1, -1, 0, kNoSinks, 128},
    {2, 100, 4, 2, 128, false, 1, -1, 0, kNoSinks, 64},
    {1, 129, 4, 1, 64, true, 1, 31, 0, kNoSinks, 128},
    {1, 77, 2, 2, 128, true, 1, -1, 30, kNoSinks, 64},
};
std::vector<Shape> sinkShapes() {
  std::vector<Shape> shapes(std::begin(kSinks), std::end(kSinks));
  shapes.insert(shapes.end(), std::begin(kSinksAndCaps),
                std::end(kSinksAndCaps));
  return shapes;
}
std::vector<Shape> allShapes() {
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), std::begin(kWindows), std::end(kWindows));
  shapes.insert(shapes.end(), std::begin(kCaps), std::end(kCaps));
  shapes.insert(shapes.end(), std::begin(kSinks), std::end(kSinks));
  return shapes;
}

class Attention : public BackendTest {
protected:
  bool isReference() const { return GetParam() == "reference"; }
  std::vector<int32_t> types() const {
    if (isReference())
      return {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
    return {TE_RT_BF16, TE_RT_F16};
  }
  /// Each type, for sequences and for documents.
  static std::vector<std::pair<int32_t, bool>>
  withDocuments(const std::vector<int32_t> &types) {
    std::vector<std::pair<int32_t, bool>> all;
    for (int32_t type : types)
      for (bool packed : {false, true})
        all.emplace_back(type, packed);
    return all;
  }
  static PlanFunction plan(const Shape &s, int32_t type) {
    return TE_PLAN(attention, s.tokens(), s.sequence, s.heads, s.kvHeads,
                   s.headDim, s.valueDim(), type, s.causal, s.windowLeft,
                   s.scale(), s.softcap, s.hasSinks(), 0, 0.0f, 0);
  }
  static PlanFunction sinkGradPlan(const Shape &s, int32_t type) {
    return TE_PLAN(attention_sink_grad, s.tokens(), s.sequence, s.heads,
                   s.valueDim(), type, 0);
  }
  static PlanFunction backwardPlan(const Shape &s, int32_t type,
                                   bool deterministic = true) {
    return TE_PLAN(attention_backward, s.tokens(), s.sequence, s.heads,
                   s.kvHeads, s.headDim, s.valueDim(), type, s.causal,
                   s.windowLeft, s.scale(), s.softcap, deterministic, 0, 0.0f,
                   0);
  }

  /// The forward for these queries.
  te_rt_status tryForward(const Attention64 &oracle, const Array &q,
                          int32_t type, Array *o, Array *lse) {
    const Shape &s = oracle.s;
    *o = Array(type, s.outputs());
    *lse = Array(TE_RT_F32, s.tokens() * s.heads);
    return device().tryRun(plan(s, type),
                           {in(q.bytes), in(oracle.k.bytes), in(oracle.v.bytes),
                            s.hasSinks() ? in(oracle.sinks.bytes) : none(),
                            none(), none(), out(o->bytes), out(lse->bytes)});
  }

  /// Whether cuDNN has no engine for this attention.
  bool isRefused(te_rt_status status) const {
    return !isReference() && status == TE_RT_UNSUPPORTED &&
           std::string(te_rt_last_error())
                   .find("cuDNN has no engine for this attention") !=
               std::string::npos;
  }
};

TEST_P(Attention, MeetsTheDefinition) {
  for (int32_t type : types())
    for (const Shape &s : allShapes()) {
      SCOPED_TRACE(s.text() + " type " + std::to_string(type));
      const Attention64 oracle(s, type, isReference());
      Array o, lse;
      ASSERT_EQ(tryForward(oracle, oracle.q, type, &o, &lse), TE_RT_OK)
          << te_rt_last_error();
      expectWithin(oracle.o, o, "o");
      expectWithin(oracle.lse, lse, "lse");
    }
}

// Sinks together with caps and values of another width than keys: the results
// are as defined, or an error if cuDNN has no engine.
TEST_P(Attention, RareShapesMeetTheDefinitionOrAreRefused) {
  std::vector<Shape> shapes(std::begin(kSinksAndCaps), std::end(kSinksAndCaps));
  shapes.insert(shapes.end(), std::begin(kValueDims), std::end(kValueDims));
  for (int32_t type : types())
    for (const Shape &s : shapes) {
      SCOPED_TRACE(s.text() + " type " + std::to_string(type));
      const Attention64 oracle(s, type, isReference());
      Array o, lse;
      const te_rt_status status = tryForward(oracle, oracle.q, type, &o, &lse);
      if (isRefused(status))
        continue;
      ASSERT_EQ(status, TE_RT_OK) << te_rt_last_error();
      expectWithin(oracle.o, o, "o");
      expectWithin(oracle.lse, lse, "lse");
    }
}

// The gradients of q, k and v, whose kernel does not read the sinks, are those
// of GradientsMeetTheDefinition.
TEST_P(Attention, GradientsOfSinksMeetTheDefinition) {
  std::vector<int32_t> all = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
  for (int32_t type : all)
    for (const Shape &s : sinkShapes()) {
      SCOPED_TRACE(s.text() + " type " + std::to_string(type));
      const Attention64 oracle(s, type, isReference());
      Array dsinks(TE_RT_F32, s.heads);
      device().run(sinkGradPlan(s, type),
                   {in(oracle.dout.bytes), in(oracle.givenO.bytes),
                    in(oracle.givenLse.bytes), in(oracle.sinks.bytes), none(),
                    out(dsinks.bytes)});
      expectWithin(oracle.dsinks, dsinks, "dsinks");
    }
}

TEST_P(Attention, GradientsMeetTheDefinition) {
  std::vector<Shape> shapes = allShapes();
  shapes.insert(shapes.end(), std::begin(kValueDims), std::end(kValueDims));
  for (int32_t type : types())
    for (const Shape &s : shapes) {
      SCOPED_TRACE(s.text() + " type " + std::to_string(type));
      const Attention64 oracle(s, type, isReference());
      Array dq(type, s.queries()), dk(type, s.keys()), dv(type, s.keyValues());
      Array again[] = {dq, dk, dv};
      const std::vector<Buffer> inputs = {in(oracle.dout.bytes),
                                          in(oracle.q.bytes),
                                          in(oracle.k.bytes),
                                          in(oracle.v.bytes),
                                          in(oracle.givenO.bytes),
                                          in(oracle.givenLse.bytes),
                                          none(),
                                          none()};
      auto with = [&](Array &a, Array &b, Array &c) {
        std::vector<Buffer> buffers = inputs;
        for (Array *each : {&a, &b, &c})
          buffers.push_back(out(each->bytes));
        return buffers;
      };
      bool refused = false;
      for (bool deterministic : {false, true}) {
        const te_rt_status status = device().tryRun(
            backwardPlan(s, type, deterministic), with(dq, dk, dv));
        refused = s.ownValueDim && isRefused(status);
        if (refused)
          break;
        ASSERT_EQ(status, TE_RT_OK) << te_rt_last_error();
        expectWithin(oracle.dq, dq, "dq");
        expectWithin(oracle.dk, dk, "dk");
        expectWithin(oracle.dv, dv, "dv");
      }
      if (refused)
        continue;
      // The bits are the same in every run.
      device().run(backwardPlan(s, type), with(again[0], again[1], again[2]));
      EXPECT_TRUE(sameBits(dq, again[0]) && sameBits(dk, again[1]) &&
                  sameBits(dv, again[2]));
    }
}

// Queries of zeros give every key the same weight, and with the rows of the
// unit matrix as values, o is these weights: it shows which ones dropout sets
// to zero. The gradients are then those of a product with these weights.
TEST_P(Attention, DropoutHasTheSameZerosInTheGradient) {
  constexpr int64_t keys = 64;
  const Shape s{2, keys, 4, 2, keys, false, 1};
  const int64_t columns = s.heads * keys;
  const float dropout = 0.25f;
  const std::vector<int32_t> state = {7, -3};
  const std::vector<int32_t> both = {0, keys, 2 * keys};
  for (auto [type, packed] : withDocuments(types())) {
    SCOPED_TRACE("type " + std::to_string(type) + (packed ? " packed" : ""));
    const int64_t boundaries = packed ? 3 : 0;
    const Buffer documents = packed ? in(both) : none();
    const Attention64 oracle(s, type, isReference());
    Array q(type, s.queries()), v(type, s.keyValues());
    for (int64_t t = 0; t < s.tokens(); ++t)
      for (int64_t h = 0; h < s.kvHeads; ++h)
        v.set((t * s.kvHeads + h) * keys + t % keys, 1);
    auto forward = [&](int32_t stream, Array *o, Array *lse) {
      *o = Array(type, s.outputs());
      *lse = Array(TE_RT_F32, s.tokens() * s.heads);
      device().run(TE_PLAN(attention, s.tokens(), keys, s.heads, s.kvHeads,
                           keys, keys, type, 0, -1, s.scale(), 0.0f, 0,
                           boundaries, dropout, stream),
                   {in(q.bytes), in(oracle.k.bytes), in(v.bytes), none(),
                    documents, in(state), out(o->bytes), out(lse->bytes)});
    };
    Array o, lse, again, other;
    forward(5, &o, &lse);
    forward(5, &again, &lse);
    forward(6, &other, &lse);
    EXPECT_TRUE(sameBits(o, again));

    const double kept = 1 / (1 - static_cast<double>(dropout)) / keys;
    std::vector<double> weights(o.size());
    double zeros = 0, common = 0;
    for (size_t i = 0; i < o.size(); ++i) {
      weights[i] = o.at(i) == 0 ? 0 : kept;
      // Weights and o are each rounded to 8 bits at least.
      ASSERT_NEAR(o.at(i), weights[i], kept / 128);
      zeros += o.at(i) == 0;
      common += o.at(i) == 0 && other.at(i) == 0;
    }
    const double count = static_cast<double>(o.size());
    const double spread = 5 * std::sqrt(0.25 * 0.75 / count);
    EXPECT_NEAR(zeros / count, 0.25, spread);
    EXPECT_NEAR(common / count, 0.25 * 0.25, spread);

    Array dq(type, s.queries()), dk(type, s.keys()), dv(type, s.keyValues());
    device().run(TE_PLAN(attention_backward, s.tokens(), keys, s.heads,
                         s.kvHeads, keys, keys, type, 0, -1, s.scale(), 0.0f, 1,
                         boundaries, dropout, 5),
                 {in(oracle.dout.bytes), in(q.bytes), in(oracle.k.bytes),
                  in(v.bytes), in(o.bytes), in(lse.bytes), documents, in(state),
                  out(dq.bytes), out(dk.bytes), out(dv.bytes)});
    std::vector<double> wantedQ(s.queries()), wantedV(s.keyValues());
    for (int64_t t = 0; t < s.tokens(); ++t)
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t row = t * columns + h * keys;
        double delta = 0;
        for (int64_t d = 0; d < keys; ++d)
          delta += oracle.dout.at(row + d) * weights[row + d];
        for (int64_t j = 0; j < keys; ++j) {
          const int64_t key =
              ((t / keys * keys + j) * s.kvHeads + h / 2) * keys;
          const double weight = weights[row + j];
          const double ds =
              s.scale() * (weight * oracle.dout.at(row + j) - delta / keys);
          for (int64_t d = 0; d < keys; ++d) {
            wantedQ[row + d] += ds * oracle.k.at(key + d);
            wantedV[key + d] += weight * oracle.dout.at(row + d);
          }
        }
      }
    // Weights, ds and results are rounded to 8 bits at least, each by 2^-9 of
    // its value, so a norm is off by less than 3 * 2^-9 < 1e-2 of itself.
    auto expectNear = [](const Array &found, const std::vector<double> &wanted,
                         const char *what) {
      double error = 0, size = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        error += std::pow(found.at(i) - wanted[i], 2);
        size += wanted[i] * wanted[i];
      }
      EXPECT_LT(error, 1e-4 * size) << what;
    };
    expectNear(dq, wantedQ, "dq");
    expectNear(dv, wantedV, "dv");
  }
}

// A NaN in a row of q affects only the same row of o.
TEST_P(Attention, NanStaysInItsRow) {
  const Shape s{1, 64, 2, 2, 64, true, 1};
  const Attention64 oracle(s, TE_RT_BF16, isReference());
  Array q = oracle.q;
  q.set(7 * 128 + 64 + 3, std::nan("")); // token 7, head 1
  Array o, lse;
  ASSERT_EQ(tryForward(oracle, q, TE_RT_BF16, &o, &lse), TE_RT_OK)
      << te_rt_last_error();
  for (int64_t i = 0; i < s.queries(); ++i)
    ASSERT_EQ(std::isnan(o.at(i)), i / 64 == 7 * 2 + 1) << i;
  for (int64_t row = 0; row < s.tokens() * s.heads; ++row)
    ASSERT_EQ(std::isnan(lse.at(row)), row == 64 + 7) << row;
}

TE_FOR_EACH_BACKEND(Attention);

} // namespace
