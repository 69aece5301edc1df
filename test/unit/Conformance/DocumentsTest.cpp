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
#include <string>
#include <utility>
#include <vector>

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

constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};

/// Boundaries, and the number of rows.
struct Packing {
  std::vector<int32_t> documents;
  int64_t rows;
};
std::string textOf(const Shape &s, int32_t type,
                   const std::vector<int32_t> &documents) {
  std::string text = s.text() + " type " + std::to_string(type) + ":";
  for (int32_t boundary : documents)
    text += " " + std::to_string(boundary);
  return text;
}
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

  /// The length of the longest document, or of the one sequence.
  static int64_t longest(const Shape &s,
                         const std::vector<int32_t> &documents) {
    int64_t most = documents.empty() ? s.sequence : 1;
    for (size_t d = 0; d + 1 < documents.size(); ++d)
      most = std::max<int64_t>(most, documents[d + 1] - documents[d]);
    return most;
  }
  static PlanFunction plan(const Shape &s, int32_t type, int64_t sequence,
                           int64_t boundaries) {
    return TE_PLAN(attention, s.tokens(), sequence, s.heads, s.kvHeads,
                   s.headDim, s.valueDim(), type, s.causal, s.windowLeft,
                   s.scale(), s.softcap, s.hasSinks(), boundaries, 0.0f, 0);
  }
  static PlanFunction backwardPlan(const Shape &s, int32_t type,
                                   int64_t sequence, int64_t boundaries,
                                   bool deterministic = true) {
    return TE_PLAN(attention_backward, s.tokens(), sequence, s.heads, s.kvHeads,
                   s.headDim, s.valueDim(), type, s.causal, s.windowLeft,
                   s.scale(), s.softcap, deterministic, boundaries, 0.0f, 0);
  }
  static PlanFunction sinkGradPlan(const Shape &s, int32_t type,
                                   int64_t sequence, int64_t boundaries) {
    return TE_PLAN(attention_sink_grad, s.tokens(), sequence, s.heads,
                   s.valueDim(), type, boundaries);
  }

  /// Compares the bits of packed documents, with NaN and infinity in padding,
  /// with those of each document by itself.
  void expectBitsAlone(const Shape &s, int32_t type,
                       const std::vector<int32_t> &documents);

  /// All three kernels; no documents means one sequence.
  void runAll(const Shape &s, int32_t type, const Array &sinks, Values *x,
              const std::vector<int32_t> &documents = {}) {
    const auto boundaries = static_cast<int64_t>(documents.size());
    const int64_t sequence = longest(s, documents);
    const Buffer given = documents.empty() ? none() : in(documents);
    device().run(plan(s, type, sequence, boundaries),
                 {in(x->q.bytes), in(x->k.bytes), in(x->v.bytes),
                  s.hasSinks() ? in(sinks.bytes) : none(), given, none(),
                  out(x->o.bytes), out(x->lse.bytes)});
    device().run(backwardPlan(s, type, sequence, boundaries),
                 {in(x->dout.bytes), in(x->q.bytes), in(x->k.bytes),
                  in(x->v.bytes), in(x->o.bytes), in(x->lse.bytes), given,
                  none(), out(x->dq.bytes), out(x->dk.bytes),
                  out(x->dv.bytes)});
    if (s.hasSinks())
      device().run(sinkGradPlan(s, type, sequence, boundaries),
                   {in(x->dout.bytes), in(x->o.bytes), in(x->lse.bytes),
                    in(sinks.bytes), given, out(x->dsinks.bytes)});
  }
};

/// The rows of a document.
Array rowsOf(const Array &whole, int64_t first, int64_t rows, int64_t columns) {
  Array part(whole.type, rows * columns);
  copyRows(whole, first, &part, 0, rows, columns);
  return part;
}

