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

  // A cap as that of Gemma's logits: 3 tanh(x / 3), whose gradient reads the tanh.
  func.func @capped(%x: !x {te.name = "x"}, %w: !w {te.name = "w", te.weight}, %targets: !targets {te.name = "targets"})
      -> (tensor<f32> {te.name = "loss"}) {
    %cap = arith.constant dense<3.0> : !logits
    %y = te.linear %x, %w : !x, !w -> !logits
    %small = arith.divf %y, %cap : !logits
    %bounded = math.tanh %small : !logits
    %logits = arith.mulf %bounded, %cap : !logits
    %loss = te.cross_entropy %logits, %targets : !logits, !targets
    return %loss : tensor<f32>
  }

  // A factor in f32, and a vocabulary that casts pad.
  func.func @odd(%x: !x {te.name = "x"}, %w: tensor<301x128xbf16> {te.name = "w", te.weight}, %targets: !targets {te.name = "targets"})
      -> (tensor<f32> {te.name = "loss"}) {
    %factor = arith.constant dense<0.3> : tensor<400x301xf32>
    %y = te.linear %x, %w : !x, tensor<301x128xbf16> -> tensor<400x301xbf16>
    %wide = arith.extf %y : tensor<400x301xbf16> to tensor<400x301xf32>
    %logits = arith.mulf %wide, %factor : tensor<400x301xf32>
    %loss = te.cross_entropy %logits, %targets : tensor<400x301xf32>, !targets
    return %loss : tensor<f32>
  }

  // A trained bias.
  func.func @biased(%x: !x {te.name = "x"}, %w: tensor<301x128xbf16> {te.name = "w", te.weight}, %bias: tensor<301xbf16> {te.name = "bias"},
                    %targets: !targets {te.name = "targets"}) -> (tensor<f32> {te.name = "loss"}) {
    %logits = te.linear %x, %w bias %bias : tensor<301xbf16> : !x, tensor<301x128xbf16> -> tensor<400x301xbf16>
    %loss = te.cross_entropy %logits, %targets : tensor<400x301xbf16>, !targets
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
