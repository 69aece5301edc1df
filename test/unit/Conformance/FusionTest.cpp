//===- FusionTest.cpp - fused kernels equal their parts, bit for bit ------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_BF16, TE_RT_F32, TE_RT_F16};
constexpr struct {
  int64_t rows, cols;
} kShapes[] = {{1, 16}, {64, 128}, {130, 272}, {256, 384}};

/// A cast: with 1x128 blocks, or with a scale, which also measures the amax.
struct Cast {
  int32_t scheme, pow2;
};
constexpr Cast kCasts[] = {
    {TE_RT_BLOCK_1X128, 0}, {TE_RT_BLOCK_1X128, 1}, {TE_RT_PER_TENSOR, 0}};

class Fusion : public BackendTest {
protected:
  /// What a cast writes.
  struct Usages {
    Usages(const Cast &cast, int64_t rows, int64_t cols)
        : isPerTensor(cast.scheme == TE_RT_PER_TENSOR), row(rows * cols),
          col(rows * cols), rowScale(scaleCount(cast.scheme, rows, cols)),
          colScale(scaleCount(cast.scheme, cols, rows)), amax(1) {}
    bool operator==(const Usages &) const = default;

    /// The buffers of a fused launch that reads `inputs`.
    std::vector<Buffer> buffers(std::vector<Buffer> inputs,
                                const std::vector<float> &scale) {
      const Buffer rest[] = {isPerTensor ? in(scale) : none(),
                             out(row),
                             out(rowScale),
                             out(col),
                             out(colScale),
                             isPerTensor ? out(amax) : none()};
      inputs.insert(inputs.end(), std::begin(rest), std::end(rest));
      return inputs;
    }

    bool isPerTensor;
    std::vector<uint8_t> row, col;
    std::vector<float> rowScale, colScale, amax;
  };

  Usages quantise(const Array &x, int64_t rows, int64_t cols, int32_t fp8Type,
                  const Cast &cast) {
    return quantise(x, rows, cols, fp8Type, cast, scale);
  }
  Usages quantise(const Array &x, int64_t rows, int64_t cols, int32_t fp8Type,
                  const Cast &cast, const std::vector<float> &scale) {
    Usages u(cast, rows, cols);
    if (u.isPerTensor)
      device().run(TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols, x.type,
                           x.type, fp8Type, 0, 0, 0.0f),
                   {in(x.bytes), in(scale), out(u.row), out(u.rowScale),
                    out(u.col), out(u.colScale), out(u.amax)});
    else
      device().run(TE_PLAN(quantize_block, 1, rows, cols, rows, cols, x.type,
                           x.type, fp8Type, cast.scheme, cast.pow2, 0.0f),
                   {in(x.bytes), out(u.row), out(u.rowScale), out(u.col),
                    out(u.colScale)});
    return u;
  }

  struct Input {
    int64_t rows, cols;
    int32_t kind, type;
    const char *values;
  };
  /// Types alternate, so that every three of shape, kind, type and values occur
  /// together.
  static std::vector<Input> inputs() {
    std::vector<Input> all;
    for (const auto &shape : kShapes)
      for (int32_t kind : kActivations)
        for (const char *values : {"normal", "nan", "inf", "wide"})
          all.push_back(
              {shape.rows, shape.cols, kind, kTypes[all.size() % 3], values});
    return all;
  }

  /// Not powers of two.
  const std::vector<float> scale = {37.4f}, gateScale = {5.3f};

  float amaxOf(const Array &x) {
    std::vector<float> amax(1);
    device().run(TE_PLAN(amax, static_cast<int64_t>(x.size()), x.type, x.type),
                 {in(x.bytes), out(amax)});
    return amax[0];
  }
};

TEST_P(Fusion, Activation) {
  for (const auto &[rows, cols, kind, type, values] : inputs()) {
    const int64_t r = rows, c = cols;
    const int64_t width = isGated(kind) ? 2 * cols : cols;
    const Array x = makeArray(values, type, rows * width);
    Array y(type, rows * cols);
    std::vector<float> amax(1);
    device().run(TE_PLAN(activation, r, c, type, kind, TE_CLAMP),
                 {in(x.bytes), out(y.bytes), out(amax)});
    ASSERT_EQ(amax[0], amaxOf(y));
    for (const Cast &cast : kCasts) {
      Usages fused(cast, rows, cols);
      device().run(TE_PLAN(activation_quantize, r, c, type, kind, TE_CLAMP,
                           TE_RT_F8E4M3FN, cast.scheme, cast.pow2, 0.0f),
                   fused.buffers({in(x.bytes)}, scale));
      ASSERT_TRUE(fused == quantise(y, rows, cols, TE_RT_F8E4M3FN, cast))
          << rows << "x" << cols << " kind " << kind << " type " << type << " "
          << values;
    }
  }
}

