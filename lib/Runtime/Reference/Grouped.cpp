//===- Grouped.cpp - kernels of groups of rows on the reference backend ---===//
//
// Each group is computed by itself: its operands are cut out of the whole
// values, the kernel for one matrix runs on them, and its rows are copied back.
// A group therefore has the bits of a layer that gets only its rows.
//
//===----------------------------------------------------------------------===//

#include "Core/GroupLayout.h"
#include "Reference/Reference.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace te::rt::reference {

namespace {

/// Calls body(g, group) for every group.
template <typename Params, typename Body>
void forEachGroup(const Params &p, const void *sizes, Body body) {
  const auto *size = static_cast<const int32_t *>(sizes);
  int64_t begin = 0;
  for (int64_t g = 0; g < p.groups; ++g) {
    const GroupRows group = groupRows(begin, size[g], p.rows, p.alignment);
    body(g, group);
    begin = group.next;
  }
}

/// `rows` rows of `rowBytes` bytes, of which those outside [begin, end) of the
/// groups become 0.
template <typename Params>
void zeroPadding(const Params &p, const void *sizes, void *data,
                 int64_t rowBytes) {
  auto *bytes = static_cast<char *>(data);
  int64_t done = 0;
  forEachGroup(p, sizes, [&](int64_t, GroupRows group) {
    std::fill(bytes + done * rowBytes, bytes + group.begin * rowBytes, 0);
    done = group.end;
  });
  std::fill(bytes + done * rowBytes, bytes + p.rows * rowBytes, 0);
}

void *offset(void *data, int64_t bytes) {
  return data ? static_cast<char *>(data) + bytes : nullptr;
}

/// Rows of a scaled value by themselves.
struct ScaledRows {
  std::vector<uint8_t> data, scale;
  std::vector<float> amax;
};

/// A scaled value [rows, cols] in group layout.
struct ScaledMatrix {
  void *data, *scale, *amax;
  int32_t scheme, axis;
  bool rowScaled;
  int64_t rows, cols;

  int64_t bytes(int64_t elements) const {
    return isNv(scheme) ? elements / 2 : elements;
  }
  bool isTransposed() const { return axis == 0 && !isMx(scheme); }

  /// Copies the data of rows [begin, begin + count), of which `part` has only
  /// those, from the value to `part` or back.
  void copyData(int64_t begin, int64_t count, uint8_t *part,
                bool intoPart) const {
    auto *whole = static_cast<uint8_t *>(data);
    const int64_t lines = isTransposed() ? cols : 1;
    const int64_t wholePitch = bytes(isTransposed() ? rows : rows * cols);
    const int64_t length = bytes(isTransposed() ? count : count * cols);
    const int64_t first = bytes(isTransposed() ? begin : begin * cols);
    for (int64_t line = 0; line < lines; ++line) {
      uint8_t *inWhole = whole + line * wholePitch + first;
      uint8_t *inPart = part + line * length;
      if (length != 0)
        std::memcpy(intoPart ? inPart : inWhole, intoPart ? inWhole : inPart,
                    length);
    }
  }

  /// As copyData, of scales; those of group `g` are its own where the scheme
  /// has one for each tensor.
  void copyScales(int64_t g, int64_t begin, int64_t count, uint8_t *part,
                  bool intoPart) const {
    const int64_t bytes = isMx(scheme) || isNv(scheme) ? 1 : sizeof(float);
    auto *whole = static_cast<uint8_t *>(scale);
    auto copy = [&](int64_t inWhole, int64_t inPart) {
      std::memcpy(intoPart ? part + inPart * bytes : whole + inWhole * bytes,
                  intoPart ? whole + inWhole * bytes : part + inPart * bytes,
                  bytes);
    };
    if (scheme == TE_RT_PER_TENSOR)
      return copy(g, 0);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t c = 0; c < cols; ++c)
        copy(scaleIndex(rows, begin + r, c), scaleIndex(count, r, c));
  }

  int64_t scaleIndex(int64_t height, int64_t r, int64_t c) const {
    if (isMx(scheme) || isNv(scheme))
      return MicroscaleLayout(scheme, axis, height, cols).index(r, c);
    return axis == 1 ? ScaleLayout(scheme, height, cols).index(r, c)
                     : ScaleLayout(scheme, cols, height).index(c, r);
  }
  int64_t scaleBytes(int64_t height) const {
    if (isMx(scheme) || isNv(scheme))
      return MicroscaleLayout(scheme, axis, height, cols).size();
    return sizeof(float) * (axis == 1 ? ScaleLayout(scheme, height, cols)
                                      : ScaleLayout(scheme, cols, height))
                               .size();
  }

