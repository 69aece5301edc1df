//===- Capabilities.cpp - what may be planned, on every backend -----------===//
//
// See Capabilities.h. Each rule is a list of named checks; the first that does
// not hold is the answer.
//
//===----------------------------------------------------------------------===//

#include "Core/Capabilities.h"

#include "Core/Math.h"
#include "TEDialect/Support/SupportTable.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace te::rt {

namespace support = te_table;

namespace {

using support::schemeName;
using support::typeName;

/// Collects the first violation.
class Checks {
public:
  Checks &type(const char *name, int32_t value,
               std::initializer_list<int32_t> allowed) {
    std::string list;
    for (int32_t each : allowed) {
      if (each == value)
        return *this;
      list += (list.empty() ? "" : ", ") + typeName(each);
    }
    return expected(std::string("'") + name + "' to be one of " + list,
                    typeName(value));
  }
  Checks &wide(const char *name, int32_t value) {
    return type(name, value, {TE_RT_F32, TE_RT_BF16, TE_RT_F16});
  }
  Checks &fp8(const char *name, int32_t value) {
    return type(name, value, {TE_RT_F8E4M3FN, TE_RT_F8E5M2});
  }
  Checks &size(const char *name, int64_t value) {
    return value >= 0
               ? *this
               : expected(std::string("'") + name + "' to be zero or more",
                          std::to_string(value));
  }
  Checks &positive(const char *name, int64_t value) {
    return value > 0 ? *this
                     : expected(std::string("'") + name + "' to be one or more",
                                std::to_string(value));
  }
  Checks &multiple(const char *name, int64_t value, int64_t of) {
    return value % of == 0
               ? *this
               : expected(std::string("'") + name + "' to be a multiple of " +
                              std::to_string(of),
                          std::to_string(value));
  }
  Checks &flag(const char *name, int32_t value) {
    return value == 0 || value == 1
               ? *this
               : expected(std::string("'") + name + "' to be 0 or 1",
                          std::to_string(value));
  }
  Checks &scheme(const char *name, int32_t value, int32_t from, int32_t to) {
    return value >= from && value <= to
               ? *this
               : expected(std::string("'") + name + "' to be " +
                              schemeName(from) + " to " + schemeName(to),
                          schemeName(value));
  }
  Checks &activation(int32_t kind) {
    return (kind >= TE_RT_GELU && kind <= TE_RT_GELU_ERF) ||
                   (kind >= TE_RT_SWIGLU && kind <= TE_RT_GEGLU_ERF)
               ? *this
               : expected("'kind' to be gelu (0) to gelu_erf (5) or swiglu "
                          "(16) to geglu_erf (23)",
                          std::to_string(kind));
  }
  /// The largest block scale of an nv value.
  Checks &scaleMax(const char *name, int32_t value) {
    return value == 448 || value == 256
               ? *this
               : expected(std::string("'") + name + "' to be 448 or 256",
                          std::to_string(value));
  }
  /// Zero or a positive finite number.
  Checks &nonNegative(const char *name, float value) {
    return value >= 0.0f && value <= 3.402823466e+38f
               ? *this
               : expected(std::string("'") + name +
                              "' to be finite and zero or more",
                          std::to_string(value));
  }
  Checks &finite(const char *name, float value) {
    return std::isfinite(value)
               ? *this
               : expected(std::string("'") + name + "' to be finite",
                          std::to_string(value));
  }
  Checks &area(const char *names, int64_t rows, int64_t cols) {
    int64_t bytes;
    return !__builtin_mul_overflow(rows, cols, &bytes) &&
                   !__builtin_mul_overflow(bytes, 16, &bytes)
               ? *this
               : expected(std::string(names) + " to fit in memory",
                          std::to_string(rows) + " and " +
                              std::to_string(cols));
  }
  /// A stack of matrices of `elements` each.
  Checks &stack(int64_t matrices, int64_t elements) {
    constexpr int64_t kMost = 4096;
    return require(matrices >= 1 && matrices <= kMost,
                   "'matrices' to be from 1 to " + std::to_string(kMost),
                   std::to_string(matrices))
        .area("'matrices' and the elements of one", matrices, elements);
  }
  Checks &require(bool holds, const std::string &what, const std::string &got,
                  te_rt_status code = TE_RT_INVALID_ARGUMENT) {
    return holds ? *this : expected(what, got, code);
  }
  Checks &transposable(int32_t scheme) {
    return support::isScheme(scheme) ? allowed(support::refuseTranspose(scheme),
                                               TE_RT_INVALID_ARGUMENT)
                                     : *this;
  }
  /// `refusal` is an answer of the support table: empty, or the message.
  Checks &allowed(const std::string &refusal, te_rt_status code) {
    if (!refusal.empty() && !status.failed())
      status = Status(code, refusal);
    return *this;
  }
  bool failed() const { return status.failed(); }

