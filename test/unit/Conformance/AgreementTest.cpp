//===- AgreementTest.cpp - other backends give the reference's bits -------===//
//
// All kernels except GEMMs and losses are exact: the same inputs give the same
// bits on every backend. GEMMs and losses are compared with f64 in other tests.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/NvOracle.h"
#include "Conformance/Options.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace te::conformance;

namespace {

constexpr struct {
  int64_t rows, cols;
} kShapes[] = {{1, 1},     {3, 17},     {16, 128},   {129, 272},
               {300, 257}, {512, 1408}, {1024, 4096}};
/// Values of so many elements are compared for only one type and kind.
bool isLarge(int64_t elements) { return elements > 200000; }
bool isLeftOut(int64_t elements) { return onlySmallValues && elements > 50000; }
constexpr int32_t kTypes[] = {TE_RT_BF16, TE_RT_F32, TE_RT_F16};
constexpr const char *kKinds[] = {"normal", "inf", "nan", "wide", "subnormal"};

class Agreement : public BackendTest {
protected:
  /// Runs on both backends. The outputs have these types and sizes, and are
  /// passed after the inputs; an output of size -1 is absent.
  struct Output {
    int32_t type;
    int64_t size;
    int offset = 0; // of its memory from an aligned address
  };
  void check(const std::string &what, const PlanFunction &plan,
             const std::vector<Buffer> &inputs,
             const std::vector<Output> &outputs) {
    std::vector<Array> results[2];
    for (int i = 0; i < 2; ++i) {
      std::vector<Buffer> buffers = inputs;
      for (const Output &o : outputs)
        results[i].emplace_back(o.type, o.size < 0 ? 0 : o.size);
      for (size_t j = 0; j < outputs.size(); ++j)
        buffers.push_back(
            outputs[j].size < 0
                ? none()
                : unaligned(out(results[i][j].bytes), outputs[j].offset));
      (i == 0 ? deviceOf("reference") : device()).run(plan, buffers);
    }
    for (size_t j = 0; j < outputs.size(); ++j)
      EXPECT_TRUE(sameBits(results[0][j], results[1][j]))
          << what << ", output " << j;
  }

  /// Calls body for every shape, type and kind. Large shapes have only one
  /// kind.
  template <typename Body> void forEachInput(Body body) {
    for (const auto &shape : kShapes)
      for (const int32_t &type : kTypes)
        for (const char *const &kind : kKinds) {
          const int64_t elements = shape.rows * shape.cols;
          const bool large = isLarge(elements);
          if (large && (type != TE_RT_BF16 || std::strcmp(kind, "normal") != 0))
            continue;
          if (isLeftOut(elements))
            continue;
          diagonal = static_cast<int32_t>((&shape - kShapes) +
                                          (&type - kTypes) + (&kind - kKinds));
          body(shape.rows, shape.cols, type, kind);
          if (HasFailure())
            return;
        }
  }
  /// The sum of the indices of the shape, type and kind of this input. Of the
  /// inputs with any two of these, some have each remainder of a division by 3.
  int32_t diagonal = 0;

