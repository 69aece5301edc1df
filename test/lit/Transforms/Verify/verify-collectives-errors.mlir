// RUN: te-opt %s --te-verify-collectives --split-input-file --verify-diagnostics

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @partial_amax(%x: tensor<64x64xbf16>) -> !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1> {
    // expected-note @below {{'te.amax' of this rank's part is here}}
    %amax = te.amax %x : tensor<64x64xbf16>
    %scale = te.compute_scale %amax for f8E4M3FN
    %xq = te.quantize %x scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
    // expected-error @below {{expected all ranks of group 0 ('tp') to cast the gathered tensor with one scale, but it comes from an amax that is not reduced over the group (te.amax_reduce)}}
    %y = te.all_gather %xq group 0 axis 0 : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1>
    return %y : !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1>
  }
}

// -----

// This also holds for an exchange.
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @exchanged_amax(%x: tensor<64x64xbf16>) -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> {
    // expected-note @below {{'te.amax' of this rank's part is here}}
    %amax = te.amax %x : tensor<64x64xbf16>
    %scale = te.compute_scale %amax for f8E4M3FN
    %xq = te.quantize %x scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
    // expected-error @below {{expected all ranks of group 0 ('ep') to cast the exchanged tensor with one scale, but it comes from an amax that is not reduced over the group (te.amax_reduce)}}
    %y = te.all_to_all %xq group 0 split 0 concat 0 : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
    return %y : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  }
}

// -----

// The amaxes that one rank has of blocks that are cut are not enough for scales.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_blocks(%x: tensor<5197xbf16>) -> !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1> {
    // expected-note @below {{'te.partial_amax' of this rank's part is here}}
    %amax = te.partial_amax %x group 0 of [160, 128] blocks [128, 128] : tensor<5197xbf16> -> tensor<2x1xf32>
    %q = te.quantize_shard %x amax %amax group 0 : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197>
    // expected-error @below {{expected all ranks of group 0 ('dp') to cast the gathered tensor with one scale, but it comes from an amax that is not reduced over the group (te.amax_reduce)}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197> -> !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1>
    return %y : !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1>
  }
}

// -----

// Neither are those of a flat shard with one scale.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_flat(%x: tensor<5197xbf16>) -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1> {
    // expected-note @below {{'te.amax' of this rank's part is here}}
    %amax = te.amax %x : tensor<5197xbf16>
    %scale = te.compute_scale %amax for f8E4M3FN
    %q = te.quantize_shard %x scale %scale : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>
    // expected-error @below {{expected all ranks of group 0 ('dp') to cast the gathered tensor with one scale}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1>
    return %y : !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1>
  }
}

// -----

// A reduction over another group is not sufficient.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @other_group(%x: tensor<64x64xbf16>) -> !te.scaled<256x64xf4E2M1FN, nv_1x16, contract = 1> {
    // expected-note @below {{'te.amax' of this rank's part is here}}
    %amax = te.amax %x : tensor<64x64xbf16>
    %dp = te.amax_reduce %amax group 1
    %xq = te.quantize %x amax %dp : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1>
    // expected-error @below {{expected all ranks of group 0 ('tp') to cast the gathered tensor with one scale}}
    %y = te.all_gather %xq group 0 axis 0 : !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1> -> !te.scaled<256x64xf4E2M1FN, nv_1x16, contract = 1>
    return %y : !te.scaled<256x64xf4E2M1FN, nv_1x16, contract = 1>
  }
}

// -----

// The state that the scale is computed from has only the amaxes of this rank.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @partial_state(%x: tensor<64x64xbf16>, %h: tensor<16xf32> {te.name = "h"}, %s: tensor<f32> {te.name = "s"})
      -> (!te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1>, tensor<16xf32> {te.name = "h"}, tensor<f32> {te.name = "s"}) {
    %xq = te.quantize %x scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
    // expected-error @below {{expected all ranks of group 0 ('tp') to cast the gathered tensor with one scale}}
    %y = te.all_gather %xq group 0 axis 0 : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1>
    // expected-note @below {{'te.amax' of this rank's part is here}}
    %amax = te.amax %x : tensor<64x64xbf16>
    %nh, %ns = te.delayed_scaling_update %amax, %h, %s for f8E4M3FN : tensor<f32>, tensor<16xf32>
    return %y, %nh, %ns : !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1>, tensor<16xf32>, tensor<f32>
  }
}

