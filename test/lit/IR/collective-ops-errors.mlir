// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

func.func @amax_reduce_c1(%a: tensor<f32>) {
  // expected-error @below {{expected group 0 to be declared in 'te.groups' of the module, which has none}}
  %r = te.amax_reduce %a group 0
  return
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @amax_reduce_c2(%a: tensor<f32>, %b: tensor<4xf32>) {
    // expected-error @below {{expected one amax or more and a result of the type of each, but got 2 amaxes and 2 results}}
    %r:2 = "te.amax_reduce"(%a, %b) {group_id = 0 : i32} : (tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
    return
  }
}

// -----

// Groups that another module declares are not visible here.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>, #te.group<id = 3, name = "dp", axis = "dp", size = 2>]} {
  func.func @amax_reduce_c1_other(%a: tensor<f32>) {
    // expected-error @below {{expected group 1 to be declared in 'te.groups' of the module, which has 0 ('tp'), 3 ('dp')}}
    %r = te.amax_reduce %a group 1
    return
  }
}

// -----

func.func @all_reduce_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected group 0 to be declared in 'te.groups' of the module, which has none}}
  %y = te.all_reduce %x group 0 : tensor<8xf32>
  return
}

// -----

func.func @all_gather_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected group 2 to be declared}}
  %y = te.all_gather %x group 2 axis 0 : tensor<8xf32> -> tensor<32xf32>
  return
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @all_gather_c2(%x: tensor<8xf32>) {
    // expected-error @below {{expected 'axis' to be one of 'tensor<8xf32>', but got 1}}
    %y = te.all_gather %x group 0 axis 1 : tensor<8xf32> -> tensor<32xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @all_gather_c2_scaled(%x: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected 'axis' of a scaled value to be 0, but got 1}}
    %y = te.all_gather %x group 0 axis 1 : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<64x256xf8E4M3FN, per_tensor, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @all_gather_c3(%x: tensor<8x4xf32>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0, where 'y' has from 8 to 32 for a group of 4, but got 'tensor<8x4xf32>' and 'tensor<33x4xf32>'}}
    %y = te.all_gather %x group 0 axis 0 : tensor<8x4xf32> -> tensor<33x4xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @all_gather_c3_scaled(%x: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0}}
    %y = te.all_gather %x group 0 axis 0 : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 0>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @all_gather_c4(%x: !te.scaled<64x128xf8E4M3FN, block_1x128, pow2, contract = 0>) {
    // expected-error @below {{expected the rows of a part to be a multiple of 128, but got}}
    %y = te.all_gather %x group 0 axis 0 : !te.scaled<64x128xf8E4M3FN, block_1x128, pow2, contract = 0> -> !te.scaled<256x128xf8E4M3FN, block_1x128, pow2, contract = 0>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @all_gather_c4_swizzled(%x: !te.scaled<128x128xf8E4M3FN, mx_1x32, swizzled, contract = 1>) {
    // expected-error @below {{expected a value without groups and swizzled scales, but got}}
    %y = te.all_gather %x group 0 axis 0 : !te.scaled<128x128xf8E4M3FN, mx_1x32, swizzled, contract = 1> -> !te.scaled<512x128xf8E4M3FN, mx_1x32, swizzled, contract = 1>
    return
  }
}

// -----

func.func @reduce_scatter_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected group 0 to be declared}}
  %y = te.reduce_scatter %x group 0 axis 0 : tensor<8xf32> -> tensor<2xf32>
  return
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @reduce_scatter_c2(%x: tensor<6x4xf32>) {
    // expected-error @below {{expected 'axis' to be one of 'tensor<6x4xf32>', but got 2}}
    %y = te.reduce_scatter %x group 0 axis 2 : tensor<6x4xf32> -> tensor<2x4xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @reduce_scatter_c3(%x: tensor<8x4xf32>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0, where 'x' has from 1 to 4 for a group of 4}}
    %y = te.reduce_scatter %x group 0 axis 0 : tensor<8x4xf32> -> tensor<1x4xf32>
    return
  }
}

