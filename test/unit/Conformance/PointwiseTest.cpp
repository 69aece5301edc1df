//===- PointwiseTest.cpp - everything that is not a cast or a GEMM --------===//
//
// Values against f64. A result that is one IEEE operation is compared exactly:
// f64 holds a sum, product, quotient or root of two f32 well enough that
// rounding it to f32 is the correct rounding. The others have bounds in units
// of 2^-24 that count their roundings.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

using namespace te::conformance;

namespace {

constexpr double kU = 0x1p-24;
constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};

class Pointwise : public BackendTest {};

/// The indices of the first input and of the first output of `generated`.
constexpr int kGeneratedIn = 0, kGeneratedOut = 8;

/// y = x + x + stream in f32, as generated code of a module: for the CPU, and
/// as PTX.
void twice(void *const *buffers, int64_t begin, int64_t end, int32_t stream) {
  for (int64_t i = begin; i < end; ++i) {
    const float x = static_cast<const float *>(buffers[kGeneratedIn])[i];
    static_cast<float *>(buffers[kGeneratedOut])[i] =
        x + x + static_cast<float>(stream);
  }
}
constexpr char kTwicePtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y, .param .u64 count,
                      .param .u32 aligned, .param .s32 stream) {
  .reg .pred %p;
  .reg .b32 %thread, %block, %stream;
  .reg .b64 %x, %y, %count, %i, %t;
  .reg .f32 %f, %s;
  ld.param.u64 %x, [x];
  ld.param.u64 %y, [y];
  ld.param.u64 %count, [count];
  ld.param.s32 %stream, [stream];
  cvt.rn.f32.s32 %s, %stream;
  mov.u32 %thread, %tid.x;
  mov.u32 %block, %ctaid.x;
  mul.wide.u32 %i, %block, 128;
  cvt.u64.u32 %t, %thread;
  add.u64 %i, %i, %t;
  setp.ge.s64 %p, %i, %count;
  @%p bra done;
  shl.b64 %i, %i, 2;
  add.u64 %x, %x, %i;
  add.u64 %y, %y, %i;
  ld.global.f32 %f, [%x];
  add.rn.f32 %f, %f, %f;
  add.rn.f32 %f, %f, %s;
  st.global.f32 [%y], %f;
done:
  ret;
})";

TEST_P(Pointwise, GeneratedCodeOfAModule) {
  const te_rt_generated code = {"twice", twice, kTwicePtx, "twice", 128,
                                128,     0,     3,         0};
  for (size_t count : {0u, 1u, 1000u}) {
    const Array x = makeArray("wide", TE_RT_F32, count, 1);
    Array y(TE_RT_F32, count);
    std::vector<Buffer> buffers(12, none());
    buffers[kGeneratedIn] = in(x.bytes);
    buffers[kGeneratedOut] = out(y.bytes);
    device().run(TE_PLAN(generated, static_cast<int64_t>(count),
                         reinterpret_cast<int64_t>(&code)),
                 buffers);
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ(y.at(i), static_cast<float>(2 * x.at(i)) + 3.0f) << i;
  }
}

// A module that was compiled for the CPU does not run on a GPU.
TEST_P(Pointwise, GeneratedCodeWithoutPtxIsRefusedByAGpu) {
  if (GetParam() == "reference")
    return;
  const te_rt_generated code = {"twice", twice, nullptr, "twice", 128,
                                128,     0,     0,       0};
  EXPECT_EQ(
      device().tryRun(TE_PLAN(generated, 1, reinterpret_cast<int64_t>(&code)),
                      std::vector<Buffer>(12, none())),
      TE_RT_UNSUPPORTED);
  EXPECT_NE(std::string(te_rt_last_error()).find("target=reference"),
            std::string::npos)
      << te_rt_last_error();
}

