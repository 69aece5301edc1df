// A model whose head has the table of its embedding as its weight, and the same with two tensors. Each half of the model adds
// what a norm gives to what it began with, and the second norm gives what the head casts.

!ids = tensor<400xi32>
!x = tensor<400x128xbf16>
!g = tensor<128xbf16>
!a = tensor<128x128xbf16>
!w = tensor<301x128xbf16>
!logits = tensor<400x301xbf16>

module {
  func.func private @model(%ids: !ids, %table: !w, %a: !a, %b: !a, %g: !g, %w: !w, %targets: !ids) -> tensor<f32> {
    %x = te.embedding %ids, %table : !ids, !w -> !x
    %u = te.linear %x, %a : !x, !a -> !x
    %n = te.layer_norm %u, %g, %g : !x, !g
    %y = arith.addf %x, %n : !x
    %v = te.linear %y, %b : !x, !a -> !x
    %m = te.rms_norm %v, %g : !x, !g
    %z = arith.addf %m, %y : !x
    %logits = te.linear %z, %w : !x, !w -> !logits
    %loss = te.cross_entropy %logits, %targets {ignore_index = -1 : i32} : !logits, !ids
    return %loss : tensor<f32>
  }

  func.func @tied(%ids: !ids {te.name = "ids"}, %a: !a {te.name = "a", te.weight}, %b: !a {te.name = "b", te.weight}, %g: !g {te.name = "g"},
                  %w: !w {te.name = "w", te.weight}, %targets: !ids {te.name = "targets"}) -> (tensor<f32> {te.name = "loss"}) {
    %loss = func.call @model(%ids, %w, %a, %b, %g, %w, %targets) : (!ids, !w, !a, !a, !g, !w, !ids) -> tensor<f32>
    return %loss : tensor<f32>
  }

  func.func @apart(%ids: !ids {te.name = "ids"}, %table: !w {te.name = "table", te.weight}, %a: !a {te.name = "a", te.weight},
                   %b: !a {te.name = "b", te.weight}, %g: !g {te.name = "g"}, %w: !w {te.name = "w", te.weight}, %targets: !ids {te.name = "targets"})
      -> (tensor<f32> {te.name = "loss"}) {
    %loss = func.call @model(%ids, %table, %a, %b, %g, %w, %targets) : (!ids, !w, !a, !a, !g, !w, !ids) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
