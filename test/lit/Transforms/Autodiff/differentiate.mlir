// RUN: te-opt %s --te-differentiate --te-verify-stage=stage=autodiff --split-input-file | FileCheck %s

// A small transformer block: residuals are between forward and backward,
// the forward returns rsigma, and gradients are added in reverse order.

// CHECK-LABEL: func.func @mlp(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<256x512xbf16>, %[[G:[^ ]*]]: tensor<512xbf16>, %[[W1:[^ ]*]]: tensor<1024x512xbf16>, %[[W2:[^ ]*]]: tensor<512x512xbf16>, %[[DY:[^ ]*]]: tensor<256x512xbf16>)
// CHECK-NEXT:    %[[N:.*]], %[[RSIGMA:.*]] = te.rms_norm %[[X]], %[[G]] {epsilon = 1.000000e-03 : f32} : tensor<256x512xbf16>, tensor<512xbf16> rsigma tensor<256xf32>
// CHECK-NEXT:    %[[H:.*]] = te.linear %[[N]], %[[W1]]
// CHECK-NEXT:    %[[A:.*]] = te.activation <swiglu> %[[H]]
// CHECK-NEXT:    %[[O:.*]] = te.linear %[[A]], %[[W2]]
// CHECK-NEXT:    %[[Y:.*]] = arith.addf %[[X]], %[[O]]
// CHECK-NEXT:    %[[A_R:.*]] = te.residual %[[A]] "linear1.x"
// CHECK-NEXT:    %[[H_R:.*]] = te.residual %[[H]] "activation0.x"
// CHECK-NEXT:    %[[N_R:.*]] = te.residual %[[N]] "linear0.x"
// CHECK-NEXT:    %[[RSIGMA_R:.*]] = te.residual %[[RSIGMA]] "rms_norm0.rsigma"
// CHECK-NEXT:    %[[DA:.*]] = te.linear_dgrad %[[DY]], %[[W2]]
// CHECK-NEXT:    %[[DW2:.*]] = te.linear_wgrad %[[DY]], %[[A_R]]
// CHECK-NEXT:    %[[DH:.*]] = te.activation_backward <swiglu> %[[DA]], %[[H_R]]
// CHECK-NEXT:    %[[DN:.*]] = te.linear_dgrad %[[DH]], %[[W1]]
// CHECK-NEXT:    %[[DW1:.*]] = te.linear_wgrad %[[DH]], %[[N_R]]
// CHECK-NEXT:    %[[DX_NORM:.*]], %[[DG:.*]] = te.rms_norm_backward %[[DN]], %[[X]], %[[G]], %[[RSIGMA_R]]
// CHECK-NEXT:    %[[DX:.*]] = arith.addf %[[DY]], %[[DX_NORM]]
// CHECK-NEXT:    return %[[Y]], %[[DX]], %[[DG]], %[[DW1]], %[[DW2]]
// CHECK-NOT:   @block
func.func @mlp(%x: tensor<256x512xbf16>, %g: tensor<512xbf16>, %w1: tensor<1024x512xbf16>, %w2: tensor<512x512xbf16>, %dy: tensor<256x512xbf16>)
    -> (tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<512xbf16>, tensor<1024x512xbf16>, tensor<512x512xbf16>) {
  %r:5 = te.vjp @block(%x, %g, %w1, %w2) cotangents(%dy) wrt [0, 1, 2, 3]
    : (tensor<256x512xbf16>, tensor<512xbf16>, tensor<1024x512xbf16>, tensor<512x512xbf16>), (tensor<256x512xbf16>)
    -> (tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<512xbf16>, tensor<1024x512xbf16>, tensor<512x512xbf16>)
  return %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<512xbf16>, tensor<1024x512xbf16>, tensor<512x512xbf16>
}
func.func private @block(%x: tensor<256x512xbf16>, %g: tensor<512xbf16>, %w1: tensor<1024x512xbf16>, %w2: tensor<512x512xbf16>) -> tensor<256x512xbf16> {
  %n = te.rms_norm %x, %g {epsilon = 1.0e-3 : f32} : tensor<256x512xbf16>, tensor<512xbf16>
  %h = te.linear %n, %w1 : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
  %a = te.activation <swiglu> %h : tensor<256x1024xbf16> -> tensor<256x512xbf16>
  %o = te.linear %a, %w2 : tensor<256x512xbf16>, tensor<512x512xbf16> -> tensor<256x512xbf16>
  %y = arith.addf %x, %o : tensor<256x512xbf16>
  return %y : tensor<256x512xbf16>
}

