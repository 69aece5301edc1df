// RUN: te-opt %s --te-verify-collectives --split-input-file --verify-diagnostics

// A column-parallel layer reads a tensor that all ranks have or, with sequence, one that is split by rows.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @rows_without_sequence(
      // expected-note @below {{it is split here}}
      %x: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    // expected-error @below {{expected 'x' to be the same on all ranks of group 0 ('tp'), but it is split along axis 0}}
    %y = te.linear %x, %w parallel <column, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    return %y : tensor<64x64xbf16>
  }
}

// -----

// It cannot read the columns of another column-parallel layer.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @columns_of_columns(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    // expected-note @below {{it is split here}}
    %h = te.linear %x, %w parallel <column, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    // expected-error @below {{expected 'x' to be the same on all ranks of group 0 ('tp'), but it is split along axis 1}}
    %y = te.linear %h, %w parallel <column, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    return %y : tensor<64x64xbf16>
  }
}

// -----

// This also holds with elementwise ops and an activation in between.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @through_elementwise(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    // expected-note @below {{it is split here}}
    %h = te.linear %x, %w parallel <column, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    %a = te.activation <gelu> %h : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %b = arith.addf %a, %x : tensor<64x64xbf16>
    // expected-error @below {{expected 'x' to be split along axis 0 over group 0 ('tp'), but it is split along axis 1}}
    %y = te.linear %b, %w parallel <column, group = 0, sequence> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<256x64xbf16>
    return %h : tensor<64x64xbf16>
  }
}

// -----

// A row-parallel layer reads columns.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @rows_into_row(
      // expected-note @below {{it is split here}}
      %x: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    // expected-error @below {{expected 'x' to be split along axis 1 over group 0 ('tp'), but it is split along axis 0}}
    %y = te.linear %x, %w parallel <row, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    return %y : tensor<64x64xbf16>
  }
}

// -----

// Weights and biases are split like the layer.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @weight_and_bias(%x: tensor<64x64xbf16>,
      // expected-note @below {{it is split here}}
      %w: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 1, group = 0>]},
      // expected-note @below {{it is split here}}
      %bias: tensor<64xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}) -> (tensor<64x64xbf16>, tensor<64x64xbf16>) {
    // expected-error @below {{expected 'w' to be split along axis 0 over group 0 ('tp'), but it is split along axis 1}}
    %y = te.linear %x, %w parallel <column, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    // expected-error @below {{expected 'bias' to be the same on all ranks of group 0 ('tp'), but it is split along axis 0}}
    %z = te.linear %x, %w bias %bias : tensor<64xbf16> parallel <row, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    return %y, %z : tensor<64x64xbf16>, tensor<64x64xbf16>
  }
}

// -----

// Norms, softmax, losses and maxima read whole rows.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @parts_of_rows(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>, %t: tensor<64xi32>) -> (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<f32>) {
    // expected-note @below {{it is split here}}
    %y = te.linear %x, %w parallel <column, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    // expected-error @below {{expected 'x' to have whole rows on each rank, but along axis 1 it is split over 'tp'}}
    %n = te.rms_norm %y, %g : tensor<64x64xbf16>, tensor<64xbf16>
    // expected-error @below {{expected 'x' to have whole rows on each rank}}
    %l = te.layer_norm %y, %g, %g : tensor<64x64xbf16>, tensor<64xbf16>
    // expected-error @below {{expected 'x' to have whole rows on each rank}}
    %s = te.softmax %y : tensor<64x64xbf16>
    // expected-error @below {{expected 'logits' to have whole rows on each rank}}
    %loss = te.cross_entropy %y, %t : tensor<64x64xbf16>, tensor<64xi32>
    %z = arith.extf %y : tensor<64x64xbf16> to tensor<64x64xf32>
    %lowest = arith.constant dense<0xFF800000> : tensor<64xf32>
    // expected-error @below {{expected 'input' to have whole rows on each rank}}
    %m = linalg.reduce { arith.maximumf } ins(%z : tensor<64x64xf32>) outs(%lowest : tensor<64xf32>) dimensions = [1]
    // expected-error @below {{expected 'input' to have whole rows on each rank}}
    %last = linalg.reduce ins(%z : tensor<64x64xf32>) outs(%lowest : tensor<64xf32>) dimensions = [1] (%in: f32, %out: f32) {
      linalg.yield %in : f32
    }
    return %n, %l, %s, %loss : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<f32>
  }
}

// -----

// Tensors with different shardings are not added.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @two_ways(
      // expected-note @below {{one is split here}}
      %x: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]},
      // expected-note @below {{another is split here}}
      %w: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 1, group = 0>]}) -> tensor<64x64xbf16> {
    // expected-error @below {{expected operands to be split over 'tp' along one axis, but got axis 0 and axis 1}}
    %y = arith.addf %x, %w : tensor<64x64xbf16>
    return %y : tensor<64x64xbf16>
  }
}