  static std::string label(const char *kernel, int64_t rows, int64_t cols,
                           int32_t type, const char *kind) {
    return std::string(kernel) + " " + std::to_string(rows) + "x" +
           std::to_string(cols) + " type " + std::to_string(type) + " " + kind;
  }
};
// On a machine with only the reference backend, there is nothing to compare.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Agreement);

TEST_P(Agreement, Casts) {
  forEachInput([&](int64_t rows, int64_t cols, int32_t type, const char *kind) {
    const Array x = makeArray(kind, type, rows * cols);
    const int64_t size = rows * cols;
    const std::string what = label("cast", rows, cols, type, kind);
    check(what + " amax", TE_PLAN(amax, size, type, type), {in(x.bytes)},
          {{TE_RT_F32, 1}});
    for (int32_t fp8Type : {TE_RT_F8E4M3FN, TE_RT_F8E5M2}) {
      const std::vector<float> scale{7.3f};
      check(what + " tensor",
            TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols, type, type,
                    fp8Type, 0, 0, 0.0f),
            {in(x.bytes), in(scale)},
            {{fp8Type, size},
             {TE_RT_F32, 1},
             {fp8Type, size},
             {TE_RT_F32, 1},
             {TE_RT_F32, 1}});
      check(what + " rows",
            TE_PLAN(quantize_rows, rows, cols, rows + 128, 128, type, fp8Type,
                    TE_RT_BLOCK_1X128, 1, 0.0f),
            {in(x.bytes), none()},
            {{fp8Type, size},
             {TE_RT_F32, scaleCount(TE_RT_BLOCK_1X128, rows, cols)},
             {fp8Type, (rows + 128) * cols},
             {TE_RT_F32, scaleCount(TE_RT_BLOCK_1X128, cols, rows + 128)},
             {0, -1}});
      for (int32_t scheme : {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128})
        for (bool pow2 : {false, true}) {
          const int64_t rowScales = scaleCount(scheme, rows, cols);
          const int64_t colScales = scaleCount(scheme, cols, rows);
          const auto plan = TE_PLAN(quantize_block, 1, rows, cols, rows, cols,
                                    type, type, fp8Type, scheme, pow2, 0.0f);
          check(what + " block", plan, {in(x.bytes)},
                {{fp8Type, size},
                 {TE_RT_F32, rowScales},
                 {fp8Type, size},
                 {TE_RT_F32, colScales}});
          check(what + " row", plan, {in(x.bytes)},
                {{fp8Type, size}, {TE_RT_F32, rowScales}, {0, -1}, {0, -1}});
          check(what + " col", plan, {in(x.bytes)},
                {{0, -1}, {0, -1}, {fp8Type, size}, {TE_RT_F32, colScales}});
          const Quantised q =
              quantiseBlocks(x, rows, cols, 1, fp8Type, scheme, pow2, 0.0f);
          check(what + " dequantize",
                TE_PLAN(dequantize, 1, rows, cols, fp8Type, scheme, 1, 0, 0,
                        type),
                {in(q.data), in(q.scale), none()}, {{type, size}});
          if (scheme == TE_RT_BLOCK_128X128)
            check(what + " transpose",
                  TE_PLAN(transpose_scaled, 1, rows, cols, scheme),
                  {in(q.data), in(q.scale), none()},
                  {{fp8Type, size}, {TE_RT_F32, colScales}, {0, -1}});
        }
    }
  });
}

// The first shape with pointers that are not aligned for vector access.
TEST_P(Agreement, Nvfp4) {
  constexpr struct {
    int64_t rows, cols;
    int offset; // in elements of x
  } shapes[] = {{144, 272, 1}, {16, 16, 0},   {144, 272, 0},
                {32, 2048, 0}, {528, 656, 0}, {1040, 4112, 0}};
  for (const auto &[rows, cols, offset] : shapes)
    for (int32_t type : kTypes)
      for (const char *kind : kKinds) {
        const int64_t size = rows * cols;
        const bool large = isLarge(size);
        if (large && (type != TE_RT_BF16 || std::strcmp(kind, "normal") != 0))
          continue;
        if (isLeftOut(size))
          continue;
        const Array x = makeArray(kind, type, size);
        const std::string what = label("nvfp4", rows, cols, type, kind);
        const int shift = offset * static_cast<int>(elementBytes(type));
        check(what + " amax_rows", TE_PLAN(amax_rows, rows, cols, type),
              {unaligned(in(x.bytes), shift)}, {{TE_RT_F32, rows}});
        if (type == TE_RT_BF16)
          check(what + " hadamard", TE_PLAN(hadamard, rows, cols),
                {unaligned(in(x.bytes), shift)}, {{type, size}});
        std::vector<float> amax(rows);
        deviceOf("reference")
            .run(TE_PLAN(amax_rows, rows, cols, type),
                 {in(x.bytes), out(amax)});
        const std::vector<float> largest{
            *std::max_element(amax.begin(), amax.end())};
        const std::vector<int32_t> rng{17, -3};
        const int64_t rowScales = nvScaleCount(rows, cols);
        const int64_t colScales = nvScaleCount(cols, rows);
        const Output row{TE_RT_F8E4M3FN, size / 2, offset};
        const Output rowScale{TE_RT_F8E4M3FN, rowScales, 2 * offset};
        const Output col{TE_RT_F8E4M3FN, size / 2, 4 * offset};
        const Output colScale{TE_RT_F8E4M3FN, colScales, 2 * offset};
        const Output one{TE_RT_F32, 1}, none{0, -1};
        for (int32_t scheme : {TE_RT_NV_1X16, TE_RT_NV_16X16})
          for (int32_t fourOverSix : {0, 1, 2})
            for (int32_t stochastic : {0, 1}) {
              if (stochastic && fourOverSix)
                continue;
              const auto plan = TE_PLAN(
                  quantize_nvfp4, 1, rows, cols, rows, cols, type, scheme, 0,
                  fourOverSix == 2 ? 256 : 448, fourOverSix, stochastic, 5);
              const std::vector<Buffer> inputs{unaligned(in(x.bytes), shift),
                                               in(largest), in(rng)};
              check(what, plan, inputs,
                    {row, rowScale, one, col, colScale, one});
              if (large)
                continue;
              check(what + " row", plan, inputs,
                    {row, rowScale, none, none, none, none});
              check(what + " col", plan, inputs,
                    {none, none, none, col, colScale, none});
            }
        for (int32_t fourOverSix : {0, 1})
          check(what + " row-scaled",
                TE_PLAN(quantize_nvfp4, 1, rows, cols, rows, cols, type,
                        TE_RT_NV_1X16, 1, 448, fourOverSix, 0, 0),
                {unaligned(in(x.bytes), shift), in(amax), Buffer()},
                {row, rowScale, {TE_RT_F32, rows}, none, none, none});
        check(what + " alpha", TE_PLAN(nvfp4_alpha, 1, rows, 448, 256),
              {in(amax), in(largest)}, {{TE_RT_F32, rows}});
        if (HasFailure())
          return;
      }
}

