//===- DocumentsTest.cpp - attention of documents that are packed in rows -===//
//
// The rows of each document are computed by themselves as one sequence, which
// AttentionTest compares with the definition. Packed, they have the same bits.
//
//===----------------------------------------------------------------------===//

#include "Conformance/AttentionOracle.h"
#include "Conformance/Harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

using namespace te::conformance;

namespace {

/// The attributes of attention; the numbers of rows are those of the packings.
constexpr Shape kShapes[] = {
    {1, 0, 4, 2, 16, true, 1},
    {1, 0, 2, 2, 8, false, 8},
    {1, 0, 4, 1, 16, true, 1, 5, 2},
    {1, 0, 4, 2, 16, true, 1, -1, 0, 1},
    {1, 0, 2, 1, 8, false, 1, -1, 3, 4},
    {1, 0, 4, 2, 16, true, 1, 0, 0, std::numeric_limits<double>::quiet_NaN(),
     24},
};

/// Boundaries, and the number of rows.
struct Packing {
  std::vector<int32_t> documents;
  int64_t rows;
};
std::vector<Packing> packings() {
  std::vector<Packing> all = {
      {{0, 33}, 33},                         // one document
      {{0, 1, 2, 3}, 3},                     // of one row each
      {{0}, 5},                              // none
      {{4, 4, 4}, 9},                        // only empty ones
      {{3, 20, 20, 21}, 30},                 // padding at both ends
      {{0, 7, 19, 40, 40, 40}, 40},          // entries without a document
      {{0, 13, 16, 24, 32, 37, 48, 48}, 48}, // a padded batch
  };
  std::mt19937 random(25);
  for (int n = 0; n < 12; ++n) {
    const int64_t rows = 1 + random() % 60;
    std::vector<int32_t> documents(1 + random() % 8);
    for (int32_t &boundary : documents)
      boundary = static_cast<int32_t>(random() % (rows + 1));
    std::sort(documents.begin(), documents.end());
    all.push_back({documents, rows});
  }
  return all;
}

/// The inputs and results of a forward and a backward.
struct Values {
  Values(const Shape &s, int32_t type)
      : q(type, s.queries()), k(type, s.keys()), v(type, s.keyValues()),
        dout(type, s.outputs()), o(type, s.outputs()),
        lse(TE_RT_F32, s.tokens() * s.heads), dq(type, s.queries()),
        dk(type, s.keys()), dv(type, s.keyValues()),
        dsinks(TE_RT_F32, s.heads) {}
  Array q, k, v, dout, o, lse, dq, dk, dv, dsinks;
};

/// Rows of an array with `columns` elements in each.
void copyRows(const Array &from, int64_t fromRow, Array *to, int64_t toRow,
              int64_t rows, int64_t columns) {
  const int64_t bytes = columns * elementBytes(from.type);
  if (rows != 0)
    std::memcpy(to->bytes.data() + toRow * bytes,
                from.bytes.data() + fromRow * bytes, rows * bytes);
}

class Documents : public BackendTest {
protected:
  bool isReference() const { return GetParam() == "reference"; }

  static PlanFunction plan(const Shape &s, int32_t type, int64_t boundaries) {
    return TE_PLAN(attention, s.tokens(), s.sequence, s.heads, s.kvHeads,
                   s.headDim, s.valueDim(), type, s.causal, s.windowLeft,
                   s.scale(), s.softcap, s.hasSinks(), boundaries, 0.0f, 0);
  }
  static PlanFunction backwardPlan(const Shape &s, int32_t type,
                                   int64_t boundaries) {
    return TE_PLAN(attention_backward, s.tokens(), s.sequence, s.heads,
                   s.kvHeads, s.headDim, s.valueDim(), type, s.causal,
                   s.windowLeft, s.scale(), s.softcap, true, boundaries, 0.0f,
                   0);
  }
  static PlanFunction sinkGradPlan(const Shape &s, int32_t type,
                                   int64_t boundaries) {
    return TE_PLAN(attention_sink_grad, s.tokens(), s.sequence, s.heads,
                   s.valueDim(), type, boundaries);
  }