// -----

// The next value of a state has the sharding of the argument.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @state(%w: tensor<64x64xbf16> {te.name = "w", te.sharding = [#te.shard<axis = 0, group = 0>]},
      // expected-note @below {{it is split here}}
      %d: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 1, group = 0>]}) -> (tensor<64x64xbf16> {te.name = "w"}) {
    // expected-error @below {{expected result 0 to be split over 'tp' along axis 0, as it is declared, but it is split along axis 1}}
    return %d : tensor<64x64xbf16>
  }
}

// -----

// A weight that all ranks share is updated with a gradient of this rank's rows.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @summand_of_a_weight(%x: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %dy: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %w: tensor<256x256xbf16> {te.name = "w", te.weight})
      -> (tensor<256x256xbf16> {te.name = "w"}) {
    // expected-note @below {{'te.linear_wgrad' sums over rows that are split here}}
    %d = te.linear_wgrad %dy, %x : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<256x256xbf16>
    %n = arith.subf %w, %d : tensor<256x256xbf16>
    // expected-error @below {{expected state 'w' to be the same on all ranks of 'dp', over which it has no 'te.sharding', but the returned value contains a sum over only the rows of this rank (te.all_reduce)}}
    return %n : tensor<256x256xbf16>
  }
}

// -----

// This is also found through the optimizer, for its moments, and for the gradient of a bias.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @summand_of_an_optimizer(%dy: tensor<128x256xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %b: tensor<256xf32> {te.name = "b"}, %m: tensor<256xf32> {te.name = "b.m"}, %lr: tensor<f32>)
      -> (tensor<256xf32> {te.name = "b"}, tensor<256xf32> {te.name = "b.m"}) {
    // expected-note @below {{'te.bias_grad' sums over rows that are split here}}
    %d = te.bias_grad %dy : tensor<128x256xf32> -> tensor<256xf32>
    %n, %m1 = te.sgd %b, %d buffer %m lr %lr {momentum = 0.9 : f32} : tensor<256xf32>, tensor<256xf32>
    // expected-error @+2 {{expected state 'b.m' to be the same on all ranks of 'dp'}}
    // expected-error @below {{expected state 'b' to be the same on all ranks of 'dp'}}
    return %n, %m1 : tensor<256xf32>, tensor<256xf32>
  }
}

// -----

// The gradient of the sinks of attention.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @summand_of_sinks(%o: tensor<128x256xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %lse: tensor<512xf32>, %s: tensor<4xf32> {te.name = "s"}, %lr: tensor<f32>)
      -> (tensor<4xf32> {te.name = "s"}) {
    // expected-note @below {{'te.attention_sink_grad' sums over rows that are split here}}
    %d = te.attention_sink_grad %o, %o, %lse, %s {sequence = 64 : i64} : tensor<128x256xf32>, tensor<512xf32>, tensor<4xf32>
    %n = te.sgd %s, %d lr %lr : tensor<4xf32>, tensor<4xf32>
    // expected-error @below {{expected state 's' to be the same on all ranks of 'dp'}}
    return %n : tensor<4xf32>
  }
}

// -----

// The sum is over another group than that of the rows.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>, #te.group<id = 1, name = "tp", axis = "tp", size = 2>]} {
  func.func @summed_over_another(%x: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %dy: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %w: tensor<256x256xbf16> {te.name = "w", te.weight})
      -> (tensor<256x256xbf16> {te.name = "w"}) {
    // expected-note @below {{'te.matmul' sums over rows that are split here}}
    %d = te.matmul %dy, %x contract = [0, 0] : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<256x256xbf16>
    %s = te.all_reduce %d group 1 : tensor<256x256xbf16>
    %n = arith.subf %w, %s : tensor<256x256xbf16>
    // expected-error @below {{expected state 'w' to be the same on all ranks of 'dp'}}
    return %n : tensor<256x256xbf16>
  }
}

// -----

