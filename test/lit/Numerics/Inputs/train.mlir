// The training step of a small classifier of token windows, with
// every layer op, AdamW with and without weight decay, and SGD with
// and without momentum. The number of the step is a state, too.

!ids = tensor<64xi32>
!targets = tensor<32xi32>
!table = tensor<64x16xbf16>
!up = tensor<64x32xf32>
!square = tensor<32x32xf32>
!out = tensor<64x32xf32>
!gamma = tensor<32xf32>
!bias = tensor<64xf32>
!hidden = tensor<32x32xbf16>

module {
  func.func @loss(%ids: !ids {te.name = "ids"}, %targets: !targets {te.name = "targets"},
                  %table: !table {te.name = "table", te.weight}, %gamma: !gamma {te.name = "gamma", te.weight},
                  %up: !up {te.name = "up", te.weight}, %bias: !bias {te.name = "bias", te.weight},
                  %down: !square {te.name = "down", te.weight}, %mix: !square {te.name = "mix", te.weight},
                  %out: !out {te.name = "out", te.weight}) -> (tensor<f32> {te.name = "loss"}) {
    %gamma16 = arith.truncf %gamma : !gamma to tensor<32xbf16>
    %up16 = arith.truncf %up : !up to tensor<64x32xbf16>
    %bias16 = arith.truncf %bias : !bias to tensor<64xbf16>
    %down16 = arith.truncf %down : !square to !hidden
    %mix16 = arith.truncf %mix : !square to !hidden
    %out16 = arith.truncf %out : !out to tensor<64x32xbf16>
    %e = te.embedding %ids, %table : !ids, !table -> tensor<64x16xbf16>
    %pairs = tensor.expand_shape %e [[0, 1], [2]] output_shape [32, 2, 16] : tensor<64x16xbf16> into tensor<32x2x16xbf16>
    %x = tensor.collapse_shape %pairs [[0], [1, 2]] : tensor<32x2x16xbf16> into !hidden
    %n = te.rms_norm %x, %gamma16 {zero_centered_gamma = true} : !hidden, tensor<32xbf16>
    %u = te.linear %n, %up16 bias %bias16 : tensor<64xbf16> : !hidden, tensor<64x32xbf16> -> tensor<32x64xbf16>
    %a = te.activation <swiglu> %u : tensor<32x64xbf16> -> !hidden
    %d = te.linear %a, %down16 : !hidden, !hidden -> !hidden
    %r = arith.addf %x, %d : !hidden
    %g = te.activation <gelu> %r : !hidden -> !hidden
    %m = te.linear %g, %mix16 : !hidden, !hidden -> !hidden
    %s = te.activation <silu> %m : !hidden -> !hidden
    %logits = te.linear %s, %out16 : !hidden, tensor<64x32xbf16> -> tensor<32x64xbf16>
    %loss = te.cross_entropy %logits, %targets : tensor<32x64xbf16>, !targets
    return %loss : tensor<f32>
  }

  func.func @step(%ids: !ids {te.name = "ids"}, %targets: !targets {te.name = "targets"},
                  %lr: tensor<f32> {te.name = "lr"}, %t: tensor<f32> {te.name = "t"},
                  %table: !table {te.name = "table", te.weight}, %gamma: !gamma {te.name = "gamma", te.weight},
                  %up: !up {te.name = "up", te.weight}, %bias: !bias {te.name = "bias", te.weight},
                  %down: !square {te.name = "down", te.weight}, %mix: !square {te.name = "mix", te.weight},
                  %out: !out {te.name = "out", te.weight},
                  %up_m: !up {te.name = "up.m"}, %up_v: !up {te.name = "up.v"},
                  %down_m: !square {te.name = "down.m"}, %down_v: !square {te.name = "down.v"},
                  %mix_u: !square {te.name = "mix.u"},
                  %out_m: !out {te.name = "out.m"}, %out_v: !out {te.name = "out.v"})
      -> (tensor<f32> {te.name = "loss"}, tensor<f32> {te.name = "t"}, !table {te.name = "table"}, !gamma {te.name = "gamma"},
          !up {te.name = "up"}, !up {te.name = "up.m"}, !up {te.name = "up.v"}, !bias {te.name = "bias"},
          !square {te.name = "down"}, !square {te.name = "down.m"}, !square {te.name = "down.v"},
          !square {te.name = "mix"}, !square {te.name = "mix.u"},
          !out {te.name = "out"}, !out {te.name = "out.m"}, !out {te.name = "out.v"}) {
    %one = arith.constant dense<1.0> : tensor<f32>
    %loss, %dtable, %dgamma, %dup, %dbias, %ddown, %dmix, %dout
      = te.vjp @loss(%ids, %targets, %table, %gamma, %up, %bias, %down, %mix, %out) cotangents(%one) wrt [2, 3, 4, 5, 6, 7, 8]
        : (!ids, !targets, !table, !gamma, !up, !bias, !square, !square, !out), (tensor<f32>)
        -> (tensor<f32>, !table, !gamma, !up, !bias, !square, !square, !out)
    %table1 = te.sgd %table, %dtable lr %lr : !table, !table
    %gamma1 = te.sgd %gamma, %dgamma lr %lr : !gamma, !gamma
    %up1, %up_m1, %up_v1 = te.adamw %up, %dup, %up_m, %up_v lr %lr step %t {weight_decay = 0.1 : f32} : !up, !up
    %bias1 = te.sgd %bias, %dbias lr %lr : !bias, !bias
    %down1, %down_m1, %down_v1 = te.adamw %down, %ddown, %down_m, %down_v lr %lr step %t {weight_decay = 0.0 : f32} : !square, !square
    %mix1, %mix_u1 = te.sgd %mix, %dmix buffer %mix_u lr %lr {momentum = 0.9 : f32} : !square, !square
    %out1, %out_m1, %out_v1 = te.adamw %out, %dout, %out_m, %out_v lr %lr step %t : !out, !out
    %t1 = arith.addf %t, %one : tensor<f32>
    return %loss, %t1, %table1, %gamma1, %up1, %up_m1, %up_v1, %bias1, %down1, %down_m1, %down_v1, %mix1, %mix_u1, %out1, %out_m1, %out_v1
      : tensor<f32>, tensor<f32>, !table, !gamma, !up, !up, !up, !bias, !square, !square, !square, !square, !square, !out, !out, !out
  }
}