  operator Status() const { return status; }

private:
  Checks &expected(const std::string &what, const std::string &got,
                   te_rt_status code = TE_RT_INVALID_ARGUMENT) {
    if (!status.failed())
      status = Status(code, "expected " + what + ", but got " + got);
    return *this;
  }

  Status status;
};

Checks matrix(int64_t rows, int64_t cols) {
  Checks checks;
  checks.size("rows", rows)
      .size("cols", cols)
      .area("'rows' and 'cols'", rows, cols);
  return checks;
}

/// As `checks`, of a matrix, for a stack of them.
template <typename Params> Checks stackOf(Checks checks, const Params &p) {
  return checks.failed() ? checks : checks.stack(p.matrices, p.rows * p.cols);
}

/// mx and nv values are cut in whole blocks only.
Checks scaledMatrix(int64_t rows, int64_t cols, int32_t scheme) {
  Checks checks = matrix(rows, cols);
  const int64_t block =
      support::isScheme(scheme) ? support::schemeRow(scheme).multiple : 1;
  return checks.multiple("rows", rows, block).multiple("cols", cols, block);
}

/// A matrix of `cols` columns in group layout.
template <typename Params> Checks grouped(const Params &p, int64_t cols) {
  Checks checks;
  checks.size("rows", p.rows)
      .size("cols", cols)
      .area("'rows' and 'cols'", p.rows, cols)
      .positive("groups", p.groups)
      .positive("alignment", p.alignment);
  return checks.failed() ? checks
                         : checks.multiple("rows", p.rows, p.alignment);
}

/// `cols` are the columns of `a`; the product itself is checked by its row for
/// one matrix.
template <typename Params>
Checks checkGroupedProduct(const Params &p, int64_t cols) {
  Checks checks = grouped(p, cols);
  checks.size("n", p.n)
      .area("'rows' and 'n'", p.rows, p.n)
      .scheme("a_scheme", p.a_scheme, TE_RT_PER_TENSOR, TE_RT_NV_16X16);
  return checks.failed()
             ? checks
             : checks.allowed(support::refuseAlignment(p.a_scheme, p.alignment),
                              TE_RT_INVALID_ARGUMENT);
}

/// A scaled value of `rows` by `cols` that is decoded.
template <typename Params> Checks checkCastValue(const Params &p) {
  const bool nv = isNv(p.scheme);
  Checks checks = scaledMatrix(p.rows, p.cols, p.scheme);
  if (nv)
    checks.type("fp8_type", p.fp8_type, {TE_RT_F4E2M1FN})
        .require(p.scale_max == 448 || p.scale_max == 256,
                 "'scale_max' to be 448 or 256", std::to_string(p.scale_max));
  else
    checks.fp8("fp8_type", p.fp8_type)
        .require(p.scale_max == 0, "'scale_max' to be 0 except for nv schemes",
                 std::to_string(p.scale_max));
  return checks.scheme("scheme", p.scheme, TE_RT_PER_TENSOR, TE_RT_NV_16X16)
      .flag("axis", p.axis)
      .flag("row_scaled", p.row_scaled)
      .require(p.row_scaled != 1 || (p.scheme == TE_RT_NV_1X16 && p.axis == 1),
               "'row_scaled' to be 0 except for nv_1x16 along axis 1",
               std::to_string(p.row_scaled));
}

template <typename Params> Checks checkActivation(const Params &p) {
  return matrix(p.rows, p.cols)
      .wide("type", p.type)
      .activation(p.kind)
      .nonNegative("limit", p.limit)
      .finite("alpha", p.alpha)
      .finite("offset", p.offset);
}
template <typename Params> Checks checkActivationQuantize(const Params &p) {
  return checkActivation(p)
      .fp8("fp8_type", p.fp8_type)
      .flag("pow2_scales", p.pow2_scales)
      .nonNegative("amax_epsilon", p.amax_epsilon);
}
template <typename Params> Checks gatedOnly(const Params &p, Checks checks) {
  return checks.require(isGated(p.kind),
                        "'kind' to be a gated one, swiglu (16) to geglu_erf "
                        "(23)",
                        std::to_string(p.kind));
}
/// Of whole sequences of `heads` heads each.
template <typename Params> Checks checkHeads(const Params &p) {
  Checks checks;
  checks.size("tokens", p.tokens)
      .positive("sequence", p.sequence)
      .positive("heads", p.heads)
      .positive("head_dim", p.head_dim)
      .area("'heads' and 'head_dim'", p.heads, p.head_dim);
  if (checks.failed()) // What follows multiplies and divides by these.
    return checks;
  return checks
      .area("'tokens' and 'heads' times 'head_dim'", p.tokens,
            p.heads * p.head_dim)
      .multiple("tokens", p.tokens, p.sequence);
}
template <typename Params> Checks checkAttention(const Params &p) {
  Checks checks = checkHeads(p);
  checks.positive("kv_heads", p.kv_heads);
  if (checks.failed())
    return checks;
  return checks.multiple("heads", p.heads, p.kv_heads)
      .wide("type", p.type)
      .flag("causal", p.causal)
      .require(p.window_left == -1 || (p.window_left >= 0 && p.causal),
               "'window_left' to be -1, or zero or more with 'causal'",
               std::to_string(p.window_left))
      .require(p.scale - p.scale == 0.0f, "'scale' to be finite",
               std::to_string(p.scale))
      .nonNegative("softcap", p.softcap);
}
template <typename Params> Checks checkNorm(const Params &p) {
  return matrix(p.rows, p.cols)
      .wide("type", p.type)
      .nonNegative("epsilon", p.epsilon)
      .flag("zero_centered", p.zero_centered);
}
template <typename Params> Checks checkEmbedding(const Params &p) {
  return Checks()
      .size("tokens", p.tokens)
      .size("vocab", p.vocab)
      .size("hidden", p.hidden)
      .area("'tokens' and 'hidden'", p.tokens, p.hidden)
      .area("'vocab' and 'hidden'", p.vocab, p.hidden)
      .wide("type", p.type);
}
/// Entries, the choices of all tokens, are counted in i32.
template <typename Params> Checks checkEntries(const Params &p) {
  int64_t entries = 0;
  return Checks()
      .size("tokens", p.tokens)
      .positive("k", p.k)
      .require(!__builtin_mul_overflow(p.tokens, p.k, &entries) &&
                   entries <= INT32_MAX,
               "'tokens' times 'k' to be below 2^31",
               std::to_string(p.tokens) + " times " + std::to_string(p.k));
}
template <typename Params> Checks checkMoved(const Params &p) {
  return checkEntries(p)
      .size("rows", p.rows)
      .size("cols", p.cols)
      .area("'rows' and 'cols'", p.rows, p.cols)
      .area("'tokens' and 'cols'", p.tokens, p.cols)
      .wide("type", p.type);
}
template <typename Params> Checks checkRouter(const Params &p) {
  return checkEntries(p)
      .require(p.k <= p.experts, "'k' to be at most 'experts'",
               std::to_string(p.k) + " of " + std::to_string(p.experts))
      .area("'tokens' and 'experts'", p.tokens, p.experts)
      .wide("type", p.type)
      .flag("score", p.score)
      .flag("normalize", p.normalize);
}
template <typename Params> Checks checkCrossEntropy(const Params &p) {
  return Checks()
      .size("tokens", p.tokens)
      .positive("vocab", p.vocab)
      .area("'tokens' and 'vocab'", p.tokens, p.vocab)
      .wide("type", p.type);
}

} // namespace