  /// All three kernels; no documents means one sequence.
  void runAll(const Shape &s, int32_t type, const Array &sinks, Values *x,
              const std::vector<int32_t> &documents = {}) {
    const auto boundaries = static_cast<int64_t>(documents.size());
    const Buffer given = documents.empty() ? none() : in(documents);
    device().run(plan(s, type, boundaries),
                 {in(x->q.bytes), in(x->k.bytes), in(x->v.bytes),
                  s.hasSinks() ? in(sinks.bytes) : none(), given, none(),
                  out(x->o.bytes), out(x->lse.bytes)});
    device().run(backwardPlan(s, type, boundaries),
                 {in(x->dout.bytes), in(x->q.bytes), in(x->k.bytes),
                  in(x->v.bytes), in(x->o.bytes), in(x->lse.bytes), given,
                  none(), out(x->dq.bytes), out(x->dk.bytes),
                  out(x->dv.bytes)});
    if (s.hasSinks())
      device().run(sinkGradPlan(s, type, boundaries),
                   {in(x->dout.bytes), in(x->o.bytes), in(x->lse.bytes),
                    in(sinks.bytes), given, out(x->dsinks.bytes)});
  }
};

/// What the packed results must be: those of each document by itself, and zeros
/// between them.
struct Expected {
  Expected(const Shape &s, int32_t type, const Array &sinks)
      : s(s), sinks(sinks), x(s, type), sinkSum(s.heads), sinkTerms(s.heads) {}

  void add(const Values &part, int64_t first, int64_t rows) {
    copyRows(part.o, 0, &x.o, first, rows, s.heads * s.valueDim());
    copyRows(part.dq, 0, &x.dq, first, rows, s.heads * s.headDim);
    copyRows(part.dk, 0, &x.dk, first, rows, s.kvHeads * s.headDim);
    copyRows(part.dv, 0, &x.dv, first, rows, s.kvHeads * s.valueDim());
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < rows; ++i)
        x.lse.set(h * s.sequence + first + i, part.lse.at(h * rows + i));
    for (int64_t h = 0; s.hasSinks() && h < s.heads; ++h) {
      sinkSum[h] += part.dsinks.at(h);
      for (int64_t i = 0; i < rows; ++i) {
        double delta = 0;
        for (int64_t d = 0; d < s.valueDim(); ++d) {
          const int64_t at = (i * s.heads + h) * s.valueDim() + d;
          delta += part.dout.at(at) * part.o.at(at);
        }
        const double lse = part.lse.at(h * rows + i);
        sinkTerms[h] += std::fabs(std::exp(sinks.at(h) - lse) * delta);
      }
    }
  }

  const Shape s;
  const Array sinks;
  Values x;
  /// For each head, the sums of the terms of dsinks and of their magnitudes.
  std::vector<double> sinkSum, sinkTerms;
};

TEST_P(Documents, HaveTheBitsThatTheyHaveAlone) {
  if (!isReference())
    GTEST_SKIP() << "attention with documents runs on 'reference'";
  for (int32_t type : {TE_RT_F32, TE_RT_BF16, TE_RT_F16})
    for (Shape s : kShapes)
      for (const Packing &packing : packings()) {
        s.sequence = packing.rows;
        const std::vector<int32_t> &documents = packing.documents;
        std::string text = s.text() + " type " + std::to_string(type) + ":";
        for (int32_t boundary : documents)
          text += " " + std::to_string(boundary);
        SCOPED_TRACE(text);

        Values packed(s, type);
        // Only rows of documents have numbers.
        for (Array *each : {&packed.q, &packed.k, &packed.v, &packed.dout})
          *each = makeArray("nan", type, each->size(), 1);
        for (size_t i = 0; i < packed.q.size(); ++i)
          packed.q.set(i, i % 3 == 0 ? INFINITY : std::nan(""));
        const Array sinks = makeArray("normal", TE_RT_F32, s.heads, 9);
        Expected expected(s, type, sinks);
        for (size_t d = 0; d + 1 < documents.size(); ++d) {
          const int64_t first = documents[d];
          const int64_t rows = documents[d + 1] - first;
          if (rows == 0)
            continue;
          Shape one = s;
          one.sequence = rows;
          Values alone(one, type);
          uint32_t seed = 100 * static_cast<uint32_t>(d);
          for (auto [part, whole] : {std::pair(&alone.q, &packed.q),
                                     {&alone.k, &packed.k},
                                     {&alone.v, &packed.v},
                                     {&alone.dout, &packed.dout}}) {
            *part = makeArray("normal", type, part->size(), ++seed);
            copyRows(*part, 0, whole, first, rows,
                     static_cast<int64_t>(part->size()) / rows);
          }
          runAll(one, type, sinks, &alone);
          expected.add(alone, first, rows);
        }
        runAll(s, type, sinks, &packed, documents);
        ASSERT_TRUE(sameBits(expected.x.o, packed.o)) << "o";
        ASSERT_TRUE(sameBits(expected.x.lse, packed.lse)) << "lse";
        ASSERT_TRUE(sameBits(expected.x.dq, packed.dq)) << "dq";
        ASSERT_TRUE(sameBits(expected.x.dk, packed.dk)) << "dk";
        ASSERT_TRUE(sameBits(expected.x.dv, packed.dv)) << "dv";
        // The terms are added in another order, with one rounding for each in
        // either sum. A hundredth is for those of sinkTerms itself.
        for (int64_t h = 0; s.hasSinks() && h < s.heads; ++h)
          ASSERT_NEAR(packed.dsinks.at(h), expected.sinkSum[h],
                      1.01 * 2 * 0x1p-24 * static_cast<double>(s.sequence) *
                          expected.sinkTerms[h])
              << "dsinks of head " << h;
      }
}

