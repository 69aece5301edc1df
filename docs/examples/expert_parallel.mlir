// One rank's part of a mixture of experts over two ranks: 64 of 128 tokens and
// 4 of 8 experts. An expert takes at most 64 tokens of a rank. Rows go to the
// ranks of their experts, where those of an expert lie together, and come back:
// 128 for each, which leaves no rows between them.
module attributes {te.recipe = #te.recipe<float8_block_scaling>,
                   te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @moe(%x: tensor<64x64xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                 %router: tensor<8x64xbf16> {te.name = "router", te.weight},
                 %up: tensor<4x128x64xbf16> {te.name = "up", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                 %down: tensor<4x64x64xbf16> {te.name = "down", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<64x64xbf16> {te.name = "y", te.sharding = [#te.shard<axis = 0, group = 0>]}) {
    %logits = te.linear %x, %router {te.recipe = #te.recipe<high_precision>}
      : tensor<64x64xbf16>, tensor<8x64xbf16> -> tensor<64x8xbf16>
    %ids, %probs, %scores = te.router_topk %logits {normalize}
      : tensor<64x8xbf16> -> tensor<64x2xi32>, tensor<64x2xf32>, tensor<64x8xf32>
    %rows, %taken, %row_of, %entry_of, %dropped = te.permute %x, %ids {alignment = 64 : i64, capacity = 64 : i64, padded}
      : tensor<64x64xbf16>, tensor<64x2xi32>
      -> tensor<512x64xbf16>, tensor<8xi32>, tensor<128xi32>, tensor<512xi32>

    %by_expert = tensor.expand_shape %rows [[0, 1], [2]] output_shape [8, 64, 64]
      : tensor<512x64xbf16> into tensor<8x64x64xbf16>
    %exchanged = te.all_to_all %by_expert group 0 split 0 concat 1 : tensor<8x64x64xbf16> -> tensor<4x128x64xbf16>
    %mine = tensor.collapse_shape %exchanged [[0, 1], [2]] : tensor<4x128x64xbf16> into tensor<512x64xbf16>

    %sizes = arith.constant dense<128> : tensor<4xi32>
    %gate_up = te.grouped_linear %mine, %up, %sizes {alignment = 128 : i64}
      : tensor<512x64xbf16>, tensor<4x128x64xbf16>, tensor<4xi32> -> tensor<512x128xbf16>
    %hidden = te.activation <swiglu> %gate_up : tensor<512x128xbf16> -> tensor<512x64xbf16>
    %done = te.grouped_linear %hidden, %down, %sizes {alignment = 128 : i64}
      : tensor<512x64xbf16>, tensor<4x64x64xbf16>, tensor<4xi32> -> tensor<512x64xbf16>

    %of_experts = tensor.expand_shape %done [[0, 1], [2]] output_shape [4, 128, 64]
      : tensor<512x64xbf16> into tensor<4x128x64xbf16>
    %returned = te.all_to_all %of_experts group 0 split 1 concat 0 : tensor<4x128x64xbf16> -> tensor<8x64x64xbf16>
    %back = tensor.collapse_shape %returned [[0, 1], [2]] : tensor<8x64x64xbf16> into tensor<512x64xbf16>
    %y = te.unpermute %back, %row_of, %entry_of probs %probs : tensor<64x2xf32>
      : tensor<512x64xbf16>, tensor<128xi32>, tensor<512xi32> -> tensor<64x64xbf16>
    return %y : tensor<64x64xbf16>
  }
}
