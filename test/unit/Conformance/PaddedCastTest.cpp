//===- PaddedCastTest.cpp - casts that write the zeros of padding ---------===//
//
// A cast of x[x_rows, x_cols] to [rows, cols] has the bytes of the cast of x
// with zeros after its rows and columns, and reads nothing behind x.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cstring>
#include <functional>

using namespace te::conformance;

namespace {

using Bytes = std::vector<uint8_t>;

struct Shape {
  int64_t xRows, xCols, rows, cols;
};

struct Case {
  std::string name;
  std::function<PlanFunction(int64_t xRows, int64_t xCols)> plan;
  int32_t type;
  std::vector<Bytes> inputs;   // after x
  std::vector<size_t> outputs; // bytes for all matrices
};

class PaddedCast : public BackendTest {
protected:
  static constexpr int64_t kMatrices = 2;

  std::vector<Bytes> run(const PlanFunction &plan, const Bytes &x,
                         const Case &test, int offset) {
    std::vector<Bytes> results;
    for (size_t bytes : test.outputs)
      results.emplace_back(bytes, 0xee);
    std::vector<Buffer> buffers = {in(x)};
    for (const Bytes &input : test.inputs)
      buffers.push_back(input.empty() ? none() : in(input));
    for (Bytes &result : results)
      buffers.push_back(result.empty() ? none()
                                       : unaligned(out(result), offset));
    buffers.push_back(none()); // skip
    device().run(plan, buffers);
    return results;
  }

  void check(const Case &test, const Shape &s) {
    const size_t element = test.type == TE_RT_F32 ? 4 : 2;
    Bytes x, padded;
    for (const char *kind : {"wide", "nan"}) {
      const Array matrix = makeArray(kind, test.type, s.xRows * s.xCols);
      x.insert(x.end(), matrix.bytes.begin(), matrix.bytes.end());
      Bytes whole(s.rows * s.cols * element, 0);
      for (int64_t r = 0; r < s.xRows && s.xCols != 0; ++r)
        std::memcpy(whole.data() + r * s.cols * element,
                    matrix.bytes.data() + r * s.xCols * element,
                    s.xCols * element);
      padded.insert(padded.end(), whole.begin(), whole.end());
    }
    for (int offset : {0, 4}) {
      const auto expected =
          run(test.plan(s.rows, s.cols), padded, test, offset);
      const auto found = run(test.plan(s.xRows, s.xCols), x, test, offset);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(expected[i], found[i])
            << test.name << ", output " << i << ", " << s.xRows << "x"
            << s.xCols << " to " << s.rows << "x" << s.cols << ", offset "
            << offset;
    }
  }

  static Bytes floats(std::vector<float> values) {
    Bytes bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
};

constexpr Shape kShapes[] = {{3, 128, 16, 128},    {130, 256, 144, 256},
                             {128, 50, 128, 64},   {50, 37, 64, 48},
                             {256, 200, 272, 256}, {0, 32, 16, 32},
                             {300, 264, 304, 272}};

TEST_P(PaddedCast, TensorsAndBlocks) {
  for (const Shape &s : kShapes)
    for (int32_t type : {TE_RT_BF16, TE_RT_F16, TE_RT_F32}) {
      const size_t all = kMatrices * s.rows * s.cols;
      for (size_t amax : {0, 4})
        check({"quantize_tensor",
               [=](int64_t xRows, int64_t xCols) {
                 return TE_PLAN(quantize_tensor, kMatrices, s.rows, s.cols,
                                xRows, xCols, type, type, TE_RT_F8E4M3FN, 0, 0,
                                0.0f);
               },
               type,
               {floats({7.3f, 0.01f})},
               {all, kMatrices * 4, all, kMatrices * 4, kMatrices * amax}},
              s);
      for (int32_t scheme : {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128}) {
        auto scales = [=](int64_t outer, int64_t inner) {
          return size_t(kMatrices * scaleCount(scheme, outer, inner)) * 4;
        };
        check({"quantize_block",
               [=](int64_t xRows, int64_t xCols) {
                 return TE_PLAN(quantize_block, kMatrices, s.rows, s.cols,
                                xRows, xCols, type, type, TE_RT_F8E5M2, scheme,
                                1, 0.0f);
               },
               type,
               {},
               {all, scales(s.rows, s.cols), all, scales(s.cols, s.rows)}},
              s);
      }
    }
}

TEST_P(PaddedCast, Microscaled) {
  for (const Shape &s :
       {Shape{3, 64, 32, 64}, Shape{130, 128, 160, 128}, Shape{96, 50, 96, 64},
        Shape{33, 37, 64, 64}, Shape{128, 200, 160, 224}})
    for (int32_t type : {TE_RT_BF16, TE_RT_F32}) {
      const size_t all = kMatrices * s.rows * s.cols;
      auto scales = [=](int32_t scheme, int axis) {
        return size_t(kMatrices *
                      microscaleCount(scheme, axis, s.rows, s.cols));
      };
      for (int32_t scheme : {TE_RT_MX_1X32, TE_RT_MX_32X32})
        check({"quantize_mx",
               [=](int64_t xRows, int64_t xCols) {
                 return TE_PLAN(quantize_mx, kMatrices, s.rows, s.cols, xRows,
                                xCols, type, TE_RT_F8E4M3FN, scheme);
               },
               type,
               {},
               {all, scales(scheme, 1), all, scales(scheme, 0)}},
              s);
      for (int32_t scheme : {TE_RT_NV_1X16, TE_RT_NV_16X16})
        for (int32_t fourOverSix : {0, 1})
          check({"quantize_nvfp4",
                 [=](int64_t xRows, int64_t xCols) {
                   return TE_PLAN(quantize_nvfp4, kMatrices, s.rows, s.cols,
                                  xRows, xCols, type, scheme, 0, 448,
                                  fourOverSix, 0, 0);
                 },
                 type,
                 {floats({3.5f, 1e30f}), {}},
                 {all / 2, scales(scheme, 1), kMatrices * 4, all / 2,
                  scales(scheme, 0), kMatrices * 4}},
                s);
    }
}

TE_FOR_EACH_BACKEND(PaddedCast);

} // namespace
