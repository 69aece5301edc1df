// A mixture of experts: a router sends each token to 2 of 8 experts, whose
// weights lie in one tensor each; a shared expert sees every token. The rows of
// an expert start at multiples of 128, which every recipe can quantise; 1152 rows
// take every token, however they are routed. The router's own layer is left in
// high precision.
module {
  func.func @moe(%x: tensor<64x64xbf16> {te.name = "x"},
                 %router: tensor<8x64xbf16> {te.name = "router", te.weight},
                 %up: tensor<8x128x64xbf16> {te.name = "up", te.weight},
                 %down: tensor<8x64x64xbf16> {te.name = "down", te.weight},
                 %shared_up: tensor<128x64xbf16> {te.name = "shared_up", te.weight},
                 %shared_down: tensor<64x64xbf16> {te.name = "shared_down", te.weight})
      -> (tensor<64x64xbf16> {te.name = "y"}) {
    %logits = te.linear %x, %router {te.recipe = #te.recipe<high_precision>}
      : tensor<64x64xbf16>, tensor<8x64xbf16> -> tensor<64x8xbf16>
    %ids, %probs, %scores = te.router_topk %logits {normalize}
      : tensor<64x8xbf16> -> tensor<64x2xi32>, tensor<64x2xf32>, tensor<64x8xf32>

    %rows, %sizes, %row_of, %entry_of, %dropped = te.permute %x, %ids {alignment = 128 : i64}
      : tensor<64x64xbf16>, tensor<64x2xi32>
      -> tensor<1152x64xbf16>, tensor<8xi32>, tensor<128xi32>, tensor<1152xi32>
    %gate_up = te.grouped_linear %rows, %up, %sizes {alignment = 128 : i64}
      : tensor<1152x64xbf16>, tensor<8x128x64xbf16>, tensor<8xi32> -> tensor<1152x128xbf16>
    %hidden = te.activation <swiglu> %gate_up : tensor<1152x128xbf16> -> tensor<1152x64xbf16>
    %expert_rows = te.grouped_linear %hidden, %down, %sizes {alignment = 128 : i64}
      : tensor<1152x64xbf16>, tensor<8x64x64xbf16>, tensor<8xi32> -> tensor<1152x64xbf16>
    %routed = te.unpermute %expert_rows, %row_of, %entry_of probs %probs : tensor<64x2xf32>
      : tensor<1152x64xbf16>, tensor<128xi32>, tensor<1152xi32> -> tensor<64x64xbf16>

    %s = te.linear %x, %shared_up : tensor<64x64xbf16>, tensor<128x64xbf16> -> tensor<64x128xbf16>
    %t = te.activation <swiglu> %s : tensor<64x128xbf16> -> tensor<64x64xbf16>
    %shared = te.linear %t, %shared_down : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    %y = arith.addf %routed, %shared : tensor<64x64xbf16>
    return %y : tensor<64x64xbf16>
  }
}
