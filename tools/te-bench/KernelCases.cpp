//===- KernelCases.cpp - the rows of the kernel benchmark -----------------===//

#include "KernelCases.h"

#include "TEDialect/Runtime/te_runtime_types.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>

using namespace te::bench;

namespace {

constexpr int64_t T = 8192, H = 4096, F = 14336;

using Parameters = std::vector<std::pair<std::string, double>>;
using Cases = std::vector<KernelCase>;
using Names = std::vector<std::string>;

Parameters operator+(Parameters a, const Parameters &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Parameters kBF16 = {{"type", TE_RT_BF16}};
/// The type of the x of a cast that may round it first.
const Parameters kOfBF16 = {{"x_type", TE_RT_BF16}},
                 kOfF32 = {{"x_type", TE_RT_F32}};
/// A matrix of T rows, by itself or as a stack of one.
Parameters shape(int64_t cols) { return {{"rows", T}, {"cols", cols}}; }
Parameters stack(int64_t cols) {
  return shape(cols) + Parameters{{"matrices", 1}};
}
/// Of a cast, whose x has all of its rows and columns.
Parameters cast(int64_t cols) {
  return stack(cols) + Parameters{{"x_rows", T}, {"x_cols", cols}};
}
Parameters flat(int64_t count) { return kBF16 + Parameters{{"count", count}}; }
const Parameters kE4M3 = {{"fp8_type", TE_RT_F8E4M3FN}};

const Names kRow = {"row", "row_scale"},
            kRowCol = {"row", "row_scale", "col", "col_scale"};
Names with(Names names, const char *name) {
  names.push_back(name);
  return names;
}

void addTensorCasts(int64_t cols, const std::string &size, Cases &cases) {
  const int64_t n = T * cols;
  cases.insert(cases.end(),
               {{"amax" + size, "amax", flat(n) + kOfBF16},
                {"count_nonfinite" + size, "count_nonfinite",
                 flat(n) + Parameters{{"entries", 1}, {"limit", 464}}},
                {"tensor_stats of a per-tensor cast" + size,
                 "tensor_stats",
                 shape(cols) + kBF16 + kE4M3 + Parameters{{"axis", 1}},
                 {"data", "scale"}}});
  const Parameters tensor = cast(cols) + kBF16 + kE4M3 + kOfBF16;
  cases.insert(
      cases.end(),
      {{"quantize_tensor row" + size, "quantize_tensor", tensor, kRow},
       // Delayed scaling of a forward alone: one usage, and the next step's
       // amax.
       {"quantize_tensor row+amax" + size, "quantize_tensor", tensor,
        with(kRow, "amax")},
       {"quantize_tensor row+col" + size, "quantize_tensor", tensor, kRowCol},
       {"quantize_tensor row+col+amax" + size, "quantize_tensor", tensor,
        with(kRowCol, "amax")},
       // Master weights under delayed scaling.
       {"quantize_tensor row+col+amax of f32" + size, "quantize_tensor",
        cast(cols) + kBF16 + kE4M3 + kOfF32, with(kRowCol, "amax")},
       {"transpose_scaled per_tensor" + size, "transpose_scaled",
        stack(cols)}});
}

void addBlockCasts(int64_t cols, const std::string &size, Cases &cases) {
  auto block = [&](int32_t scheme) {
    return cast(cols) + kBF16 + kE4M3 +
           Parameters{{"scheme", scheme}, {"pow2_scales", 1}};
  };
  const Parameters lines = block(TE_RT_BLOCK_1X128) + kOfBF16,
                   squares = block(TE_RT_BLOCK_128X128);
  cases.insert(
      cases.end(),
      {{"quantize_block 1x128 row" + size, "quantize_block", lines, kRow},
       {"quantize_block 1x128 row+col" + size, "quantize_block", lines,
        kRowCol},
       // All rows at once, whose bytes are those of the row above.
       {"quantize_rows 1x128 row+col" + size, "quantize_rows",
        shape(cols) + kBF16 + kE4M3 +
            Parameters{{"scheme", TE_RT_BLOCK_1X128},
                       {"pow2_scales", 1},
                       {"whole_rows", T}},
        kRowCol},
       {"quantize_block 128x128 row" + size, "quantize_block",
        squares + kOfBF16, kRow},
       {"quantize_block 128x128 row+col" + size, "quantize_block",
        squares + kOfBF16, kRowCol},
       {"quantize_block 128x128 row+col of f32" + size, "quantize_block",
        squares + kOfF32, kRowCol},
       {"dequantize block 1x128" + size, "dequantize",
        stack(cols) + kE4M3 +
            Parameters{{"scheme", TE_RT_BLOCK_1X128},
                       {"axis", 1},
                       {"out_type", TE_RT_BF16}}}});
}

/// Half of the matrix, as the second of two ranks has it.
void addShardCasts(int64_t cols, const std::string &size, Cases &cases) {
  const int64_t half = T * cols / 2;
  struct Blocks {
    const char *name;
    int64_t rows, cols;
    int32_t scheme, axis;
  };
  for (const Blocks &b : {Blocks{"", 128, 128, TE_RT_BLOCK_128X128, 1},
                          Blocks{" 1x32", 1, 32, TE_RT_MX_1X32, 1},
                          Blocks{" 32x1", 32, 1, TE_RT_MX_1X32, 0},
                          Blocks{" 16x16", 16, 16, TE_RT_NV_16X16, 1},
                          Blocks{" 1x16", 1, 16, TE_RT_NV_1X16, 1}}) {
    const std::string name = std::string(b.name) + " half" + size;
    const Parameters shard =
        flat(half) + shape(cols) + Parameters{{"start", half}, {"ranks", 1}};
    cases.push_back(
        {"partial_amax" + name, "partial_amax",
         shard + Parameters{{"block_rows", b.rows}, {"block_cols", b.cols}}});
    const Parameters scheme = {{"scheme", b.scheme}};
    if (b.scheme >= TE_RT_NV_1X16)
      cases.push_back({"quantize_nvfp4_shard" + name, "quantize_nvfp4_shard",
                       shard + scheme + Parameters{{"scale_max", 448}}});
    else
      cases.push_back(
          {"quantize_shard" + name, "quantize_shard",
           shard + scheme + kE4M3 +
               Parameters{{"axis", b.axis},
                          {"pow2_scales", b.scheme == TE_RT_BLOCK_128X128}}});
  }
}

void addMicroscaledCasts(int64_t cols, const std::string &size, Cases &cases) {
  const Parameters value = cast(cols) + kBF16;
  for (auto [scheme, name] : {std::pair(TE_RT_MX_1X32, "quantize_mx 1x32"),
                              {TE_RT_MX_32X32, "quantize_mx 32x32"}}) {
    const Parameters mx = value + kE4M3 + Parameters{{"scheme", scheme}};
    cases.push_back({name + (" row" + size), "quantize_mx", mx, kRow});
    cases.push_back({name + (" row+col" + size), "quantize_mx", mx, kRowCol});
  }
  struct Nv {
    const char *name;
    int32_t scheme, fourOverSix, stochastic;
    bool col;
  };
  for (const Nv &c : {Nv{"1x16 row", TE_RT_NV_1X16, 0, 0, false},
                      Nv{"1x16 row+col", TE_RT_NV_1X16, 0, 0, true},
                      Nv{"1x16 row+col 4over6", TE_RT_NV_1X16, 1, 0, true},
                      Nv{"1x16 row+col stochastic", TE_RT_NV_1X16, 0, 1, true},
                      Nv{"16x16 row+col", TE_RT_NV_16X16, 0, 0, true}})
    cases.push_back(
        {std::string("quantize_nvfp4 ") + c.name + size,
         "quantize_nvfp4",
         value + Parameters{{"scheme", c.scheme},
                            {"scale_max", 448},
                            {"four_over_six", c.fourOverSix},
                            {"stochastic", c.stochastic}},
         with(with(c.col ? with(kRowCol, "col_amax") : kRow, "row_amax"),
              "rng"),
         /*flops=*/0,
         // An amax of the size that normal values have.
         {{"amax", 5.0f}}});
  const Parameters back = stack(cols) + Parameters{{"out_type", TE_RT_BF16}};
  cases.insert(
      cases.end(),
      {{"hadamard" + size, "hadamard", shape(cols)},
       {"amax_rows" + size, "amax_rows", shape(cols) + kBF16},
       {"dequantize mx 1x32" + size, "dequantize",
        back + kE4M3 + Parameters{{"scheme", TE_RT_MX_1X32}, {"axis", 1}}}});
  for (int32_t axis : {1, 0})
    cases.push_back({"dequantize nv 1x16 axis " + std::to_string(axis) + size,
                     "dequantize",
                     back + Parameters{{"fp8_type", TE_RT_F4E2M1FN},
                                       {"scheme", TE_RT_NV_1X16},
                                       {"axis", axis},
                                       {"scale_max", 448}},
                     {"amax"}});
  cases.push_back({"transpose_scaled nv 16x16" + size,
                   "transpose_scaled",
                   stack(cols) + Parameters{{"scheme", TE_RT_NV_16X16}},
                   {"amax", "out_amax"}});
}

void addLayers(Cases &cases) {
  const Parameters x = shape(H) + kBF16;
  const Parameters heads = kBF16 + Parameters{{"rows", T * 32}, {"cols", 128}};
  const Parameters epsilon = {{"epsilon", 1e-5}};
  cases.insert(cases.end(),
               {{"rms_norm 8192x4096", "rms_norm", x + epsilon},
                {"rms_norm_backward 8192x4096", "rms_norm_backward", x},
                // 32 heads of 128.
                {"rms_norm 262144x128", "rms_norm", heads + epsilon},
                {"rms_norm_backward 262144x128", "rms_norm_backward", heads},
                {"layer_norm 8192x4096", "layer_norm", x + epsilon},
                {"layer_norm_backward 8192x4096", "layer_norm_backward", x},
                {"row_sum 8192x4096", "row_sum",
                 x + Parameters{{"out_type", TE_RT_BF16}}}});
  // swiglu has kernels of its own, geglu those of every other gated kind.
  for (auto [kind, name] :
       {std::pair<int32_t, std::string>(TE_RT_SWIGLU, "swiglu"),
        {TE_RT_GEGLU, "geglu"}}) {
    const Parameters p = {{"rows", T},    {"cols", F},  {"type", TE_RT_BF16},
                          {"kind", kind}, {"limit", 7}, {"alpha", 1.702},
                          {"offset", 1}};
    const Parameters blocks =
        p + kE4M3 +
        Parameters{{"scheme", TE_RT_BLOCK_1X128}, {"pow2_scales", 1}};
    const Parameters tensor =
        p + kE4M3 + Parameters{{"scheme", TE_RT_PER_TENSOR}};
    const Names measured = with(with(kRowCol, "scale"), "amax");
    Names bothGradients = kRowCol;
    for (const char *output :
         {"gate_row", "gate_row_scale", "gate_col", "gate_col_scale"})
      bothGradients.push_back(output);
    cases.insert(
        cases.end(),
        {{"activation " + name + " 8192x14336", "activation", p},
         {"activation_backward " + name + " 8192x14336", "activation_backward",
          p},
         {"activation_quantize 1x128 " + name + " row+col",
          "activation_quantize", blocks, kRowCol},
         {"activation_backward_quantize 1x128 " + name + " row+col",
          "activation_backward_quantize", blocks, kRowCol},
         {"activation_quantize per-tensor " + name + " row+col+amax",
          "activation_quantize", tensor, measured},
         {"activation_backward_quantize per-tensor " + name + " row+col+amax",
          "activation_backward_quantize", tensor, measured}});
    if (kind == TE_RT_SWIGLU)
      cases.insert(
          cases.end(),
          {{"gated_activation " + name + " 8192x14336", "gated_activation", p},
           {"gated_activation_backward " + name + " 8192x14336",
            "gated_activation_backward", p},
           {"gated_activation_backward_quantize 1x128 " + name + " row+col",
            "gated_activation_backward_quantize", blocks, bothGradients},
           {"gated_activation_backward_quantize per-tensor " + name +
                " row+col+amax",
            "gated_activation_backward_quantize", tensor,
            with(with(with(with(bothGradients, "scale"), "amax"), "gate_scale"),
                 "gate_amax")}});
  }
}

/// Two sequences of 4096, 32 heads of 128, of keys and values 8.
void addAttention(Cases &cases) {
  const Parameters heads = kBF16 + Parameters{{"tokens", T},
                                              {"sequence", 4096},
                                              {"heads", 32},
                                              {"head_dim", 128}};
  const Parameters rotary = heads + Parameters{{"rotary_dim", 128}};
  cases.push_back({"rope 8192x4096", "rope", rotary});
  cases.push_back({"rope_group 8192x4096 and 8192x1024",
                   "rope_group",
                   kBF16 + Parameters{{"tokens", T},
                                      {"sequence", 4096},
                                      {"head_dim", 128},
                                      {"rotary_dim", 128},
                                      {"heads0", 32},
                                      {"heads1", 8}},
                   {"x0", "x1", "y0", "y1"}});
  // Causal: half of the pairs of positions are multiplied, in 2 products
  // forward and 5 backward. A window of 1024 keys has 7/16 of the pairs.
  const double pairs = 4.0 * T * 4096 * H / 2;
  auto scores = [&](int64_t windowLeft, double softcap) {
    return heads +
           Parameters{{"kv_heads", 8},       {"value_dim", 128},
                      {"causal", 1},         {"window_left", windowLeft},
                      {"scale", 0.08838835}, // 1 / sqrt(128)
                      {"softcap", softcap}};
  };
  struct Forward {
    const char *name;
    int64_t windowLeft;
    double softcap;
    bool sinks = false;
  };
  for (const Forward &s :
       {Forward{"causal", -1, 0}, Forward{"window 1024", 1023, 0},
        Forward{"softcap 50 causal", -1, 50},
        Forward{"softcap 50 window 1024", 1023, 50},
        Forward{"sinks causal", -1, 0, true},
        Forward{"sinks window 1024", 1023, 0, true}})
    cases.push_back(
        {std::string("attention ") + s.name + " 2x4096, 32/8 x 128",
         "attention",
         scores(s.windowLeft, s.softcap) + Parameters{{"has_sinks", s.sinks}},
         {"sinks"},
         s.windowLeft < 0 ? pairs : pairs * 7 / 16});
  struct Backward {
    const char *name;
    bool deterministic;
    double softcap;
  };
  // An lse that is no softmax's: the time does not depend on it.
  for (const Backward &s :
       {Backward{"causal", true, 0}, Backward{"any order causal", false, 0},
        Backward{"softcap 50 causal", true, 50},
        Backward{"any order softcap 50 causal", false, 50}})
    cases.push_back(
        {std::string("attention_backward ") + s.name + " 2x4096, 32/8 x 128",
         "attention_backward",
         scores(-1, s.softcap) + Parameters{{"deterministic", s.deterministic}},
         {},
         2.5 * pairs});
  cases.push_back(
      {"attention_sink_grad 2x4096, 32 x 128", "attention_sink_grad", heads});
  cases.push_back(
      {"used_rows 8192", "used_rows", {{"tokens", T}, {"boundaries", 17}}});
}

/// Attention of 65,536 rows, of which `documents` are the boundaries; without
/// `documents`, they are sequences of one length.
struct AttentionBatch {
  std::string name;
  std::vector<int32_t> boundaries;
  bool hasDocuments;
};

/// The pairs of positions, which 2 products of the forward and 5 of the
/// backward multiply.
double pairsOf(const std::vector<int32_t> &boundaries, int64_t window) {
  double pairs = 0;
  for (size_t d = 0; d + 1 < boundaries.size(); ++d) {
    const double length = boundaries[d + 1] - boundaries[d];
    const double seen = window < 0 ? length : std::min<double>(window, length);
    pairs += seen * (length - seen / 2);
  }
  return pairs;
}

/// Documents of 1024 to 8192 tokens, and sequences of these lengths, with whose
/// rates those of the documents are compared.
void addDocuments(Cases &cases) {
  constexpr int32_t tokens = 65536, longest = 8192, heads = 32, kvHeads = 8;
  auto equal = [](int32_t length) {
    std::vector<int32_t> boundaries;
    for (int32_t row = 0; row <= tokens; row += length)
      boundaries.push_back(row);
    return boundaries;
  };
  std::vector<int32_t> packed = {0};
  for (int32_t length : {8192, 1024, 3072, 5120, 2048, 1536, 7168, 4096, 1024,
                         6144, 2560, 8192, 1280, 3584, 4864, 1024, 2048, 2560})
    packed.push_back(packed.back() + length);
  const AttentionBatch batches[] = {
      {"64x1024", equal(1024), false},
      {"32x2048", equal(2048), false},
      {"16x4096", equal(4096), false},
      {"8x8192", equal(longest), false},
      {"8 documents of 8192", equal(longest), true},
      {"18 documents", packed, true}};
  for (int64_t headDim : {64, 128})
    for (int64_t window : {-1, 1024})
      for (const AttentionBatch &batch : batches) {
        const double flops = 4 * pairsOf(batch.boundaries, window) *
                             static_cast<double>(heads * headDim);
        const int64_t boundaries =
            batch.hasDocuments ? static_cast<int64_t>(batch.boundaries.size())
                               : 0;
        const Parameters parameters =
            kBF16 +
            Parameters{{"tokens", tokens},
                       {"sequence",
                        batch.hasDocuments ? longest : batch.boundaries[1]},
                       {"heads", heads},
                       {"kv_heads", kvHeads},
                       {"head_dim", headDim},
                       {"value_dim", headDim},
                       {"causal", 1},
                       {"window_left", window < 0 ? -1 : window - 1},
                       {"scale", 0.1},
                       {"boundaries", boundaries}};
        const std::string text = batch.name +
                                 (window < 0 ? "" : " window 1024") +
                                 ", 32/8 x " + std::to_string(headDim);
        const Names optional =
            batch.hasDocuments ? Names{"documents"} : Names{};
        decltype(KernelCase::integers) given;
        if (batch.hasDocuments)
          given = {{"documents", batch.boundaries}};
        cases.push_back({"attention " + text,
                         "attention",
                         parameters,
                         optional,
                         flops,
                         {},
                         given});
        cases.push_back({"attention_backward any order " + text,
                         "attention_backward",
                         parameters,
                         optional,
                         2.5 * flops,
                         {},
                         given});
      }
}

/// Routing of T tokens to 8 of 128 experts each, whose rows start at multiples
/// of 128: the sizes of Qwen3 30B-A3B.
void addExperts(Cases &cases) {
  constexpr int32_t kExperts = 128, kChoices = 8, kAlignment = 128;
  constexpr int32_t kEntries = T * kChoices,
                    kRows = kEntries + kExperts * (kAlignment - 1);
  std::mt19937 random(1);
  std::vector<int32_t> experts(kExperts), ids, rowOf(kEntries),
      entryOf(kRows, -1);
  std::iota(experts.begin(), experts.end(), 0);
  for (int64_t token = 0; token < T; ++token) {
    std::shuffle(experts.begin(), experts.end(), random);
    ids.insert(ids.end(), experts.begin(), experts.begin() + kChoices);
  }
  int32_t row = 0;
  for (int32_t expert = 0; expert < kExperts; ++expert) {
    for (int32_t entry = 0; entry < kEntries; ++entry)
      if (ids[entry] == expert) {
        entryOf[row] = entry;
        rowOf[entry] = row++;
      }
    row = (row + kAlignment - 1) / kAlignment * kAlignment;
  }
  const Parameters tokens = {{"tokens", T}, {"k", kChoices}};
  const Parameters router =
      tokens + kBF16 + Parameters{{"experts", kExperts}, {"normalize", 1}};
  const Parameters moved =
      tokens + kBF16 + Parameters{{"rows", kRows}, {"cols", 2048}};
  const std::string size = " 8192x8 of 128";
  cases.push_back({"router_topk" + size, "router_topk",
                   router + Parameters{{"groups", 1}, {"chosen_groups", 1}}});
  cases.push_back({"router_topk of 4 of 8 groups" + size, "router_topk",
                   router + Parameters{{"groups", 8}, {"chosen_groups", 4}}});
  KernelCase gradient{"router_topk_backward" + size, "router_topk_backward",
                      router};
  gradient.integers = {{"ids", ids}};
  cases.push_back(std::move(gradient));
  KernelCase route{"moe_route" + size, "moe_route",
                   tokens + Parameters{{"groups", kExperts},
                                       {"rows", kRows},
                                       {"alignment", kAlignment}}};
  route.integers = {{"ids", ids}};
  cases.push_back(std::move(route));
  KernelCase permute{"moe_permute" + size, "moe_permute", moved};
  permute.integers = {{"entry_of", entryOf}};
  cases.push_back(std::move(permute));
  for (const char *kernel : {"moe_prob_grad", "moe_unpermute"}) {
    KernelCase back{kernel + size, kernel, moved};
    back.integers = {{"row_of", rowOf}};
    cases.push_back(std::move(back));
  }
}

/// The loss of 1024 rows of logits, as te-chunk-logits computes it.
void addLosses(Cases &cases) {
  constexpr int64_t rows = 1024, vocab = 128256;
  const std::string size = " 1024x128256";
  const Parameters tokens =
      kBF16 + Parameters{{"tokens", rows}, {"vocab", vocab}, {"cols", vocab}};
  const auto cast = [&](int32_t scheme) {
    return kBF16 + Parameters{{"rows", rows},
                              {"vocab", vocab},
                              {"cols", vocab},
                              {"whole_rows", rows},
                              {"scheme", scheme},
                              {"fp8_type", TE_RT_F8E5M2},
                              {"pow2_scales", scheme != TE_RT_PER_TENSOR}};
  };
  cases.insert(
      cases.end(),
      {{"cross_entropy" + size, "cross_entropy", tokens},
       {"cross_entropy_backward" + size, "cross_entropy_backward", tokens},
       {"cross_entropy_backward_quantize per-tensor row+col" + size,
        "cross_entropy_backward_quantize", cast(TE_RT_PER_TENSOR),
        with(kRowCol, "scale")},
       {"cross_entropy_backward_quantize 1x128 row+col" + size,
        "cross_entropy_backward_quantize", cast(TE_RT_BLOCK_1X128), kRowCol}});
}

void addOptimizers(Cases &cases) {
  for (auto [name, moments] :
       {std::pair("adamw f32 14336x4096", TE_RT_F32),
        {"adamw f32, moments bf16 14336x4096", TE_RT_BF16}})
    cases.push_back({name,
                     "adamw",
                     {{"count", F * H},
                      {"beta1", 0.9},
                      {"beta2", 0.999},
                      {"epsilon", 1e-8},
                      {"weight_decay", 0.1},
                      {"grad_type", TE_RT_BF16},
                      {"moment_type", moments}},
                     /*optional=*/{},
                     /*flops=*/0,
                     // About step 1000. Variances are not negative.
                     {{"step", 1000}, {"v", 0}}});
  cases.push_back({"adamw f32, moments of 8 bits 14336x4096",
                   "adamw_fp8",
                   {{"count", F * H},
                    {"beta1", 0.9},
                    {"beta2", 0.999},
                    {"epsilon", 1e-8},
                    {"weight_decay", 0.1},
                    {"grad_type", TE_RT_BF16}},
                   /*optional=*/{},
                   /*flops=*/0,
                   {{"step", 1000}, {"v", 0}, {"scales", 0}}});
  // The weights of the norms of a model.
  KernelCase group{"adamw_group f32, moments bf16 32 of 4096",
                   "adamw_group",
                   {{"beta1", 0.9},
                    {"beta2", 0.999},
                    {"epsilon", 1e-8},
                    {"weight_decay", 0.1},
                    {"grad_type", TE_RT_BF16},
                    {"moment_type", TE_RT_BF16}}};
  group.sigmas = {{"step", 1000}};
  for (int i = 0; i < 32; ++i) {
    const std::string number = std::to_string(i);
    group.parameters.push_back({"count" + number, H});
    for (const char *each :
         {"param", "grad", "m", "v", "new_param", "new_m", "new_v"})
      group.optional.push_back(each + number);
    group.sigmas.push_back({"v" + number, 0});
  }
  cases.push_back(std::move(group));
  cases.push_back({"sum_of_squares bf16 14336x4096",
                   "sum_of_squares",
                   {{"count0", F * H}, {"type0", TE_RT_BF16}},
                   {"x0"}});
  // The gradients of a layer: its matrices and the weights of its norms.
  KernelCase squares{"sum_of_squares bf16 of a layer", "sum_of_squares", {}};
  const int64_t counts[] = {H * H, H * H / 4, H * H / 4, H * H, F * H,
                            F * H, F * H,     H,         H};
  for (size_t i = 0; i < std::size(counts); ++i) {
    const std::string number = std::to_string(i);
    squares.parameters.push_back({"count" + number, counts[i]});
    squares.parameters.push_back({"type" + number, TE_RT_BF16});
    squares.optional.push_back("x" + number);
  }
  cases.push_back(std::move(squares));
}

/// The GEMMs of the block: fprop and dgrad, then wgrad.
void addProducts(Cases &cases) {
  struct Shape {
    const char *name;
    int64_t m, n, k;
    bool wgrad;
  };
  for (const Shape &s : {Shape{"gate_up fprop", T, 2 * F, H, false},
                         Shape{"down fprop", T, H, F, false},
                         Shape{"gate_up dgrad", T, H, 2 * F, false},
                         Shape{"down dgrad", T, F, H, false},
                         Shape{"gate_up wgrad", 2 * F, H, T, true},
                         Shape{"down wgrad", H, F, T, true}}) {
    const double flops = 2.0 * s.m * s.n * s.k;
    const Parameters sizes = {
        {"m", s.m}, {"n", s.n}, {"k", s.k}, {"out_type", TE_RT_BF16}};
    const Parameters scaled = sizes + Parameters{{"a_type", TE_RT_F8E4M3FN},
                                                 {"b_type", TE_RT_F8E4M3FN},
                                                 {"a_axis", 1},
                                                 {"b_axis", 1}};
    cases.push_back({std::string("matmul bf16 ") + s.name,
                     "matmul",
                     sizes + kBF16,
                     {},
                     flops,
                     {{"b", 0.02f}}});
    for (bool fast : {true, false})
      cases.push_back({std::string("scaled_matmul per_tensor ") +
                           (fast ? "fast " : "split ") + s.name,
                       "scaled_matmul",
                       scaled + Parameters{{"fast_accumulation", fast}},
                       {},
                       flops});
    cases.push_back(
        {std::string("scaled_matmul block ") + s.name,
         "scaled_matmul",
         scaled + Parameters{{"a_scheme", TE_RT_BLOCK_1X128},
                             {"b_scheme", s.wgrad ? TE_RT_BLOCK_1X128
                                                  : TE_RT_BLOCK_128X128}},
         {},
         flops});
  }
}

} // namespace

std::vector<KernelCase> te::bench::kernelCases() {
  Cases cases;
  for (int64_t cols : {H, F}) {
    const std::string size = " 8192x" + std::to_string(cols);
    addTensorCasts(cols, size, cases);
    addBlockCasts(cols, size, cases);
    addShardCasts(cols, size, cases);
    addMicroscaledCasts(cols, size, cases);
  }
  addLayers(cases);
  addAttention(cases);
  addDocuments(cases);
  addExperts(cases);
  addLosses(cases);
  addOptimizers(cases);
  addProducts(cases);
  return cases;
}
