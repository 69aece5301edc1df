//===- StackTest.cpp - one launch for the matrices of a stack -------------===//
//
// A launch for several matrices has the bytes of a launch for each. Every
// kernel with `matrices` is tested in aligned and in general form, for shapes
// of whole and partial blocks. The matrices differ, so that reading the wrong
// one is noticed.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cstring>
#include <functional>

using namespace te::conformance;

namespace {

using Bytes = std::vector<uint8_t>;

struct Case {
  std::string name;
  std::function<PlanFunction(int64_t matrices)> plan;
  std::vector<Bytes> inputs;   // of the stack; empty: absent
  std::vector<bool> areShared; // of the inputs
  std::vector<size_t> outputs; // bytes for one matrix; 0: absent
};

class Stack : public BackendTest {
protected:
  static constexpr int64_t kMatrices = 3;

  std::vector<Bytes> run(const PlanFunction &plan,
                         const std::vector<Bytes> &inputs,
                         const std::vector<size_t> &outputs, int offset) {
    std::vector<Bytes> results;
    for (size_t bytes : outputs)
      results.emplace_back(bytes);
    std::vector<Buffer> buffers;
    for (const Bytes &input : inputs)
      buffers.push_back(input.empty() ? none() : in(input));
    for (Bytes &result : results)
      buffers.push_back(result.empty() ? none()
                                       : unaligned(out(result), offset));
    device().run(plan, buffers);
    return results;
  }

  void check(const Case &test) {
    for (int offset : {0, 4}) {
      std::vector<size_t> outputs = test.outputs;
      for (size_t &bytes : outputs)
        bytes *= kMatrices;
      const std::vector<Bytes> stack =
          run(test.plan(kMatrices), test.inputs, outputs, offset);
      for (int64_t matrix = 0; matrix < kMatrices; ++matrix) {
        std::vector<Bytes> inputs;
        for (size_t i = 0; i < test.inputs.size(); ++i) {
          const size_t bytes = test.inputs[i].size() / kMatrices;
          const auto begin =
              test.inputs[i].begin() + static_cast<ptrdiff_t>(matrix * bytes);
          inputs.push_back(test.areShared[i]
                               ? test.inputs[i]
                               : Bytes(begin, begin + ptrdiff_t(bytes)));
        }
        const std::vector<Bytes> one =
            run(test.plan(1), inputs, test.outputs, offset);
        for (size_t i = 0; i < one.size(); ++i)
          EXPECT_TRUE(one[i].empty() ||
                      std::memcmp(stack[i].data() + matrix * one[i].size(),
                                  one[i].data(), one[i].size()) == 0)
              << test.name << ", output " << i << " of matrix " << matrix
              << ", offset " << offset;
      }
    }
  }