// -----

// A training step without updates: ids get no gradient, the
// loss returns lse, and the backward reads only residuals.

// CHECK-LABEL: func.func @language_model(
// CHECK-SAME:    %[[IDS:[^ ]*]]: tensor<16xi32>, %[[TARGETS:[^ ]*]]: tensor<16xi32>, %[[TABLE:[^ ]*]]: tensor<32x64xf32>)
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[E:.*]] = te.embedding %[[IDS]], %[[TABLE]]
// CHECK-NEXT:    %[[LOGITS:.*]] = te.linear %[[E]], %[[TABLE]]
// CHECK-NEXT:    %[[LOSS:.*]], %[[LSE:.*]] = te.cross_entropy %[[LOGITS]], %[[TARGETS]] {ignore_index = 7 : i32} : tensor<16x32xf32>, tensor<16xi32> lse tensor<16xf32>
// CHECK-NEXT:    %[[LOGITS_R:.*]] = te.residual %[[LOGITS]] "cross_entropy0.logits"
// CHECK-NEXT:    %[[LSE_R:.*]] = te.residual %[[LSE]] "cross_entropy0.lse"
// CHECK-NEXT:    %[[E_R:.*]] = te.residual %[[E]] "linear0.x"
// CHECK-NEXT:    %[[WEIGHT:.*]] = te.cross_entropy_weight of %[[TARGETS]] gradient %[[ONE]] vocabulary 32 {ignore_index = 7 : i32}
// CHECK-NEXT:    %[[DLOGITS:.*]] = te.cross_entropy_backward %[[WEIGHT]], %[[LOGITS_R]], %[[TARGETS]], %[[LSE_R]] {ignore_index = 7 : i32}
// CHECK-NEXT:    %[[DE:.*]] = te.linear_dgrad %[[DLOGITS]], %[[TABLE]]
// CHECK-NEXT:    %[[DW:.*]] = te.linear_wgrad %[[DLOGITS]], %[[E_R]]
// CHECK-NEXT:    %[[DT:.*]] = te.embedding_backward %[[IDS]], %[[DE]]
// CHECK-NEXT:    %[[DTABLE:.*]] = arith.addf %[[DW]], %[[DT]]
// CHECK-NEXT:    return %[[LOSS]], %[[DTABLE]]
func.func @language_model(%ids: tensor<16xi32>, %targets: tensor<16xi32>, %table: tensor<32x64xf32>) -> (tensor<f32>, tensor<32x64xf32>) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %loss, %dtable = te.vjp @loss(%ids, %targets, %table) cotangents(%one) wrt [2]
    : (tensor<16xi32>, tensor<16xi32>, tensor<32x64xf32>), (tensor<f32>) -> (tensor<f32>, tensor<32x64xf32>)
  return %loss, %dtable : tensor<f32>, tensor<32x64xf32>
}
func.func private @loss(%ids: tensor<16xi32>, %targets: tensor<16xi32>, %table: tensor<32x64xf32>) -> tensor<f32> {
  %e = te.embedding %ids, %table : tensor<16xi32>, tensor<32x64xf32> -> tensor<16x64xf32>
  %logits = te.linear %e, %table : tensor<16x64xf32>, tensor<32x64xf32> -> tensor<16x32xf32>
  %loss = te.cross_entropy %logits, %targets {ignore_index = 7 : i32} : tensor<16x32xf32>, tensor<16xi32>
  return %loss : tensor<f32>
}