// -----

module attributes {te.recipe = #te.recipe<mxfp8_block_scaling>, te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @no_amax_in_mxfp8(%a: tensor<f32>) -> tensor<f32> {
    // expected-error @below {{expected no 'te.amax_reduce' under recipe 'mxfp8_block_scaling', which has no scale of a whole tensor}}
    %r = te.amax_reduce %a group 0
    return %r : tensor<f32>
  }
}

// -----

module attributes {te.recipe = #te.recipe<float8_block_scaling>, te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @no_amax_in_block(%a: tensor<f32>) -> tensor<f32> {
    // expected-error @below {{expected no 'te.amax_reduce' under recipe 'float8_block_scaling'}}
    %r = te.amax_reduce %a group 0
    return %r : tensor<f32>
  }
}

// -----

module attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false, row_scaled_activation = true, backward_override = dequantized}>,
                   te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @no_amax_of_rows(%a: tensor<f32>) -> tensor<f32> {
    // expected-error @below {{expected no 'te.amax_reduce' under recipe 'nvfp4_block_scaling'}}
    %r = te.amax_reduce %a group 0
    return %r : tensor<f32>
  }
}

// -----

// All ranks except the first would wait forever.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @only_rank_0(%x: tensor<8xf32>) {
    %r = te.rank group 0
    %zero = arith.constant 0 : index
    %first = arith.cmpi eq, %r, %zero : index
    scf.if %first {
      // expected-error @below {{expected all ranks of group 0 ('tp') to run 'te.all_reduce' of 'tensor<8xf32>', but rank 0 waits here for rank 1}}
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    // expected-note @below {{rank 1 ends here}}
    return
  }
}

// -----

// Two groups are used in two orders, so every rank waits for another.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @two_orders(%x: tensor<8xf32>) {
    %tp = te.rank group 0
    %dp = te.rank group 1
    %same = arith.cmpi eq, %tp, %dp : index
    scf.if %same {
      // expected-error @below {{expected all ranks of group 0 ('tp') to run 'te.all_reduce' of 'tensor<8xf32>', but rank 0 waits here for rank 2}}
      %a = te.all_reduce %x group 0 : tensor<8xf32>
      %b = te.all_reduce %x group 1 : tensor<8xf32>
    } else {
      // expected-note @below {{rank 2 waits in 'te.all_reduce' of 'tensor<8xf32>' of group 1 ('dp') here}}
      %b = te.all_reduce %x group 1 : tensor<8xf32>
      %a = te.all_reduce %x group 0 : tensor<8xf32>
    }
    return
  }
}

// -----

// The stages of a pipeline are separate modules.
module attributes {te.groups = [#te.group<id = 0, name = "pp", axis = "pp", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} {
    func.func @step(%a: tensor<f32>, %x: tensor<8xf32>) {
      // expected-note @below {{rank 0 is here}}
      %r = te.amax_reduce %a group 0
      %y = te.all_reduce %x group 0 : tensor<8xf32>
      return
    }
  }
  module attributes {te.ranks = array<i64: 1>} {
    func.func @step(%a: tensor<f32>, %x: tensor<8xf32>) {
      // expected-error @below {{expected all ranks of group 0 ('pp') to run the same collectives in one order, but rank 1 runs 'te.all_reduce' of 'tensor<8xf32>' where rank 0 runs 'te.amax_reduce' of 'tensor<f32>'}}
      %y = te.all_reduce %x group 0 : tensor<8xf32>
      %r = te.amax_reduce %a group 0
      return
    }
  }
}

// -----

// expected-error @below {{expected every rank from 0 to 1 to have a module with 'te.ranks', but rank 1 has none}}
module attributes {te.groups = [#te.group<id = 0, name = "pp", axis = "pp", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} {
    func.func @step() { return }
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "pp", axis = "pp", size = 2>]} {
  // expected-note @below {{the other is here}}
  module attributes {te.ranks = array<i64: 0, 1>} {
    func.func @step() { return }
  }
  // expected-error @below {{expected each rank to have one module, but rank 1 has two}}
  module attributes {te.ranks = array<i64: 1>} {
    func.func @step() { return }
  }
}

// -----