/// Compares the documents that begin at rows with their definitions, and all
/// other rows with zeros.
void expectParts(const Shape &s,
                 const std::vector<std::pair<int64_t, Attention64>> &parts,
                 const Values &found) {
  std::vector<bool> used(s.sequence);
  for (const auto &[first, oracle] : parts) {
    const int64_t rows = oracle.s.sequence;
    std::fill_n(used.begin() + first, rows, true);
    Array lse(TE_RT_F32, rows * s.heads);
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < rows; ++i)
        lse.set(h * rows + i, found.lse.at((first + i) * s.heads + h));
    expectWithin(oracle.lse, lse, "lse");
    expectWithin(oracle.o, rowsOf(found.o, first, rows, s.heads * s.valueDim()),
                 "o");
    expectWithin(oracle.dq, rowsOf(found.dq, first, rows, s.heads * s.headDim),
                 "dq");
    expectWithin(oracle.dk,
                 rowsOf(found.dk, first, rows, s.kvHeads * s.headDim), "dk");
    expectWithin(oracle.dv,
                 rowsOf(found.dv, first, rows, s.kvHeads * s.valueDim()), "dv");
  }
  for (const Array *each :
       {&found.o, &found.lse, &found.dq, &found.dk, &found.dv}) {
    const int64_t columns = static_cast<int64_t>(each->size()) / s.sequence;
    for (size_t i = 0; i < each->size(); ++i)
      if (!used[i / columns])
        ASSERT_EQ(each->at(i), 0) << "row " << i / columns;
  }
}

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
        x.lse.set((first + i) * s.heads + h, part.lse.at(h * rows + i));
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