  static Bytes source(int32_t type, int64_t rows, int64_t cols) {
    Bytes bytes;
    for (const char *kind : {"wide", "inf", "nan"}) {
      const Array matrix = makeArray(kind, type, rows * cols);
      bytes.insert(bytes.end(), matrix.bytes.begin(), matrix.bytes.end());
    }
    return bytes;
  }
  static Bytes floats(std::vector<float> values) {
    Bytes bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  static Bytes codes(size_t count) {
    Bytes bytes(count);
    for (size_t i = 0; i < count; ++i)
      bytes[i] = static_cast<uint8_t>(i * 97 % 251);
    return bytes;
  }
  static size_t blockScales(int32_t scheme, int64_t outer, int64_t inner) {
    return static_cast<size_t>(scaleCount(scheme, outer, inner)) * 4;
  }
  static std::string text(const char *name, int64_t rows, int64_t cols,
                          int32_t variant) {
    return std::string(name) + " " + std::to_string(rows) + "x" +
           std::to_string(cols) + " " + std::to_string(variant);
  }
};

constexpr std::pair<int64_t, int64_t> kShapes[] = {
    {33, 65}, {256, 384}, {144, 272}, {1, 8}};

TEST_P(Stack, TensorAndBlockCasts) {
  for (auto [rows, cols] : kShapes)
    for (int32_t type : {TE_RT_BF16, TE_RT_F32}) {
      const size_t all = rows * cols;
      const Bytes x = source(type, rows, cols);
      const Bytes scales = floats({7.3f, 0.01f, 250.0f});
      for (size_t amax : {0, 4})
        check({text("quantize_tensor", rows, cols, type),
               [=](int64_t matrices) {
                 return TE_PLAN(quantize_tensor, matrices, rows, cols, rows,
                                cols, type, type, TE_RT_F8E4M3FN, 0, 0, 0.0f);
               },
               {x, scales},
               {false, false},
               {all, 4, all, 4, amax}});
      for (int32_t scheme : {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128})
        check({text("quantize_block", rows, cols, scheme),
               [=](int64_t matrices) {
                 return TE_PLAN(quantize_block, matrices, rows, cols, rows,
                                cols, type, type, TE_RT_F8E4M3FN, scheme, 0,
                                0.0f);
               },
               {x},
               {false},
               {all, blockScales(scheme, rows, cols), all,
                blockScales(scheme, cols, rows)}});
    }
}

TEST_P(Stack, MicroscaledCasts) {
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{32, 96}, {160, 288}}) {
    const size_t all = rows * cols;
    const Bytes x = source(TE_RT_BF16, rows, cols);
    for (int32_t scheme : {TE_RT_MX_1X32, TE_RT_MX_32X32})
      check({text("quantize_mx", rows, cols, scheme),
             [=](int64_t matrices) {
               return TE_PLAN(quantize_mx, matrices, rows, cols, rows, cols,
                              TE_RT_BF16, TE_RT_F8E5M2, scheme);
             },
             {x},
             {false},
             {all, size_t(microscaleCount(scheme, 1, rows, cols)), all,
              size_t(microscaleCount(scheme, 0, rows, cols))}});
    const Bytes rng = codes(8);
    for (int32_t scheme : {TE_RT_NV_1X16, TE_RT_NV_16X16})
      for (int32_t stochastic : {0, 1})
        check({text("quantize_nvfp4", rows, cols, scheme),
               [=](int64_t matrices) {
                 return TE_PLAN(quantize_nvfp4, matrices, rows, cols, rows,
                                cols, TE_RT_BF16, scheme, 0, 448, 0, stochastic,
                                3);
               },
               {x, floats({3.5f, 1e30f, 0.25f}), rng},
               {false, false, true},
               {all / 2, size_t(microscaleCount(scheme, 1, rows, cols)), 4,
                all / 2, size_t(microscaleCount(scheme, 0, rows, cols)), 4}});
    // With row scales, each row has an amax.
    std::vector<float> amaxes;
    for (int64_t row = 0; row < kMatrices * rows; ++row)
      amaxes.push_back(static_cast<float>(row + 1));
    check({text("quantize_nvfp4 row-scaled", rows, cols, TE_RT_NV_1X16),
           [=](int64_t matrices) {
             return TE_PLAN(quantize_nvfp4, matrices, rows, cols, rows, cols,
                            TE_RT_BF16, TE_RT_NV_1X16, 1, 448, 0, 0, 0);
           },
           {x, floats(amaxes), {}},
           {false, false, false},
           {all / 2, size_t(microscaleCount(TE_RT_NV_1X16, 1, rows, cols)),
            size_t(rows) * 4, 0, 0, 0}});
  }
}

TEST_P(Stack, Transposes) {
  for (auto [rows, cols] :
       {std::pair<int64_t, int64_t>{33, 65}, {256, 384}, {144, 272}})
    for (int32_t scheme : {TE_RT_PER_TENSOR, TE_RT_BLOCK_128X128}) {
      const bool isTensor = scheme == TE_RT_PER_TENSOR;
      const size_t all = rows * cols;
      const size_t from = isTensor ? 4 : blockScales(scheme, rows, cols);
      const size_t to = isTensor ? 4 : blockScales(scheme, cols, rows);
      check({text("transpose_scaled", rows, cols, scheme),
             [=](int64_t matrices) {
               return TE_PLAN(transpose_scaled, matrices, rows, cols, scheme);
             },
             {codes(kMatrices * all), codes(kMatrices * from), {}},
             {false, false, false},
             {all, to, 0}});
    }
  const int64_t rows = 160, cols = 288;
  for (int32_t scheme : {TE_RT_MX_32X32, TE_RT_NV_16X16}) {
    const bool isNv = scheme == TE_RT_NV_16X16;
    const size_t all = rows * cols / (isNv ? 2 : 1);
    check({text("transpose_scaled", rows, cols, scheme),
           [=](int64_t matrices) {
             return TE_PLAN(transpose_scaled, matrices, rows, cols, scheme);
           },
           {codes(kMatrices * all),
            codes(kMatrices * microscaleCount(scheme, 1, rows, cols)),
            isNv ? floats({1.0f, 2.0f, 3.0f}) : Bytes()},
           {false, false, false},
           {all, size_t(microscaleCount(scheme, 0, rows, cols)),
            size_t(isNv ? 4 : 0)}});
  }
}