Status checkSupported(const activation_params &p) { return checkActivation(p); }
Status checkSupported(const activation_backward_params &p) {
  return checkActivation(p);
}
Status checkSupported(const activation_backward_quantize_block_params &p) {
  return checkActivationQuantize(p);
}
Status checkSupported(const activation_quantize_block_params &p) {
  return checkActivationQuantize(p);
}

Status checkSupported(const adamw_params &p) {
  return Checks()
      .size("count", p.count)
      .wide("param_type", p.param_type)
      .wide("grad_type", p.grad_type);
}
Status checkSupported(const sgd_params &p) {
  return Checks()
      .size("count", p.count)
      .wide("param_type", p.param_type)
      .wide("grad_type", p.grad_type);
}

Status checkSupported(const all_gather_params &p) {
  return Checks()
      .size("bytes", p.bytes)
      .positive("ranks", p.ranks)
      .area("'bytes' and 'ranks'", p.bytes, p.ranks);
}
Status checkSupported(const all_reduce_max_params &p) {
  return Checks().size("count", p.count);
}
Status checkSupported(const all_reduce_sum_params &p) {
  return Checks()
      .size("count", p.count)
      .wide("type", p.type)
      .positive("ranks", p.ranks);
}
Status checkSupported(const all_to_all_params &p) {
  return Checks()
      .size("bytes", p.bytes)
      .size("scale_bytes", p.scale_bytes)
      .positive("ranks", p.ranks)
      .area("'bytes' and 'ranks'", p.bytes, p.ranks)
      .area("'scale_bytes' and 'ranks'", p.scale_bytes, p.ranks);
}