TEST_P(Agreement, Activations) {
  forEachInput([&](int64_t rows, int64_t cols, int32_t type, const char *kind) {
    for (int32_t act : kActivations) {
      // Every activation with every two of shape, type and kind.
      if ((act + diagonal) % 3 != 0 && !isLarge(rows * cols))
        continue;
      const int64_t width = isGated(act) ? 2 * cols : cols;
      const Array x = makeArray(kind, type, rows * width, 1);
      const Array dy = makeArray("normal", type, rows * cols, 2);
      const std::string what =
          label("activation", rows, cols, type, kind) + std::to_string(act);
      check(what, TE_PLAN(activation, rows, cols, type, act, TE_CLAMP),
            {in(x.bytes)}, {{type, rows * cols}, {TE_RT_F32, 1}});
      check(what + " backward",
            TE_PLAN(activation_backward, rows, cols, type, act, TE_CLAMP),
            {in(dy.bytes), in(x.bytes)},
            {{type, rows * width}, {TE_RT_F32, 1}});
      // Casts with 1x128 blocks, and with a scale that is not a power of two.
      const std::vector<float> scale = {37.4f};
      for (auto [scheme, pow2] :
           {std::pair(TE_RT_BLOCK_1X128, 0), std::pair(TE_RT_BLOCK_1X128, 1),
            std::pair(TE_RT_PER_TENSOR, 0)}) {
        const bool perTensor = scheme == TE_RT_PER_TENSOR;
        auto outputs = [&](int32_t fp8Type, int64_t w) {
          return std::vector<Output>{{fp8Type, rows * w},
                                     {TE_RT_F32, scaleCount(scheme, rows, w)},
                                     {fp8Type, rows * w},
                                     {TE_RT_F32, scaleCount(scheme, w, rows)},
                                     {TE_RT_F32, perTensor ? 1 : -1}};
        };
        const Buffer given = perTensor ? in(scale) : none();
        check(what + " quantize",
              TE_PLAN(activation_quantize, rows, cols, type, act, TE_CLAMP,
                      TE_RT_F8E4M3FN, scheme, pow2, 0.0f),
              {in(x.bytes), given}, outputs(TE_RT_F8E4M3FN, cols));
        check(what + " backward quantize",
              TE_PLAN(activation_backward_quantize, rows, cols, type, act,
                      TE_CLAMP, TE_RT_F8E5M2, scheme, pow2, 0.0f),
              {in(dy.bytes), in(x.bytes), given}, outputs(TE_RT_F8E5M2, width));
        if (isGated(act))
          check(what + " apart, quantize",
                TE_PLAN(gated_activation_quantize, rows, cols, type, act,
                        TE_CLAMP, TE_RT_F8E4M3FN, scheme, pow2, 0.0f),
                {in(dy.bytes), in(x.bytes), given},
                outputs(TE_RT_F8E4M3FN, cols));
      }
      if (!isGated(act))
        continue;
      // The two halves are in separate tensors with arbitrary values.
      check(what + " apart",
            TE_PLAN(gated_activation, rows, cols, type, act, TE_CLAMP),
            {in(dy.bytes), in(x.bytes)}, {{type, rows * cols}, {TE_RT_F32, 1}});
      check(what + " apart, backward",
            TE_PLAN(gated_activation_backward, rows, cols, type, act, TE_CLAMP),
            {in(dy.bytes), in(x.bytes), in(dy.bytes)},
            {{type, rows * cols},
             {type, rows * cols},
             {TE_RT_F32, 1},
             {TE_RT_F32, 1}});
    }
  });
}

