//===- SkipTest.cpp - casts and updates that a flag turns off -------------===//
//
// If `skip` is exactly 1, no byte of a cast changes, except that amaxes become
// 0; an update gives the old states, in place or not, and a sum is 0. With any
// other value, the launch has the bytes of one without the flag. Every kernel
// with the flag is tested in aligned and in general form.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>
#include <functional>
#include <limits>

using namespace te::conformance;

namespace {

using Bytes = std::vector<uint8_t>;
constexpr int64_t kRows = 96, kCols = 160;

/// A kernel with its inputs, the sizes of its outputs, and which of these is an
/// amax.
struct Case {
  std::string name;
  PlanFunction plan;
  std::vector<Bytes> inputs;
  std::vector<size_t> outputs; // bytes; 0 is absent
  int amax = -1;
};

class Skip : public BackendTest {
protected:
  /// Outputs start as poison.
  std::vector<Bytes> run(const Case &test, const std::vector<float> *skip,
                         int offset) {
    std::vector<Bytes> results;
    for (size_t bytes : test.outputs)
      results.emplace_back(bytes);
    std::vector<Buffer> buffers;
    for (const Bytes &input : test.inputs)
      buffers.push_back(input.empty() ? none() : in(input));
    for (Bytes &result : results)
      buffers.push_back(result.empty() ? none()
                                       : unaligned(out(result), offset));
    buffers.push_back(skip ? in(*skip) : none());
    device().run(test.plan, buffers);
    return results;
  }

  void check(const Case &test) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (int offset : {0, 4}) {
      const std::vector<Bytes> plain = run(test, nullptr, offset);
      const std::vector<float> one = {1.0f};
      const std::vector<Bytes> skipped = run(test, &one, offset);
      for (size_t i = 0; i < plain.size(); ++i) {
        const bool isAmax = static_cast<int>(i) == test.amax;
        EXPECT_EQ(skipped[i], Bytes(plain[i].size(), isAmax ? 0 : kPoison))
            << test.name << ", output " << i;
        if (!plain[i].empty())
          EXPECT_NE(plain[i], skipped[i]) << test.name << ", output " << i;
      }
      for (float value : {0.0f, -1.0f, 2.0f, std::nextafterf(1.0f, 2.0f),
                          std::nextafterf(1.0f, 0.0f), nan}) {
        const std::vector<float> flag = {value};
        EXPECT_EQ(run(test, &flag, offset), plain)
            << test.name << ", flag " << value;
      }
    }
  }
};

/// An output of a skipped sum is 0.
constexpr int kZero = -1;
/// An output that a launch does not have.
constexpr int kAbsent = -2;

/// An update or a sum. Output i is the next value of the input `states[i]`.
struct Update {
  std::string name;
  PlanFunction plan;
  std::vector<Bytes> inputs;
  std::vector<int> states;
};

class SkippedUpdate : public BackendTest {
protected:
  std::vector<Bytes> run(const Update &test, const std::vector<float> *skip,
                         int offset, bool inPlace) {
    std::vector<Bytes> results;
    for (int state : test.states)
      results.emplace_back(state >= 0       ? test.inputs[state].size()
                           : state == kZero ? sizeof(float)
                                            : 0);
    std::vector<Buffer> buffers;
    for (const Bytes &input : test.inputs)
      buffers.push_back(input.empty() ? none() : unaligned(in(input), offset));
    for (size_t i = 0; i < results.size(); ++i) {
      const int state = test.states[i];
      buffers.push_back(state == kAbsent ? none()
                        : inPlace && state >= 0
                            ? outOn(state, results[i])
                            : unaligned(out(results[i]), offset));
    }
    buffers.push_back(skip ? in(*skip) : none());
    device().run(test.plan, buffers);
    return results;
  }

  void check(const Update &test) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (int offset : {0, 4})
      for (bool inPlace : {false, true}) {
        const std::vector<Bytes> plain = run(test, nullptr, offset, inPlace);
        const std::vector<float> one = {1.0f};
        const std::vector<Bytes> skipped = run(test, &one, offset, inPlace);
        for (size_t i = 0; i < plain.size(); ++i) {
          const int state = test.states[i];
          EXPECT_EQ(skipped[i],
                    state >= 0 ? test.inputs[state] : Bytes(plain[i].size()))
              << test.name << ", output " << i << ", in place " << inPlace;
          if (state != kAbsent)
            EXPECT_NE(plain[i], skipped[i]) << test.name << ", output " << i;
        }
        for (float value : {0.0f, -1.0f, 2.0f, std::nextafterf(1.0f, 2.0f),
                            std::nextafterf(1.0f, 0.0f), nan}) {
          const std::vector<float> flag = {value};
          EXPECT_EQ(run(test, &flag, offset, inPlace), plain)
              << test.name << ", flag " << value;
        }
      }
  }
};

Bytes bytesOf(float value) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
  return Bytes(bytes, bytes + sizeof(float));
}