  /// Rows [begin, begin + count) of group `g`.
  ScaledRows cut(int64_t g, int64_t begin, int64_t count) const {
    ScaledRows part;
    part.data.resize(bytes(count * cols));
    copyData(begin, count, part.data.data(), /*intoPart=*/true);
    part.scale.assign(scaleBytes(count), 0);
    copyScales(g, begin, count, part.scale.data(), /*intoPart=*/true);
    if (const auto *from = static_cast<const float *>(amax))
      part.amax = rowScaled ? std::vector(from + begin, from + begin + count)
                            : std::vector(from + g, from + g + 1);
    return part;
  }
};

/// Rows that a block along the rows spans; 1 if there is none.
int64_t rowBlock(int32_t scheme) {
  if (isMx(scheme))
    return 32;
  if (isNv(scheme))
    return 16;
  return scheme == TE_RT_PER_TENSOR ? 1 : 128;
}

/// One matrix of a weight [groups, rows, cols].
ScaledRows cutWeight(void *const *buffers, int data, int scale, int amax,
                     int32_t scheme, int32_t axis, int64_t g, int64_t rows,
                     int64_t cols) {
  ScaledMatrix one{nullptr, nullptr, nullptr, scheme, axis, false, rows, cols};
  const int64_t dataBytes = one.bytes(rows * cols),
                scaleBytes = one.scaleBytes(rows);
  const auto *from =
      static_cast<const uint8_t *>(buffers[data]) + g * dataBytes;
  const auto *scales =
      static_cast<const uint8_t *>(buffers[scale]) + g * scaleBytes;
  ScaledRows part{{from, from + dataBytes}, {scales, scales + scaleBytes}, {}};
  if (isNv(scheme))
    part.amax = {static_cast<const float *>(buffers[amax])[g]};
  return part;
}

void *amaxOrNull(ScaledRows &part) {
  return part.amax.empty() ? nullptr : part.amax.data();
}

} // namespace

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

void grouped_amax(const grouped_amax_params &p, void *const *buffers) {
  namespace b = grouped_amax_buffers;
  auto *result = static_cast<float *>(buffers[b::amax]);
  forEachGroup(p, buffers[b::group_sizes], [&](int64_t g, GroupRows group) {
    result[g] = 0.0f;
    for (int64_t i = group.begin * p.cols; i < group.end * p.cols; ++i)
      result[g] = maxMagnitude(result[g], load(buffers[b::x], i, p.type));
  });
}

void grouped_round_sizes(const grouped_round_sizes_params &p,
                         void *const *buffers) {
  namespace b = grouped_round_sizes_buffers;
  const auto *size = static_cast<const int32_t *>(buffers[b::group_sizes]);
  auto *rounded = static_cast<int32_t *>(buffers[b::rounded]);
  for (int64_t g = 0; g < p.groups; ++g)
    rounded[g] = roundGroupSize(size[g], p.multiple);
}

void grouped_zero_padding(const grouped_zero_padding_params &p,
                          void *const *buffers) {
  namespace b = grouped_zero_padding_buffers;
  const int64_t rowBytes = p.cols * byteSize(p.type);
  if (p.rows * rowBytes != 0)
    std::memmove(buffers[b::y], buffers[b::x], p.rows * rowBytes);
  zeroPadding(p, buffers[b::group_sizes], buffers[b::y], rowBytes);
}

void grouped_quantize_tensor(const grouped_quantize_tensor_params &p,
                             void *const *buffers) {
  namespace b = grouped_quantize_tensor_buffers;
  const auto *scale = static_cast<const float *>(buffers[b::scale]);
  for (auto [data, scaleInv, axis] :
       {std::tuple(+b::row, +b::row_scale, 1), {+b::col, +b::col_scale, 0}}) {
    for (int64_t g = 0; buffers[scaleInv] && g < p.groups; ++g)
      static_cast<float *>(buffers[scaleInv])[g] = 1.0f / scale[g];
    if (!buffers[data])
      continue;
    std::fill_n(static_cast<uint8_t *>(buffers[data]), p.rows * p.cols, 0);
    forEachGroup(p, buffers[b::group_sizes], [&](int64_t g, GroupRows group) {
      for (int64_t r = group.begin; r < group.end; ++r)
        for (int64_t c = 0; c < p.cols; ++c)
          store(buffers[data], axis == 1 ? r * p.cols + c : c * p.rows + r,
                load(buffers[b::x], r * p.cols + c, p.type) * scale[g],
                p.fp8_type);
    });
  }
}