TEST_P(Agreement, Norms) {
  forEachInput([&](int64_t rows, int64_t cols, int32_t type, const char *kind) {
    const Array x = makeArray(kind, type, rows * cols, 1);
    const Array dy = makeArray("normal", type, rows * cols, 2);
    const Array gamma = makeArray("normal", type, cols, 3);
    Array y(type, rows * cols);
    std::vector<float> rsigma(rows);
    const Array beta = makeArray("normal", type, cols, 4);
    for (bool zeroCentered : {false, true}) {
      const std::string what = label("layer_norm", rows, cols, type, kind);
      const auto plan =
          TE_PLAN(layer_norm, rows, cols, type, 1e-5f, zeroCentered);
      check(what, plan, {in(x.bytes), in(gamma.bytes), in(beta.bytes)},
            {{type, rows * cols},
             {TE_RT_F32, rows},
             {TE_RT_F32, rows},
             {TE_RT_F32, 1}});
      std::vector<float> mu(rows);
      deviceOf("reference")
          .run(plan, {in(x.bytes), in(gamma.bytes), in(beta.bytes),
                      out(y.bytes), out(mu), out(rsigma), none()});
      check(what + " backward",
            TE_PLAN(layer_norm_backward, rows, cols, type, zeroCentered),
            {in(dy.bytes), in(x.bytes), in(gamma.bytes), in(mu), in(rsigma)},
            {{type, rows * cols}, {type, cols}, {type, cols}, {TE_RT_F32, 1}});
    }
    for (bool zeroCentered : {false, true}) {
      const std::string what = label("rms_norm", rows, cols, type, kind);
      const auto plan =
          TE_PLAN(rms_norm, rows, cols, type, 1e-5f, zeroCentered);
      check(what, plan, {in(x.bytes), in(gamma.bytes)},
            {{type, rows * cols}, {TE_RT_F32, rows}, {TE_RT_F32, 1}});
      deviceOf("reference")
          .run(plan, {in(x.bytes), in(gamma.bytes), out(y.bytes), out(rsigma),
                      none()});
      check(what + " backward",
            TE_PLAN(rms_norm_backward, rows, cols, type, zeroCentered),
            {in(dy.bytes), in(x.bytes), in(gamma.bytes), in(rsigma)},
            {{type, rows * cols}, {type, cols}, {TE_RT_F32, 1}});
    }
    for (int32_t outType : {type, +TE_RT_F32})
      check(label("bias_grad", rows, cols, type, kind),
            TE_PLAN(bias_grad, rows, cols, type, outType), {in(x.bytes)},
            {{outType, cols}});
    check(label("chunk_sums", rows, cols, type, kind),
          TE_PLAN(chunk_sums, rows, cols, type), {in(x.bytes)},
          {{TE_RT_F32, (rows + 127) / 128 * cols}});
    if (type == TE_RT_F32)
      for (int32_t outType : kTypes)
        check(label("sum_of_chunks", rows, cols, outType, kind),
              TE_PLAN(sum_of_chunks, rows, cols, outType), {in(x.bytes)},
              {{outType, cols}});
  });
}

TEST_P(Agreement, RowSum) {
  forEachInput([&](int64_t rows, int64_t cols, int32_t type, const char *kind) {
    for (int32_t outType : {type, +TE_RT_F32})
      check(label("row_sum", rows, cols, type, kind),
            TE_PLAN(row_sum, rows, cols, type, outType),
            {in(makeArray(kind, type, rows * cols, 1).bytes)},
            {{outType, rows}});
  });
}