TEST_P(Skip, EveryCast) {
  const Array x = makeArray("wide", TE_RT_BF16, kRows * kCols);
  const size_t all = kRows * kCols;
  auto block = [](int32_t scheme, int64_t outer, int64_t inner) -> size_t {
    auto up = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
    return scheme == TE_RT_BLOCK_1X128
               ? up(inner, 128) / 128 * up(outer, 4) * 4
               : up(outer, 128) / 128 * up(up(inner, 128) / 128, 4) * 4;
  };

  for (int32_t type : {TE_RT_F32, TE_RT_BF16, TE_RT_F16})
    check({"fill " + std::to_string(type),
           TE_PLAN(fill, kRows * kCols + 3, type, 0.3f),
           {},
           {(all + 3) * (type == TE_RT_F32 ? 4 : 2)}});
  check({"amax",
         TE_PLAN(amax, kRows * kCols, TE_RT_BF16, TE_RT_BF16),
         {x.bytes},
         {4},
         0});
  check({"amax_rows",
         TE_PLAN(amax_rows, kRows, kCols, TE_RT_BF16),
         {x.bytes},
         {4 * kRows},
         0});
  // A stack of weights, whose rows a GPU divides over several blocks.
  constexpr int64_t kMatrix = 65 * 256;
  check({"amax_rows, long",
         TE_PLAN(amax_rows, 3, kMatrix, TE_RT_BF16),
         {makeArray("wide", TE_RT_BF16, 3 * kMatrix).bytes},
         {12},
         0});
  check({"partial_amax",
         TE_PLAN(partial_amax, kRows * kCols, kRows, kCols, 0, 128, 128,
                 TE_RT_BF16, 1, 0),
         {x.bytes},
         {4 * size_t((kRows + 127) / 128 * ((kCols + 127) / 128))},
         0});
  for (auto [height, width] : {std::pair<int64_t, int64_t>{1, 32},
                               {32, 1},
                               {32, 32},
                               {1, 16},
                               {16, 16}})
    check({"partial_amax, " + std::to_string(height) + "x" +
               std::to_string(width),
           TE_PLAN(partial_amax, kRows * kCols, kRows, kCols, 0, height, width,
                   TE_RT_BF16, 1, 0),
           {x.bytes},
           {4 * size_t((kRows + height - 1) / height *
                       ((kCols + width - 1) / width))},
           0});
  check({"quantize_shard",
         TE_PLAN(quantize_shard, kRows * kCols, kRows, kCols, 0, TE_RT_BF16,
                 TE_RT_F8E4M3FN, TE_RT_BLOCK_128X128, 1, 1, 0.0f, 1, 0),
         {x.bytes, Bytes(4 * ((kRows + 127) / 128 * ((kCols + 127) / 128)),
                         uint8_t{0x41})},
         {all, block(TE_RT_BLOCK_128X128, kRows, kCols)}});
  check({"quantize_tensor",
         TE_PLAN(quantize_tensor, 1, kRows, kCols, kRows, kCols, TE_RT_BF16,
                 TE_RT_BF16, TE_RT_F8E4M3FN, 0, 0, 0.0f),
         {x.bytes, bytesOf(7.3f)},
         {all, 4, all, 4, 4},
         4});
  check({"quantize_tensor, no amax",
         TE_PLAN(quantize_tensor, 1, kRows, kCols, kRows, kCols, TE_RT_BF16,
                 TE_RT_BF16, TE_RT_F8E4M3FN, 0, 0, 0.0f),
         {x.bytes, bytesOf(7.3f)},
         {all, 4, all, 4, 0}});
  for (int32_t scheme : {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128})
    check(
        {"quantize_block " + std::to_string(scheme),
         TE_PLAN(quantize_block, 1, kRows, kCols, kRows, kCols, TE_RT_BF16,
                 TE_RT_BF16, TE_RT_F8E4M3FN, scheme, 1, 0.0f),
         {x.bytes},
         {all, block(scheme, kRows, kCols), all, block(scheme, kCols, kRows)}});
  for (int32_t scheme : {TE_RT_MX_1X32, TE_RT_MX_32X32}) {
    const size_t rowScales = microscaleCount(scheme, 1, kRows, kCols);
    const size_t colScales = microscaleCount(scheme, 0, kRows, kCols);
    check({"quantize_mx " + std::to_string(scheme),
           TE_PLAN(quantize_mx, 1, kRows, kCols, kRows, kCols, TE_RT_BF16,
                   TE_RT_F8E4M3FN, scheme),
           {x.bytes},
           {all, rowScales, all, colScales}});
    for (int32_t axis : {1, 0})
      check({"quantize_shard, mx along " + std::to_string(axis),
             TE_PLAN(quantize_shard, kRows * kCols, kRows, kCols, 0, TE_RT_BF16,
                     TE_RT_F8E4M3FN, scheme, axis, 0, 0.0f, 1, 0),
             {x.bytes, Bytes(4 * kRows * kCols / 32, uint8_t{0x41})},
             {all, axis == 1 ? rowScales : colScales}});
  }
  for (int32_t scheme : {TE_RT_NV_1X16, TE_RT_NV_16X16}) {
    const size_t rowScales = microscaleCount(scheme, 1, kRows, kCols);
    const size_t colScales = microscaleCount(scheme, 0, kRows, kCols);
    check({"quantize_nvfp4 " + std::to_string(scheme),
           TE_PLAN(quantize_nvfp4, 1, kRows, kCols, kRows, kCols, TE_RT_BF16,
                   scheme, 0, 448, 0, 0, 0),
           {x.bytes, bytesOf(3.5f), {}},
           {all / 2, rowScales, 4, all / 2, colScales, 4}});
    check({"quantize_nvfp4_shard " + std::to_string(scheme),
           TE_PLAN(quantize_nvfp4_shard, kRows * kCols, kRows, kCols, 0,
                   TE_RT_BF16, scheme, 448, 1, 0),
           {x.bytes, Bytes(4 * kRows * kCols / 16, uint8_t{0x41})},
           {all / 2, rowScales, 4}});
  }
}