TEST_P(Stack, Dequantize) {
  const int64_t rows = 160, cols = 288;
  const std::vector<float> factors = {0.5f, 3.0f, 1e-3f};
  for (int32_t scheme : {TE_RT_PER_TENSOR, TE_RT_BLOCK_1X128,
                         TE_RT_BLOCK_128X128, TE_RT_MX_1X32, TE_RT_NV_1X16})
    for (int32_t axis : {1, 0}) {
      const bool isNv = scheme == TE_RT_NV_1X16;
      const bool isSmall = isNv || scheme == TE_RT_MX_1X32;
      const size_t data = rows * cols / (isNv ? 2 : 1);
      const int64_t outer = axis == 1 ? rows : cols;
      const int64_t inner = axis == 1 ? cols : rows;
      Bytes scales;
      if (isSmall) {
        scales = codes(kMatrices * microscaleCount(scheme, axis, rows, cols));
      } else {
        std::vector<float> values;
        const size_t count = scheme == TE_RT_PER_TENSOR
                                 ? 1
                                 : blockScales(scheme, outer, inner) / 4;
        for (size_t i = 0; i < kMatrices * count; ++i)
          values.push_back(static_cast<float>(i + 1) * 0.125f);
        scales = floats(values);
      }
      check(
          {text("dequantize", rows, cols, scheme),
           [=](int64_t matrices) {
             return TE_PLAN(dequantize, matrices, rows, cols,
                            isNv ? TE_RT_F4E2M1FN : TE_RT_F8E4M3FN, scheme,
                            axis, 0, isNv ? 448 : 0, TE_RT_BF16);
           },
           {codes(kMatrices * data), scales, isNv ? floats(factors) : Bytes()},
           {false, false, false},
           {size_t(rows * cols * 2)}});
    }
}

TEST_P(Stack, Alphas) {
  check({"nvfp4_alpha",
         [=](int64_t matrices) {
           return TE_PLAN(nvfp4_alpha, matrices, 2, 448, 256);
         },
         {floats({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}),
          floats({0.5f, 7.0f, 1e-3f})},
         {false, false},
         {8}});
}

/// Long rows, which are the matrices of a stack, have the same amax as any row.
TEST_P(Stack, AmaxOfLongRows) {
  for (int64_t cols : {16384, 20001}) {
    Bytes x;
    for (const char *kind : {"wide", "inf", "nan"}) {
      const Array row = makeArray(kind, TE_RT_BF16, cols);
      x.insert(x.end(), row.bytes.begin(), row.bytes.end());
    }
    check({"amax_rows " + std::to_string(cols),
           [=](int64_t rows) {
             return TE_PLAN(amax_rows, rows, cols, TE_RT_BF16);
           },
           {x},
           {false},
           {4}});
    const std::vector<Bytes> all =
        run(TE_PLAN(amax_rows, kMatrices, cols, TE_RT_BF16), {x}, {12}, 0);
    for (int64_t row = 0; row < kMatrices; ++row) {
      const Bytes one(x.begin() + row * cols * 2,
                      x.begin() + (row + 1) * cols * 2);
      EXPECT_EQ(
          run(TE_PLAN(amax, cols, TE_RT_BF16, TE_RT_BF16), {one}, {4}, 0)[0],
          Bytes(all[0].begin() + row * 4, all[0].begin() + (row + 1) * 4));
    }
  }
}

TE_FOR_EACH_BACKEND(Stack);

} // namespace