// The rows give every multiprocessor a strip of 32 rows, and some a second one,
// which may be partial. The lengths of rows are from one run of 16 bytes to the
// longest that fits in shared memory, and one that is longer; there are more
// strips of few and of many columns than their sum takes at a time. Each runs
// twice, because races would give different results.
TEST_P(Agreement, NormGradientsOfManyRows) {
  constexpr struct {
    int64_t rows, cols;
    int32_t type;
  } kMany[] = {{4225, 8, TE_RT_BF16},    {4256, 72, TE_RT_F16},
               {4231, 4, TE_RT_F32},     {4223, 1000, TE_RT_BF16},
               {8449, 260, TE_RT_F32},   {4231, 257, TE_RT_BF16},
               {4260, 4096, TE_RT_BF16}, {4229, 2048, TE_RT_F32},
               {4225, 4104, TE_RT_F16},  {32801, 1, TE_RT_F32},
               {8257, 1032, TE_RT_F16}};
  for (const auto &[rows, cols, type] : kMany)
    for (bool zeroCentered : {false, true}) {
      if (isLeftOut(rows * cols))
        continue;
      const std::string what = label("norm", rows, cols, type, "normal");
      const Array x = makeArray("normal", type, rows * cols, 1);
      const Array dy = makeArray("normal", type, rows * cols, 2);
      const Array gamma = makeArray("normal", type, cols, 3);
      const Array mu = makeArray("normal", TE_RT_F32, rows, 4);
      const Array rsigma = makeArray("normal", TE_RT_F32, rows, 5);
      for (int repeat = 0; repeat < 2 && !HasFailure(); ++repeat) {
        check(what + " rms",
              TE_PLAN(rms_norm_backward, rows, cols, type, zeroCentered),
              {in(dy.bytes), in(x.bytes), in(gamma.bytes), in(rsigma.bytes)},
              {{type, rows * cols}, {type, cols}, {TE_RT_F32, 1}});
        check(
            what + " layer",
            TE_PLAN(layer_norm_backward, rows, cols, type, zeroCentered),
            {in(dy.bytes), in(x.bytes), in(gamma.bytes), in(mu.bytes),
             in(rsigma.bytes)},
            {{type, rows * cols}, {type, cols}, {type, cols}, {TE_RT_F32, 1}});
      }
    }
}

// Rows of 4 to 8 KiB, which a block computes. On a device of few
// multiprocessors two strips are enough for the gradients to have one each.
TEST_P(Agreement, NormsOfBlocks) {
  constexpr struct {
    int64_t cols;
    int32_t type;
  } kBlocks[] = {{3072, TE_RT_BF16}, {4096, TE_RT_F16}, {2048, TE_RT_F32}};
  const int64_t rows = 37;
  for (const auto &[cols, type] : kBlocks)
    for (const char *kind : {"normal", "nan", "wide"}) {
      const std::string what = label("blocks", rows, cols, type, kind);
      const Array x = makeArray(kind, type, rows * cols, 1);
      const Array dy = makeArray("normal", type, rows * cols, 2);
      const Array gamma = makeArray("normal", type, cols, 3);
      const Array beta = makeArray("normal", type, cols, 4);
      const Array mu = makeArray("normal", TE_RT_F32, rows, 5);
      const Array rsigma = makeArray("normal", TE_RT_F32, rows, 6);
      check(what, TE_PLAN(layer_norm, rows, cols, type, 1e-5f, true),
            {in(x.bytes), in(gamma.bytes), in(beta.bytes)},
            {{type, rows * cols},
             {TE_RT_F32, rows},
             {TE_RT_F32, rows},
             {TE_RT_F32, 1}});
      check(what + " rms", TE_PLAN(rms_norm_backward, rows, cols, type, true),
            {in(dy.bytes), in(x.bytes), in(gamma.bytes), in(rsigma.bytes)},
            {{type, rows * cols}, {type, cols}, {TE_RT_F32, 1}});
      check(what + " layer",
            TE_PLAN(layer_norm_backward, rows, cols, type, true),
            {in(dy.bytes), in(x.bytes), in(gamma.bytes), in(mu.bytes),
             in(rsigma.bytes)},
            {{type, rows * cols}, {type, cols}, {type, cols}, {TE_RT_F32, 1}});
    }
}