// Experts that all ranks have: rows grouped by expert are those of one rank, also after a layer.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @summands_of_experts(%x: tensor<128x64xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %ids: tensor<128x2xi32>, %dy: tensor<512x32xbf16>,
                                 %up: tensor<4x48x64xbf16> {te.name = "up", te.weight}, %down: tensor<4x32x48xbf16> {te.name = "down", te.weight},
                                 %bias: tensor<4x48xbf16> {te.name = "bias", te.weight})
      -> (tensor<4x48x64xbf16> {te.name = "up"}, tensor<4x32x48xbf16> {te.name = "down"}, tensor<4x48xbf16> {te.name = "bias"}) {
    %rows, %sizes, %row_of, %entry_of, %dropped = te.permute %x, %ids {alignment = 64 : i64}
      : tensor<128x64xbf16>, tensor<128x2xi32> -> tensor<512x64xbf16>, tensor<4xi32>, tensor<256xi32>, tensor<512xi32>
    %h = te.grouped_linear %rows, %up, %sizes {alignment = 64 : i64} : tensor<512x64xbf16>, tensor<4x48x64xbf16>, tensor<4xi32> -> tensor<512x48xbf16>
    // expected-note @below {{'te.grouped_linear_wgrad' sums over rows that are split here}}
    %d0 = te.grouped_linear_wgrad %h, %rows, %sizes {alignment = 64 : i64} : tensor<512x48xbf16>, tensor<512x64xbf16>, tensor<4xi32> -> tensor<4x48x64xbf16>
    // expected-note @below {{'te.grouped_wgrad' sums over rows that are split here}}
    %d1 = te.grouped_wgrad %dy, %h, %sizes {alignment = 64 : i64} : tensor<512x32xbf16>, tensor<512x48xbf16>, tensor<4xi32> -> tensor<4x32x48xbf16>
    // expected-note @below {{'te.grouped_bias_grad' sums over rows that are split here}}
    %d2 = te.grouped_bias_grad %h, %sizes {alignment = 64 : i64} : tensor<512x48xbf16>, tensor<4xi32> -> tensor<4x48xbf16>
    %u = arith.subf %up, %d0 : tensor<4x48x64xbf16>
    %v = arith.subf %down, %d1 : tensor<4x32x48xbf16>
    %b = arith.subf %bias, %d2 : tensor<4x48xbf16>
    // expected-error @+3 {{expected state 'up' to be the same on all ranks of 'dp', over which it has no 'te.sharding', but the returned value contains a sum over only the rows of this rank (te.all_reduce)}}
    // expected-error @+2 {{expected state 'down' to be the same on all ranks of 'dp'}}
    // expected-error @below {{expected state 'bias' to be the same on all ranks of 'dp'}}
    return %u, %v, %b : tensor<4x48x64xbf16>, tensor<4x32x48xbf16>, tensor<4x48xbf16>
  }
}

// -----

// The gain of a norm, and a table.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @summands_of_a_norm_and_a_table(%ids: tensor<128xi32> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %x: tensor<128x256xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]},
                                            %dy: tensor<128x256xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %g: tensor<256xf32> {te.name = "g"}, %b: tensor<256xf32> {te.name = "b"},
                                            %r: tensor<128xf32>, %t: tensor<64x256xf32> {te.name = "t"})
      -> (tensor<256xf32> {te.name = "g"}, tensor<256xf32> {te.name = "b"}, tensor<64x256xf32> {te.name = "t"}) {
    // expected-note @below {{'te.layer_norm_backward' sums over rows that are split here}}
    %dx, %dg, %db = te.layer_norm_backward %dy, %x, %g, %r, %r : tensor<128x256xf32>, tensor<256xf32>, tensor<128xf32>
    // expected-note @below {{'te.embedding_backward' sums over rows that are split here}}
    %dt = te.embedding_backward %ids, %dx : tensor<128xi32>, tensor<128x256xf32> -> tensor<64x256xf32>
    %g1 = arith.subf %g, %dg : tensor<256xf32>
    %b1 = arith.subf %b, %db : tensor<256xf32>
    %t1 = arith.subf %t, %dt : tensor<64x256xf32>
    // expected-error @+3 {{expected state 'g' to be the same on all ranks of 'dp'}}
    // expected-error @+2 {{expected state 'b' to be the same on all ranks of 'dp'}}
    // expected-error @below {{expected state 't' to be the same on all ranks of 'dp'}}
    return %g1, %b1, %t1 : tensor<256xf32>, tensor<256xf32>, tensor<64x256xf32>
  }
}

// -----

