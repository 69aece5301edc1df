// Programs that te-verify-collectives accepts.
// RUN: te-opt %s --te-verify-collectives --split-input-file | FileCheck %s

// CHECK-LABEL: @reduced
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func @reduced(%x: tensor<64x64xbf16>) -> !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1> {
    %amax = te.amax %x : tensor<64x64xbf16>
    %all = te.amax_reduce %amax group 0
    %scale = te.compute_scale %all for f8E4M3FN
    %xq = te.quantize %x scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
    %y = te.all_gather %xq group 0 axis 0 : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1>
    return %y : !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1>
  }
}

// -----

// 4,096 ranks run one of two branches with the same collectives.
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 64>, #te.group<id = 1, name = "dp", axis = "dp", size = 64>]} {
  func.func @mesh(%x: tensor<8xf32>) {
    %r = te.rank group 1
    %two = arith.constant 2 : index
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %hundred = arith.constant 100 : index
    %odd = arith.remui %r, %two : index
    %even = arith.cmpi eq, %odd, %zero : index
    scf.for %i = %zero to %hundred step %one {
      scf.if %even {
        %y = te.all_reduce %x group 0 : tensor<8xf32>
      } else {
        %z = arith.addf %x, %x : tensor<8xf32>
        %y = te.all_reduce %z group 0 : tensor<8xf32>
      }
      %z = te.all_reduce %x group 1 : tensor<8xf32>
    }
    return
  }
}

// -----

// A rank with an empty part takes part like others. Stages
// may have other shapes if only an amax is reduced.
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} {
    func.func @step(%x: tensor<64x32xbf16>) -> tensor<f32> {
      %amax = te.amax %x : tensor<64x32xbf16>
      %r = te.amax_reduce %amax group 0
      return %r : tensor<f32>
    }
  }
  module attributes {te.ranks = array<i64: 1>} {
    func.func @step(%x: tensor<0x32xbf16>) -> tensor<f32> {
      %amax = te.amax %x : tensor<0x32xbf16>
      %r = te.amax_reduce %amax group 0
      return %r : tensor<f32>
    }
  }
}

// -----

// Both sides of a branch that nobody knows run the same; a loop without
// collectives may have any bounds, and functions may be declared only.
// CHECK-LABEL: @unknown
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>, #te.group<id = 1, name = "one", axis = "one", size = 1>]} {
  func.func private @declared(tensor<8xf32>)
  func.func private @declared_too()
  func.func @unknown(%x: tensor<8xf32>, %flag: i1, %n: index) -> tensor<8xf32> {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    call @declared_too() : () -> ()
    %y = scf.if %flag -> tensor<8xf32> {
      %a = te.all_reduce %x group 0 : tensor<8xf32>
      scf.yield %a : tensor<8xf32>
    } else {
      %b = arith.negf %x : tensor<8xf32>
      %c = te.all_reduce %b group 0 : tensor<8xf32>
      scf.yield %c : tensor<8xf32>
    }
    %z = scf.for %i = %zero to %n step %one iter_args(%s = %y) -> tensor<8xf32> {
      %t = arith.negf %s : tensor<8xf32>
      scf.yield %t : tensor<8xf32>
    }
    scf.if %flag {
      %alone = te.all_reduce %x group 1 : tensor<8xf32>
    }
    return %z : tensor<8xf32>
  }
}

// -----

// A loop whose next index is no number ends.
// CHECK-LABEL: @last_index
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @last_index(%x: tensor<8xf32>) {
    %start = arith.constant 9223372036854775800 : index
    %end = arith.constant 9223372036854775807 : index
    %step = arith.constant 100 : index
    scf.for %i = %start to %end step %step {
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    return
  }
}

// -----

// One rank shares its scale with nobody, and rows with amaxes of their own have no common one. A recipe that only says how some
// GEMMs are quantised has amaxes of tensors if one of them has.
// CHECK-LABEL: @own_scales
module attributes {te.recipe = #te.recipe<custom, {fprop = #te.recipe<mxfp8_block_scaling>, wgrad = #te.recipe<float8_current_scaling>}>,
                   te.groups = [#te.group<id = 0, name = "one", axis = "one", size = 1>, #te.group<id = 1, name = "tp", axis = "tp", size = 2>]} {
  func.func @own_scales(%x: tensor<64x64xbf16>) -> (!te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<128x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1>) {
    %amax = te.amax %x : tensor<64x64xbf16>
    %scale = te.compute_scale %amax for f8E4M3FN
    %q = te.quantize %x scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
    %y = te.all_gather %q group 0 axis 0 : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
    %rows = te.amax_rows %x : tensor<64x64xbf16> -> tensor<64xf32>
    %p = te.quantize %x amax %rows : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
    %z = te.all_gather %p group 1 axis 0 : !te.scaled<64x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1> -> !te.scaled<128x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
    %all = te.amax_reduce %amax group 1
    return %y, %z : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<128x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
  }
}
