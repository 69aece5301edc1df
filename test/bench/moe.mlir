// 64 experts of 512 tokens, 2048 -> 1536: what te-bench --suite=moe runs.
module {
  // Groups of 512 rows.
  func.func @even(%x: tensor<32768x2048xbf16> {te.name = "x"}, %w: tensor<64x1536x2048xbf16> {te.name = "w", te.weight},
                  %sizes: tensor<64xi32> {te.name = "sizes"}) -> (tensor<32768x1536xbf16> {te.name = "y"}) {
    %y = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64}
      : tensor<32768x2048xbf16>, tensor<64x1536x2048xbf16>, tensor<64xi32> -> tensor<32768x1536xbf16>
    return %y : tensor<32768x1536xbf16>
  }

  // The same rows, with room for every group to be padded to 128.
  func.func @uneven(%x: tensor<40960x2048xbf16> {te.name = "x"}, %w: tensor<64x1536x2048xbf16> {te.name = "w", te.weight},
                  %sizes: tensor<64xi32> {te.name = "sizes"}) -> (tensor<40960x1536xbf16> {te.name = "y"}) {
    %y = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64}
      : tensor<40960x2048xbf16>, tensor<64x1536x2048xbf16>, tensor<64xi32> -> tensor<40960x1536xbf16>
    return %y : tensor<40960x1536xbf16>
  }

  // A whole layer: each token goes to 8 of 64 experts, a shared expert sees all.
  func.func @layer(%x: tensor<4096x2048xbf16> {te.name = "x"}, %router: tensor<64x2048xbf16> {te.name = "w.router", te.weight},
                   %up: tensor<64x1536x2048xbf16> {te.name = "w.up", te.weight}, %down: tensor<64x2048x768xbf16> {te.name = "w.down", te.weight},
                   %shared_up: tensor<1536x2048xbf16> {te.name = "w.shared_up", te.weight},
                   %shared_down: tensor<2048x768xbf16> {te.name = "w.shared_down", te.weight}) -> (tensor<4096x2048xbf16> {te.name = "y"}) {
    %logits = te.linear %x, %router {te.recipe = #te.recipe<high_precision>}
      : tensor<4096x2048xbf16>, tensor<64x2048xbf16> -> tensor<4096x64xbf16>
    %ids, %probs, %scores = te.router_topk %logits {normalize}
      : tensor<4096x64xbf16> -> tensor<4096x8xi32>, tensor<4096x8xf32>, tensor<4096x64xf32>
    %rows, %sizes, %row_of, %entry_of, %dropped = te.permute %x, %ids {alignment = 128 : i64}
      : tensor<4096x2048xbf16>, tensor<4096x8xi32> -> tensor<40960x2048xbf16>, tensor<64xi32>, tensor<32768xi32>, tensor<40960xi32>
    %h = te.grouped_linear %rows, %up, %sizes {alignment = 128 : i64}
      : tensor<40960x2048xbf16>, tensor<64x1536x2048xbf16>, tensor<64xi32> -> tensor<40960x1536xbf16>
    %a = te.activation <swiglu> %h : tensor<40960x1536xbf16> -> tensor<40960x768xbf16>
    %d = te.grouped_linear %a, %down, %sizes {alignment = 128 : i64}
      : tensor<40960x768xbf16>, tensor<64x2048x768xbf16>, tensor<64xi32> -> tensor<40960x2048xbf16>
    %routed = te.unpermute %d, %row_of, %entry_of probs %probs : tensor<4096x8xf32>
      : tensor<40960x2048xbf16>, tensor<32768xi32>, tensor<40960xi32> -> tensor<4096x2048xbf16>
    %s = te.linear %x, %shared_up : tensor<4096x2048xbf16>, tensor<1536x2048xbf16> -> tensor<4096x1536xbf16>
    %t = te.activation <swiglu> %s : tensor<4096x1536xbf16> -> tensor<4096x768xbf16>
    %shared = te.linear %t, %shared_down : tensor<4096x768xbf16>, tensor<2048x768xbf16> -> tensor<4096x2048xbf16>
    %y = arith.addf %routed, %shared : tensor<4096x2048xbf16>
    return %y : tensor<4096x2048xbf16>
  }
}