void grouped_quantize_nvfp4(const grouped_quantize_nvfp4_params &p,
                            void *const *buffers) {
  namespace b = grouped_quantize_nvfp4_buffers;
  const auto *amax = static_cast<const float *>(buffers[b::amax]);
  // The whole matrix as if all of it had a group's amax, of which the rows of
  // the group are kept: the random bits of an element depend on its place.
  std::vector<char> x(p.rows * p.cols * byteSize(p.type));
  if (!x.empty())
    std::memcpy(x.data(), buffers[b::x], x.size());
  zeroPadding(p, buffers[b::group_sizes], x.data(), p.cols * byteSize(p.type));
  for (auto [data, scale, copied, axis] :
       {std::tuple(+b::row, +b::row_scale, +b::row_amax, 1),
        {+b::col, +b::col_scale, +b::col_amax, 0}}) {
    if (buffers[copied])
      std::memcpy(buffers[copied], amax, p.groups * sizeof(float));
    if (!buffers[data] && !buffers[scale])
      continue;
    ScaledMatrix out{buffers[data], buffers[scale], nullptr, TE_RT_NV_1X16,
                     axis,          false,          p.rows,  p.cols};
    std::vector<uint8_t> wholeData(out.bytes(p.rows * p.cols)),
        wholeScale(out.scaleBytes(p.rows));
    for (auto [index, size] : {std::pair(data, wholeData.size()),
                               std::pair(scale, wholeScale.size())})
      if (buffers[index])
        std::fill_n(static_cast<uint8_t *>(buffers[index]), size, 0);
    forEachGroup(p, buffers[b::group_sizes], [&](int64_t g, GroupRows group) {
      float one = amax[g];
      void *arguments[quantize_nvfp4_buffers::count_] = {};
      arguments[quantize_nvfp4_buffers::x] = x.data();
      arguments[quantize_nvfp4_buffers::amax] = &one;
      arguments[quantize_nvfp4_buffers::rng] = buffers[b::rng];
      arguments[axis == 1 ? quantize_nvfp4_buffers::row
                          : quantize_nvfp4_buffers::col] = wholeData.data();
      arguments[axis == 1 ? quantize_nvfp4_buffers::row_scale
                          : quantize_nvfp4_buffers::col_scale] =
          wholeScale.data();
      quantize_nvfp4({1, p.rows, p.cols, p.rows, p.cols, p.type, TE_RT_NV_1X16,
                      0, p.scale_max, p.four_over_six, p.stochastic, p.stream},
                     arguments);
      const ScaledMatrix whole{wholeData.data(),
                               wholeScale.data(),
                               nullptr,
                               TE_RT_NV_1X16,
                               axis,
                               false,
                               p.rows,
                               p.cols};
      const int64_t count = group.next - group.begin;
      ScaledRows part = whole.cut(g, group.begin, count);
      if (buffers[data])
        out.copyData(group.begin, count, part.data.data(), /*intoPart=*/false);
      if (buffers[scale])
        out.copyScales(g, group.begin, count, part.scale.data(),
                       /*intoPart=*/false);
    });
  }
}

void grouped_dequantize(const grouped_dequantize_params &p,
                        void *const *buffers) {
  namespace b = grouped_dequantize_buffers;
  const ScaledMatrix q{
      buffers[b::data], buffers[b::scale], buffers[b::amax], p.scheme,
      p.axis,           p.row_scaled != 0, p.rows,           p.cols};
  const int64_t rowBytes = p.cols * byteSize(p.out_type);
  std::fill_n(static_cast<char *>(buffers[b::out]), p.rows * rowBytes, 0);
  forEachGroup(p, buffers[b::group_sizes], [&](int64_t g, GroupRows group) {
    // Whole blocks of nv, which the alignment is a multiple of.
    const int64_t count =
        std::min(roundUp(group.end - group.begin, rowBlock(p.scheme)),
                 p.rows - group.begin);
    ScaledRows part = q.cut(g, group.begin, count);
    std::vector<char> out(count * rowBytes);
    void *arguments[] = {part.data.data(), part.scale.data(), amaxOrNull(part),
                         out.data()};
    dequantize({1, count, p.cols, p.fp8_type, p.scheme, p.axis, p.row_scaled,
                p.scale_max, p.out_type},
               arguments);
    std::copy_n(out.begin(), (group.end - group.begin) * rowBytes,
                static_cast<char *>(buffers[b::out]) + group.begin * rowBytes);
  });
}