TEST_P(Pointwise, FillAndCopy) {
  for (int32_t type : kTypes) {
    Array actual(type, 1001), copied(type, 1001);
    device().run(TE_PLAN(fill, 1001, type, 0.1f), {out(actual.bytes)});
    ASSERT_TRUE(sameBits(Array(type, std::vector<double>(1001, 0.1f)), actual));
    device().run(TE_PLAN(copy, static_cast<int64_t>(actual.bytes.size())),
                 {in(actual.bytes), out(copied.bytes)});
    ASSERT_EQ(actual.bytes, copied.bytes);
  }
  std::vector<float> x{1, -2, INFINITY}, y(3);
  device().run(TE_PLAN(all_reduce_max, 3, 0), {in(x), out(y)});
  EXPECT_EQ(x, y);
}

TEST_P(Pointwise, BiasAddIsOneAdditionOfEachRow) {
  for (int32_t type : kTypes)
    for (const char *kind : {"normal", "nan", "subnormal"})
      for (auto [rows, cols] :
           {std::pair<int64_t, int64_t>(0, 8), {1, 1}, {7, 33}, {130, 64}}) {
        const Array x = makeArray(kind, type, rows * cols),
                    bias = makeArray(kind, type, cols);
        std::vector<double> sums(rows * cols);
        for (int64_t i = 0; i < rows * cols; ++i)
          sums[i] = static_cast<float>(x.at(i)) +
                    static_cast<float>(bias.at(i % cols));
        const Array expected(type, sums);
        Array actual(type, rows * cols);
        device().run(TE_PLAN(bias_add, rows, cols, type),
                     {in(x.bytes), in(bias.bytes), out(actual.bytes)});
        ASSERT_TRUE(sameBits(expected, actual)) << kind << rows << cols;
      }
}

// From [parts][rows][bytes] to [rows][parts][bytes], in units of every width,
// and parts whose padding is removed. Bytes that no part covers do not change.
TEST_P(Pointwise, CopyStridedMovesRowsAndLeavesTheRest) {
  for (auto [parts, rows, bytes, padding] :
       {std::array<int64_t, 4>{2, 3, 16, 16},
        {4, 5, 4, 8},
        {3, 7, 5, 1},
        {2, 1, 64, 0},
        {2, 0, 16, 0}}) {
    const int64_t xRow = bytes + padding, yRow = parts * bytes + padding;
    std::vector<uint8_t> x(parts * rows * xRow), y(rows * yRow, kPoison);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<uint8_t>(i * 37 + 11);
    std::vector<uint8_t> expected = y;
    for (int64_t p = 0; p < parts; ++p)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t b = 0; b < bytes; ++b)
          expected[r * yRow + p * bytes + b] = x[(p * rows + r) * xRow + b];
    device().run(TE_PLAN(copy_strided, parts, rows, bytes, rows * xRow, xRow,
                         bytes, yRow),
                 {in(x), out(y)});
    ASSERT_EQ(expected, y) << parts << " " << rows << " " << bytes;
  }
}

TEST_P(Pointwise, EmbeddingCopiesRowsAndZeroesUnknownIds) {
  const int64_t tokens = 7, vocab = 5, hidden = 33;
  const std::vector<int32_t> ids{0, 4, 5, -1, 2, 2, INT32_MAX};
  for (int32_t type : kTypes) {
    const Array table = makeArray("nan", type, vocab * hidden);
    Array expected(type, tokens * hidden), actual(type, tokens * hidden);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < hidden; ++h)
        expected.set(t * hidden + h, ids[t] >= 0 && ids[t] < vocab
                                         ? table.at(ids[t] * hidden + h)
                                         : 0);
    device().run(TE_PLAN(embedding, tokens, vocab, hidden, type),
                 {in(ids), in(table.bytes), out(actual.bytes)});
    ASSERT_TRUE(sameBits(expected, actual));

    // The order of additions of the gradient is part of the contract.
    const Array dy = makeArray("normal", type, tokens * hidden);
    std::vector<float> sum(vocab * hidden, 0.0f);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < hidden; ++h)
        if (ids[t] >= 0 && ids[t] < vocab)
          sum[ids[t] * hidden + h] += static_cast<float>(dy.at(t * hidden + h));
    Array expectedGrad(type, std::vector<double>(sum.begin(), sum.end()));
    Array grad(type, vocab * hidden);
    device().run(TE_PLAN(embedding_backward, tokens, vocab, hidden, type, type),
                 {in(ids), in(dy.bytes), out(grad.bytes)});
    ASSERT_TRUE(sameBits(expectedGrad, grad));
  }
}

