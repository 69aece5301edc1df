// A head and its loss. With logits-budget=81920, 128 rows of logits are stored
// at a time, and the last of the four parts has 16.

!x = tensor<400x128xbf16>
!w = tensor<320x128xbf16>
!logits = tensor<400x320xbf16>
!targets = tensor<400xi32>

module {
  func.func @head(%h: !x {te.name = "x"}, %g: tensor<128xbf16> {te.name = "g"}, %w: !w {te.name = "w", te.weight},
                  %targets: !targets {te.name = "targets"}) -> (tensor<f32> {te.name = "loss"}) {
    %x = te.rms_norm %h, %g : !x, tensor<128xbf16>
    %logits = te.linear %x, %w : !x, !w -> !logits
    %loss = te.cross_entropy %logits, %targets {ignore_index = -1 : i32} : !logits, !targets
    return %loss : tensor<f32>
  }

  // The weight is a constant, so nothing reads the gradient of all logits.
  func.func @frozen(%x: !x {te.name = "x"}, %targets: !targets {te.name = "targets"}) -> (tensor<f32> {te.name = "loss"}) {
    %w = arith.constant dense<1.25> : !w
    %logits = te.linear %x, %w : !x, !w -> !logits
    %loss = te.cross_entropy %logits, %targets : !logits, !targets
    return %loss : tensor<f32>
  }

  func.func @transposed(%x: !x {te.name = "x"}, %w: tensor<128x320xbf16> {te.name = "w", te.weight},
                        %targets: !targets {te.name = "targets"}) -> (tensor<f32> {te.name = "loss"}) {
    %logits = te.linear %x, %w {transposed_weight} : !x, tensor<128x320xbf16> -> !logits
    %loss = te.cross_entropy %logits, %targets : !logits, !targets
    return %loss : tensor<f32>
  }

  func.func @logits(%x: !x {te.name = "x"}, %w: tensor<128x320xbf16> {te.name = "w", te.weight})
      -> (!logits {te.name = "logits"}) {
    %logits = te.linear %x, %w {transposed_weight} : !x, tensor<128x320xbf16> -> !logits
    return %logits : !logits
  }
}