Status checkBuffers(const all_to_all_params &p, void *const *buffers) {
  namespace b = all_to_all_buffers;
  if (p.scale_bytes == 0 || (buffers[b::x_scale] && buffers[b::y_scale]))
    return Status::ok();
  return {TE_RT_INVALID_ARGUMENT,
          "expected buffers 'x_scale' and 'y_scale' for 'scale_bytes' " +
              std::to_string(p.scale_bytes) + ", but got null"};
}

/// Of a flat shard of a matrix. `start` leaves room for the parts before.
template <typename Params> static Checks checkShard(const Params &p) {
  constexpr int64_t kMost = int64_t{1} << 60;
  return matrix(p.rows, p.cols)
      .size("count", p.count)
      .positive("ranks", p.ranks)
      .area("'count' and 'ranks'", p.count, p.ranks)
      .require(p.start >= -kMost && p.start <= kMost,
               "'start' to be from -2^60 to 2^60", std::to_string(p.start))
      .wide("type", p.type);
}
Status checkSupported(const partial_amax_params &p) {
  const std::pair blocks(p.block_rows, p.block_cols);
  constexpr std::pair<int64_t, int64_t> kBlocks[] = {
      {128, 128}, {1, 32}, {32, 1}, {32, 32}, {1, 16}, {16, 16}};
  return checkShard(p).require(
      std::find(std::begin(kBlocks), std::end(kBlocks), blocks) !=
          std::end(kBlocks),
      "'block_rows' x 'block_cols' to be 128x128, 1x32, 32x1, 32x32, 1x16 or "
      "16x16",
      std::to_string(p.block_rows) + "x" + std::to_string(p.block_cols));
}
Status checkSupported(const quantize_nvfp4_shard_params &p) {
  return checkShard(p)
      .multiple("count", p.count, 2)
      .multiple("start", p.start, 2)
      .scheme("scheme", p.scheme, TE_RT_NV_1X16, TE_RT_NV_16X16)
      .multiple("rows", p.rows, 16)
      .multiple("cols", p.cols, 16)
      .scaleMax("scale_max", p.scale_max);
}
Status checkSupported(const quantize_shard_params &p) {
  return checkShard(p)
      .fp8("fp8_type", p.fp8_type)
      .scheme("scheme", p.scheme, TE_RT_BLOCK_128X128, TE_RT_MX_32X32)
      .multiple("rows", p.rows, isMx(p.scheme) ? 32 : 1)
      .multiple("cols", p.cols, isMx(p.scheme) ? 32 : 1)
      .flag("axis", p.axis)
      .require(isMx(p.scheme) || p.axis == 1,
               "'axis' to be 1 for block_128x128", std::to_string(p.axis))
      .flag("pow2_scales", p.pow2_scales)
      .nonNegative("amax_epsilon", p.amax_epsilon)
      .require(!isMx(p.scheme) || p.pow2_scales == 0,
               "'pow2_scales' to be 0 for mx schemes",
               std::to_string(p.pow2_scales))
      .require(!isMx(p.scheme) || p.amax_epsilon == 0.0f,
               "'amax_epsilon' to be 0 for mx schemes",
               std::to_string(p.amax_epsilon));
}
Status checkSupported(const reduce_scatter_sum_params &p) {
  return Checks()
      .size("count", p.count)
      .wide("type", p.type)
      .positive("ranks", p.ranks)
      .area("'count' and 'ranks'", p.count, p.ranks);
}
Status checkSupported(const amax_params &p) {
  return Checks().size("count", p.count).wide("type", p.type);
}
Status checkSupported(const amax_rows_params &p) {
  return matrix(p.rows, p.cols).wide("type", p.type);
}
Status checkSupported(const attention_params &p) {
  return checkAttention(p).flag("has_sinks", p.has_sinks);
}
Status checkBuffers(const attention_params &p, void *const *buffers) {
  if (p.has_sinks == 0 || buffers[attention_buffers::sinks])
    return Status::ok();
  return {TE_RT_INVALID_ARGUMENT,
          "expected a buffer 'sinks' for 'has_sinks' 1, but got null"};
}
Status checkSupported(const attention_backward_params &p) {
  return checkAttention(p).flag("deterministic", p.deterministic);
}
Status checkSupported(const attention_sink_grad_params &p) {
  return checkHeads(p).wide("type", p.type);
}
Status checkSupported(const bias_add_params &p) {
  return matrix(p.rows, p.cols).wide("type", p.type);
}
Status checkSupported(const bias_grad_params &p) {
  return matrix(p.rows, p.cols)
      .wide("type", p.type)
      .wide("out_type", p.out_type);
}
Status checkSupported(const block_to_mx_scales_params &p) {
  return Checks()
      .size("outer", p.outer)
      .size("inner", p.inner)
      .area("'outer' and 'inner'", p.outer, p.inner)
      .scheme("scheme", p.scheme, TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128);
}
Status checkSupported(const compute_scale_params &p) {
  return Checks()
      .size("count", p.count)
      .fp8("fp8_type", p.fp8_type)
      .flag("pow2_scales", p.pow2_scales)
      .nonNegative("amax_epsilon", p.amax_epsilon);
}
Status checkSupported(const copy_params &p) {
  return Checks().size("bytes", p.bytes);
}
Status checkSupported(const copy_strided_params &p) {
  return Checks()
      .size("parts", p.parts)
      .size("rows", p.rows)
      .size("bytes", p.bytes)
      .area("'parts' and 'rows'", p.parts, p.rows)
      .area("'rows' and 'bytes'", p.rows, p.bytes)
      .area("'parts' and 'x_part'", p.parts, p.x_part)
      .area("'parts' and 'y_part'", p.parts, p.y_part)
      .size("x_part", p.x_part)
      .size("x_row", p.x_row)
      .size("y_part", p.y_part)
      .size("y_row", p.y_row);
}