// Sums of rows are rounded to the type of dy and then added. Rows that no token
// names have the bytes of `accumulate`, also those of NaN and of -0.
TEST_P(Pointwise, EmbeddingGradientIsAddedInRowsOfTokens) {
  const int64_t tokens = 1500, vocab = 40;
  std::vector<int32_t> ids(tokens);
  for (int64_t t = 0; t < tokens; ++t) {
    // Ids that occur once, never, often, and more than 1024 tokens apart.
    ids[t] = t % 100 == 0 ? 36 : static_cast<int32_t>(t * 7 % 30);
    if (t % 11 == 0)
      ids[t] = t % 2 == 0 ? -1 : static_cast<int32_t>(vocab + t);
  }
  ids[3] = ids[1400] = 38;
  ids[700] = 39;
  for (int32_t type : kTypes)
    for (int32_t outType : {type, +TE_RT_F32})
      for (int64_t hidden : {33, 264}) {
        const Array dy = makeArray("normal", type, tokens * hidden, 1);
        std::vector<float> sums(vocab * hidden, 0.0f);
        std::vector<bool> isNamed(vocab);
        for (int64_t t = 0; t < tokens; ++t) {
          if (ids[t] < 0 || ids[t] >= vocab)
            continue;
          isNamed[ids[t]] = true;
          for (int64_t h = 0; h < hidden; ++h)
            sums[ids[t] * hidden + h] +=
                static_cast<float>(dy.at(t * hidden + h));
        }
        ASSERT_FALSE(isNamed[31]);
        const Array rounded(type,
                            std::vector<double>(sums.begin(), sums.end()));
        Array alone(outType, vocab * hidden);
        for (int64_t i = 0; i < vocab * hidden; ++i)
          alone.set(i, rounded.at(i));
        const PlanFunction plan =
            TE_PLAN(embedding_backward, tokens, vocab, hidden, type, outType);
        Array first(outType, vocab * hidden), second = first, third = first;
        device().run(plan, {in(ids), in(dy.bytes), out(first.bytes)});
        ASSERT_TRUE(sameBits(alone, first)) << type << " " << hidden;
        // Most elements of a table with NaN are normal.
        for (const char *kind : {"nan", "negzero"}) {
          const Array table = makeArray(kind, outType, vocab * hidden, 2);
          Array expected = table;
          for (int64_t i = 0; i < vocab * hidden; ++i)
            if (isNamed[i / hidden])
              expected.set(i, static_cast<float>(table.at(i)) +
                                  static_cast<float>(rounded.at(i)));
          device().run(plan, {in(ids), in(dy.bytes), out(second.bytes),
                              in(table.bytes)});
          ASSERT_TRUE(sameBits(expected, second))
              << type << " " << kind << " " << hidden;
          device().run(plan, {in(ids), in(dy.bytes), outOn(3, third.bytes),
                              in(table.bytes)});
          ASSERT_TRUE(sameBits(expected, third))
              << type << " " << kind << " " << hidden;
          EXPECT_EQ(0,
                    std::memcmp(
                        &second.bytes[0] + 31 * hidden * elementBytes(outType),
                        &table.bytes[0] + 31 * hidden * elementBytes(outType),
                        hidden * elementBytes(outType)));
        }
      }
  // Without tokens, all rows are those of `accumulate`.
  const Array table = makeArray("normal", TE_RT_BF16, vocab * 8, 2);
  Array same(TE_RT_BF16, vocab * 8);
  device().run(TE_PLAN(embedding_backward, 0, vocab, 8, TE_RT_BF16, TE_RT_BF16),
               {in(std::vector<int32_t>()), in(std::vector<uint8_t>()),
                out(same.bytes), in(table.bytes)});
  EXPECT_TRUE(sameBits(table, same));
}

