// RUN: te-opt %s --te-verify-collectives --split-input-file | FileCheck %s

// A column-parallel and a row-parallel layer over tp, with tokens split over dp: all shardings are correct.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  // CHECK-LABEL: @two_layers
  func.func @two_layers(%x: tensor<64x64xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 1>]}, %g: tensor<64xbf16> {te.name = "g"},
                        %w: tensor<64x64xbf16> {te.name = "w", te.sharding = [#te.shard<axis = 0, group = 0>]},
                        %v: tensor<64x64xbf16> {te.name = "v", te.sharding = [#te.shard<axis = 1, group = 0>]})
      -> (tensor<64x64xbf16> {te.name = "y", te.sharding = [#te.shard<axis = 0, group = 1>]}) {
    %n = te.rms_norm %x, %g : tensor<64x64xbf16>, tensor<64xbf16>
    %h = te.linear %n, %w parallel <column, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    %a = te.activation <gelu> %h : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %o = te.linear %a, %v parallel <row, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    %y = arith.addf %x, %o : tensor<64x64xbf16>
    return %y : tensor<64x64xbf16>
  }

  // Gathered columns are whole rows, and a sum of partial sums is a sum.
  // CHECK-LABEL: @by_hand
  func.func @by_hand(%x: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 1, group = 0>]}, %w: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 1, group = 0>]},
                     %g: tensor<256xbf16>) -> (tensor<64x256xbf16>, tensor<64x64xbf16>) {
    %all = te.all_gather %x group 0 axis 1 : tensor<64x64xbf16> -> tensor<64x256xbf16>
    %n = te.rms_norm %all, %g : tensor<64x256xbf16>, tensor<256xbf16>
    %part = te.linear %x, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    %sum = te.all_reduce %part group 0 : tensor<64x64xbf16>
    return %n, %sum : tensor<64x256xbf16>, tensor<64x64xbf16>
  }
}

// -----

// The gradients of experts that all ranks have are summed. Those of one rank, whose rows came from all ranks, are complete.
// CHECK-LABEL: @experts
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @experts(%x: tensor<128x64xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %ids: tensor<128x2xi32>, %dy: tensor<256x48xbf16>,
                     %all: tensor<4x48x64xbf16> {te.name = "all", te.weight}, %own: tensor<2x48x64xbf16> {te.name = "own", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<4x48x64xbf16> {te.name = "all"}, tensor<2x48x64xbf16> {te.name = "own"}) {
    %rows, %sizes, %row_of, %entry_of, %dropped = te.permute %x, %ids {alignment = 64 : i64, capacity = 64 : i64, padded}
      : tensor<128x64xbf16>, tensor<128x2xi32> -> tensor<256x64xbf16>, tensor<4xi32>, tensor<256xi32>, tensor<256xi32>
    %d = te.grouped_linear_wgrad %dy, %rows, %sizes {alignment = 64 : i64} : tensor<256x48xbf16>, tensor<256x64xbf16>, tensor<4xi32> -> tensor<4x48x64xbf16>
    %s = te.all_reduce %d group 0 : tensor<4x48x64xbf16>
    %n = arith.subf %all, %s : tensor<4x48x64xbf16>
    %parts = tensor.expand_shape %rows [[0, 1], [2]] output_shape [4, 64, 64] : tensor<256x64xbf16> into tensor<4x64x64xbf16>
    %exchanged = te.all_to_all %parts group 0 split 0 concat 1 : tensor<4x64x64xbf16> -> tensor<2x128x64xbf16>
    %mine = tensor.collapse_shape %exchanged [[0, 1], [2]] : tensor<2x128x64xbf16> into tensor<256x64xbf16>
    %full = arith.constant dense<128> : tensor<2xi32>
    %e = te.grouped_linear_wgrad %dy, %mine, %full {alignment = 128 : i64} : tensor<256x48xbf16>, tensor<256x64xbf16>, tensor<2xi32> -> tensor<2x48x64xbf16>
    %o = arith.subf %own, %e : tensor<2x48x64xbf16>
    return %n, %o : tensor<4x48x64xbf16>, tensor<2x48x64xbf16>
  }
}

// -----

// The gradient is summed over the ranks, scattered, or accumulated in main_grad, which is summed once.
// CHECK-LABEL: @summands
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @summands(%x: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %dy: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %w: tensor<256x256xbf16> {te.name = "w", te.weight},
                      %v: tensor<128x256xbf16> {te.name = "v", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]}, %g: tensor<256x256xbf16> {te.name = "grad.w"})
      -> (tensor<256x256xbf16> {te.name = "w"}, tensor<128x256xbf16> {te.name = "v"}, tensor<256x256xbf16> {te.name = "grad.w"}) {
    %d = te.linear_wgrad %dy, %x : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<256x256xbf16>
    %s = te.all_reduce %d group 0 : tensor<256x256xbf16>
    %n = arith.subf %w, %s : tensor<256x256xbf16>
    %p = te.reduce_scatter %d group 0 axis 0 : tensor<256x256xbf16> -> tensor<128x256xbf16>
    %u = arith.subf %v, %p : tensor<128x256xbf16>
    %h = arith.addf %g, %d : tensor<256x256xbf16>
    return %n, %u, %h : tensor<256x256xbf16>, tensor<128x256xbf16>, tensor<256x256xbf16>
  }
}

// -----

// Squares of parts are summed over the ranks, those of whole tensors are not, and both are added.
// CHECK-LABEL: @global_norm
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @global_norm(%part: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %x: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %dy: tensor<128x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<f32> {te.name = "norm"}) {
    %d = te.linear_wgrad %dy, %x : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<256x256xbf16>
    %shard = te.reduce_scatter %d group 0 axis 0 : tensor<256x256xbf16> -> tensor<128x256xbf16>
    %s0 = te.sum_of_squares %part : tensor<128x256xbf16>
    %s1 = te.sum_of_squares %shard plus %s0 : tensor<128x256xbf16>
    %parts = te.all_reduce %s1 group 0 : tensor<f32>
    %whole = te.all_reduce %d group 0 : tensor<256x256xbf16>
    %s2 = te.sum_of_squares %whole : tensor<256x256xbf16>
    %sum = arith.addf %parts, %s2 : tensor<f32>
    %norm, %factor = te.clip_factor %sum {max_norm = 1.0 : f32}
    return %norm : tensor<f32>
  }
}

// -----

// A group of one rank splits nothing.
module attributes {te.groups = [#te.group<id = 0, name = "one", axis = "one", size = 1>]} {
  // CHECK-LABEL: @one_rank
  func.func @one_rank(%x: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 1, group = 0>]}, %g: tensor<64xbf16>, %w: tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 1, group = 0>]})
      -> (tensor<64x64xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}) {
    %n = te.rms_norm %x, %g : tensor<64x64xbf16>, tensor<64xbf16>
    %y = te.linear %n, %w parallel <column, group = 0> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    return %y : tensor<64x64xbf16>
  }
}

// -----

// The gradient of a column-parallel layer gathers the rows that its ranks have, and sums over all of them.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  // CHECK-LABEL: @own_sum
  func.func @own_sum(%dy: tensor<64x32xbf16>, %x: tensor<32x64xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %s: tensor<32x64xbf16> {te.name = "s"})
      -> (tensor<32x64xbf16> {te.name = "s"}) {
    %dw = te.linear_wgrad %dy, %x parallel <column, group = 0, sequence> : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<32x64xbf16>
    %n = arith.addf %s, %dw : tensor<32x64xbf16>
    return %n : tensor<32x64xbf16>
  }
}
