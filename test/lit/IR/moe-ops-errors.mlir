// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

func.func @router_topk_c1(%l: tensor<4x8xf32>) {
  // expected-error @below {{expected 'probs' to have shape 4x2, but got 4x3}}
  %i, %p, %s = te.router_topk %l : tensor<4x8xf32> -> tensor<4x2xi32>, tensor<4x3xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_c2(%l: tensor<4x8xf32>) {
  // expected-error @below {{expected from 1 to 8 experts of a token, but got 9}}
  %i, %p, %s = te.router_topk %l : tensor<4x8xf32> -> tensor<4x9xi32>, tensor<4x9xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_c1_bias(%l: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expected 'bias' to have shape 8, but got 4}}
  %i, %p, %s = te.router_topk %l bias %b : tensor<4xf32> : tensor<4x8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_c2_groups(%l: tensor<4x8xf32>) {
  // expected-error @below {{expected from 1 to 4 experts of a token, but got 5}}
  %i, %p, %s = te.router_topk %l {groups = 4 : i64, chosen_groups = 2 : i64} : tensor<4x8xf32> -> tensor<4x5xi32>, tensor<4x5xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_c3(%l: tensor<4x8xf32>) {
  // expected-error @below {{expected 'groups' to split 8 experts into groups of two or more, but got 3}}
  %i, %p, %s = te.router_topk %l {groups = 3 : i64} : tensor<4x8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_c3_single(%l: tensor<4x8xf32>) {
  // expected-error @below {{expected 'groups' to split 8 experts into groups of two or more, but got 8}}
  %i, %p, %s = te.router_topk %l {groups = 8 : i64, chosen_groups = 4 : i64} : tensor<4x8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_c4(%l: tensor<4x8xf32>) {
  // expected-error @below {{expected 'chosen_groups' to be from 1 to 2, but got 3}}
  %i, %p, %s = te.router_topk %l {groups = 2 : i64, chosen_groups = 3 : i64} : tensor<4x8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_backward_c1(%d: tensor<4x2xf32>, %i: tensor<4x2xi32>, %s: tensor<5x8xf32>) {
  // expected-error @below {{expected 'scores' to have shape 4x8, but got 5x8}}
  %g = te.router_topk_backward %d, %i, %d, %s : tensor<4x2xf32>, tensor<4x2xi32>, tensor<5x8xf32> -> tensor<5x8xf32>
  return
}

// -----

func.func @permute_c1(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) {
  // expected-error @below {{expected 'row_of' to have shape 8, but got 4}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 16 : i64} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<32x8xf32>, tensor<3xi32>, tensor<4xi32>, tensor<32xi32>
  return
}

// -----

func.func @permute_c1_columns(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) {
  // expected-error @below {{expected 'y' to have shape 32x8, but got 32x4}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 16 : i64} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<32x4xf32>, tensor<3xi32>, tensor<8xi32>, tensor<32xi32>
  return
}

// -----

func.func @permute_c2(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) {
  // expected-error @below {{expected the rows to be a multiple of the alignment 24, but got 32}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 24 : i64} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<32x8xf32>, tensor<3xi32>, tensor<8xi32>, tensor<32xi32>
  return
}

// -----

func.func @permute_c3(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) {
  // expected-error @below {{expected 'capacity' not to be negative, but got -1}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 16 : i64, capacity = -1 : i64} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<32x8xf32>, tensor<3xi32>, tensor<8xi32>, tensor<32xi32>
  return
}

// -----

func.func @permute_c4(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) {
  // expected-error @below {{expected 'padded' groups to have a 'capacity' that is a multiple of the alignment 16 and 'y' that many rows for each of 3 experts, but got 16 and 64}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 16 : i64, capacity = 16 : i64, padded} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<64x8xf32>, tensor<3xi32>, tensor<8xi32>, tensor<64xi32>
  return
}

// -----

func.func @permute_c4_without(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) {
  // expected-error @below {{and 'y' that many rows for each of 3 experts, but got 0 and 48}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 16 : i64, padded} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<48x8xf32>, tensor<3xi32>, tensor<8xi32>, tensor<48xi32>
  return
}

// -----

func.func @permute_c5(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>, %u: tensor<8xf32>) {
  // expected-error @below {{expected 'used' to have shape 4, but got 8}}
  %y, %s, %r, %e, %d = te.permute %x, %i used %u : tensor<8xf32> {alignment = 16 : i64} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<32x8xf32>, tensor<3xi32>, tensor<8xi32>, tensor<32xi32>
  return
}

// -----

func.func @unpermute_c1(%y: tensor<32x8xf32>, %r: tensor<8xi32>, %e: tensor<16xi32>) {
  // expected-error @below {{expected 'entry_of' to have shape 32, but got 16}}
  %o = te.unpermute %y, %r, %e : tensor<32x8xf32>, tensor<8xi32>, tensor<16xi32> -> tensor<4x8xf32>
  return
}

// -----

func.func @unpermute_c1_entries(%y: tensor<32x8xf32>, %r: tensor<8xi32>, %e: tensor<32xi32>) {
  // expected-error @below {{expected as many entries for each of 3 tokens, but got 8}}
  %o = te.unpermute %y, %r, %e : tensor<32x8xf32>, tensor<8xi32>, tensor<32xi32> -> tensor<3x8xf32>
  return
}

// -----

func.func @unpermute_c2(%y: tensor<32x8xf32>, %r: tensor<8xi32>, %e: tensor<32xi32>, %p: tensor<4x3xf32>) {
  // expected-error @below {{expected 'probs' to have shape 4x2, but got 4x3}}
  %o = te.unpermute %y, %r, %e probs %p : tensor<4x3xf32> : tensor<32x8xf32>, tensor<8xi32>, tensor<32xi32> -> tensor<4x8xf32>
  return
}

// -----

func.func @unpermute_backward_c1(%d: tensor<4x8xf32>, %e: tensor<16xi32>) {
  // expected-error @below {{expected 'entry_of' to have shape 32, but got 16}}
  %o = te.unpermute_backward %d, %e {k = 2 : i64} : tensor<4x8xf32>, tensor<16xi32> -> tensor<32x8xf32>
  return
}

// -----

func.func @unpermute_backward_c2(%d: tensor<4x8xf32>, %e: tensor<32xi32>) {
  // expected-error @below {{expected 'k' to be one or more, but got 0}}
  %o = te.unpermute_backward %d, %e {k = 0 : i64} : tensor<4x8xf32>, tensor<32xi32> -> tensor<32x8xf32>
  return
}

// -----

func.func @prob_grad_c1(%d: tensor<4x8xf32>, %y: tensor<32x8xf32>, %r: tensor<8xi32>) {
  // expected-error @below {{expected 'row_of' to have shape 12, but got 8}}
  %o = te.prob_grad %d, %y, %r : tensor<4x8xf32>, tensor<32x8xf32>, tensor<8xi32> -> tensor<4x3xf32>
  return
}

// -----

func.func @router_topk_c1_ids(%l: tensor<4x8xf32>) {
  // expected-error @below {{expected 'ids' to have shape 4x2, but got 3x2}}
  %i, %p, %s = te.router_topk %l : tensor<4x8xf32> -> tensor<3x2xi32>, tensor<3x2xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_c1_scores(%l: tensor<4x8xf32>) {
  // expected-error @below {{expected 'scores' to have shape 4x8, but got 4x2}}
  %i, %p, %s = te.router_topk %l : tensor<4x8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>, tensor<4x2xf32>
  return
}

// -----

func.func @router_topk_c2_none(%l: tensor<4x8xf32>) {
  // expected-error @below {{expected from 1 to 8 experts of a token, but got 0}}
  %i, %p, %s = te.router_topk %l : tensor<4x8xf32> -> tensor<4x0xi32>, tensor<4x0xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_backward_c1_ids(%d: tensor<4x2xf32>, %i: tensor<4x3xi32>, %s: tensor<4x8xf32>) {
  // expected-error @below {{expected 'ids' to have shape 4x2, but got 4x3}}
  %g = te.router_topk_backward %d, %i, %d, %s : tensor<4x2xf32>, tensor<4x3xi32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @router_topk_backward_c1_dlogits(%d: tensor<4x2xf32>, %i: tensor<4x2xi32>, %s: tensor<4x8xf32>) {
  // expected-error @below {{expected 'dlogits' to have shape 4x8, but got 4x2}}
  %g = te.router_topk_backward %d, %i, %d, %s : tensor<4x2xf32>, tensor<4x2xi32>, tensor<4x8xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @permute_c1_ids(%x: tensor<4x8xf32>, %i: tensor<3x2xi32>) {
  // expected-error @below {{expected 'ids' to have shape 4x2, but got 3x2}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 16 : i64} : tensor<4x8xf32>, tensor<3x2xi32> -> tensor<32x8xf32>, tensor<3xi32>, tensor<8xi32>, tensor<32xi32>
  return
}

// -----

func.func @permute_c1_entries(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) {
  // expected-error @below {{expected 'entry_of' to have shape 32, but got 8}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 16 : i64} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<32x8xf32>, tensor<3xi32>, tensor<8xi32>, tensor<8xi32>
  return
}

// -----

func.func @permute_c1_types(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) {
  // expected-error @below {{expected 'y' and 'x' to have one element type, but got 'bf16' and 'f32'}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 16 : i64} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<32x8xbf16>, tensor<3xi32>, tensor<8xi32>, tensor<32xi32>
  return
}

// -----

func.func @permute_c4_alignment(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) {
  // expected-error @below {{multiple of the alignment 16 and 'y' that many rows for each of 2 experts, but got 24 and 48}}
  %y, %s, %r, %e, %d = te.permute %x, %i {alignment = 16 : i64, capacity = 24 : i64, padded} : tensor<4x8xf32>, tensor<4x2xi32> -> tensor<48x8xf32>, tensor<2xi32>, tensor<8xi32>, tensor<48xi32>
  return
}

// -----

func.func @unpermute_c1_columns(%y: tensor<32x8xf32>, %r: tensor<8xi32>, %e: tensor<32xi32>) {
  // expected-error @below {{expected 'out' to have shape 4x8, but got 4x4}}
  %o = te.unpermute %y, %r, %e : tensor<32x8xf32>, tensor<8xi32>, tensor<32xi32> -> tensor<4x4xf32>
  return
}

// -----

func.func @unpermute_c1_no_tokens(%y: tensor<32x8xf32>, %r: tensor<8xi32>, %e: tensor<32xi32>) {
  // expected-error @below {{expected as many entries for each of 0 tokens, but got 8}}
  %o = te.unpermute %y, %r, %e : tensor<32x8xf32>, tensor<8xi32>, tensor<32xi32> -> tensor<0x8xf32>
  return
}

// -----

func.func @unpermute_backward_c1_columns(%d: tensor<4x8xf32>, %e: tensor<32xi32>) {
  // expected-error @below {{expected 'dy' to have shape 32x8, but got 32x4}}
  %o = te.unpermute_backward %d, %e {k = 2 : i64} : tensor<4x8xf32>, tensor<32xi32> -> tensor<32x4xf32>
  return
}

// -----

func.func @prob_grad_c1_columns(%d: tensor<4x8xf32>, %y: tensor<32x4xf32>, %r: tensor<8xi32>) {
  // expected-error @below {{expected 'y' to have shape 32x8, but got 32x4}}
  %o = te.prob_grad %d, %y, %r : tensor<4x8xf32>, tensor<32x4xf32>, tensor<8xi32> -> tensor<4x2xf32>
  return
}

// -----

func.func @prob_grad_c1_tokens(%d: tensor<4x8xf32>, %y: tensor<32x8xf32>, %r: tensor<8xi32>) {
  // expected-error @below {{expected 'dprobs' to have shape 4x4, but got 2x4}}
  %o = te.prob_grad %d, %y, %r : tensor<4x8xf32>, tensor<32x8xf32>, tensor<8xi32> -> tensor<2x4xf32>
  return
}