// The sum of squares has no cancellation: its relative error is at most (cols /
// 256 + 9) u, and that of the root half of it, plus 4 more roundings.
TEST_P(Pointwise, RmsNormValues) {
  for (int32_t type : kTypes)
    for (bool zeroCentered : {false, true})
      for (int64_t cols : {1, 8, 255, 256, 257, 1000}) {
        const int64_t rows = 19;
        const Array x = makeArray("normal", type, rows * cols, 1);
        const Array gamma = makeArray("normal", type, cols, 2);
        Array y(type, rows * cols);
        Array rsigma(TE_RT_F32, rows);
        std::vector<float> amax(1), amaxOfStored(1);
        device().run(TE_PLAN(rms_norm, rows, cols, type, 1e-5f, zeroCentered),
                     {in(x.bytes), in(gamma.bytes), out(y.bytes),
                      out(rsigma.bytes), out(amax)});
        device().run(TE_PLAN(amax, rows * cols, type, type),
                     {in(y.bytes), out(amaxOfStored)});
        EXPECT_EQ(amax, amaxOfStored);
        for (int64_t r = 0; r < rows; ++r) {
          double sum = 0;
          for (int64_t c = 0; c < cols; ++c)
            sum += x.at(r * cols + c) * x.at(r * cols + c);
          const double expected =
              1 / std::sqrt(sum / static_cast<double>(cols) +
                            static_cast<double>(1e-5f));
          const double relative = (static_cast<double>(cols) / 256 + 16) * kU;
          expectNear(expected, relative * expected, rsigma, r, "rsigma");
          for (int64_t c = 0; c < cols && !HasFatalFailure(); ++c) {
            const double value =
                (gamma.at(c) + zeroCentered) * x.at(r * cols + c) * expected;
            expectNear(value, (relative + 4 * kU) * std::fabs(value), y,
                       r * cols + c, "y");
          }
        }
      }
}

// Each addend is rounded at most 128 + rows / 128 times.
TEST_P(Pointwise, BiasGradValues) {
  for (int32_t type : kTypes)
    for (int32_t outType : {type, +TE_RT_F32})
      for (int64_t rows : {1, 127, 128, 129, 700}) {
        const int64_t cols = 37;
        const Array dy = makeArray("normal", type, rows * cols);
        Array db(outType, cols);
        device().run(TE_PLAN(bias_grad, rows, cols, type, outType),
                     {in(dy.bytes), out(db.bytes)});
        for (int64_t c = 0; c < cols; ++c) {
          double sum = 0, magnitude = 0;
          for (int64_t r = 0; r < rows; ++r) {
            sum += dy.at(r * cols + c);
            magnitude += std::fabs(dy.at(r * cols + c));
          }
          const double n = 128 + static_cast<double>(rows) / 128;
          expectNear(sum, n * kU / (1 - n * kU) * magnitude, db, c, "db");
        }
      }
}

// The sums of chunks of runs of rows, in one array, add up to the bits of all
// rows.
TEST_P(Pointwise, BiasGradOfRunsOfRows) {
  for (int32_t type : kTypes)
    for (int32_t outType : {type, +TE_RT_F32})
      for (int64_t cols : {1, 37, 260})
        for (int64_t runRows : {128, 256, 384}) {
          const int64_t rows = 700;
          const Array dy = makeArray("normal", type, rows * cols);
          std::vector<float> sums;
          for (int64_t first = 0; first < rows; first += runRows) {
            const int64_t count = std::min(runRows, rows - first);
            Array part(type, count * cols);
            for (int64_t i = 0; i < count * cols; ++i)
              part.set(i, dy.at(first * cols + i));
            std::vector<float> found((count + 127) / 128 * cols);
            device().run(TE_PLAN(chunk_sums, count, cols, type),
                         {in(part.bytes), out(found)});
            sums.insert(sums.end(), found.begin(), found.end());
          }
          const auto chunks = static_cast<int64_t>(sums.size()) / cols;
          ASSERT_EQ(chunks, 6);
          Array db(outType, cols), expected(outType, cols);
          device().run(TE_PLAN(sum_of_chunks, chunks, cols, outType),
                       {in(sums), out(db.bytes)});
          device().run(TE_PLAN(bias_grad, rows, cols, type, outType),
                       {in(dy.bytes), out(expected.bytes)});
          ASSERT_TRUE(sameBits(expected, db)) << cols << " " << runRows;
        }
}