// Full and partial chunks and heads, of one warp's lanes or more.
TEST_P(Agreement, SinkGradients) {
  constexpr struct {
    int64_t batch, sequence, heads, headDim;
  } kHeads[] = {{1, 1, 1, 1},    {3, 50, 4, 64},    {2, 128, 3, 128},
                {1, 300, 2, 80}, {2, 1024, 32, 64}, {5, 7, 5, 300}};
  for (const auto &[batch, sequence, heads, headDim] : kHeads)
    for (int32_t type : kTypes)
      for (const char *kind : kKinds) {
        const int64_t tokens = batch * sequence, size = tokens * heads;
        if (isLeftOut(size * headDim))
          continue;
        const Array dout = makeArray(kind, type, size * headDim, 1);
        const Array o = makeArray("normal", type, size * headDim, 2);
        const Array lse = makeArray("normal", TE_RT_F32, size, 3);
        const Array sinks = makeArray("normal", TE_RT_F32, heads, 4);
        const std::string what =
            label("attention_sink_grad", tokens, heads * headDim, type, kind);
        check(what,
              TE_PLAN(attention_sink_grad, tokens, sequence, heads, headDim,
                      type, 0),
              {in(dout.bytes), in(o.bytes), in(lse.bytes), in(sinks.bytes),
               none()},
              {{TE_RT_F32, heads}});
        const std::vector<int32_t> documents = {
            static_cast<int32_t>(tokens / 5), static_cast<int32_t>(tokens / 2),
            static_cast<int32_t>(tokens - tokens / 3)};
        check(what + " documents",
              TE_PLAN(attention_sink_grad, tokens, tokens, heads, headDim, type,
                      3),
              {in(dout.bytes), in(o.bytes), in(lse.bytes), in(sinks.bytes),
               in(documents)},
              {{TE_RT_F32, heads}});
      }
}

TEST_P(Agreement, Elementwise) {
  forEachInput([&](int64_t rows, int64_t cols, int32_t type, const char *kind) {
    const int64_t count = rows * cols;
    const Array a = makeArray(kind, type, count, 1);
    check("fill", TE_PLAN(fill, count, type, 0.3f), {}, {{type, count}});
    check("copy", TE_PLAN(copy, static_cast<int64_t>(a.bytes.size())),
          {in(a.bytes)}, {{type, count}});
  });
}

// The loss may differ in its logarithm, but its gradient takes that as an
// input.
TEST_P(Agreement, CrossEntropyGradients) {
  const int64_t tokens = 11;
  for (int64_t vocab : {1, 517, 4096})
    for (int32_t type : kTypes)
      for (const char *kind : kKinds) {
        const Array logits = makeArray(kind, type, tokens * vocab);
        std::vector<int32_t> targets(tokens);
        for (int64_t t = 0; t < tokens; ++t)
          targets[t] = static_cast<int32_t>(t % 5 == 0 ? -100 : t * 31 % vocab);
        const std::vector<float> weight{0.5f}, lse(tokens, 7.25f);
        check(label("cross_entropy_backward", tokens, vocab, type, kind),
              TE_PLAN(cross_entropy_backward, tokens, vocab, vocab, type, -100),
              {in(weight), in(logits.bytes), in(targets), in(lse)},
              {{type, tokens * vocab}});
        check(label("cross_entropy_mean", tokens, vocab, type, kind),
              TE_PLAN(cross_entropy_mean, tokens, vocab, -100),
              {in(lse), in(targets)}, {{TE_RT_F32, 1}});
        check(label("cross_entropy_weight", tokens, vocab, type, kind),
              TE_PLAN(cross_entropy_weight, tokens, vocab, -100),
              {none(), in(targets)}, {{TE_RT_F32, 1}});
      }
}