Status checkSupported(const count_nonfinite_params &p) {
  return Checks()
      .size("count", p.count)
      .wide("type", p.type)
      .positive("entries", p.entries)
      .area("'entries' and a row of", p.entries, 3)
      .size("index", p.index)
      .require(p.index < p.entries, "'index' to be below 'entries'",
               std::to_string(p.index) + " and " + std::to_string(p.entries))
      .nonNegative("limit", p.limit);
}

Status checkSupported(const cross_entropy_params &p) {
  return checkCrossEntropy(p);
}
Status checkSupported(const cross_entropy_backward_params &p) {
  return checkCrossEntropy(p);
}

Status checkSupported(const delayed_scaling_update_params &p) {
  return Checks()
      .size("slots", p.slots)
      .positive("history_length", p.history_length)
      .area("'history_length' and 'slots'", p.history_length, p.slots)
      .require(p.algorithm == TE_RT_AMAX_MAX ||
                   p.algorithm == TE_RT_AMAX_MOST_RECENT,
               "'algorithm' to be max (0) or most_recent (1)",
               std::to_string(p.algorithm))
      .require(p.fp8_max > 0.0f && p.fp8_max <= 65536.0f,
               "'fp8_max' to be positive and at most 65536",
               std::to_string(p.fp8_max))
      // Then fp8_max * 2^-margin is exact.
      .require(p.margin >= -100 && p.margin <= 100,
               "'margin' to be from -100 to 100", std::to_string(p.margin));
}
Status checkSupported(const dequantize_params &p) {
  return stackOf(checkCastValue(p), p).wide("out_type", p.out_type);
}
Status checkSupported(const embedding_params &p) { return checkEmbedding(p); }
Status checkSupported(const embedding_backward_params &p) {
  return checkEmbedding(p);
}
Status checkSupported(const fill_params &p) {
  return Checks().size("count", p.count).wide("type", p.type);
}
Status checkSupported(const gated_activation_params &p) {
  return gatedOnly(p, checkActivation(p));
}
Status checkSupported(const gated_activation_backward_params &p) {
  return gatedOnly(p, checkActivation(p));
}
Status checkSupported(const gated_activation_quantize_block_params &p) {
  return gatedOnly(p, checkActivationQuantize(p));
}