// lse: exp within 2 ulp, differences of numbers below 32 with one rounding
// each, a lane with a scaling for each of its runs and eight additions, a tree,
// log within 1 ulp. The differences that a term is scaled by add up to less
// than 32.
TEST_P(Pointwise, CrossEntropyValues) {
  const int64_t tokens = 100;
  const int32_t ignore = -100;
  for (int64_t vocab : {517, 9000})
    for (int32_t type : kTypes) {
      Array logits = makeArray("normal", type, tokens * vocab);
      // Maxima that grow along the row, and columns that are masked.
      for (int64_t v = 0; v < vocab; ++v) {
        logits.set(vocab + v, 20.0f * v / vocab);
        if (v % 8 != 3 || v < vocab / 2)
          logits.set(2 * vocab + v, -INFINITY);
      }
      std::vector<int32_t> targets(tokens);
      for (int64_t t = 0; t < tokens; ++t)
        targets[t] = t % 11 == 0   ? ignore
                     : t % 13 == 0 ? vocab
                                   : (t * 31) % vocab;
      targets[2] = ignore;
      Array loss(TE_RT_F32, 1), lse(TE_RT_F32, tokens), each(TE_RT_F32, tokens);
      auto run = [&] {
        device().run(
            TE_PLAN(cross_entropy, tokens, vocab, vocab, type, ignore),
            {in(logits.bytes), in(targets), out(lse.bytes), out(each.bytes)});
        device().run(TE_PLAN(cross_entropy_mean, tokens, vocab, ignore),
                     {in(each.bytes), in(targets), out(loss.bytes)});
      };
      run();
      const double runs = std::ceil(vocab / 2048.0) + 1;
      const double bound = 2 * 32 + runs * (4 + 1 + 8) + 9 + 2 * 8;
      double sum = 0;
      int count = 0;
      for (int64_t t = 0; t < tokens; ++t) {
        double total = 0;
        for (int64_t v = 0; v < vocab; ++v)
          total += std::exp(logits.at(t * vocab + v));
        const double expected = std::log(total);
        expectNear(expected, bound * kU, lse, t, "lse");
        if (targets[t] == ignore || targets[t] >= vocab) {
          EXPECT_EQ(each.at(t), 0) << "an ignored token has a loss";
          continue;
        }
        sum += expected - logits.at(t * vocab + targets[t]);
        ++count;
      }
      expectNear(sum / count, 128 * kU * 16, loss, 0, "loss");

      std::fill(targets.begin(), targets.end(), ignore);
      run();
      EXPECT_EQ(loss.at(0), 0) << "no token counts";
    }
}

// A row without a finite sum of exponentials has no loss, wherever the element
// is that makes it so.
TEST_P(Pointwise, CrossEntropyOfExceptionalRows) {
  const int64_t vocab = 5000;
  for (int32_t type : kTypes) {
    Array logits = makeArray("normal", type, 5 * vocab);
    logits.set(0 * vocab + 4321, INFINITY);
    logits.set(1 * vocab + 7, NAN);
    logits.set(2 * vocab + 4999, NAN);
    for (int64_t v = 0; v < vocab; ++v) {
      logits.set(3 * vocab + v, -INFINITY);
      logits.set(4 * vocab + v, v == 4999 ? 2.0f : -INFINITY);
    }
    const std::vector<int32_t> targets(5, 4999);
    Array lse(TE_RT_F32, 5), each(TE_RT_F32, 5);
    device().run(
        TE_PLAN(cross_entropy, 5, vocab, vocab, type, -100),
        {in(logits.bytes), in(targets), out(lse.bytes), out(each.bytes)});
    for (int64_t t = 0; t < 4; ++t)
      EXPECT_TRUE(std::isnan(each.at(t))) << "row " << t;
    EXPECT_EQ(lse.at(4), 2.0f);
    EXPECT_EQ(each.at(4), 0.0f);
  }
}