TEST_P(Agreement, Optimizers) {
  for (int64_t count : {1, 1000, 20011, 300001})
    for (int32_t paramType : kTypes)
      for (int32_t gradType : kTypes)
        for (float step : {1.0f, 2.0f, 1000.0f, 123457.0f}) {
          if (isLeftOut(count))
            continue;
          const Array param = makeArray("normal", paramType, count, 1);
          const Array grad = makeArray("normal", gradType, count, 2);
          const Array m = makeArray("normal", TE_RT_F32, count, 3);
          const std::vector<float> lr{0.013f}, steps{step}, scale{0.3f};
          for (int32_t moment : {TE_RT_F32, TE_RT_BF16}) {
            Array v = makeArray("normal", moment, count, 4);
            for (int64_t i = 0; i < count; ++i)
              v.set(i, std::fabs(v.at(i)));
            check("adamw",
                  TE_PLAN(adamw, count, paramType, gradType, 0.9f, 0.95f, 1e-8f,
                          0.1f, moment, 17),
                  {in(param.bytes), in(grad.bytes),
                   in(makeArray("normal", moment, count, 3).bytes), in(v.bytes),
                   in(lr), in(steps), none()},
                  {{paramType, count}, {moment, count}, {moment, count}});
            check("adamw of scaled gradients",
                  TE_PLAN(adamw, count, paramType, gradType, 0.9f, 0.95f, 1e-8f,
                          0.1f, moment, 17),
                  {in(param.bytes), in(grad.bytes),
                   in(makeArray("normal", moment, count, 3).bytes), in(v.bytes),
                   in(lr), in(steps), in(scale)},
                  {{paramType, count}, {moment, count}, {moment, count}});
          }
          const int64_t blocks = (count + 127) / 128;
          check("adamw with moments of 8 bits",
                TE_PLAN(adamw_fp8, count, paramType, gradType, 0.9f, 0.95f,
                        1e-8f, 0.1f, 17),
                {in(param.bytes), in(grad.bytes),
                 in(makeArray("normal", TE_RT_F8E4M3FN, count, 3).bytes),
                 in(std::vector<uint8_t>(count, 0x31)),
                 in(std::vector<float>(2 * blocks, 0x1p-20f)), in(lr),
                 in(steps), in(scale)},
                {{paramType, count},
                 {TE_RT_F8E4M3FN, count},
                 {TE_RT_F8E5M2, count},
                 {TE_RT_F32, 2 * blocks}});
          for (int32_t nesterov : {0, 1})
            check(
                "sgd",
                TE_PLAN(sgd, count, paramType, gradType, 0.9f, 0.1f, nesterov),
                {in(param.bytes), in(grad.bytes), in(m.bytes), in(lr), none()},
                {{paramType, count}, {TE_RT_F32, count}});
          check("sgd without momentum",
                TE_PLAN(sgd, count, paramType, gradType, 0.9f, 0.1f, 0),
                {in(param.bytes), in(grad.bytes), none(), in(lr), in(scale)},
                {{paramType, count}, {0, -1}});
        }
}

TEST_P(Agreement, NormsOfGradients) {
  const std::vector<float> before{0.37f};
  for (int64_t count : {1, 1000, 4096, 20011, 300001, 3000000})
    for (int32_t type : kTypes)
      for (const char *kind : kKinds) {
        if (isLeftOut(count))
          continue;
        const Array x = makeArray(kind, type, count, 1);
        // The second tensor has the first half of the elements.
        const auto plan = planOfSquares({count, count / 2}, {type, type});
        std::vector<Buffer> inputs = {in(x.bytes), in(x.bytes)};
        inputs.resize(kSquaresGroup + 1, none());
        check(label("sum_of_squares", 1, count, type, kind), plan, inputs,
              {{TE_RT_F32, 1}});
        inputs.back() = in(before);
        check(label("sum_of_squares plus", 1, count, type, kind), plan, inputs,
              {{TE_RT_F32, 1}});
      }
  for (float sum : {0.0f, 1e-30f, 0.7f, 1e30f, INFINITY, NAN})
    for (float maxNorm : {1e-20f, 1.0f, INFINITY})
      check("clip_factor", TE_PLAN(clip_factor, maxNorm),
            {in(std::vector<float>{sum})}, {{TE_RT_F32, 1}, {TE_RT_F32, 1}});
}

TEST_P(Agreement, Embeddings) {
  for (int32_t type : kTypes)
    for (int64_t tokens : {1, 100, 2048})
      for (int64_t hidden : {1, 8, 130, 512}) {
        const int64_t vocab = 257;
        std::vector<int32_t> ids(tokens);
        for (int64_t t = 0; t < tokens; ++t)
          ids[t] = static_cast<int32_t>((t * 7919) % 300) - 20;
        const Array table = makeArray("wide", type, vocab * hidden, 1);
        const Array dy = makeArray("normal", type, tokens * hidden, 2);
        check("embedding", TE_PLAN(embedding, tokens, vocab, hidden, type),
              {in(ids), in(table.bytes)}, {{type, tokens * hidden}});
        for (int32_t outType : {type, +TE_RT_F32})
          check(
              "embedding_backward",
              TE_PLAN(embedding_backward, tokens, vocab, hidden, type, outType),
              {in(ids), in(dy.bytes)}, {{outType, vocab * hidden}});
      }
}

INSTANTIATE_TEST_SUITE_P(, Agreement, testing::ValuesIn(otherBackends()),
                         [](const auto &info) { return info.param; });

} // namespace