// A branch that depends on a value of the step may differ between ranks.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @data_dependent(%x: tensor<8xf32>, %flag: i1) {
    // expected-note @below {{the branch is here}}
    scf.if %flag {
      // expected-error @below {{expected both sides of a branch that ranks may take differently to run the same collectives, but 'te.all_reduce' of 'tensor<8xf32>' is on one side only}}
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    %r = te.rank group 0
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @unknown_loop(%x: tensor<8xf32>, %n: index) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    // expected-error @below {{expected a loop with collectives to have bounds that are known of every rank}}
    scf.for %i = %zero to %n step %one {
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    return
  }
}

// -----

// A collective of two amaxes does not match one of a single amax.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} {
    func.func @batched(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
      // expected-note @below {{rank 0 is here}}
      %r:2 = te.amax_reduce %a, %b group 0
      return %r#0, %r#1 : tensor<f32>, tensor<f32>
    }
  }
  module attributes {te.ranks = array<i64: 1>} {
    func.func @one_by_one(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
      // expected-error @below {{but rank 1 runs 'te.amax_reduce' of 'tensor<f32>' where rank 0 runs 'te.amax_reduce' of 'tuple<tensor<f32>, tensor<f32>>'}}
      %r = te.amax_reduce %a group 0
      %s = te.amax_reduce %b group 0
      return %r, %s : tensor<f32>, tensor<f32>
    }
  }
}

// -----

// Exchanges are collectives, too.
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @exchange_of_some(%x: tensor<8xf32>) -> tensor<8xf32> {
    %r = te.rank group 0
    %zero = arith.constant 0 : index
    %isFirst = arith.cmpi eq, %r, %zero : index
    %y = scf.if %isFirst -> tensor<8xf32> {
      // expected-note @below {{rank 0}}
      %a = te.all_to_all %x group 0 split 0 concat 0 : tensor<8xf32> -> tensor<8xf32>
      scf.yield %a : tensor<8xf32>
    } else {
      // expected-error @below {{expected all ranks of group 0 ('ep') to run the same collectives in one order, but rank 1 runs 'te.all_reduce' of 'tensor<8xf32>' where rank 0 runs 'te.all_to_all' of 'tensor<8xf32>'}}
      %b = te.all_reduce %x group 0 : tensor<8xf32>
      scf.yield %b : tensor<8xf32>
    }
    return %y : tensor<8xf32>
  }
}

// -----

// Casts match casts of the same kind that are divided in the same way.
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} {
    func.func @casts(%x: !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1>) -> !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1, groups = 2> {
      // expected-note @below {{rank 0 is here}}
      %y = te.all_to_all %x group 0 split 0 concat 1 : !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1> -> !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1, groups = 2>
      return %y : !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1, groups = 2>
    }
  }
  module attributes {te.ranks = array<i64: 1>} {
    func.func @tensors(%x: tensor<4x16x64xbf16>) -> tensor<2x32x64xbf16> {
      // expected-error @below {{but rank 1 runs 'te.all_to_all' of 'tensor<4x16x64xbf16>'}}
      %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<4x16x64xbf16> -> tensor<2x32x64xbf16>
      return %y : tensor<2x32x64xbf16>
    }
  }
}

// -----

// Scattered sums match only if they are divided along one axis.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} {
    func.func @rows(%x: tensor<64x64xbf16>) -> tensor<32x64xbf16> {
      // expected-note @below {{rank 0 is here}}
      %y = te.reduce_scatter %x group 0 axis 0 : tensor<64x64xbf16> -> tensor<32x64xbf16>
      return %y : tensor<32x64xbf16>
    }
  }
  module attributes {te.ranks = array<i64: 1>} {
    func.func @columns(%x: tensor<64x64xbf16>) -> tensor<64x32xbf16> {
      // expected-error @below {{but rank 1 runs 'te.reduce_scatter' of 'tensor<64x64xbf16>' along axis 1 where rank 0 runs 'te.reduce_scatter' of 'tensor<64x64xbf16>' along axis 0}}
      %y = te.reduce_scatter %x group 0 axis 1 : tensor<64x64xbf16> -> tensor<64x32xbf16>
      return %y : tensor<64x32xbf16>
    }
  }
}

// -----