// The quotient of the gradient and the number of tokens that count.
TEST_P(Pointwise, CrossEntropyWeight) {
  for (int64_t tokens : {1, 7, 300}) {
    std::vector<int32_t> targets(tokens);
    float count = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      targets[t] = t % 5 == 1 ? -7 : t % 13 == 3 ? 517 : t % 517;
      count += targets[t] >= 0 && targets[t] < 517;
    }
    Array weight(TE_RT_F32, 1);
    device().run(TE_PLAN(cross_entropy_weight, tokens, 517, -7),
                 {none(), in(targets), out(weight.bytes)});
    EXPECT_EQ(weight.at(0), 1.0f / count);
    device().run(
        TE_PLAN(cross_entropy_weight, tokens, 517, -7),
        {in(std::vector<float>{-3.0f}), in(targets), out(weight.bytes)});
    EXPECT_EQ(weight.at(0), -3.0f / count);
  }
}

// The gradient may use the memory of the logits, as the compiler permits.
TEST_P(Pointwise, CrossEntropyBackwardInPlace) {
  const int64_t tokens = 37;
  for (int64_t vocab : {517, 4096})
    for (int32_t type : kTypes) {
      const Array logits = makeArray("normal", type, tokens * vocab);
      std::vector<int32_t> targets(tokens);
      for (int64_t t = 0; t < tokens; ++t)
        targets[t] = t % 11 == 0 ? -100 : (t * 31) % vocab;
      const std::vector<float> weight = {0.5f}, lse(tokens, 7.25f);
      Array apart(type, tokens * vocab), inPlace(type, tokens * vocab);
      auto run = [&](Buffer output) {
        device().run(
            TE_PLAN(cross_entropy_backward, tokens, vocab, vocab, type, -100),
            {in(weight), in(logits.bytes), in(targets), in(lse), output});
      };
      run(out(apart.bytes));
      run(outOn(1, inPlace.bytes));
      EXPECT_EQ(apart.bytes, inPlace.bytes);
      EXPECT_NE(apart.bytes, logits.bytes);
    }
}

// Columns after the classes are not read, change no bit, and get a gradient of
// 0.
TEST_P(Pointwise, CrossEntropyOfPaddedLogits) {
  const int64_t tokens = 9;
  for (auto [vocab, cols] : {std::pair<int64_t, int64_t>{517, 528},
                             {517, 519},
                             {1, 8},
                             {4096, 4224}})
    for (int32_t type : kTypes) {
      const Array logits = makeArray("normal", type, tokens * vocab);
      Array padded(type, tokens * cols);
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t v = 0; v < cols; ++v)
          padded.set(t * cols + v, v < vocab    ? logits.at(t * vocab + v)
                                   : v % 2 == 0 ? NAN
                                                : INFINITY);
      std::vector<int32_t> targets(tokens);
      for (int64_t t = 0; t < tokens; ++t)
        targets[t] = static_cast<int32_t>(t % 5 == 0 ? vocab : t * 31 % vocab);
      Array lse(TE_RT_F32, tokens), each = lse, lseOfPadded = lse,
                                    eachOfPadded = lse;
      device().run(
          TE_PLAN(cross_entropy, tokens, vocab, vocab, type, -100),
          {in(logits.bytes), in(targets), out(lse.bytes), out(each.bytes)});
      device().run(TE_PLAN(cross_entropy, tokens, vocab, cols, type, -100),
                   {in(padded.bytes), in(targets), out(lseOfPadded.bytes),
                    out(eachOfPadded.bytes)});
      EXPECT_EQ(lse.bytes, lseOfPadded.bytes);
      EXPECT_EQ(each.bytes, eachOfPadded.bytes);

      const std::vector<float> weight = {0.5f};
      Array grad(type, tokens * vocab), gradOfPadded(type, tokens * cols);
      device().run(
          TE_PLAN(cross_entropy_backward, tokens, vocab, vocab, type, -100),
          {in(weight), in(logits.bytes), in(targets), in(lse.bytes),
           out(grad.bytes)});
      device().run(
          TE_PLAN(cross_entropy_backward, tokens, vocab, cols, type, -100),
          {in(weight), in(padded.bytes), in(targets), in(lse.bytes),
           out(gradOfPadded.bytes)});
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t v = 0; v < cols; ++v)
          ASSERT_EQ(gradOfPadded.at(t * cols + v),
                    v < vocab ? grad.at(t * vocab + v) : 0.0)
              << "token " << t << ", column " << v << " of " << cols;
    }
}