void Documents::expectBitsAlone(const Shape &s, int32_t type,
                                const std::vector<int32_t> &documents) {
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

TEST_P(Documents, HaveTheBitsThatTheyHaveAlone) {
  if (!isReference())
    GTEST_SKIP() << "cuDNN may sum in another order beside other documents; "
                    "MeetTheDefinition has its bound";
  for (int32_t type : kTypes)
    for (Shape s : kShapes)
      for (const Packing &packing : packings()) {
        s.sequence = packing.rows;
        SCOPED_TRACE(textOf(s, type, packing.documents));
        ASSERT_NO_FATAL_FAILURE(expectBitsAlone(s, type, packing.documents));
      }
}

// Documents of any length in one capacity: none, of no row, of one, of all; one
// row used, and all of them.
TEST_P(Documents, RandomPackingsHaveTheBitsOfDocumentsAlone) {
  if (!isReference())
    GTEST_SKIP() << "as for HaveTheBitsThatTheyHaveAlone";
  constexpr int64_t capacity = 12;
  std::mt19937 random(2025);
  for (int n = 0; n < 2000; ++n) {
    Shape s = kShapes[n % std::size(kShapes)];
    s.sequence = capacity;
    const int32_t type = kTypes[n / std::size(kShapes) % std::size(kTypes)];
    std::vector<int32_t> documents(1 + random() % 8);
    for (int32_t &boundary : documents)
      boundary = static_cast<int32_t>(random() % (capacity + 1));
    std::sort(documents.begin(), documents.end());
    if (n % 10 == 0) // All rows are used.
      documents.front() = 0, documents.back() = capacity;
    if (n % 10 == 1) { // One is.
      const auto row = static_cast<int32_t>(random() % capacity);
      documents.assign(documents.size() + 1, row + 1);
      documents.front() = row;
    }
    SCOPED_TRACE(textOf(s, type, documents));
    ASSERT_NO_FATAL_FAILURE(expectBitsAlone(s, type, documents));
  }
}

// Also where boundaries in between decrease, which attention refuses.
TEST_P(Documents, UsedRowsAreThoseOfDocuments) {
  std::vector<Packing> all = packings();
  all.push_back({{2, 40, 5}, 9});
  all.push_back({{7, 3}, 9});
  all.push_back({{-4, 300}, 300});
  all.push_back({{0, 1}, 0});
  for (const Packing &packing : all) {
    Array used(TE_RT_F32, packing.rows);
    device().run(TE_PLAN(used_rows, packing.rows,
                         static_cast<int64_t>(packing.documents.size())),
                 {in(packing.documents), out(used.bytes)});
    for (int64_t t = 0; t < packing.rows; ++t)
      ASSERT_EQ(used.at(t),
                t >= packing.documents.front() && t < packing.documents.back())
          << "row " << t << " of " << packing.rows << ", from "
          << packing.documents.front() << " to " << packing.documents.back();
  }
}

TEST_P(Documents, MalformedBoundariesAreRefused) {
  if (!isReference())
    GTEST_SKIP() << "'cuda' does not wait for the boundaries; "
                    "MalformedBoundariesAreReported tests it";
  const Shape s{1, 8, 2, 1, 8, true, 1, -1, 0, 1};
  struct Malformed {
    std::vector<int32_t> documents;
    std::string message;
    int64_t sequence = 8;
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
           Malformed{{0, 2, 7},
                     "document 1 to have at most 'sequence' (4) rows, but got "
                     "5",
                     4},
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
    expectRefused(plan(s, TE_RT_F32, each.sequence, boundaries),
                  {in(x.q.bytes), in(x.k.bytes), in(x.v.bytes), in(sinks.bytes),
                   in(each.documents), none(), out(x.o.bytes),
                   out(x.lse.bytes)});
    expectRefused(backwardPlan(s, TE_RT_F32, each.sequence, boundaries),
                  {in(x.dout.bytes), in(x.q.bytes), in(x.k.bytes),
                   in(x.v.bytes), in(x.o.bytes), in(x.lse.bytes),
                   in(each.documents), none(), out(x.dq.bytes), out(x.dk.bytes),
                   out(x.dv.bytes)});
    expectRefused(sinkGradPlan(s, TE_RT_F32, each.sequence, boundaries),
                  {in(x.dout.bytes), in(x.o.bytes), in(x.lse.bytes),
                   in(sinks.bytes), in(each.documents), out(x.dsinks.bytes)});
  }
}

// The bits of packed rows may differ from those of a document alone on `cuda`;
// both are within the bound of the definition. Rows around the documents are
// NaN and infinity.
TEST_P(Documents, MeetTheDefinition) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const Shape shapes[] = {
      {1, 0, 4, 2, 64, true, 1},
      {1, 0, 2, 2, 128, false, 1},
      {1, 0, 4, 1, 128, true, 1, 31},
      {1, 0, 4, 2, 64, true, 1, -1, 30},
      {1, 0, 2, 2, 64, false, 1, -1, 30},
      {1, 0, 4, 2, 64, true, 1, 70, 0, 1},
      {1, 0, 2, 2, 192, true, 1, -1, 0, none, 128},
  };
  const Packing packings[] = {
      {{0, 130, 200, 457}, 457},
      {{5, 69, 69, 70, 198, 330, 330}, 390},
      {{3, 3, 100}, 103},
      {{7, 7}, 9},
      {{4}, 6},
  };
  for (int32_t type : {TE_RT_BF16, TE_RT_F16})
    for (Shape s : shapes)
      for (const Packing &packing : packings) {
        // A plan takes a tenth of a second on `cuda`.
        if (type == TE_RT_F16 && packing.rows < 400)
          continue;
        s.sequence = packing.rows;
        const std::vector<int32_t> &documents = packing.documents;
        SCOPED_TRACE(textOf(s, type, documents));
        Values given(s, type), found(s, type);
        for (Array *each :
             {&given.q, &given.k, &given.v, &given.dout, &given.o, &given.lse})
          for (size_t i = 0; i < each->size(); ++i)
            each->set(i, i % 3 == 0 ? INFINITY : std::nan(""));
        std::vector<std::pair<int64_t, Attention64>> parts;
        for (size_t d = 0; d + 1 < documents.size(); ++d) {
          const int64_t first = documents[d];
          const int64_t rows = documents[d + 1] - first;
          if (rows == 0)
            continue;
          Shape one = s;
          one.sequence = rows;
          const Attention64 &oracle =
              parts.emplace_back(first, Attention64(one, type, isReference()))
                  .second;
          for (auto [part, whole] : {std::pair(&oracle.q, &given.q),
                                     {&oracle.k, &given.k},
                                     {&oracle.v, &given.v},
                                     {&oracle.dout, &given.dout},
                                     {&oracle.givenO, &given.o}})
            copyRows(*part, 0, whole, first, rows,
                     static_cast<int64_t>(part->size()) / rows);
          for (int64_t h = 0; h < s.heads; ++h)
            for (int64_t i = 0; i < rows; ++i)
              given.lse.set((first + i) * s.heads + h,
                            oracle.givenLse.at(h * rows + i));
        }
        // All oracles have the same sinks.
        const Array sinks =
            parts.empty() ? Array(TE_RT_F32, s.heads) : parts[0].second.sinks;
        const auto boundaries = static_cast<int64_t>(documents.size());
        const int64_t sequence = longest(s, documents);
        ASSERT_EQ(device().tryRun(
                      plan(s, type, sequence, boundaries),
                      {in(given.q.bytes), in(given.k.bytes), in(given.v.bytes),
                       s.hasSinks() ? in(sinks.bytes) : te::conformance::none(),
                       in(documents), te::conformance::none(),
                       out(found.o.bytes), out(found.lse.bytes)}),
                  TE_RT_OK)
            << te_rt_last_error();
        for (bool deterministic : {false, true}) {
          ASSERT_EQ(
              device().tryRun(
                  backwardPlan(s, type, sequence, boundaries, deterministic),
                  {in(given.dout.bytes), in(given.q.bytes), in(given.k.bytes),
                   in(given.v.bytes), in(given.o.bytes), in(given.lse.bytes),
                   in(documents), te::conformance::none(), out(found.dq.bytes),
                   out(found.dk.bytes), out(found.dv.bytes)}),
              TE_RT_OK)
              << te_rt_last_error();
          expectParts(s, parts, found);
        }
        if (!s.hasSinks())
          continue;
        Bounded dsinks(s.heads);
        for (const auto &[first, oracle] : parts)
          for (int64_t h = 0; h < s.heads; ++h) {
            dsinks.value[h] += oracle.dsinks.value[h];
            dsinks.bound[h] += oracle.dsinks.bound[h];
          }
        device().run(sinkGradPlan(s, type, sequence, boundaries),
                     {in(given.dout.bytes), in(given.o.bytes),
                      in(given.lse.bytes), in(sinks.bytes), in(documents),
                      out(found.dsinks.bytes)});
        expectWithin(dsinks, found.dsinks, "dsinks");
      }
}

