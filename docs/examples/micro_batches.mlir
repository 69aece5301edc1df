// Four micro-batches and one update in one program. `skip_weight_update` is 1.0
// in all but the first one, and `skip_optimizer` in all but the last one.
!table = tensor<256x64xf32>
!up = tensor<256x64xf32>
!down = tensor<64x128xf32>
!gain = tensor<64xf32>
!x = tensor<64x64xbf16>

module {
  func.func private @loss(%ids: tensor<64xi32> {te.name = "ids"}, %targets: tensor<64xi32> {te.name = "targets"},
                          %table: !table {te.name = "table", te.weight}, %gain: !gain {te.name = "gain", te.weight},
                          %up: !up {te.name = "up", te.weight}, %down: !down {te.name = "down", te.weight},
                          %head: !table {te.name = "head", te.weight}) -> (tensor<f32> {te.name = "loss"}) {
    %table_bf16 = arith.truncf %table : !table to tensor<256x64xbf16>
    %gain_bf16 = arith.truncf %gain : !gain to tensor<64xbf16>
    %up_bf16 = arith.truncf %up : !up to tensor<256x64xbf16>
    %down_bf16 = arith.truncf %down : !down to tensor<64x128xbf16>
    %head_bf16 = arith.truncf %head : !table to tensor<256x64xbf16>
    %x = te.embedding %ids, %table_bf16 : tensor<64xi32>, tensor<256x64xbf16> -> !x
    %n = te.rms_norm %x, %gain_bf16 {epsilon = 1.0e-5 : f32} : !x, tensor<64xbf16>
    %u = te.linear %n, %up_bf16 : !x, tensor<256x64xbf16> -> tensor<64x256xbf16>
    %a = te.activation <swiglu> %u : tensor<64x256xbf16> -> tensor<64x128xbf16>
    %d = te.linear %a, %down_bf16 : tensor<64x128xbf16>, tensor<64x128xbf16> -> !x
    %y = arith.addf %x, %d : !x
    %logits = te.linear %y, %head_bf16 : !x, tensor<256x64xbf16> -> tensor<64x256xbf16>
    %loss = te.cross_entropy %logits, %targets : tensor<64x256xbf16>, tensor<64xi32>
    return %loss : tensor<f32>
  }

  func.func @step(%ids: tensor<64xi32> {te.name = "ids"}, %targets: tensor<64xi32> {te.name = "targets"},
                  %skip: tensor<f32> {te.name = "skip_optimizer", te.init = 0.0 : f32},
                  %updates: tensor<f32> {te.name = "updates", te.init = 0.0 : f32},
                  %table: !table {te.name = "table", te.weight},
                  %table_m: !table {te.name = "table.m", te.init = 0.0 : f32}, %table_v: !table {te.name = "table.v", te.init = 0.0 : f32},
                  %gain: !gain {te.name = "gain", te.weight},
                  %gain_m: !gain {te.name = "gain.m", te.init = 0.0 : f32}, %gain_v: !gain {te.name = "gain.v", te.init = 0.0 : f32},
                  %up: !up {te.name = "up", te.weight},
                  %up_m: !up {te.name = "up.m", te.init = 0.0 : f32}, %up_v: !up {te.name = "up.v", te.init = 0.0 : f32},
                  %down: !down {te.name = "down", te.weight},
                  %down_m: !down {te.name = "down.m", te.init = 0.0 : f32}, %down_v: !down {te.name = "down.v", te.init = 0.0 : f32},
                  %head: !table {te.name = "head", te.weight},
                  %head_m: !table {te.name = "head.m", te.init = 0.0 : f32}, %head_v: !table {te.name = "head.v", te.init = 0.0 : f32})
      -> (tensor<f32> {te.name = "loss"}, tensor<f32> {te.name = "norm"}, tensor<f32> {te.name = "updates"},
          !table {te.name = "table"}, !table {te.name = "table.m"}, !table {te.name = "table.v"}, !table {te.name = "grad.table"},
          !gain {te.name = "gain"}, !gain {te.name = "gain.m"}, !gain {te.name = "gain.v"}, !gain {te.name = "grad.gain"},
          !up {te.name = "up"}, !up {te.name = "up.m"}, !up {te.name = "up.v"}, !up {te.name = "grad.up"},
          !down {te.name = "down"}, !down {te.name = "down.m"}, !down {te.name = "down.v"}, !down {te.name = "grad.down"},
          !table {te.name = "head"}, !table {te.name = "head.m"}, !table {te.name = "head.v"}, !table {te.name = "grad.head"}) {
    // Each micro-batch has a quarter of the loss, so that the sum of gradients is that of the mean.
    %quarter = arith.constant dense<0.25> : tensor<f32>
    %loss, %dtable, %dgain, %dup, %ddown, %dhead = te.vjp @loss(%ids, %targets, %table, %gain, %up, %down, %head)
      cotangents(%quarter) wrt [2, 3, 4, 5, 6]
      : (tensor<64xi32>, tensor<64xi32>, !table, !gain, !up, !down, !table), (tensor<f32>)
      -> (tensor<f32>, !table, !gain, !up, !down, !table)
    // One update more, unless `skip_optimizer` is 1.
    %one = arith.constant dense<1.0> : tensor<f32>
    %more = arith.subf %one, %skip : tensor<f32>
    %t = arith.addf %updates, %more : tensor<f32>
    %squares = te.sum_of_squares %dtable, %dgain, %dup, %ddown, %dhead unless %skip : !table, !gain, !up, !down, !table
    %norm, %factor = te.clip_factor %squares {max_norm = 1.0 : f32}
    %lr = arith.constant dense<0.01> : tensor<f32>
    %table1, %table_m1, %table_v1 = te.adamw %table, %dtable, %table_m, %table_v lr %lr step %t grad_scale %factor unless %skip : !table, !table
    %gain1, %gain_m1, %gain_v1 = te.adamw %gain, %dgain, %gain_m, %gain_v lr %lr step %t grad_scale %factor unless %skip : !gain, !gain
    %up1, %up_m1, %up_v1 = te.adamw %up, %dup, %up_m, %up_v lr %lr step %t grad_scale %factor unless %skip : !up, !up
    %down1, %down_m1, %down_v1 = te.adamw %down, %ddown, %down_m, %down_v lr %lr step %t grad_scale %factor unless %skip : !down, !down
    %head1, %head_m1, %head_v1 = te.adamw %head, %dhead, %head_m, %head_v lr %lr step %t grad_scale %factor unless %skip : !table, !table
    return %loss, %norm, %t, %table1, %table_m1, %table_v1, %dtable, %gain1, %gain_m1, %gain_v1, %dgain,
      %up1, %up_m1, %up_v1, %dup, %down1, %down_m1, %down_v1, %ddown, %head1, %head_m1, %head_v1, %dhead
      : tensor<f32>, tensor<f32>, tensor<f32>, !table, !table, !table, !table, !gain, !gain, !gain, !gain,
        !up, !up, !up, !up, !down, !down, !down, !down, !table, !table, !table, !table
  }
}