Status checkSupported(const grouped_amax_params &p) {
  return grouped(p, p.cols).wide("type", p.type);
}
Status checkSupported(const grouped_bias_grad_params &p) {
  return grouped(p, p.cols)
      .area("'groups' and 'cols'", p.groups, p.cols)
      .wide("type", p.type)
      .wide("out_type", p.out_type);
}
Status checkSupported(const grouped_dequantize_params &p) {
  const bool nv = isNv(p.scheme);
  Checks checks = grouped(p, p.cols);
  checks.require(p.scheme == TE_RT_PER_TENSOR || nv,
                 "'scheme' to be per_tensor or of nv ('dequantize' serves the "
                 "others)",
                 schemeName(p.scheme));
  if (!checks.failed() && nv)
    checks.multiple("alignment", p.alignment, 16);
  return checks.failed()
             ? checks
             : checkSupported(dequantize_params{
                   /*matrices=*/1, p.rows, p.cols, p.fp8_type, p.scheme, p.axis,
                   p.row_scaled, p.scale_max, p.out_type});
}
Status checkSupported(const grouped_matmul_params &p) {
  return grouped(p, p.k)
      .size("n", p.n)
      .area("'rows' and 'n'", p.rows, p.n)
      .area("'n' and 'k'", p.n, p.k)
      .flag("trans_b", p.trans_b)
      .wide("type", p.type)
      .type("out_type", p.out_type, {p.type, TE_RT_F32});
}
Status checkSupported(const grouped_quantize_nvfp4_params &p) {
  Checks checks = grouped(p, p.cols);
  if (!checks.failed())
    checks.multiple("alignment", p.alignment, 16);
  return checks.failed() ? checks
                         : checkSupported(quantize_nvfp4_params{
                               /*matrices=*/1, p.rows, p.cols, p.type,
                               TE_RT_NV_1X16, /*row_scaled=*/0, p.scale_max,
                               p.four_over_six, p.stochastic, p.stream});
}
Status checkSupported(const grouped_quantize_tensor_params &p) {
  return grouped(p, p.cols).wide("type", p.type).fp8("fp8_type", p.fp8_type);
}
Status checkSupported(const grouped_round_sizes_params &p) {
  return Checks().positive("groups", p.groups).positive("multiple", p.multiple);
}
Status checkSupported(const grouped_scaled_matmul_params &p) {
  Checks checks = checkGroupedProduct(p, p.k);
  // Any number of rows is multiplied, as they lie in whole blocks.
  return checks.failed()
             ? checks
             : checkSupported(scaled_matmul_params{
                   p.alignment, p.n, p.k, p.a_type, p.a_scheme, p.b_type,
                   p.b_scheme, p.out_type, p.fast_accumulation, 1, p.b_axis, 0,
                   p.a_row_scaled, p.a_scale_max, p.b_scale_max});
}
Status checkSupported(const grouped_scaled_wgrad_params &p) {
  Checks checks = checkGroupedProduct(p, p.m);
  return checks.failed()
             ? checks
             : checkSupported(scaled_matmul_params{
                   p.m, p.n, p.alignment, p.a_type, p.a_scheme, p.b_type,
                   p.b_scheme, p.out_type, p.fast_accumulation, 1, 1, 0, 0,
                   p.a_scale_max, p.b_scale_max});
}
Status checkSupported(const grouped_wgrad_params &p) {
  return grouped(p, p.m)
      .size("n", p.n)
      .area("'rows' and 'n'", p.rows, p.n)
      .area("'m' and 'n'", p.m, p.n)
      .wide("type", p.type)
      .type("out_type", p.out_type, {p.type, TE_RT_F32});
}
Status checkSupported(const grouped_zero_padding_params &p) {
  return grouped(p, p.cols).wide("type", p.type);
}
Status checkSupported(const hadamard_params &p) {
  return matrix(p.rows, p.cols).multiple("rows", p.rows, 16);
}

Status checkSupported(const layer_norm_params &p) { return checkNorm(p); }
Status checkSupported(const layer_norm_backward_params &p) {
  return matrix(p.rows, p.cols)
      .wide("type", p.type)
      .flag("zero_centered", p.zero_centered);
}

Status checkSupported(const matmul_params &p) {
  // cuBLASLt multiplies one input type into that type or into f32.
  return Checks()
      .size("m", p.m)
      .size("n", p.n)
      .size("k", p.k)
      .area("'m' and 'n'", p.m, p.n)
      .area("'m' and 'k'", p.m, p.k)
      .area("'n' and 'k'", p.n, p.k)
      .flag("trans_a", p.trans_a)
      .flag("trans_b", p.trans_b)
      .wide("type", p.type)
      .type("out_type", p.out_type, {p.type, TE_RT_F32});
}

Status checkSupported(const moe_route_params &p) {
  Checks checks =
      checkEntries(p)
          .positive("groups", p.groups)
          .size("rows", p.rows)
          .positive("alignment", p.alignment)
          .size("capacity", p.capacity)
          .flag("padded", p.padded)
          .require(p.rows <= INT32_MAX && p.groups <= INT32_MAX,
                   "'rows' and 'groups' to be i32",
                   std::to_string(p.rows) + " and " + std::to_string(p.groups));
  if (checks.failed() || !p.padded)
    return checks.failed() ? checks
                           : checks.multiple("rows", p.rows, p.alignment);
  return checks.multiple("capacity", p.capacity, p.alignment)
      .require(p.capacity > 0 && p.rows % p.capacity == 0 &&
                   p.rows / p.capacity == p.groups,
               "'rows' of padded groups to be 'groups' times 'capacity'",
               std::to_string(p.rows) + " of " + std::to_string(p.groups) +
                   " times " + std::to_string(p.capacity));
}
Status checkSupported(const moe_permute_params &p) { return checkMoved(p); }
Status checkSupported(const moe_prob_grad_params &p) { return checkMoved(p); }
Status checkSupported(const moe_unpermute_params &p) { return checkMoved(p); }