TEST_P(Documents, MalformedBoundariesAreRefused) {
  if (!isReference())
    GTEST_SKIP() << "attention with documents runs on 'reference'";
  const Shape s{1, 8, 2, 1, 8, true, 1, -1, 0, 1};
  struct Malformed {
    std::vector<int32_t> documents;
    std::string message;
  };
  for (const Malformed &each : {
           Malformed{{-1, 8},
                     "'documents[0]' to be from 0 to the 8 rows, but "
                     "got -1"},
           Malformed{{0, 9},
                     "'documents[1]' to be from 0, the boundary before it, to "
                     "the 8 rows, but got 9"},
           Malformed{{0, 5, 4, 8},
                     "'documents[2]' to be from 5, the boundary before it, to "
                     "the 8 rows, but got 4"},
           Malformed{{9},
                     "'documents[0]' to be from 0 to the 8 rows, but got "
                     "9"},
           Malformed{{0, INT32_MAX}, "'documents[1]'"},
           Malformed{{INT32_MIN, 0}, "'documents[0]'"},
       }) {
    Values x(s, TE_RT_F32);
    const Array sinks(TE_RT_F32, s.heads);
    const auto boundaries = static_cast<int64_t>(each.documents.size());
    auto expectRefused = [&](const PlanFunction &plan,
                             const std::vector<Buffer> &buffers) {
      EXPECT_EQ(device().tryRun(plan, buffers), TE_RT_INVALID_ARGUMENT);
      EXPECT_NE(std::string(te_rt_last_error()).find(each.message),
                std::string::npos)
          << te_rt_last_error() << " instead of " << each.message;
    };
    expectRefused(plan(s, TE_RT_F32, boundaries),
                  {in(x.q.bytes), in(x.k.bytes), in(x.v.bytes), in(sinks.bytes),
                   in(each.documents), none(), out(x.o.bytes),
                   out(x.lse.bytes)});
    expectRefused(backwardPlan(s, TE_RT_F32, boundaries),
                  {in(x.dout.bytes), in(x.q.bytes), in(x.k.bytes),
                   in(x.v.bytes), in(x.o.bytes), in(x.lse.bytes),
                   in(each.documents), none(), out(x.dq.bytes), out(x.dk.bytes),
                   out(x.dv.bytes)});
    expectRefused(sinkGradPlan(s, TE_RT_F32, boundaries),
                  {in(x.dout.bytes), in(x.o.bytes), in(x.lse.bytes),
                   in(sinks.bytes), in(each.documents), out(x.dsinks.bytes)});
  }
}

// cuDNN attends over equal sequences only, so far.
TEST_P(Documents, AreRefusedWhereThereIsNoKernel) {
  if (isReference())
    GTEST_SKIP() << "'reference' has a kernel";
  const Shape s{1, 64, 2, 2, 64, true, 1};
  Values x(s, TE_RT_BF16);
  const std::vector<int32_t> documents = {0, 30, 64};
  EXPECT_EQ(device().tryRun(plan(s, TE_RT_BF16, 3),
                            {in(x.q.bytes), in(x.k.bytes), in(x.v.bytes),
                             none(), in(documents), none(), out(x.o.bytes),
                             out(x.lse.bytes)}),
            TE_RT_UNSUPPORTED);
  EXPECT_NE(std::string(te_rt_last_error())
                .find("expected no 'documents' for attention on the cuda "
                      "backend"),
            std::string::npos)
      << te_rt_last_error();
}

TE_FOR_EACH_BACKEND(Documents);

} // namespace