// The rows of attention are split as the boundaries of its documents are, and those of te.rope as its positions.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @rows_of_documents(%q: tensor<128x256xf32>,
                               // expected-note @below {{it is split here}}
                               %cu: tensor<9xi32> {te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x256xf32> {te.sharding = [#te.shard<axis = 1, group = 0>]}) {
    %o = te.attention %q, %q, %q documents %cu : tensor<9xi32> {heads = 4 : i64, kv_heads = 4 : i64, sequence = 128 : i64} : tensor<128x256xf32>, tensor<128x256xf32>
    // expected-error @below {{expected result 0 to be split over 'dp' along axis 1, as it is declared, but it is split along axis 0}}
    return %o : tensor<128x256xf32>
  }
  func.func @rows_of_positions(%x: tensor<128x256xf32>, %cos: tensor<64x32xf32>,
                               // expected-note @below {{it is split here}}
                               %p: tensor<128xi32> {te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x256xf32> {te.sharding = [#te.shard<axis = 1, group = 0>]}) {
    %y = te.rope %x, %cos, %cos positions %p : tensor<128xi32> {heads = 4 : i64} : tensor<128x256xf32>, tensor<64x32xf32>
    // expected-error @below {{expected result 0 to be split over 'dp' along axis 1, as it is declared, but it is split along axis 0}}
    return %y : tensor<128x256xf32>
  }
  // The sinks' gradient is a sum over rows that are split as the boundaries are.
  func.func @sinks_of_documents(%o: tensor<128x256xf32>, %cu: tensor<9xi32> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %lse: tensor<512xf32>, %s: tensor<4xf32> {te.name = "s"}, %lr: tensor<f32>)
      -> (tensor<4xf32> {te.name = "s"}) {
    // expected-note @below {{'te.attention_sink_grad' sums over rows that are split here}}
    %d = te.attention_sink_grad %o, %o, %lse, %s documents %cu : tensor<9xi32> {sequence = 128 : i64} : tensor<128x256xf32>, tensor<512xf32>, tensor<4xf32>
    %n = te.sgd %s, %d lr %lr : tensor<4xf32>, tensor<4xf32>
    // expected-error @below {{expected state 's' to be the same on all ranks of 'dp'}}
    return %n : tensor<4xf32>
  }
}

// -----

// A norm needs the squares of all parts.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @norm_of_a_part(%g: tensor<128x256xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]}) -> tensor<f32> {
    // expected-note @below {{'te.sum_of_squares' sums over what is split here}}
    %s = te.sum_of_squares %g : tensor<128x256xf32>
    // expected-error @below {{expected 'sum' to be summed over 'dp' (te.all_reduce), but it is one rank's summand}}
    %norm, %factor = te.clip_factor %s {max_norm = 1.0 : f32}
    return %factor : tensor<f32>
  }
}

// -----

// It needs the squares of sums and not of summands.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @squares_of_summands(%dy: tensor<128x256xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]}) -> tensor<f32> {
    // expected-note @below {{'te.bias_grad' sums over what is split here}}
    %d = te.bias_grad %dy : tensor<128x256xf32> -> tensor<256xf32>
    // expected-error @below {{expected 'x' to be summed over 'dp' (te.all_reduce), but it is one rank's summand}}
    %s = te.sum_of_squares %d : tensor<256xf32>
    return %s : tensor<f32>
  }
}

// -----

// A sum of parts and whole tensors would count the squares of whole tensors on every rank.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @sums(%part: tensor<128x256xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %whole: tensor<256xf32>) -> (tensor<f32>, tensor<f32>) {
    %s1 = te.sum_of_squares %part, %part : tensor<128x256xf32>, tensor<128x256xf32>
    // expected-error @below {{expected tensor 0 and those of 'sum' to be split over the same axes, but only those of 'sum' are split over 'dp' (use two sums)}}
    %s2 = te.sum_of_squares %whole plus %s1 : tensor<256xf32>
    // expected-error @below {{expected tensor 2 and those before it to be split over the same axes, but only tensor 2 is split over 'dp' (use two sums)}}
    %s3 = te.sum_of_squares %whole, %whole, %part : tensor<256xf32>, tensor<256xf32>, tensor<128x256xf32>
    %s5 = te.sum_of_squares %whole : tensor<256xf32>
    // expected-error @below {{expected tensor 0 and those of 'sum' to be split over the same axes, but only tensor 0 is split over 'dp' (use two sums)}}
    %s4 = te.sum_of_squares %part plus %s5 : tensor<128x256xf32>
    return %s2, %s4 : tensor<f32>, tensor<f32>
  }
}

// -----

// A state that is only called like a gradient is no sum of gradients of a weight, which hosts may reduce.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @called_like_a_gradient(%x: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %dy: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]},
                                    %v: tensor<256x256xbf16> {te.name = "v"}, %sum: tensor<256x256xbf16> {te.name = "grad.v"}, %own: tensor<256x256xbf16> {te.name = "grad.own"})
      -> (tensor<256x256xbf16> {te.name = "grad.v"}, tensor<256x256xbf16> {te.name = "grad.own"}) {
    // expected-note @below {{'te.linear_wgrad' sums over rows that are split here}}
    %d = te.linear_wgrad %dy, %x : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<256x256xbf16>
    %a = arith.addf %sum, %d : tensor<256x256xbf16>
    %b = arith.addf %own, %d : tensor<256x256xbf16>
    // expected-error @below {{expected state 'grad.own' to be the same on all ranks of 'dp'}}
    return %a, %b : tensor<256x256xbf16>, tensor<256x256xbf16>
  }
}