Status checkSupported(const nvfp4_alpha_params &p) {
  return Checks()
      .size("rows", p.rows)
      .stack(p.matrices, p.rows)
      .scaleMax("a_scale_max", p.a_scale_max)
      .scaleMax("b_scale_max", p.b_scale_max);
}

Status checkSupported(const pointwise_params &p) {
  const bool known = (p.op >= TE_RT_ADD && p.op <= TE_RT_MIN) ||
                     (p.op >= TE_RT_CAST && p.op <= TE_RT_SQRT);
  return Checks()
      .size("count", p.count)
      .require(known, "'op' to be a te_rt_pointwise_op", std::to_string(p.op))
      .wide("type", p.type)
      .wide("out_type", p.out_type);
}

Status checkSupported(const quantize_block_params &p) {
  return stackOf(matrix(p.rows, p.cols), p)
      .wide("type", p.type)
      .fp8("fp8_type", p.fp8_type)
      .scheme("scheme", p.scheme, TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128)
      .flag("pow2_scales", p.pow2_scales)
      .nonNegative("amax_epsilon", p.amax_epsilon);
}
Status checkSupported(const quantize_mx_params &p) {
  return stackOf(scaledMatrix(p.rows, p.cols, TE_RT_MX_1X32), p)
      .wide("type", p.type)
      .fp8("fp8_type", p.fp8_type)
      .scheme("scheme", p.scheme, TE_RT_MX_1X32, TE_RT_MX_32X32);
}
Status checkSupported(const quantize_nvfp4_params &p) {
  return stackOf(scaledMatrix(p.rows, p.cols, TE_RT_NV_1X16), p)
      .wide("type", p.type)
      .scheme("scheme", p.scheme, TE_RT_NV_1X16, TE_RT_NV_16X16)
      .flag("row_scaled", p.row_scaled)
      .scaleMax("scale_max", p.scale_max)
      .require(p.four_over_six >= 0 && p.four_over_six <= 2,
               "'four_over_six' to be off (0), mae (1) or mse (2)",
               std::to_string(p.four_over_six))
      .flag("stochastic", p.stochastic)
      .require(!p.row_scaled || p.scheme == TE_RT_NV_1X16,
               "'row_scaled' to be 0 for nv_16x16 (a block there has 16 rows)",
               std::to_string(p.row_scaled))
      .require(!p.stochastic || !p.row_scaled,
               "'row_scaled' to be 0 with stochastic rounding",
               std::to_string(p.row_scaled))
      .require(!p.stochastic || p.four_over_six == 0,
               "'four_over_six' to be 0 with stochastic rounding (its errors "
               "are those of rounding to nearest)",
               std::to_string(p.four_over_six));
}
Status checkSupported(const quantize_tensor_params &p) {
  return stackOf(matrix(p.rows, p.cols), p)
      .wide("type", p.type)
      .fp8("fp8_type", p.fp8_type);
}

Status checkSupported(const rms_norm_params &p) { return checkNorm(p); }
Status checkSupported(const rms_norm_backward_params &p) {
  return matrix(p.rows, p.cols)
      .wide("type", p.type)
      .flag("zero_centered", p.zero_centered);
}

Status checkSupported(const rng_advance_params &) { return Status::ok(); }

Status checkSupported(const rope_params &p) {
  Checks checks;
  checks.size("tokens", p.tokens)
      .positive("heads", p.heads)
      .positive("head_dim", p.head_dim)
      .area("'heads' and 'head_dim'", p.heads, p.head_dim)
      .positive("sequence", p.sequence);
  if (checks.failed()) // What follows multiplies and divides by these.
    return checks;
  return checks.area("'tokens' and the columns", p.tokens, p.heads * p.head_dim)
      .multiple("tokens", p.tokens, p.sequence)
      .size("rotary_dim", p.rotary_dim)
      .multiple("rotary_dim", p.rotary_dim, 2)
      .require(p.rotary_dim <= p.head_dim,
               "'rotary_dim' to be at most 'head_dim' (" +
                   std::to_string(p.head_dim) + ")",
               std::to_string(p.rotary_dim))
      .wide("type", p.type)
      .flag("interleaved", p.interleaved)
      .flag("inverse", p.inverse);
}

Status checkSupported(const router_topk_params &p) { return checkRouter(p); }
Status checkSupported(const router_topk_backward_params &p) {
  return checkRouter(p);
}