// The effects of branches in a function are not tracked.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  // expected-error @below {{expected collectives in no control flow except 'scf.if', 'scf.for' and calls, but 'blocks' has them and branches of its own}}
  func.func @blocks(%x: tensor<8xf32>, %flag: i1) -> tensor<8xf32> {
    cf.cond_br %flag, ^sum, ^end(%x : tensor<8xf32>)
  ^sum:
    %y = te.all_reduce %x group 0 : tensor<8xf32>
    cf.br ^end(%y : tensor<8xf32>)
  ^end(%z: tensor<8xf32>):
    return %z : tensor<8xf32>
  }
}

// -----

// No recipe here has an amax of a tensor.
module attributes {te.recipe = #te.recipe<high_precision>, te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @no_amax(%a: tensor<f32>) -> tensor<f32> {
    // expected-error @below {{expected no 'te.amax_reduce' under recipe 'high_precision', which has no scale of a whole tensor}}
    %r = te.amax_reduce %a group 0
    return %r : tensor<f32>
  }
}

// -----

// A number of ranks that exceeds any machine is not simulated rank by rank.
// expected-error @below {{expected at most 65536 ranks if their programs differ, but the groups have 1099511627776}}
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 1048576>, #te.group<id = 1, name = "dp", axis = "dp", size = 1048576>]} {
  func.func @asks() -> index {
    %r = te.rank group 0
    return %r : index
  }
}

// -----