// Each update has about a dozen operations on numbers that are bounded by the
// terms that are added below; nesterov has three more.
TEST_P(Pointwise, OptimizerValues) {
  const int64_t count = 777;
  const float lr = 0.01f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f,
              decay = 0.1f, step = 7;
  for (int32_t paramType : {TE_RT_F32, TE_RT_BF16})
    for (int32_t gradType : {TE_RT_F32, TE_RT_BF16}) {
      const Array param = makeArray("normal", paramType, count, 1);
      const Array grad = makeArray("normal", gradType, count, 2);
      const Array m = makeArray("normal", TE_RT_F32, count, 3);
      Array v = makeArray("normal", TE_RT_F32, count, 4);
      for (int64_t i = 0; i < count; ++i)
        v.set(i, std::fabs(v.at(i)));
      Array newParam(paramType, count), newM(TE_RT_F32, count),
          newV(TE_RT_F32, count);
      device().run(TE_PLAN(adamw, count, paramType, gradType, beta1, beta2,
                           epsilon, decay, TE_RT_F32, 0),
                   {in(param.bytes), in(grad.bytes), in(m.bytes), in(v.bytes),
                    in(std::vector<float>{lr}), in(std::vector<float>{step}),
                    none(), out(newParam.bytes), out(newM.bytes),
                    out(newV.bytes)});
      const double b1 = beta1, b2 = beta2;
      const double c1 = 1 - std::pow(b1, step), c2 = 1 - std::pow(b2, step);
      for (int64_t i = 0; i < count && !HasFatalFailure(); ++i) {
        const double g = grad.at(i), p = param.at(i);
        const double m1 = b1 * m.at(i) + (1 - b1) * g;
        const double v1 = b2 * v.at(i) + (1 - b2) * g * g;
        const double mMagnitude =
            b1 * std::fabs(m.at(i)) + (1 - b1) * std::fabs(g);
        expectNear(m1, 4 * kU * mMagnitude, newM, i, "m");
        expectNear(v1, 5 * kU * v1, newV, i, "v");
        const double root = std::sqrt(v1 / c2) + static_cast<double>(epsilon);
        const double update =
            lr * (m1 / c1 / root + static_cast<double>(decay) * p);
        const double magnitude =
            std::fabs(p) + lr * (mMagnitude / c1 / root +
                                 static_cast<double>(decay) * std::fabs(p));
        expectNear(p - update, 16 * kU * magnitude, newParam, i, "param");
      }

      const Array buf = makeArray("normal", TE_RT_F32, count, 5);
      Array newBuf(TE_RT_F32, count);
      for (auto [momentum, nesterov] :
           {std::pair(false, 0), {true, 0}, {true, 1}}) {
        device().run(
            TE_PLAN(sgd, count, paramType, gradType, 0.9f, decay, nesterov),
            {in(param.bytes), in(grad.bytes), momentum ? in(buf.bytes) : none(),
             in(std::vector<float>{lr}), none(), out(newParam.bytes),
             momentum ? out(newBuf.bytes) : none()});
        for (int64_t i = 0; i < count && !HasFatalFailure(); ++i) {
          const double old = momentum ? 0.9f * buf.at(i) : 0;
          const double d = static_cast<double>(decay) * param.at(i);
          const double u = old + grad.at(i) + d;
          const double magnitude =
              std::fabs(old) + std::fabs(grad.at(i)) + std::fabs(d);
          if (momentum)
            expectNear(u, 4 * kU * magnitude, newBuf, i, "buf");
          const double direction = nesterov ? 0.9f * u + grad.at(i) + d : u;
          expectNear(param.at(i) - lr * direction,
                     (nesterov ? 9 : 6) * kU *
                         (std::fabs(param.at(i)) + magnitude),
                     newParam, i, "sgd param");
        }
      }
    }
}