// -----

func.func @all_to_all_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected group 0 to be declared}}
  %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c2(%x: tensor<8x4xf32>) {
    // expected-error @below {{expected 'split' to be an axis of 'tensor<8x4xf32>', but got 2}}
    %y = te.all_to_all %x group 0 split 2 concat 0 : tensor<8x4xf32> -> tensor<8x4xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c2_concat(%x: tensor<8x4xf32>) {
    // expected-error @below {{expected 'concat' to be an axis of 'tensor<8x4xf32>', but got -1}}
    %y = te.all_to_all %x group 0 split 0 concat -1 : tensor<8x4xf32> -> tensor<8x4xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c3(%x: tensor<6x4xf32>) {
    // expected-error @below {{expected the size of axis 0 to be a multiple of the 4 ranks of the group, but got 6}}
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<6x4xf32> -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c4(%x: tensor<8x4xf32>) {
    // expected-error @below {{expected 'y' to have shape 2x16, but got 8x4}}
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<8x4xf32> -> tensor<8x4xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c4_type(%x: tensor<8x4xf32>) {
    // expected-error @below {{expected 'x' and 'y' to have one element type, but got 'f32' and 'bf16'}}
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<8x4xf32> -> tensor<8x4xbf16>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c2_scaled(%x: !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 8>) {
    // expected-error @below {{expected 'concat' to be 0, the groups of rows, or 1, the rows of a group, but got 2}}
    %y = te.all_to_all %x group 0 split 0 concat 2 : !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 8> -> !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 8>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c2_matrix(%x: !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1>) {
    // expected-error @below {{expected 'split' to be 0, the rows of a value without groups, but got 1}}
    %y = te.all_to_all %x group 0 split 1 concat 0 : !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1> -> !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c3_scaled(%x: !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 2>) {
    // expected-error @below {{expected the size of axis 0 to be a multiple of the 4 ranks of the group, but got 2}}
    %y = te.all_to_all %x group 0 split 0 concat 0 : !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 2> -> !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 2>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c3_groups(%x: !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 3>) {
    // expected-error @below {{to be a multiple of their groups, but got 3 groups}}
    %y = te.all_to_all %x group 0 split 1 concat 0 : !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 3> -> !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 12>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c4_groups(%x: !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 8>) {
    // expected-error @below {{expected 'y' to have 2 groups, but got '!te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 8>'}}
    %y = te.all_to_all %x group 0 split 0 concat 1 : !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 8> -> !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 8>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c4_axis(%x: !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 8>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but groups}}
    %y = te.all_to_all %x group 0 split 0 concat 1 : !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 1, groups = 8> -> !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 0, groups = 2>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c5(%x: !te.scaled<512x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected a value of one scale for all rows to have no groups}}
    %y = te.all_to_all %x group 0 split 0 concat 1 : !te.scaled<512x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<512x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c5_amax(%x: !te.scaled<512x64xf4E2M1FN, nv_1x16, contract = 1, groups = 8>) {
    // expected-error @below {{expected a value of one amax for all rows to have no groups}}
    %y = te.all_to_all %x group 0 split 0 concat 1 : !te.scaled<512x64xf4E2M1FN, nv_1x16, contract = 1, groups = 8> -> !te.scaled<512x64xf4E2M1FN, nv_1x16, contract = 1, groups = 2>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c5_stack(%x: !te.scaled<8x128x128xf8E4M3FN, block_128x128, contract = 1>) {
    // expected-error @below {{expected a matrix whose scales are not swizzled, but got '!te.scaled<8x128x128xf8E4M3FN, block_128x128, contract = 1>'}}
    %y = te.all_to_all %x group 0 split 0 concat 0 : !te.scaled<8x128x128xf8E4M3FN, block_128x128, contract = 1> -> !te.scaled<8x128x128xf8E4M3FN, block_128x128, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c5_swizzled(%x: !te.scaled<512x128xf8E4M3FN, mx_1x32, swizzled, contract = 1>) {
    // expected-error @below {{expected a matrix whose scales are not swizzled}}
    %y = te.all_to_all %x group 0 split 0 concat 0 : !te.scaled<512x128xf8E4M3FN, mx_1x32, swizzled, contract = 1> -> !te.scaled<512x128xf8E4M3FN, mx_1x32, swizzled, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c6(%x: !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 0, groups = 8>) {
    // expected-error @below {{expected rows that travel together of !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 0, groups = 8> to be a multiple of 128, but got 64}}
    %y = te.all_to_all %x group 0 split 0 concat 1 : !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 0, groups = 8> -> !te.scaled<512x64xf8E4M3FN, block_1x128, contract = 0, groups = 2>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 4>]} {
  func.func @all_to_all_c6_received(%x: !te.scaled<512x64xf8E4M3FN, mx_1x32, contract = 0, groups = 8>) {
    // expected-error @below {{to be a multiple of 32, but got 16}}
    %y = te.all_to_all %x group 0 split 1 concat 0 : !te.scaled<512x64xf8E4M3FN, mx_1x32, contract = 0, groups = 8> -> !te.scaled<512x64xf8E4M3FN, mx_1x32, contract = 0, groups = 32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @all_to_all_c6_padding(%x: !te.scaled<6x64xf8E4M3FN, block_1x128, contract = 1>) {
    // expected-error @below {{expected the rows of !te.scaled<6x64xf8E4M3FN, block_1x128, contract = 1> to be a multiple of 4, but got 6}}
    %y = te.all_to_all %x group 0 split 0 concat 0 : !te.scaled<6x64xf8E4M3FN, block_1x128, contract = 1> -> !te.scaled<6x64xf8E4M3FN, block_1x128, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @all_to_all_c4_tensor(%x: tensor<6x64xbf16>) {
    // expected-error @below {{expected 'y' to be a tensor as 'tensor<6x64xbf16>', but got '!te.scaled<6x64xf8E4M3FN, per_tensor, contract = 1>'}}
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<6x64xbf16> -> !te.scaled<6x64xf8E4M3FN, per_tensor, contract = 1>
    return
  }
}

// -----

func.func @rank_c1() {
  // expected-error @below {{expected group 0 to be declared}}
  %r = te.rank group 0
  return
}

// -----

func.func @bias_add_c1(%x: tensor<8x4xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{expected 'bias' to have shape 4, but got 8}}
  %y = te.bias_add %x, %b : tensor<8x4xf32>, tensor<8xf32>
  return
}

// -----

func.func @linear_c4(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{expected group 1 to be declared in 'te.groups'}}
  %y = te.linear %x, %w parallel <column, group = 1> : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @linear_c1_column(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) {
    // expected-error @below {{expected 'x' and 'y' to have the same rows, of which 'x' has a part for each of 4 ranks, but got 4 and 4}}
    %y = te.linear %x, %w parallel <column, group = 0, sequence> : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
    return
  }
}

// -----

// 6 rows cannot be split over 4 ranks.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @linear_c1_row(%x: tensor<6x8xf32>, %w: tensor<6x8xf32>) {
    // expected-error @below {{expected 'x' and 'y' to have the same rows, of which 'y' has a part for each of 4 ranks, but got 6 and 1}}
    %y = te.linear %x, %w parallel <row, group = 0, sequence> : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<1x6xf32>
    return
  }
}

// -----

func.func @linear_dgrad_c3(%dy: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{expected group 1 to be declared}}
  %dx = te.linear_dgrad %dy, %w parallel <column, group = 1> : tensor<4x6xf32>, tensor<6x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_wgrad_c4(%dy: tensor<4x6xf32>, %x: tensor<4x8xf32>) {
  // expected-error @below {{expected group 1 to be declared}}
  %dw = te.linear_wgrad %dy, %x parallel <row, group = 1> : tensor<4x6xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  return
}

// -----

// expected-error @below {{expected 'te.groups' to be an array of #te.group<...> on a module, but got [0] on 'builtin.module'}}
module attributes {te.groups = [0]} {
  func.func private @groups_c1()
}

// -----

// expected-error @below {{expected 'te.groups' to be an array of #te.group<...> on a module, but got [] on 'func.func'}}
func.func private @groups_c1_function() attributes {te.groups = []}

// -----

// expected-error @below {{expected groups to have different ids and names, but got #te.group<id = 0, name = "tp", axis = "x", size = 4> and #te.group<id = 0, name = "dp", axis = "y", size = 2>}}
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "x", size = 4>, #te.group<id = 0, name = "dp", axis = "y", size = 2>]} {
  func.func private @groups_c2()
}

// -----

// expected-error @below {{expected groups along one axis to have one size, but got}}
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "x", size = 4>, #te.group<id = 1, name = "sp", axis = "x", size = 2>]} {
  func.func private @groups_c2_axis()
}

// -----

// expected-error @below {{expected 'id' not to be negative, but got -1}}
func.func private @group_c1() attributes {te.groups = [#te.group<id = -1, name = "tp", axis = "tp", size = 4>]}

// -----

// expected-error @below {{expected 'size' to be from 1 to 1048576, but got 0}}
func.func private @group_c1_size() attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 0>]}

// -----

// expected-error @below {{expected 'name' and 'axis' not to be empty, but got 'tp' and ''}}
func.func private @group_c2() attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "", size = 2>]}

// -----

// expected-error @below {{expected 'axis' and 'group' not to be negative, but got -1 and 0}}
func.func private @shard_c1(tensor<8xf32> {te.sharding = [#te.shard<axis = -1, group = 0>]})

// -----

// expected-error @below {{expected 'te.sharding' to be an array of #te.shard<...> on a tensor or a scaled value, but got 0 : i64 on 'tensor<8xf32>'}}
func.func private @sharding_c1(tensor<8xf32> {te.sharding = 0})

// -----

// expected-error @below {{expected 'te.groups' to declare the group of 'te.sharding', but got 0}}
func.func private @sharding_c2(tensor<8xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]})

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  // expected-error @below {{expected 'axis' of 'te.sharding' to be one of 'tensor<8xf32>', but got 1}}
  func.func private @sharding_c2_axis() -> (tensor<8xf32> {te.sharding = [#te.shard<axis = 1, group = 0>]})
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  // expected-error @below {{expected 'te.sharding' to name each group once at most, but got}}
  func.func private @sharding_c2_twice(tensor<8x8xf32> {te.sharding = [#te.shard<axis = 0, group = 0>, #te.shard<axis = 1, group = 0>]})
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  // expected-error @below {{expected 'te.ranks' to hold ranks from 0 to 3, but got 4}}
  module attributes {te.ranks = array<i64: 4>} {
    func.func private @ranks_c1()
  }
}

// -----

// expected-error @below {{expected 'te.ranks' to hold each rank once, but got 0 twice}}
module attributes {te.ranks = array<i64: 0, 0>} {
  func.func private @ranks_c1_twice()
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c5(%q: !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197>) {
    // expected-error @below {{expected the shards of all ranks to be '!te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1>', but got '!te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1>'}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c5_too_few(%q: !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5000>) {
    // expected-error @below {{expected the shards of 4 ranks to cover 20480 elements, but got 5000 of each}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5000> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_element(%q: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0, where 'y' has from 32 to 128 for a group of 4, but got}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<128x64xf8E5M2, per_tensor, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_scheme(%q: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0, where 'y' has from 32 to 128 for a group of 4, but got}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<128x64xf8E4M3FN, block_128x128, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_contract(%q: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0, where 'y' has from 32 to 128 for a group of 4, but got}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<128x64xf8E4M3FN, per_tensor, contract = 0>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_columns(%q: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0, where 'y' has from 32 to 128 for a group of 4, but got}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<128x32xf8E4M3FN, per_tensor, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_groups(%q: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0, where 'y' has from 32 to 128 for a group of 4, but got}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<128x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_variant(%q: !te.scaled<32x64xf8E4M3FN, block_1x128, contract = 1>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<32x64xf8E4M3FN, block_1x128, contract = 1> -> !te.scaled<128x64xf8E4M3FN, block_1x128, pow2, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_tensor(%q: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0, where 'y' has from 32 to 128 for a group of 4, but got}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<128x64xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_scaled(%q: tensor<32x64xf32>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0}}
    %y = te.all_gather %q group 0 axis 0 : tensor<32x64xf32> -> !te.scaled<128x64xf8E4M3FN, per_tensor, contract = 1>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_type(%q: tensor<32x64xf32>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 0}}
    %y = te.all_gather %q group 0 axis 0 : tensor<32x64xf32> -> tensor<128x64xbf16>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_rank(%q: tensor<32x64xf32>) {
    // expected-error @below {{expected 'x' and 'y' to differ in nothing but axis 1}}
    %y = te.all_gather %q group 0 axis 1 : tensor<32x64xf32> -> tensor<32xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c3_small(%q: tensor<32x64xf32>) {
    // expected-error @below {{where 'y' has from 32 to 128 for a group of 4, but got}}
    %y = te.all_gather %q group 0 axis 0 : tensor<32x64xf32> -> tensor<16x64xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c4_groups(%q: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>) {
    // expected-error @below {{expected a value without groups and swizzled scales, but got}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1, groups = 2> -> !te.scaled<128x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @all_gather_c4_stack(%q: !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>) {
    // expected-error @below {{expected a value without groups and swizzled scales, but got}}
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<8x32x64xf8E4M3FN, per_tensor, contract = 1>
    return
  }
}

// -----

// expected-error @below {{expected 'te.groups' to be an array of #te.group<...> on a module, but got 0 : i64 on 'builtin.module'}}
module attributes {te.groups = 0} {
  func.func private @groups_c1_array()
}

// -----

// expected-error @below {{expected groups to have different ids and names, but got}}
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "x", size = 4>, #te.group<id = 1, name = "tp", axis = "y", size = 2>]} {
  func.func private @groups_c2_name()
}

// -----

// expected-error @below {{expected 'size' to be from 1 to 1048576, but got 1048577}}
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "x", size = 1048577>]} {
  func.func private @group_c1_ranks()
}

// -----

// expected-error @below {{expected 'name' and 'axis' not to be empty, but got '' and 'x'}}
module attributes {te.groups = [#te.group<id = 0, name = "", axis = "x", size = 2>]} {
  func.func private @group_c2_name()
}

// -----

// expected-error @below {{expected 'te.ranks' to hold ranks from 0 to 0, but got -1}}
module attributes {te.ranks = array<i64: -1>} {
  func.func private @ranks_c1_negative()
}

// -----

// expected-error @below {{expected 'te.ranks' to be an array of i64 on a module, but got 0 : i64 on 'builtin.module'}}
module attributes {te.ranks = 0} {
  func.func private @ranks_c1_array()
}

// -----

// expected-error @below {{expected 'te.ranks' to be an array of i64 on a module, but got array<i64: 0> on 'func.func'}}
func.func private @ranks_c1_function() attributes {te.ranks = array<i64: 0>}

// -----

// expected-error @below {{expected 'axis' and 'group' not to be negative, but got 0 and -1}}
func.func private @shard_c1_group(tensor<8xf32> {te.sharding = [#te.shard<axis = 0, group = -1>]})

// -----

// expected-error @below {{expected 'te.sharding' to be an array of #te.shard<...> on a tensor or a scaled value, but got [0] on 'tensor<8xf32>'}}
func.func private @sharding_c1_entry(tensor<8xf32> {te.sharding = [0]})

// -----

// expected-error @below {{expected 'te.sharding' to be an array of #te.shard<...> on a tensor or a scaled value, but got [] on 'i32'}}
func.func private @sharding_c1_type(i32 {te.sharding = []})