// -----

// Only gradients in `wrt` are computed, and unused ops of the forward
// are removed. y = x wT + bias is not used, so only dw and db remain.

// CHECK-LABEL: func.func @builds_only_what_is_asked(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<16x32xf32>, %[[W:[^ ]*]]: tensor<64x32xf32>, %[[BIAS:[^ ]*]]: tensor<64xf32>, %[[DY:[^ ]*]]: tensor<16x64xf32>)
// CHECK-NEXT:    %[[DW:.*]] = te.linear_wgrad %[[DY]], %[[X]] : tensor<16x64xf32>, tensor<16x32xf32> -> tensor<64x32xf32>
// CHECK-NEXT:    %[[DB:.*]] = te.bias_grad %[[DY]]
// CHECK-NEXT:    return %[[DW]], %[[DB]]
func.func @builds_only_what_is_asked(%x: tensor<16x32xf32>, %w: tensor<64x32xf32>, %bias: tensor<64xf32>, %dy: tensor<16x64xf32>) -> (tensor<64x32xf32>, tensor<64xf32>) {
  %r:3 = te.vjp @linear(%x, %w, %bias) cotangents(%dy) wrt [1, 2]
    : (tensor<16x32xf32>, tensor<64x32xf32>, tensor<64xf32>), (tensor<16x64xf32>) -> (tensor<16x64xf32>, tensor<64x32xf32>, tensor<64xf32>)
  return %r#1, %r#2 : tensor<64x32xf32>, tensor<64xf32>
}
func.func private @linear(%x: tensor<16x32xf32>, %w: tensor<64x32xf32>, %bias: tensor<64xf32>) -> tensor<16x64xf32> {
  %y = te.linear %x, %w bias %bias : tensor<64xf32> : tensor<16x32xf32>, tensor<64x32xf32> -> tensor<16x64xf32>
  return %y : tensor<16x64xf32>
}

// -----

// If one value is passed for two arguments, it has two gradients.