// Parts that are divided along one axis do not match parts of another axis.
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} {
    func.func @rows(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
      // expected-note @below {{rank 0 is here}}
      %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x64xbf16> -> tensor<64x64xbf16>
      return %y : tensor<64x64xbf16>
    }
  }
  module attributes {te.ranks = array<i64: 1>} {
    func.func @columns(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
      // expected-error @below {{but rank 1 runs 'te.all_to_all' of 'tensor<64x64xbf16>' from axis 1 to axis 1 where rank 0 runs 'te.all_to_all' of 'tensor<64x64xbf16>' from axis 0 to axis 0}}
      %y = te.all_to_all %x group 0 split 1 concat 1 : tensor<64x64xbf16> -> tensor<64x64xbf16>
      return %y : tensor<64x64xbf16>
    }
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @other_side(%x: tensor<8xf32>, %flag: i1) {
    // expected-note @below {{the branch is here}}
    scf.if %flag {
    } else {
      // expected-error @below {{to run the same collectives, but 'te.all_reduce' of 'tensor<8xf32>' is on one side only}}
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @two_collectives(%x: tensor<8xf32>, %z: tensor<4xf32>, %flag: i1) {
    // expected-note @below {{the branch is here}}
    scf.if %flag {
      // expected-error @below {{to run the same collectives, but 'te.all_reduce' of 'tensor<8xf32>' is on one side only}}
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    } else {
      // expected-note @below {{the other side runs 'te.all_reduce' of 'tensor<4xf32>' here}}
      %y = te.all_reduce %z group 0 : tensor<4xf32>
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @two_groups(%x: tensor<8xf32>, %flag: i1) {
    // expected-note @below {{the branch is here}}
    scf.if %flag {
      // expected-error @below {{to run the same collectives, but 'te.all_reduce' of 'tensor<8xf32>' is on one side only}}
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    } else {
      // expected-note @below {{the other side runs 'te.all_reduce' of 'tensor<8xf32>' here}}
      %y = te.all_reduce %x group 1 : tensor<8xf32>
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @unknown_start(%x: tensor<8xf32>, %n: index) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    // expected-error @below {{expected a loop with collectives to have bounds that are known of every rank}}
    scf.for %i = %n to %two step %one {
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @unknown_step(%x: tensor<8xf32>, %n: index) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    // expected-error @below {{expected a loop with collectives to have bounds that are known of every rank}}
    scf.for %i = %one to %two step %n {
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @no_step(%x: tensor<8xf32>, %n: index) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    // expected-error @below {{expected a loop with collectives to have bounds that are known of every rank}}
    scf.for %i = %one to %two step %zero {
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @in_another_region(%x: tensor<8xf32>, %flag: i1) {
    // expected-error @below {{expected collectives in no control flow except 'scf.if', 'scf.for' and calls, but got them in 'scf.while'}}
    scf.while : () -> () {
      %y = te.all_reduce %x group 0 : tensor<8xf32>
      scf.condition(%flag)
    } do {
      scf.yield
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @calls_itself(%x: tensor<8xf32>) {
    // expected-error @below {{expected calls not to nest deeper than 64}}
    call @calls_itself(%x) : (tensor<8xf32>) -> ()
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @wrong_side(%x: tensor<8xf32>, %n: index, %flag: i1) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %true = arith.constant true
    scf.if %flag {
      // expected-error @below {{expected a loop with collectives to have bounds that are known of every rank}}
      scf.for %i = %zero to %n step %one {
        %y = te.all_reduce %x group 0 : tensor<8xf32>
      }
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @wrong_other_side(%x: tensor<8xf32>, %n: index, %flag: i1) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %true = arith.constant true
    scf.if %flag {
    } else {
      // expected-error @below {{expected a loop with collectives to have bounds that are known of every rank}}
      scf.for %i = %zero to %n step %one {
        %y = te.all_reduce %x group 0 : tensor<8xf32>
      }
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @wrong_known_side(%x: tensor<8xf32>, %n: index, %flag: i1) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %true = arith.constant true
    scf.if %true {
      // expected-error @below {{expected a loop with collectives to have bounds that are known of every rank}}
      scf.for %i = %zero to %n step %one {
        %y = te.all_reduce %x group 0 : tensor<8xf32>
      }
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @wrong_loop(%x: tensor<8xf32>, %n: index, %flag: i1) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %true = arith.constant true
    scf.for %j = %zero to %one step %one {
      // expected-error @below {{expected a loop with collectives to have bounds that are known of every rank}}
      scf.for %i = %zero to %n step %one {
        %y = te.all_reduce %x group 0 : tensor<8xf32>
      }
    }
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @too_many(%x: tensor<8xf32>) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %many = arith.constant 1048577 : index
    scf.for %i = %zero to %many step %one {
      // expected-error @below {{expected a step to have at most 1048576 collectives}}
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    return
  }
}

// -----

// Collectives of one rank wait for nobody, but there are too many passes to follow.
module attributes {te.groups = [#te.group<id = 0, name = "one", axis = "one", size = 1>]} {
  func.func @too_long(%x: tensor<8xf32>) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %many = arith.constant 4611686018427387904 : index
    scf.for %i = %zero to %many step %one {
      // expected-error @below {{expected loops with collectives to run at most 4194304 ops}}
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    return
  }
}

// -----

module attributes {te.recipe = #te.recipe<custom, {fprop = #te.recipe<mxfp8_block_scaling>}>, te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @no_amax_of_custom(%a: tensor<f32>) -> tensor<f32> {
    // expected-error @below {{expected no 'te.amax_reduce' under recipe 'custom', which has no scale of a whole tensor}}
    %r = te.amax_reduce %a group 0
    return %r : tensor<f32>
  }
}

// -----

module attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false, row_scaled_activation = true}>, te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @no_amax_of_rows(%a: tensor<f32>) -> tensor<f32> {
    // expected-error @below {{expected no 'te.amax_reduce' under recipe 'nvfp4_block_scaling', which has no scale of a whole tensor}}
    %r = te.amax_reduce %a group 0
    return %r : tensor<f32>
  }
}

// -----

// An amax that is reduced over another group is still one of this rank's part.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {
  func.func @other_group(%x: tensor<64x64xbf16>) -> !te.scaled<128x64xf8E4M3FN, per_tensor, contract = 1> {
    // expected-note @below {{'te.amax' of this rank's part is here}}
    %amax = te.amax %x : tensor<64x64xbf16>
    %all = te.amax_reduce %amax group 1
    %scale = te.compute_scale %all for f8E4M3FN
    %q = te.quantize %x scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
    // expected-error @below {{expected all ranks of group 0 ('tp') to cast the gathered tensor with one scale, but it comes from an amax that is not reduced over the group (te.amax_reduce)}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<128x64xf8E4M3FN, per_tensor, contract = 1>
    return %y : !te.scaled<128x64xf8E4M3FN, per_tensor, contract = 1>
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @given_amax(%x: tensor<64x64xbf16>) -> !te.scaled<128x64xf4E2M1FN, nv_1x16, contract = 1> {
    // expected-note @below {{'te.amax' of this rank's part is here}}
    %amax = te.amax %x : tensor<64x64xbf16>
    %q = te.quantize %x amax %amax : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1>
    // expected-error @below {{expected all ranks of group 0 ('tp') to cast the gathered tensor with one scale}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1> -> !te.scaled<128x64xf4E2M1FN, nv_1x16, contract = 1>
    return %y : !te.scaled<128x64xf4E2M1FN, nv_1x16, contract = 1>
  }
}