void grouped_bias_grad(const grouped_bias_grad_params &p,
                       void *const *buffers) {
  namespace b = grouped_bias_grad_buffers;
  forEachGroup(p, buffers[b::group_sizes], [&](int64_t g, GroupRows group) {
    void *arguments[] = {
        offset(buffers[b::dy], group.begin * p.cols * byteSize(p.type)),
        offset(buffers[b::db], g * p.cols * byteSize(p.out_type))};
    bias_grad({group.end - group.begin, p.cols, p.type, p.out_type}, arguments);
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {
/// What the gradients of groups, of `bytes` each, are added to: c, zeros where
/// `keep` says so, or nothing.
class Summand {
public:
  Summand(void *c, const void *keep, int64_t bytes) : c(c), bytes(bytes) {
    if (c && keep && *static_cast<const float *>(keep) != 1.0f)
      zeros.resize(bytes);
  }
  void *of(int64_t g) {
    return zeros.empty() ? offset(c, g * bytes) : zeros.data();
  }

private:
  void *c;
  int64_t bytes;
  std::vector<char> zeros;
};
} // namespace

/// The gradient of a group without rows: c, or zeros.
static void startFrom(void *out, const void *c, int64_t bytes) {
  if (!c)
    std::fill_n(static_cast<char *>(out), bytes, 0);
  else if (bytes != 0)
    std::memmove(out, c, bytes);
}

void grouped_matmul(const grouped_matmul_params &p, void *const *buffers) {
  namespace b = grouped_matmul_buffers;
  const int64_t bytes = byteSize(p.type), outBytes = byteSize(p.out_type);
  zeroPadding(p, buffers[b::group_sizes], buffers[b::out], p.n * outBytes);
  forEachGroup(p, buffers[b::group_sizes], [&](int64_t g, GroupRows group) {
    void *arguments[matmul_buffers::count_] = {};
    arguments[matmul_buffers::a] =
        offset(buffers[b::a], group.begin * p.k * bytes);
    arguments[matmul_buffers::b] = offset(buffers[b::b], g * p.n * p.k * bytes);
    arguments[matmul_buffers::alpha] =
        offset(buffers[b::alpha], g * sizeof(float));
    arguments[matmul_buffers::bias] = offset(buffers[b::bias], g * p.n * bytes);
    arguments[matmul_buffers::out] =
        offset(buffers[b::out], group.begin * p.n * outBytes);
    matmul(
        {group.end - group.begin, p.n, p.k, 0, p.trans_b, p.type, p.out_type},
        arguments);
  });
}

void grouped_wgrad(const grouped_wgrad_params &p, void *const *buffers) {
  namespace b = grouped_wgrad_buffers;
  const int64_t bytes = byteSize(p.type), outBytes = byteSize(p.out_type);
  Summand summand(buffers[b::c], buffers[b::keep], p.m * p.n * outBytes);
  forEachGroup(p, buffers[b::group_sizes], [&](int64_t g, GroupRows group) {
    void *c = summand.of(g);
    void *out = offset(buffers[b::out], g * p.m * p.n * outBytes);
    if (group.begin == group.end)
      return startFrom(out, c, p.m * p.n * outBytes);
    void *arguments[matmul_buffers::count_] = {};
    arguments[matmul_buffers::a] =
        offset(buffers[b::a], group.begin * p.m * bytes);
    arguments[matmul_buffers::b] =
        offset(buffers[b::b], group.begin * p.n * bytes);
    arguments[matmul_buffers::alpha] =
        offset(buffers[b::alpha], g * sizeof(float));
    arguments[matmul_buffers::c] = c;
    arguments[matmul_buffers::out] = out;
    matmul({p.m, p.n, group.end - group.begin, 1, 1, p.type, p.out_type},
           arguments);
  });
}

void grouped_scaled_matmul(const grouped_scaled_matmul_params &p,
                           void *const *buffers) {
  namespace b = grouped_scaled_matmul_buffers;
  namespace one = scaled_matmul_buffers;
  const ScaledMatrix a{buffers[b::a],
                       buffers[b::a_scale],
                       buffers[b::a_amax],
                       p.a_scheme,
                       1,
                       p.a_row_scaled != 0,
                       p.rows,
                       p.k};
  const int64_t outBytes = byteSize(p.out_type);
  zeroPadding(p, buffers[b::group_sizes], buffers[b::out], p.n * outBytes);
  const bool bTransposed = isMx(p.b_scheme) && p.b_axis == 0;
  forEachGroup(p, buffers[b::group_sizes], [&](int64_t g, GroupRows group) {
    const int64_t count = group.end - group.begin;
    ScaledRows rows = a.cut(g, group.begin, count);
    ScaledRows weight = bTransposed
                            ? cutWeight(buffers, b::b, b::b_scale, b::b_amax,
                                        p.b_scheme, 0, g, p.k, p.n)
                            : cutWeight(buffers, b::b, b::b_scale, b::b_amax,
                                        p.b_scheme, 1, g, p.n, p.k);
    void *arguments[one::count_] = {};
    arguments[one::a] = rows.data.data();
    arguments[one::a_scale] = rows.scale.data();
    arguments[one::a_amax] = amaxOrNull(rows);
    arguments[one::b] = weight.data.data();
    arguments[one::b_scale] = weight.scale.data();
    arguments[one::b_amax] = amaxOrNull(weight);
    arguments[one::bias] =
        offset(buffers[b::bias], g * p.n * byteSize(TE_RT_BF16));
    arguments[one::out] = offset(buffers[b::out], group.begin * p.n * outBytes);
    scaled_matmul({count, p.n, p.k, p.a_type, p.a_scheme, p.b_type, p.b_scheme,
                   p.out_type, p.fast_accumulation, 1, bTransposed ? 0 : 1, 0,
                   p.a_row_scaled, p.a_scale_max, p.b_scale_max},
                  arguments);
  });
}

void grouped_scaled_wgrad(const grouped_scaled_wgrad_params &p,
                          void *const *buffers) {
  namespace b = grouped_scaled_wgrad_buffers;
  namespace one = scaled_matmul_buffers;
  auto value = [&](int data, int scale, int amax, int32_t scheme,
                   int64_t cols) {
    return ScaledMatrix{buffers[data], buffers[scale], buffers[amax], scheme, 0,
                        false,         p.rows,         cols};
  };
  const ScaledMatrix a = value(b::a, b::a_scale, b::a_amax, p.a_scheme, p.m);
  const ScaledMatrix w = value(b::b, b::b_scale, b::b_amax, p.b_scheme, p.n);
  const int64_t bytes = p.m * p.n * byteSize(p.out_type);
  // Rows are contracted: those of mx values are stored as in a single matrix.
  const int32_t axis = isMx(p.a_scheme) ? 0 : 1;
  Summand summand(buffers[b::c], buffers[b::keep], bytes);
  forEachGroup(p, buffers[b::group_sizes], [&](int64_t g, GroupRows group) {
    void *out = offset(buffers[b::out], g * bytes);
    void *c = summand.of(g);
    if (group.begin == group.end)
      return startFrom(out, c, bytes);
    const int64_t count =
        std::min(roundUp(group.end - group.begin, rowBlock(p.a_scheme)),
                 p.rows - group.begin);
    ScaledRows left = a.cut(g, group.begin, count);
    ScaledRows right = w.cut(g, group.begin, count);
    void *arguments[one::count_] = {};
    arguments[one::a] = left.data.data();
    arguments[one::a_scale] = left.scale.data();
    arguments[one::a_amax] = amaxOrNull(left);
    arguments[one::b] = right.data.data();
    arguments[one::b_scale] = right.scale.data();
    arguments[one::b_amax] = amaxOrNull(right);
    arguments[one::c] = c;
    arguments[one::out] = out;
    scaled_matmul({p.m, p.n, count, p.a_type, p.a_scheme, p.b_type, p.b_scheme,
                   p.out_type, p.fast_accumulation, axis, axis, 0, 0,
                   p.a_scale_max, p.b_scale_max},
                  arguments);
  });
}

} // namespace te::rt::reference