// Moments in bf16 are one of the two neighbours of the moments in f32, each as
// often as its distance says, and the parameter does not see their rounding.
TEST_P(Pointwise, AdamwRoundsMomentsStochastically) {
  const int64_t count = 200003;
  const std::vector<float> lr{0.01f};
  const Array param = makeArray("normal", TE_RT_F32, count, 1);
  Array grad = makeArray("normal", TE_RT_F32, count, 2);
  const float kSpecial[] = {0.0f, -0.0f,  INFINITY, -INFINITY,
                            NAN,  1e-40f, 3e38f,    -1e-44f};
  for (int64_t i = 0; i < static_cast<int64_t>(std::size(kSpecial)); ++i)
    grad.set(i, kSpecial[i]);
  auto update = [&](int32_t type, int32_t seed, float step) {
    Array m(type, count), v(type, count);
    for (int64_t i = 0; i < count; ++i)
      v.set(i, 1.0f);
    std::array<Array, 3> result{Array(TE_RT_F32, count), Array(type, count),
                                Array(type, count)};
    device().run(TE_PLAN(adamw, count, TE_RT_F32, TE_RT_F32, 0.9f, 0.999f,
                         1e-8f, 0.1f, type, seed),
                 {in(param.bytes), in(grad.bytes), in(m.bytes), in(v.bytes),
                  in(lr), in(std::vector<float>{step}), none(),
                  out(result[0].bytes), out(result[1].bytes),
                  out(result[2].bytes)});
    return result;
  };
  const auto exact = update(TE_RT_F32, 0, 3), once = update(TE_RT_BF16, 0, 3);
  EXPECT_EQ(exact[0].bytes, once[0].bytes);
  for (int moment : {1, 2}) {
    double expected = 0, variance = 0;
    int64_t away = 0;
    for (int64_t i = 0; i < count && !HasFatalFailure(); ++i) {
      const float x = exact[moment].at(i), y = once[moment].at(i);
      if (!std::isfinite(x)) {
        EXPECT_TRUE(std::isnan(x) ? std::isnan(y) : x == y) << i;
        continue;
      }
      const uint32_t bits = std::bit_cast<uint32_t>(x);
      const float near = std::bit_cast<float>(bits & 0xffff0000u);
      const float far = std::bit_cast<float>((bits & 0xffff0000u) + 0x10000u);
      const double share = (bits & 0xffffu) / 65536.0;
      EXPECT_TRUE(std::bit_cast<uint32_t>(y) == std::bit_cast<uint32_t>(near) ||
                  (share > 0 && y == far))
          << i << ": " << x << " to " << y;
      away += y != near;
      expected += share;
      variance += share * (1 - share);
    }
    // Five standard deviations: one seed in a million is beyond.
    EXPECT_NEAR(static_cast<double>(away), expected, 5 * std::sqrt(variance));
  }
  // Bits depend on the seed and the step, and on nothing else.
  EXPECT_EQ(once[1].bytes, update(TE_RT_BF16, 0, 3)[1].bytes);
  EXPECT_NE(once[1].bytes, update(TE_RT_BF16, 1, 3)[1].bytes);
  const auto next = update(TE_RT_BF16, 0, 4);
  EXPECT_NE(once[1].bytes, next[1].bytes);
  EXPECT_NE(once[2].bytes, next[2].bytes);
}

TE_FOR_EACH_BACKEND(Pointwise);

} // namespace