TEST_P(Fusion, ActivationBackward) {
  for (const auto &[rows, cols, kind, type, values] : inputs()) {
    const int64_t r = rows, c = cols;
    const int64_t width = isGated(kind) ? 2 * cols : cols;
    const Array x = makeArray(values, type, rows * width, 1);
    const Array dy = makeArray("normal", type, rows * cols, 2);
    Array dx(type, rows * width);
    std::vector<float> amax(1);
    device().run(TE_PLAN(activation_backward, r, c, type, kind, TE_CLAMP),
                 {in(dy.bytes), in(x.bytes), out(dx.bytes), out(amax)});
    ASSERT_EQ(amax[0], amaxOf(dx));
    for (const Cast &cast : kCasts) {
      Usages fused(cast, rows, width);
      device().run(TE_PLAN(activation_backward_quantize, r, c, type, kind,
                           TE_CLAMP, TE_RT_F8E5M2, cast.scheme, cast.pow2,
                           0.0f),
                   fused.buffers({in(dy.bytes), in(x.bytes)}, scale));
      ASSERT_TRUE(fused == quantise(dx, rows, width, TE_RT_F8E5M2, cast))
          << rows << "x" << cols << " kind " << kind << " type " << type << " "
          << values;
    }
  }
}

// Two halves in separate tensors have the results of two halves in one: y, both
// gradients, every amax, and the blocks of y.
TEST_P(Fusion, GatedActivation) {
  for (const auto &[rows, cols, kind, type, values] : inputs()) {
    if (!isGated(kind))
      continue;
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols) + " kind " +
                 std::to_string(kind) + " type " + std::to_string(type) + " " +
                 values);
    const int64_t r = rows, c = cols;
    const Array a = makeArray(values, type, rows * cols, 1);
    const Array b = makeArray(values, type, rows * cols, 3);
    const Array dy = makeArray("normal", type, rows * cols, 2);
    Array x(type, 2 * rows * cols), y(type, rows * cols);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) {
        x.set(2 * cols * i + j, a.at(cols * i + j));
        x.set(2 * cols * i + cols + j, b.at(cols * i + j));
      }
    Array dx(type, 2 * rows * cols), da = y, db = y, apart = y;
    std::vector<float> amax(1), daAmax(1), dbAmax(1), dxAmax(1);
    device().run(TE_PLAN(activation, r, c, type, kind, TE_CLAMP),
                 {in(x.bytes), out(y.bytes), none()});
    device().run(TE_PLAN(gated_activation, r, c, type, kind, TE_CLAMP),
                 {in(a.bytes), in(b.bytes), out(apart.bytes), out(amax)});
    ASSERT_TRUE(sameBits(y, apart));
    ASSERT_EQ(amax[0], amaxOf(y));
    device().run(TE_PLAN(activation_backward, r, c, type, kind, TE_CLAMP),
                 {in(dy.bytes), in(x.bytes), out(dx.bytes), out(dxAmax)});
    device().run(TE_PLAN(gated_activation_backward, r, c, type, kind, TE_CLAMP),
                 {in(dy.bytes), in(a.bytes), in(b.bytes), out(da.bytes),
                  out(db.bytes), out(daAmax), out(dbAmax)});
    Array both(type, 2 * rows * cols);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) {
        both.set(2 * cols * i + j, da.at(cols * i + j));
        both.set(2 * cols * i + cols + j, db.at(cols * i + j));
      }
    ASSERT_TRUE(sameBits(dx, both));
    ASSERT_EQ(daAmax[0], amaxOf(da));
    ASSERT_EQ(dbAmax[0], amaxOf(db));
    ASSERT_EQ(dxAmax[0], amaxOf(dx));
    for (const Cast &cast : kCasts) {
      Usages fused(cast, rows, cols);
      device().run(TE_PLAN(gated_activation_quantize, r, c, type, kind,
                           TE_CLAMP, TE_RT_F8E4M3FN, cast.scheme, cast.pow2,
                           0.0f),
                   fused.buffers({in(a.bytes), in(b.bytes)}, scale));
      ASSERT_TRUE(fused == quantise(y, rows, cols, TE_RT_F8E4M3FN, cast));
      Usages fusedA(cast, rows, cols), fusedB(cast, rows, cols);
      device().run(
          TE_PLAN(gated_activation_backward_quantize, r, c, type, kind,
                  TE_CLAMP, TE_RT_F8E5M2, cast.scheme, cast.pow2, 0.0f),
          fusedB.buffers(
              fusedA.buffers({in(dy.bytes), in(a.bytes), in(b.bytes)}, scale),
              gateScale));
      ASSERT_TRUE(fusedA == quantise(da, rows, cols, TE_RT_F8E5M2, cast));
      ASSERT_TRUE(fusedB ==
                  quantise(db, rows, cols, TE_RT_F8E5M2, cast, gateScale));
    }
  }
}

TE_FOR_EACH_BACKEND(Fusion);

} // namespace