// CHECK-LABEL: func.func @keeps_equal_arguments_apart(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[DB:.*]] = arith.negf %[[DY]]
// CHECK-NEXT:    return %[[DY]], %[[DB]]
func.func @keeps_equal_arguments_apart(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r:3 = te.vjp @sub(%x, %x) cotangents(%dy) wrt [0, 1] : (tensor<4xf32>, tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %r#1, %r#2 : tensor<4xf32>, tensor<4xf32>
}
func.func private @sub(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.subf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// An argument that no result depends on has a gradient of zero. The
// gradient of an argument that is returned unchanged is the cotangent.

// CHECK-LABEL: func.func @has_gradients_without_ops(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<4xf32>, %[[UNUSED:[^ ]*]]: tensor<8xbf16>, %[[DY:[^ ]*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<8xbf16>
// CHECK-NEXT:    return %[[X]], %[[DY]], %[[ZERO]]
func.func @has_gradients_without_ops(%x: tensor<4xf32>, %unused: tensor<8xbf16>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8xbf16>) {
  %r:3 = te.vjp @identity(%x, %unused) cotangents(%dy) wrt [0, 1] : (tensor<4xf32>, tensor<8xbf16>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8xbf16>)
  return %r#0, %r#1, %r#2 : tensor<4xf32>, tensor<4xf32>, tensor<8xbf16>
}
func.func private @identity(%x: tensor<4xf32>, %unused: tensor<8xbf16>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// Layers keep the recipe of their own function, and the backward has the
// recipe of the layer. Residuals have the name in a layer's location.

// CHECK-LABEL: func.func @keeps_recipes(
// CHECK:         te.linear {{.*}} {te.recipe = #te.recipe<float8_block_scaling>}
// CHECK:         te.linear {{.*}} {te.recipe = #te.recipe<float8_current_scaling>}
// CHECK:         te.residual {{.*}} "fc2.x"
// CHECK:         te.linear_dgrad {{.*}} {te.recipe = #te.recipe<float8_current_scaling>}
// CHECK:         te.linear_wgrad {{.*}} {te.recipe = #te.recipe<float8_current_scaling>}
// CHECK:         te.linear_wgrad {{.*}} {te.recipe = #te.recipe<float8_block_scaling>}
func.func @keeps_recipes(%x: tensor<16x16xbf16>, %w1: tensor<16x16xbf16>, %w2: tensor<16x16xbf16>, %dy: tensor<16x16xbf16>) -> (tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>) {
  %r:3 = te.vjp @two(%x, %w1, %w2) cotangents(%dy) wrt [1, 2]
    : (tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>), (tensor<16x16xbf16>) -> (tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>)
  return %r#0, %r#1, %r#2 : tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>
}
func.func private @two(%x: tensor<16x16xbf16>, %w1: tensor<16x16xbf16>, %w2: tensor<16x16xbf16>) -> tensor<16x16xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %h = te.linear %x, %w1 : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  %y = te.linear %h, %w2 {te.recipe = #te.recipe<float8_current_scaling>} : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16> loc("fc2")
  %z = arith.negf %y : tensor<16x16xbf16>
  return %z : tensor<16x16xbf16>
}

// -----

// Two micro-batches call one callee, which is public and therefore stays.
// Each has its own residuals, with different names, before its own backward.
// A cotangent that is computed before the forward is saved over it, too.

// CHECK-LABEL: func.func @expands_each_use(
// CHECK:         %[[Y0:.*]] = math.exp
// CHECK-NEXT:    te.residual %[[Y0]] "exp0.out"
// CHECK-NEXT:    arith.mulf
// CHECK:         %[[DY1:.*]] = arith.negf
// CHECK-NEXT:    %[[Y1:.*]] = math.exp
// CHECK-NEXT:    %[[DY1_R:.*]] = te.residual %[[DY1]] "vjp0.cotangent0"
// CHECK-NEXT:    %[[Y1_R:.*]] = te.residual %[[Y1]] "exp1.out"
// CHECK-NEXT:    arith.mulf %[[DY1_R]], %[[Y1_R]]
// CHECK:       func.func @exp(
func.func @expands_each_use(%x0: tensor<4xf32>, %x1: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
  %y0, %dx0 = te.vjp @exp(%x0) cotangents(%dy) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %dy1 = arith.negf %dy : tensor<4xf32>
  %y1, %dx1 = te.vjp @exp(%x1) cotangents(%dy1) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %dx = arith.addf %dx0, %dx1 : tensor<4xf32>
  return %dx : tensor<4xf32>
}
func.func @exp(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A value that two derivatives need is saved once, with the name
// from the later one. The gradients from its users are added.

// CHECK-LABEL: func.func @holds_each_value_once(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[E:.*]] = math.exp %[[X]]
// CHECK-NEXT:    %[[E_R:.*]] = te.residual %[[E]] "mulf0.rhs"
// CHECK-NEXT:    %[[D0:.*]] = arith.mulf %[[DY]], %[[E_R]]
// CHECK-NEXT:    %[[D1:.*]] = arith.mulf %[[DY]], %[[E_R]]
// CHECK-NEXT:    %[[D:.*]] = arith.addf %[[D0]], %[[D1]]
// CHECK-NEXT:    %[[DX:.*]] = arith.mulf %[[D]], %[[E_R]]
// CHECK-NEXT:    return %[[DX]]
func.func @holds_each_value_once(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
  %y, %dx = te.vjp @square_of_exp(%x) cotangents(%dy) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}
func.func private @square_of_exp(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = math.exp %x : tensor<4xf32>
  %y = arith.mulf %e, %e : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// The first half of a GPT block: the norm returns mu
// and rsigma, and biases have separate gradients.

// CHECK-LABEL: func.func @layer_norm(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<16x64xf32>, %[[G:[^ ]*]]: tensor<64xf32>, %[[B:[^ ]*]]: tensor<64xf32>, %[[W:[^ ]*]]: tensor<32x64xf32>, %[[BW:[^ ]*]]: tensor<32xf32>, %[[DY:[^ ]*]]: tensor<16x32xf32>)
// CHECK-NEXT:    %[[N:.*]], %[[MU:.*]], %[[RSIGMA:.*]] = te.layer_norm %[[X]], %[[G]], %[[B]] {zero_centered_gamma = true} : tensor<16x64xf32>, tensor<64xf32> mu tensor<16xf32> rsigma tensor<16xf32>
// CHECK-NEXT:    te.linear %[[N]], %[[W]] bias %[[BW]]
// CHECK-NEXT:    %[[N_R:.*]] = te.residual %[[N]] "linear0.x"
// CHECK-NEXT:    %[[MU_R:.*]] = te.residual %[[MU]] "layer_norm0.mu"
// CHECK-NEXT:    %[[RSIGMA_R:.*]] = te.residual %[[RSIGMA]] "layer_norm0.rsigma"
// CHECK-NEXT:    %[[DN:.*]] = te.linear_dgrad %[[DY]], %[[W]]
// CHECK-NEXT:    te.linear_wgrad %[[DY]], %[[N_R]]
// CHECK-NEXT:    te.bias_grad %[[DY]]
// CHECK-NEXT:    te.layer_norm_backward %[[DN]], %[[X]], %[[G]], %[[MU_R]], %[[RSIGMA_R]] {zero_centered_gamma = true}
func.func @layer_norm(%x: tensor<16x64xf32>, %g: tensor<64xf32>, %b: tensor<64xf32>, %w: tensor<32x64xf32>, %bw: tensor<32xf32>, %dy: tensor<16x32xf32>)
    -> (tensor<16x32xf32>, tensor<16x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<32x64xf32>, tensor<32xf32>) {
  %r:6 = te.vjp @layer(%x, %g, %b, %w, %bw) cotangents(%dy) wrt [0, 1, 2, 3, 4]
    : (tensor<16x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<32x64xf32>, tensor<32xf32>), (tensor<16x32xf32>)
    -> (tensor<16x32xf32>, tensor<16x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<32x64xf32>, tensor<32xf32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<16x32xf32>, tensor<16x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<32x64xf32>, tensor<32xf32>
}
func.func private @layer(%x: tensor<16x64xf32>, %g: tensor<64xf32>, %b: tensor<64xf32>, %w: tensor<32x64xf32>, %bw: tensor<32xf32>) -> tensor<16x32xf32> {
  %n = te.layer_norm %x, %g, %b {zero_centered_gamma = true} : tensor<16x64xf32>, tensor<64xf32>
  %y = te.linear %n, %w bias %bw : tensor<32xf32> : tensor<16x64xf32>, tensor<32x64xf32> -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

// The gradient of a dropout zeroes the same elements. It saves the state, unless that is an argument.

// CHECK-LABEL: func.func @dropout(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<4x8xbf16>, %[[S:[^ ]*]]: tensor<2xi32>, %[[DY:[^ ]*]]: tensor<4x8xbf16>)
// CHECK:         %[[NEXT:.*]] = te.rng_advance %[[S]]
// CHECK:         %[[SAVED:.*]] = te.residual %[[NEXT]] "dropout{{.*}}.rng"
// CHECK:         %[[DZ:.*]] = te.dropout %[[DY]] rng %[[SAVED]] {probability = 2.500000e-01 : f32, stream = 1 : i32}
// CHECK-NEXT:    te.dropout %[[DZ]] rng %[[S]] {probability = 5.000000e-01 : f32} : tensor<4x8xbf16>
func.func @dropout(%x: tensor<4x8xbf16>, %s: tensor<2xi32>, %dy: tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>) {
  %y, %dx = te.vjp @dropout_of(%x, %s) cotangents(%dy) wrt [0]
    : (tensor<4x8xbf16>, tensor<2xi32>), (tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>)
  return %y, %dx : tensor<4x8xbf16>, tensor<4x8xbf16>
}
func.func private @dropout_of(%x: tensor<4x8xbf16>, %s: tensor<2xi32>) -> tensor<4x8xbf16> {
  %z = te.dropout %x rng %s {probability = 0.5 : f32} : tensor<4x8xbf16>
  %next = te.rng_advance %s
  %y = te.dropout %z rng %next {probability = 0.25 : f32, stream = 1 : i32} : tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// -----

// A softmax saves its result, not its operand.

// CHECK-LABEL: func.func @softmax(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<16x64xbf16>, %[[DY:[^ ]*]]: tensor<16x64xbf16>)
// CHECK-NEXT:    %[[Y:.*]] = te.softmax %[[X]] {scale = 2.500000e-01 : f32} : tensor<16x64xbf16>
// CHECK-NEXT:    %[[Y_R:.*]] = te.residual %[[Y]] "softmax0.y"
// CHECK-NEXT:    %[[DX:.*]] = te.softmax_backward %[[DY]], %[[Y_R]] {scale = 2.500000e-01 : f32} : tensor<16x64xbf16>
// CHECK-NEXT:    return %[[Y]], %[[DX]]
func.func @softmax(%x: tensor<16x64xbf16>, %dy: tensor<16x64xbf16>) -> (tensor<16x64xbf16>, tensor<16x64xbf16>) {
  %y, %dx = te.vjp @softmax_of(%x) cotangents(%dy) wrt [0]
    : (tensor<16x64xbf16>), (tensor<16x64xbf16>) -> (tensor<16x64xbf16>, tensor<16x64xbf16>)
  return %y, %dx : tensor<16x64xbf16>, tensor<16x64xbf16>
}
func.func private @softmax_of(%x: tensor<16x64xbf16>) -> tensor<16x64xbf16> {
  %y = te.softmax %x {scale = 0.25 : f32} : tensor<16x64xbf16>
  return %y : tensor<16x64xbf16>
}

// -----

// A cotangent that is a constant zero marks an unused result, through which no gradient is computed.
// CHECK-LABEL: func.func @one_of_two_results
// CHECK:         %[[Y:.*]] = math.exp
// CHECK:         %[[Z:.*]] = math.tanh
// CHECK:         %[[R:.*]] = te.residual %[[Y]]
// CHECK-NOT:     te.residual
// CHECK:         %[[DX:.*]] = arith.mulf %{{.*}}, %[[R]]
// CHECK-NEXT:    return %[[Y]], %[[Z]], %[[DX]]
func.func @one_of_two_results(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %y, %z, %dx = te.vjp @two_results(%x) cotangents(%dy, %zero) wrt [0]
    : (tensor<4xf32>), (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %y, %z, %dx : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @two_results(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = math.exp %x : tensor<4xf32>
  %z = math.tanh %x : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// The gradient of a weight [K, N] is stored as [K, N].
// CHECK-LABEL: func.func @transposed_weight
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<16x64xf32>, %[[W:[^ ]*]]: tensor<64x32xf32>, %[[DY:[^ ]*]]: tensor<16x32xf32>
// CHECK:         te.linear %[[X]], %[[W]] {transposed_weight}
// CHECK-NEXT:    te.linear_dgrad %[[DY]], %[[W]] {transposed_weight} : tensor<16x32xf32>, tensor<64x32xf32> -> tensor<16x64xf32>
// CHECK-NEXT:    te.linear_wgrad %[[DY]], %[[X]] {transposed_weight} : tensor<16x32xf32>, tensor<16x64xf32> -> tensor<64x32xf32>
func.func @transposed_weight(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>, %dy: tensor<16x32xf32>)
    -> (tensor<16x32xf32>, tensor<16x64xf32>, tensor<64x32xf32>) {
  %r:3 = te.vjp @transposed(%x, %w) cotangents(%dy) wrt [0, 1]
    : (tensor<16x64xf32>, tensor<64x32xf32>), (tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x64xf32>, tensor<64x32xf32>)
  return %r#0, %r#1, %r#2 : tensor<16x32xf32>, tensor<16x64xf32>, tensor<64x32xf32>
}
func.func private @transposed(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>) -> tensor<16x32xf32> {
  %y = te.linear %x, %w {transposed_weight} : tensor<16x64xf32>, tensor<64x32xf32> -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

// The gradient of what is broadcast along leading dimensions is a sum of rows. The backward broadcasts again, from the
// residual of the operand.
// CHECK-LABEL: func.func @scaled(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<2x4x8xf32>, %[[G:[^ ]*]]: tensor<4x8xf32>, %[[DY:[^ ]*]]: tensor<2x4x8xf32>)
// CHECK: %[[GS:.*]] = linalg.broadcast ins(%[[G]] : tensor<4x8xf32>)
// CHECK: %[[Y:.*]] = arith.mulf %[[X]], %[[GS]]
// CHECK: %[[AGAIN:.*]] = linalg.broadcast ins(%[[G]] : tensor<4x8xf32>)
// CHECK: %[[DX:.*]] = arith.mulf %[[DY]], %[[AGAIN]]
// CHECK: %[[PRODUCT:.*]] = arith.mulf %[[DY]], %[[X]]
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[PRODUCT]] {{\[\[}}0], [1, 2]] : tensor<2x4x8xf32> into tensor<2x32xf32>
// CHECK: %[[SUM:.*]] = te.bias_grad %[[ROWS]] : tensor<2x32xf32> -> tensor<32xf32>
// CHECK: %[[DG:.*]] = tensor.expand_shape %[[SUM]] {{\[\[}}0, 1]]
// CHECK: return %[[Y]], %[[DX]], %[[DG]]
func.func @scaled(%x: tensor<2x4x8xf32>, %g: tensor<4x8xf32>, %dy: tensor<2x4x8xf32>)
    -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<4x8xf32>) {
  %r:3 = te.vjp @scale(%x, %g) cotangents(%dy) wrt [0, 1]
    : (tensor<2x4x8xf32>, tensor<4x8xf32>), (tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<4x8xf32>)
  return %r#0, %r#1, %r#2 : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<4x8xf32>
}
func.func private @scale(%x: tensor<2x4x8xf32>, %g: tensor<4x8xf32>) -> tensor<2x4x8xf32> {
  %empty = tensor.empty() : tensor<2x4x8xf32>
  %gs = linalg.broadcast ins(%g : tensor<4x8xf32>) outs(%empty : tensor<2x4x8xf32>) dimensions = [0]
  %y = arith.mulf %x, %gs : tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// -----

// A broadcast that adds no dimension is its operand.
// CHECK-LABEL: func.func @same(
// CHECK-SAME: %{{[^ ]*}}: tensor<4x8xf32>, %[[DY:[^ ]*]]: tensor<4x8xf32>)
// CHECK: return %{{.*}}, %[[DY]]
func.func @same(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %r:2 = te.vjp @all(%x) cotangents(%dy) wrt [0] : (tensor<4x8xf32>), (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return %r#0, %r#1 : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func private @all(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %empty = tensor.empty() : tensor<4x8xf32>
  %y = linalg.broadcast ins(%x : tensor<4x8xf32>) outs(%empty : tensor<4x8xf32>) dimensions = []
  return %y : tensor<4x8xf32>
}