Status checkSupported(const scaled_matmul_params &p) {
  Checks checks;
  checks.size("m", p.m)
      .size("n", p.n)
      .size("k", p.k)
      .area("'m' and 'n'", p.m, p.n)
      .area("'m' and 'k'", p.m, p.k)
      .area("'n' and 'k'", p.n, p.k)
      .scheme("a_scheme", p.a_scheme, TE_RT_PER_TENSOR, TE_RT_NV_16X16)
      .scheme("b_scheme", p.b_scheme, TE_RT_PER_TENSOR, TE_RT_NV_16X16)
      .wide("out_type", p.out_type)
      .flag("fast_accumulation", p.fast_accumulation);
  if (checks.failed()) // The table is asked about schemes that exist.
    return checks;
  checks.allowed(
      support::refuseProduct({p.a_scheme, p.a_type, p.b_scheme, p.b_type,
                              p.out_type, p.fast_accumulation != 0,
                              /*bias=*/false}),
      TE_RT_UNSUPPORTED);
  if (checks.failed())
    return checks;
  checks.flag("a_axis", p.a_axis)
      .flag("b_axis", p.b_axis)
      .flag("swizzled", p.swizzled)
      .flag("a_row_scaled", p.a_row_scaled)
      .require(p.a_row_scaled != 1 || p.a_scheme == TE_RT_NV_1X16,
               "'a_row_scaled' to be 0 except for nv_1x16",
               std::to_string(p.a_row_scaled));
  if (isNv(p.a_scheme))
    checks.scaleMax("a_scale_max", p.a_scale_max)
        .scaleMax("b_scale_max", p.b_scale_max);
  else
    checks.require(p.a_scale_max == 0 && p.b_scale_max == 0,
                   "'a_scale_max' and 'b_scale_max' to be 0 for scales "
                   "without amax",
                   std::to_string(p.a_scale_max) + " and " +
                       std::to_string(p.b_scale_max));
  const support::ProductRow &row = support::productRow(p.a_scheme, p.b_scheme);
  // A stride in bytes is a multiple of 16, whichever axis is contiguous.
  const bool perTensor = p.a_scheme == TE_RT_PER_TENSOR;
  if (perTensor && p.a_axis == 0)
    checks.allowed(support::refuseSize("'m' of an 'a' of axis 0", p.m, row.k),
                   TE_RT_INVALID_ARGUMENT);
  if (perTensor && p.b_axis == 0)
    checks.allowed(support::refuseSize("'n' of a 'b' of axis 0", p.n, row.k),
                   TE_RT_INVALID_ARGUMENT);
  return checks
      .allowed(support::refuseSize("'k'", p.k, row.k), TE_RT_INVALID_ARGUMENT)
      .allowed(support::refuseSize("'n'", p.n, row.n), TE_RT_INVALID_ARGUMENT)
      .allowed(support::refuseSize("'m'", p.m, row.m), TE_RT_INVALID_ARGUMENT);
}

Status checkBuffers(const scaled_matmul_params &p, void *const *buffers) {
  namespace b = scaled_matmul_buffers;
  if (isNv(p.a_scheme))
    for (auto [index, name] :
         {std::pair(+b::a_amax, "a_amax"), {+b::b_amax, "b_amax"}})
      if (!buffers[index])
        return {TE_RT_INVALID_ARGUMENT, std::string("expected a buffer '") +
                                            name +
                                            "' for nv scales, but got null"};
  return Status::ok();
}

Status checkSupported(const swizzle_scales_params &p) {
  return scaledMatrix(p.rows, p.cols, p.scheme)
      .scheme("scheme", p.scheme, TE_RT_MX_1X32, TE_RT_NV_16X16)
      .flag("axis", p.axis);
}

Status checkSupported(const tensor_stats_params &p) {
  return checkCastValue(p).wide("type", p.type);
}

Status checkBuffers(const tensor_stats_params &p, void *const *buffers) {
  namespace b = tensor_stats_buffers;
  if (!buffers[b::data])
    return Status::ok();
  if (!buffers[b::scale])
    return {TE_RT_INVALID_ARGUMENT,
            "expected a buffer 'scale' beside 'data', but got null"};
  if (isNv(p.scheme) && !buffers[b::amax])
    return {TE_RT_INVALID_ARGUMENT,
            "expected a buffer 'amax' for nv scales, but got null"};
  return Status::ok();
}

Status checkSupported(const transpose_scaled_params &p) {
  return stackOf(scaledMatrix(p.rows, p.cols, p.scheme), p)
      .scheme("scheme", p.scheme, TE_RT_PER_TENSOR, TE_RT_NV_16X16)
      .transposable(p.scheme);
}

} // namespace te::rt
