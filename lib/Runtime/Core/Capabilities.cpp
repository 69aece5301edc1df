//===- Capabilities.cpp - what may be planned, on every backend -----------===//
//
// See Capabilities.h. KernelChecks.inc has what Kernels.td says of each
// parameter; here are the rules that tie several parameters of a row together.
// A rule is asked about parameters that have passed all else. The first check
// that does not hold is the answer.
//
//===----------------------------------------------------------------------===//

#include "Core/Capabilities.h"
#include "Core/KernelGroups.h"

#include "Core/Checks.h"
#include "TEDialect/Support/KernelRows.h"

#include <algorithm>

namespace te::rt {

namespace support = te_table;

namespace {

using std::to_string;
using support::kernel_rows::sizeMultiple;

/// A scaled value that is decoded: what an nv scheme has, and others have not.
template <typename Params> Checks checkCastValue(const Params &p) {
  Checks checks;
  if (isNv(p.scheme))
    checks.type("fp8_type", p.fp8_type, {TE_RT_F4E2M1FN})
        .scaleMax("scale_max", p.scale_max);
  else
    checks.fp8("fp8_type", p.fp8_type)
        .require(p.scale_max == 0, "'scale_max' to be 0 except for nv schemes",
                 to_string(p.scale_max));
  return checks.require(p.row_scaled == 0 ||
                            (p.scheme == TE_RT_NV_1X16 && p.axis == 1),
                        "'row_scaled' to be 0 except for nv_1x16 along axis 1",
                        to_string(p.row_scaled));
}
Status checkRule(const dequantize_params &p) { return checkCastValue(p); }
Status checkRule(const tensor_stats_params &p) { return checkCastValue(p); }
Status checkRule(const grouped_dequantize_params &p) {
  const bool nv = isNv(p.scheme);
  return checkCastValue(p)
      .require(p.scheme == TE_RT_PER_TENSOR || nv,
               "'scheme' to be per_tensor or of nv ('dequantize' serves the "
               "others)",
               support::schemeName(p.scheme))
      .multiple("alignment", p.alignment, nv ? 16 : 1);
}

template <typename Params> Checks checkStochastic(const Params &p) {
  return Checks().require(
      !p.stochastic || p.four_over_six == 0,
      "'four_over_six' to be 0 with stochastic rounding (its errors are those "
      "of rounding to nearest)",
      to_string(p.four_over_six));
}
Status checkRule(const quantize_nvfp4_params &p) {
  return checkStochastic(p)
      .require(!p.row_scaled || p.scheme == TE_RT_NV_1X16,
               "'row_scaled' to be 0 for nv_16x16 (a block there has 16 rows)",
               to_string(p.row_scaled))
      .require(!p.stochastic || !p.row_scaled,
               "'row_scaled' to be 0 with stochastic rounding",
               to_string(p.row_scaled));
}
Status checkRule(const grouped_quantize_nvfp4_params &p) {
  return checkStochastic(p);
}
/// The rule of casts with one scale or with 1x128 blocks.
template <typename Params> static Checks checkScaling(const Params &p) {
  const bool perTensor = p.scheme == TE_RT_PER_TENSOR;
  return Checks()
      .require(!perTensor || p.pow2_scales == 0,
               "'pow2_scales' to be 0 for per_tensor", to_string(p.pow2_scales))
      .require(!perTensor || p.amax_epsilon == 0.0f,
               "'amax_epsilon' to be 0 for per_tensor",
               to_string(p.amax_epsilon));
}
/// The rule of casts of some rows.
template <typename Params> static Status checkRows(const Params &p) {
  return checkScaling(p)
      .require(p.rows <= p.whole_rows && p.first_row <= p.whole_rows - p.rows,
               "'first_row' and 'rows' to end within 'whole_rows' (" +
                   to_string(p.whole_rows) + ")",
               to_string(p.first_row) + " and " + to_string(p.rows))
      .require(p.rows % 128 == 0 || p.first_row + p.rows == p.whole_rows,
               "'rows' to be a multiple of 128, or to end with 'whole_rows' (" +
                   to_string(p.whole_rows) + ")",
               to_string(p.first_row) + " and " + to_string(p.rows));
}
Status checkRule(const activation_quantize_params &p) {
  return checkScaling(p);
}
Status checkRule(const gated_activation_quantize_params &p) {
  return checkScaling(p);
}
Status checkRule(const activation_backward_quantize_params &p) {
  return checkScaling(p);
}
Status checkRule(const gated_activation_backward_quantize_params &p) {
  return checkScaling(p);
}
Status checkRule(const quantize_rows_params &p) { return checkRows(p); }
Status checkRule(const cross_entropy_backward_quantize_params &p) {
  return checkRows(p);
}
Status checkRule(const transpose_scaled_params &p) {
  return Checks().allowed(support::refuseTranspose(p.scheme));
}

Status checkRule(const partial_amax_params &p) {
  const std::pair blocks(p.block_rows, p.block_cols);
  constexpr std::pair<int64_t, int64_t> kBlocks[] = {
      {128, 128}, {1, 32}, {32, 1}, {32, 32}, {1, 16}, {16, 16}};
  return Checks().require(
      std::find(std::begin(kBlocks), std::end(kBlocks), blocks) !=
          std::end(kBlocks),
      "'block_rows' x 'block_cols' to be 128x128, 1x32, 32x1, 32x32, 1x16 or "
      "16x16",
      to_string(p.block_rows) + "x" + to_string(p.block_cols));
}
Status checkRule(const quantize_shard_params &p) {
  return Checks()
      .require(isMx(p.scheme) || p.axis == 1,
               "'axis' to be 1 for block_128x128", to_string(p.axis))
      .require(!isMx(p.scheme) || p.pow2_scales == 0,
               "'pow2_scales' to be 0 for mx schemes", to_string(p.pow2_scales))
      .require(!isMx(p.scheme) || p.amax_epsilon == 0.0f,
               "'amax_epsilon' to be 0 for mx schemes",
               to_string(p.amax_epsilon));
}

template <typename Params> Checks checkWindow(const Params &p) {
  return Checks().require(p.window_left == -1 ||
                              (p.window_left >= 0 && p.causal),
                          "'window_left' to be -1, or zero or more with "
                          "'causal'",
                          to_string(p.window_left));
}
/// 'sequence' divides the tokens, or bounds the length of documents.
template <typename Params>
Checks checkBoundaries(Checks checks, const Params &p) {
  return p.boundaries == 0
             ? checks.multiple("tokens", p.tokens, p.sequence)
             : checks.require(p.sequence <= std::max<int64_t>(p.tokens, 1),
                              "'sequence' to be at most 'tokens' (" +
                                  to_string(p.tokens) + ") with 'boundaries'",
                              to_string(p.sequence));
}
/// Some weights are kept.
template <typename Params> Checks checkDropout(Checks checks, const Params &p) {
  return checks.require(p.dropout < 1.0f, "'dropout' to be less than 1",
                        to_string(p.dropout));
}
Status checkRule(const attention_params &p) {
  return checkDropout(checkBoundaries(checkWindow(p), p), p);
}
Status checkRule(const attention_backward_params &p) {
  return checkDropout(checkBoundaries(checkWindow(p), p), p);
}
Status checkRule(const attention_sink_grad_params &p) {
  return checkBoundaries(Checks(), p);
}
Status checkRule(const delayed_scaling_group_params &p) {
  for (int i = 0; i < kDelayedScalingGroup; ++i)
    TE_RT_RETURN_IF_FAILED(checkSupported(memberOf(p, i)));
  return Status::ok();
}

template <typename Params> Checks checkRotation(const Params &p) {
  return Checks()
      .multiple("tokens", p.tokens, p.has_positions ? 1 : p.sequence)
      .require(p.rotary_dim <= p.head_dim,
               "'rotary_dim' to be at most 'head_dim' (" +
                   to_string(p.head_dim) + ")",
               to_string(p.rotary_dim));
}
Status checkRule(const rope_params &p) { return checkRotation(p); }
Status checkRule(const rope_group_params &p) { return checkRotation(p); }

Status checkRule(const count_nonfinite_params &p) {
  return Checks().require(p.index < p.entries, "'index' to be below 'entries'",
                          to_string(p.index) + " and " + to_string(p.entries));
}

Status checkRule(const moe_route_params &p) {
  Checks checks;
  checks.require(p.rows <= INT32_MAX && p.groups <= INT32_MAX,
                 "'rows' and 'groups' to be i32",
                 to_string(p.rows) + " and " + to_string(p.groups));
  if (!p.padded)
    return checks.multiple("rows", p.rows, p.alignment);
  return checks.multiple("capacity", p.capacity, p.alignment)
      .require(p.capacity > 0 && p.rows % p.capacity == 0 &&
                   p.rows / p.capacity == p.groups,
               "'rows' of padded groups to be 'groups' times 'capacity'",
               to_string(p.rows) + " of " + to_string(p.groups) + " times " +
                   to_string(p.capacity));
}
template <typename Params> Checks checkChoices(const Params &p) {
  return Checks().require(p.k <= p.experts, "'k' to be at most 'experts'",
                          to_string(p.k) + " of " + to_string(p.experts));
}
Status checkRule(const router_topk_params &p) {
  return checkChoices(p)
      .multiple("experts", p.experts, p.groups)
      .require(p.groups == 1 || p.groups < p.experts,
               "'groups' of two or more 'experts'",
               to_string(p.groups) + " of " + to_string(p.experts))
      .require(p.chosen_groups <= p.groups,
               "'chosen_groups' to be at most 'groups'",
               to_string(p.chosen_groups) + " of " + to_string(p.groups))
      .require(p.k <= p.experts / p.groups * p.chosen_groups,
               "'k' to be at most the experts of 'chosen_groups'",
               to_string(p.k) + " of " +
                   to_string(p.experts / p.groups * p.chosen_groups));
}
Status checkRule(const router_topk_backward_params &p) {
  return checkChoices(p);
}

Status checkRule(const scaled_matmul_params &p) {
  Checks checks;
  checks.allowed(
      support::refuseProduct({p.a_scheme, p.a_type, p.b_scheme, p.b_type,
                              p.out_type, p.fast_accumulation != 0,
                              /*bias=*/false}),
      TE_RT_UNSUPPORTED);
  if (checks.failed()) // The table has no row of such a product.
    return checks;
  checks.require(p.a_row_scaled == 0 || p.a_scheme == TE_RT_NV_1X16,
                 "'a_row_scaled' to be 0 except for nv_1x16",
                 to_string(p.a_row_scaled));
  if (isNv(p.a_scheme))
    checks.scaleMax("a_scale_max", p.a_scale_max)
        .scaleMax("b_scale_max", p.b_scale_max);
  else
    checks.require(p.a_scale_max == 0 && p.b_scale_max == 0,
                   "'a_scale_max' and 'b_scale_max' to be 0 for scales "
                   "without amax",
                   to_string(p.a_scale_max) + " and " +
                       to_string(p.b_scale_max));
  const support::ProductRow &row = support::productRow(p.a_scheme, p.b_scheme);
  // A stride in bytes is a multiple of 16, whichever axis is contiguous.
  const bool perTensor = p.a_scheme == TE_RT_PER_TENSOR;
  if (perTensor && p.a_axis == 0)
    checks.allowed(support::refuseSize("'m' of an 'a' of axis 0", p.m, row.k));
  if (perTensor && p.b_axis == 0)
    checks.allowed(support::refuseSize("'n' of a 'b' of axis 0", p.n, row.k));
  return checks.allowed(support::refuseSize("'k'", p.k, row.k))
      .allowed(support::refuseSize("'n'", p.n, row.n))
      .allowed(support::refuseSize("'m'", p.m, row.m));
}
/// The product of one group. Any number of rows is multiplied, as they lie in
/// whole blocks.
Status checkRule(const grouped_scaled_matmul_params &p) {
  Checks checks;
  checks.allowed(support::refuseAlignment(p.a_scheme, p.alignment));
  return checks.failed() ? Status(checks)
                         : checkSupported(scaled_matmul_params{
                               .m = p.alignment,
                               .n = p.n,
                               .k = p.k,
                               .a_type = p.a_type,
                               .a_scheme = p.a_scheme,
                               .b_type = p.b_type,
                               .b_scheme = p.b_scheme,
                               .out_type = p.out_type,
                               .fast_accumulation = p.fast_accumulation,
                               .a_axis = 1,
                               .b_axis = p.b_axis,
                               .swizzled = 0,
                               .a_row_scaled = p.a_row_scaled,
                               .a_scale_max = p.a_scale_max,
                               .b_scale_max = p.b_scale_max});
}
Status checkRule(const grouped_scaled_wgrad_params &p) {
  Checks checks;
  checks.allowed(support::refuseAlignment(p.a_scheme, p.alignment));
  return checks.failed() ? Status(checks)
                         : checkSupported(scaled_matmul_params{
                               .m = p.m,
                               .n = p.n,
                               .k = p.alignment,
                               .a_type = p.a_type,
                               .a_scheme = p.a_scheme,
                               .b_type = p.b_type,
                               .b_scheme = p.b_scheme,
                               .out_type = p.out_type,
                               .fast_accumulation = p.fast_accumulation,
                               .a_axis = 1,
                               .b_axis = 1,
                               .swizzled = 0,
                               .a_row_scaled = 0,
                               .a_scale_max = p.a_scale_max,
                               .b_scale_max = p.b_scale_max});
}

} // namespace

#include "Core/KernelChecks.inc"

} // namespace te::rt
