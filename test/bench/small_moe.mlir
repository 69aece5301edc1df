// The functions of moe.mlir for a machine without a GPU.
module {
  // Groups of 128 rows.
  func.func @even(%x: tensor<512x64xbf16> {te.name = "x"}, %w: tensor<4x128x64xbf16> {te.name = "w", te.weight},
                  %sizes: tensor<4xi32> {te.name = "sizes"}) -> (tensor<512x128xbf16> {te.name = "y"}) {
    %y = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64}
      : tensor<512x64xbf16>, tensor<4x128x64xbf16>, tensor<4xi32> -> tensor<512x128xbf16>
    return %y : tensor<512x128xbf16>
  }

  // The same rows, with room for every group to be padded to 128.
  func.func @uneven(%x: tensor<1024x64xbf16> {te.name = "x"}, %w: tensor<4x128x64xbf16> {te.name = "w", te.weight},
                  %sizes: tensor<4xi32> {te.name = "sizes"}) -> (tensor<1024x128xbf16> {te.name = "y"}) {
    %y = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64}
      : tensor<1024x64xbf16>, tensor<4x128x64xbf16>, tensor<4xi32> -> tensor<1024x128xbf16>
    return %y : tensor<1024x128xbf16>
  }

  // A whole layer: each token goes to 2 of 4 experts, a shared expert sees all.
  func.func @layer(%x: tensor<256x64xbf16> {te.name = "x"}, %router: tensor<4x64xbf16> {te.name = "w.router", te.weight},
                   %up: tensor<4x128x64xbf16> {te.name = "w.up", te.weight}, %down: tensor<4x64x64xbf16> {te.name = "w.down", te.weight},
                   %shared_up: tensor<128x64xbf16> {te.name = "w.shared_up", te.weight},
                   %shared_down: tensor<64x64xbf16> {te.name = "w.shared_down", te.weight}) -> (tensor<256x64xbf16> {te.name = "y"}) {
    %logits = te.linear %x, %router {te.recipe = #te.recipe<high_precision>}
      : tensor<256x64xbf16>, tensor<4x64xbf16> -> tensor<256x4xbf16>
    %ids, %probs, %scores = te.router_topk %logits {normalize}
      : tensor<256x4xbf16> -> tensor<256x2xi32>, tensor<256x2xf32>, tensor<256x4xf32>
    %rows, %sizes, %row_of, %entry_of, %dropped = te.permute %x, %ids {alignment = 128 : i64}
      : tensor<256x64xbf16>, tensor<256x2xi32> -> tensor<1024x64xbf16>, tensor<4xi32>, tensor<512xi32>, tensor<1024xi32>
    %h = te.grouped_linear %rows, %up, %sizes {alignment = 128 : i64}
      : tensor<1024x64xbf16>, tensor<4x128x64xbf16>, tensor<4xi32> -> tensor<1024x128xbf16>
    %a = te.activation <swiglu> %h : tensor<1024x128xbf16> -> tensor<1024x64xbf16>
    %d = te.grouped_linear %a, %down, %sizes {alignment = 128 : i64}
      : tensor<1024x64xbf16>, tensor<4x64x64xbf16>, tensor<4xi32> -> tensor<1024x64xbf16>
    %routed = te.unpermute %d, %row_of, %entry_of probs %probs : tensor<256x2xf32>
      : tensor<1024x64xbf16>, tensor<512xi32>, tensor<1024xi32> -> tensor<256x64xbf16>
    %s = te.linear %x, %shared_up : tensor<256x64xbf16>, tensor<128x64xbf16> -> tensor<256x128xbf16>
    %t = te.activation <swiglu> %s : tensor<256x128xbf16> -> tensor<256x64xbf16>
    %shared = te.linear %t, %shared_down : tensor<256x64xbf16>, tensor<64x64xbf16> -> tensor<256x64xbf16>
    %y = arith.addf %routed, %shared : tensor<256x64xbf16>
    return %y : tensor<256x64xbf16>
  }
}
