//===- Oracle.h - what the kernels must give, from the definitions --------===//
//
// The oracle is written from the definitions of the formats and recipes,
// without code of lib/. The nearest 8-bit float is found by searching a table
// of decoded values, and roundings are done in f64, where all products and sums
// that are used here are exact.
//
//===----------------------------------------------------------------------===//

#ifndef TE_CONFORMANCE_ORACLE_H
#define TE_CONFORMANCE_ORACLE_H

#include "TEDialect/Runtime/te_runtime_types.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace te::conformance {

int64_t elementBytes(int32_t type);
/// The largest finite value of a type.
double maxFiniteOf(int32_t type);
/// The unit roundoff of a type: half of the distance from 1 to the next larger
/// value.
double unitRoundoff(int32_t type);

/// Rounds to nearest even in a 2- or 4-byte type; overflow gives infinity.
double roundTo(int32_t type, double value);
/// The nearest 8-bit code, saturating; NaN is 0x7f.
uint8_t encodeFp8(int32_t type, double value);
double decode(int32_t type, uint32_t bits);

/// An array of a type that is chosen at run time.
struct Array {
  Array() = default;
  Array(int32_t type, size_t count);
  /// Rounds every value to the type.
  Array(int32_t type, const std::vector<double> &values);

  double at(size_t i) const;
  void set(size_t i, double value);
  size_t size() const { return bytes.size() / elementBytes(type); }

  int32_t type = TE_RT_F32;
  std::vector<uint8_t> bytes;
};

/// Fatal unless |actual - expected| <= bound + one rounding to the type of
/// `actual`.
void expectNear(double expected, double bound, const Array &actual, size_t i,
                const char *what);
/// Whether both have the same bits, or both are NaN.
testing::AssertionResult sameBits(const Array &expected, const Array &actual);

/// Kinds of input: "normal", "zeros", "inf", "nan", "negzero" (zeros of both
/// signs and normals), "subnormal", "huge" (up to the largest finite value),
/// "wide" (magnitudes over 60 binary orders).
std::vector<double> makeValues(const std::string &kind, int32_t type,
                               size_t count, uint32_t seed);
Array makeArray(const std::string &kind, int32_t type, size_t count,
                uint32_t seed = 1);

/// Every te_rt_activation, with arguments for the parameters, which only
/// clamped_swiglu reads.
inline constexpr int32_t kActivations[] = {
    TE_RT_GELU,           TE_RT_SILU,     TE_RT_RELU,
    TE_RT_QGELU,          TE_RT_SRELU,    TE_RT_GELU_ERF,
    TE_RT_SWIGLU,         TE_RT_GEGLU,    TE_RT_GLU,
    TE_RT_QGEGLU,         TE_RT_REGLU,    TE_RT_SREGLU,
    TE_RT_CLAMPED_SWIGLU, TE_RT_GEGLU_ERF};
#define TE_CLAMP 1.25f, 1.702f, 1.0f
inline bool isGated(int32_t activation) { return activation >= TE_RT_SWIGLU; }

/// The scale rule of the recipes.
float scaleOf(float amax, int32_t fp8Type, bool pow2, float epsilon,
              double valueForInf);

/// One usage of a block-quantised matrix.
struct Quantised {
  std::vector<uint8_t> data;
  std::vector<float> scale;
};
/// The usage along axis 1 (row) or 0 (col) of x[rows, cols].
Quantised quantiseBlocks(const Array &x, int64_t rows, int64_t cols, int axis,
                         int32_t fp8Type, int32_t scheme, bool pow2,
                         float epsilon);
/// The number of scales of a stored [outer, inner] value.
int64_t scaleCount(int32_t scheme, int64_t outer, int64_t inner);
int64_t scaleIndex(int32_t scheme, int64_t outer, int64_t inner, int64_t o,
                   int64_t i);

//===----------------------------------------------------------------------===//
// Values with 8-bit scales
//===----------------------------------------------------------------------===//

double e2m1Value(uint32_t code);
double e8m0Value(uint32_t code);

struct Microscaled {
  std::vector<uint8_t> data, scale;
};
/// The same of an mx or nv value along axis 1 (row) or 0 (col).
int64_t microscaleCount(int32_t scheme, int axis, int64_t rows, int64_t cols);
/// The index of the scale of element (r, c), which is not swizzled.
int64_t microscaleIndex(int32_t scheme, int axis, int64_t rows, int64_t cols,
                        int64_t r, int64_t c);
/// The usage along `axis` of x[rows, cols], scheme mx_1x32 or mx_32x32.
Microscaled quantiseMx(const Array &x, int64_t rows, int64_t cols, int axis,
                       int32_t fp8Type, int32_t scheme);

} // namespace te::conformance

#endif // TE_CONFORMANCE_ORACLE_H