// Nothing out of bounds is read or written, all results are NaN, and the next
// synchronisation reports the first malformed boundary with its value, once.
TEST_P(Documents, MalformedBoundariesAreReported) {
  if (isReference())
    GTEST_SKIP()
        << "'reference' refuses them, as MalformedBoundariesAreRefused "
           "tests";
  const Shape s{1, 200, 2, 1, 64, true, 1};
  constexpr int64_t sequence = 140;
  auto first = [](int64_t value) {
    return "'documents[0]' to be from 0 to the 200 rows, but got " +
           std::to_string(value) + ";";
  };
  auto later = [](int boundary, int64_t value) {
    return "'documents[" + std::to_string(boundary) +
           "]' to be from the boundary before it to the 200 rows, and at most "
           "'sequence' (140) rows behind that boundary, but got " +
           std::to_string(value) + ";";
  };
  // Boundary 300 of these is in the second round of the kernel's threads.
  std::vector<int32_t> many(400, 5);
  many[300] = 4;
  for (const auto &[documents, message] :
       std::vector<std::pair<std::vector<int32_t>, std::string>>{
           {{-1, 100, 150}, first(-1)},
           {{0, 100, 201}, later(2, 201)},
           {{0, 120, 100}, later(2, 100)},
           {{0, 150, 200}, later(1, 150)},
           {{0, 120, 100, 90, 300}, later(2, 100)},
           {{INT32_MIN, 0, INT32_MAX}, first(INT32_MIN)},
           {{201}, first(201)},
           {many, later(300, 4)}}) {
    SCOPED_TRACE(textOf(s, TE_RT_BF16, documents));
    Values x(s, TE_RT_BF16);
    const auto boundaries = static_cast<int64_t>(documents.size());
    auto expectReported = [&](const char *kernel, const PlanFunction &plan,
                              const std::vector<Buffer> &buffers) {
      EXPECT_EQ(device().tryRun(plan, buffers), TE_RT_INVALID_ARGUMENT);
      EXPECT_NE(device().message.find(
                    "te_rt_synchronize: " + std::string(kernel) + " (slot 0)"),
                std::string::npos)
          << device().message;
      EXPECT_NE(device().message.find(message), std::string::npos)
          << device().message;
      EXPECT_EQ(te_rt_synchronize(device().context), TE_RT_OK);
    };
    expectReported("attention", plan(s, TE_RT_BF16, sequence, boundaries),
                   {in(x.q.bytes), in(x.k.bytes), in(x.v.bytes), none(),
                    in(documents), none(), out(x.o.bytes), out(x.lse.bytes)});
    expectReported(
        "attention_backward", backwardPlan(s, TE_RT_BF16, sequence, boundaries),
        {in(x.dout.bytes), in(x.q.bytes), in(x.k.bytes), in(x.v.bytes),
         in(x.o.bytes), in(x.lse.bytes), in(documents), none(), out(x.dq.bytes),
         out(x.dk.bytes), out(x.dv.bytes)});
    for (const Array *each : {&x.o, &x.lse, &x.dq, &x.dk, &x.dv})
      for (size_t i = 0; i < each->size(); ++i)
        ASSERT_TRUE(std::isnan(each->at(i))) << "element " << i;
  }
}

TE_FOR_EACH_BACKEND(Documents);

} // namespace