TEST_P(Skip, EveryTranspose) {
  const size_t all = kRows * kCols;
  Bytes data(all);
  for (size_t i = 0; i < all; ++i)
    data[i] = static_cast<uint8_t>(i * 37 % 251);
  auto transpose = [](int32_t scheme) {
    return TE_PLAN(transpose_scaled, 1, kRows, kCols, scheme);
  };
  const Bytes scales(4096, 1);
  check({"per_tensor",
         transpose(TE_RT_PER_TENSOR),
         {data, bytesOf(0.5f), {}},
         {all, 4, 0}});
  check({"block_128x128",
         transpose(TE_RT_BLOCK_128X128),
         {data, scales, {}},
         {all, 2 * 4 * 4, 0}});
  check({"mx_32x32",
         transpose(TE_RT_MX_32X32),
         {data, scales, {}},
         {all, size_t(microscaleCount(TE_RT_MX_32X32, 0, kRows, kCols)), 0}});
  data.resize(all / 2);
  check(
      {"nv_16x16",
       transpose(TE_RT_NV_16X16),
       {data, scales, bytesOf(2.0f)},
       {all / 2, size_t(microscaleCount(TE_RT_NV_16X16, 0, kRows, kCols)), 4}});
}

TEST_P(SkippedUpdate, EveryOptimizer) {
  // Some runs and blocks of vectors, and elements behind the last one.
  const int64_t count = 2051, blocks = (count + 127) / 128;
  const Bytes lr = bytesOf(0.01f), step = bytesOf(3.0f), half = bytesOf(0.5f);
  auto values = [&](const char *kind, int32_t type, int seed) {
    return makeArray(kind, type, count, seed).bytes;
  };
  auto ones = [&](int32_t type) {
    return Array(type, std::vector<double>(count, 1.0)).bytes;
  };
  for (int32_t param : {TE_RT_F32, TE_RT_BF16, TE_RT_F16})
    for (int32_t grad : {TE_RT_F32, TE_RT_BF16, TE_RT_F16}) {
      const std::string types =
          " " + std::to_string(param) + " " + std::to_string(grad);
      const Bytes p = values("normal", param, 1), g = values("normal", grad, 2);
      for (int32_t moment : {TE_RT_F32, TE_RT_BF16})
        check(
            {"adamw" + types + " " + std::to_string(moment),
             TE_PLAN(adamw, count, param, grad, 0.9f, 0.999f, 1e-8f, 0.1f,
                     moment, 7),
             {p, g, values("normal", moment, 3), ones(moment), lr, step, half},
             {0, 2, 3}});
      check(
          {"adamw_fp8" + types,
           TE_PLAN(adamw_fp8, count, param, grad, 0.9f, 0.999f, 1e-8f, 0.1f, 7),
           {p, g, values("normal", TE_RT_F8E4M3FN, 3), ones(TE_RT_F8E5M2),
            Array(TE_RT_F32, std::vector<double>(2 * blocks, 3.0)).bytes, lr,
            step, half},
           {0, 2, 3, 4}});
      check({"sgd" + types,
             TE_PLAN(sgd, count, param, grad, 0.9f, 0.1f, 0),
             {p, g, values("normal", TE_RT_F32, 3), lr, half},
             {0, 2}});
      check({"sgd without a buffer" + types,
             TE_PLAN(sgd, count, param, grad, 0.0f, 0.1f, 0),
             {p, g, {}, lr, half},
             {0, kAbsent}});
    }
  for (int32_t type : {TE_RT_F32, TE_RT_BF16, TE_RT_F16})
    for (const Bytes &before : {Bytes(), half}) {
      std::vector<Bytes> inputs(kSquaresGroup + 1);
      inputs[0] = inputs[1] = makeArray("normal", type, 5000, 1).bytes;
      inputs.back() = before;
      check({"sum_of_squares " + std::to_string(type),
             planOfSquares({5000, 700}, {type, type}),
             inputs,
             {kZero}});
    }
}

TE_FOR_EACH_BACKEND(Skip);
TE_FOR_EACH_BACKEND(SkippedUpdate);

} // namespace
