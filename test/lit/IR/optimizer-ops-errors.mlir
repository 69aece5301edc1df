// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

func.func @adamw_c1(%p: tensor<8xf32>, %g: tensor<4xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'grad' to have shape 8, but got 4}}
  %a, %b, %c = te.adamw %p, %g, %m, %v lr %lr step %lr : tensor<8xf32>, tensor<4xf32>
  return
}

// -----

func.func @adamw_c1_type(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf16>, %lr: tensor<f32>) {
  // expected-error @below {{expected a first moment in f32, bf16 or f8E4M3FN, but got 'tensor<8xf16>'}}
  %a, %b, %c = te.adamw %p, %g, %m, %m lr %lr step %lr : tensor<8xf32>, tensor<8xf32>, tensor<8xf16>
  return
}

// -----

func.func @adamw_c1_shape(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<4xbf16>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'm' to have shape 8, but got 4}}
  %a, %b, %c = te.adamw %p, %g, %m, %m lr %lr step %lr : tensor<8xf32>, tensor<8xf32>, tensor<4xbf16>
  return
}

// -----

func.func @adamw_c1_two_types(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xbf16>, %v: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected the second moment to be 'tensor<8xbf16>', but got 'tensor<8xf32>'}}
  %a, %b, %c = "te.adamw"(%p, %g, %m, %v, %lr, %lr) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1, 1, 0, 0>}> : (tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>, tensor<f32>, tensor<f32>)
    -> (tensor<8xf32>, tensor<8xbf16>, tensor<8xbf16>)
  return
}

// -----

func.func @adamw_c2(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf8E4M3FN>, %v: tensor<8xf8E5M2>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'scales' and a result for the new ones exactly if moments have 8 bits, but got moments in 'f8E4M3FN'}}
  %a, %b, %c = te.adamw %p, %g, %m, %v lr %lr step %lr : tensor<8xf32>, tensor<8xf32>, tensor<8xf8E4M3FN>
  return
}

// -----

func.func @adamw_c2_not_needed(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %s: tensor<2x1xf32>, %lr: tensor<f32>) {
  // expected-error @below {{exactly if moments have 8 bits, but got moments in 'f32'}}
  %a, %b, %c, %d = te.adamw %p, %g, %m, %m scales %s lr %lr step %lr : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @adamw_c2_blocks(%p: tensor<129xf32>, %m: tensor<129xf8E4M3FN>, %v: tensor<129xf8E5M2>, %s: tensor<2x1xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'scales' to be 'tensor<2x2xf32>', but got 'tensor<2x1xf32>'}}
  %a, %b, %c, %d = "te.adamw"(%p, %p, %m, %v, %s, %lr, %lr) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>}> : (tensor<129xf32>, tensor<129xf32>, tensor<129xf8E4M3FN>, tensor<129xf8E5M2>, tensor<2x1xf32>, tensor<f32>, tensor<f32>)
    -> (tensor<129xf32>, tensor<129xf8E4M3FN>, tensor<129xf8E5M2>, tensor<2x1xf32>)
  return
}

// -----

func.func @adamw_c2_dynamic(%p: tensor<?xf32>, %m: tensor<?xf8E4M3FN>, %v: tensor<?xf8E5M2>, %s: tensor<2x1xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected a parameter with 8-bit moments to have a static shape of less than 2^63 elements, but got 'tensor<?xf32>'}}
  %a, %b, %c, %d = te.adamw %p, %p, %m, %v scales %s lr %lr step %lr : tensor<?xf32>, tensor<?xf32>, tensor<?xf8E4M3FN>
  return
}

// -----

func.func @adamw_c2_too_many(%p: tensor<4294967296x4294967296xf32>, %m: tensor<4294967296x4294967296xf8E4M3FN>, %v: tensor<4294967296x4294967296xf8E5M2>, %s: tensor<2x1xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected a parameter with 8-bit moments to have a static shape of less than 2^63 elements}}
  %a, %b, %c, %d = "te.adamw"(%p, %p, %m, %v, %s, %lr, %lr) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>}> : (tensor<4294967296x4294967296xf32>, tensor<4294967296x4294967296xf32>, tensor<4294967296x4294967296xf8E4M3FN>, tensor<4294967296x4294967296xf8E5M2>, tensor<2x1xf32>, tensor<f32>, tensor<f32>)
    -> (tensor<4294967296x4294967296xf32>, tensor<4294967296x4294967296xf8E4M3FN>, tensor<4294967296x4294967296xf8E5M2>, tensor<2x1xf32>)
  return
}

// -----

func.func @adamw_c3(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'beta1' to be in [0, 1), but got 1.0}}
  %a, %b, %c = te.adamw %p, %g, %m, %v lr %lr step %lr {beta1 = 1.0 : f32} : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @sgd_c1(%p: tensor<8xf32>, %g: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'grad' to have shape 8, but got 4}}
  %a = te.sgd %p, %g lr %lr : tensor<8xf32>, tensor<4xf32>
  return
}

// -----

func.func @sgd_c2(%p: tensor<8xf32>, %g: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'momentum' only with a 'buffer' operand to carry it}}
  %a = te.sgd %p, %g lr %lr {momentum = 0.9 : f32} : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @sgd_c2_nesterov(%p: tensor<8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'nesterov' only with a 'momentum' above 0}}
  %a, %c = te.sgd %p, %g buffer %b lr %lr {nesterov} : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @clip_factor_c1(%s: tensor<f32>) {
  // expected-error @below {{expected 'max_norm' to be above 0, but got 0.0}}
  %norm, %factor = te.clip_factor %s {max_norm = 0.0 : f32}
  return
}

// -----

func.func @clip_factor_c1_nan(%s: tensor<f32>) {
  // expected-error @below {{expected 'max_norm' to be above 0, but got nan}}
  %norm, %factor = te.clip_factor %s {max_norm = 0x7fc00000 : f32}
  return
}

// -----

func.func @adamw_c1_parameter(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'param' and its result to have one type, but got 'tensor<8xf32>' and 'tensor<8xbf16>'}}
  %a, %b, %c = "te.adamw"(%p, %p, %p, %p, %lr, %lr) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1, 1, 0, 0>}> : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>) -> (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @adamw_c1_new_moment(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected the new first moment to be 'tensor<8xf32>', but got 'tensor<8xbf16>'}}
  %a, %b, %c = "te.adamw"(%p, %p, %p, %p, %lr, %lr) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1, 1, 0, 0>}> : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>)
  return
}

// -----

func.func @adamw_c3_beta2(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'beta2' to be in [0, 1), but got 1.0}}
  %a, %b, %c = te.adamw %p, %p, %p, %p lr %lr step %lr {beta2 = 1.0 : f32} : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @adamw_c3_negative(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'beta1' to be in [0, 1), but got -0.5}}
  %a, %b, %c = te.adamw %p, %p, %p, %p lr %lr step %lr {beta1 = -0.5 : f32} : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @adamw_c3_epsilon(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'epsilon' to be finite and not negative, but got -1}}
  %a, %b, %c = te.adamw %p, %p, %p, %p lr %lr step %lr {epsilon = -1.0 : f32} : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @adamw_c3_decay(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'weight_decay' to be finite and not negative, but got +Inf}}
  %a, %b, %c = te.adamw %p, %p, %p, %p lr %lr step %lr {weight_decay = 0x7F800000 : f32} : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @sgd_c1_parameter(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'param' and its result to have one type, but got 'tensor<8xf32>' and 'tensor<8xbf16>'}}
  %a = "te.sgd"(%p, %p, %lr) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0>}> : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xbf16>
  return
}

// -----

func.func @sgd_c1_buffer(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected a new buffer exactly when 'buffer' is given}}
  %a = "te.sgd"(%p, %p, %p, %lr) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}> : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return
}

// -----

func.func @sgd_c1_buffer_type(%p: tensor<8xf32>, %b: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected the momentum buffer to be 'tensor<8xf32>', but got 'tensor<4xf32>'}}
  %a, %c = "te.sgd"(%p, %p, %b, %lr) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}> : (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<4xf32>)
  return
}

// -----

func.func @sgd_c2_fraction(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'momentum' to be in [0, 1), but got 1.0}}
  %a, %c = te.sgd %p, %p buffer %p lr %lr {momentum = 1.0 : f32} : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @sgd_c2_decay(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected 'weight_decay' to be finite and not negative, but got -1}}
  %a = te.sgd %p, %p lr %lr {weight_decay = -1.0 : f32} : tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @sgd_type(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected two ranked tensor types, but got 'f32' and 'tensor<8xf32>'}}
  %a = te.sgd %p, %p lr %lr : f32, tensor<8xf32>
  return
}

// -----

func.func @sgd_type_gradient(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expected two ranked tensor types, but got 'tensor<8xf32>' and 'f32'}}
  %a = te.sgd %p, %p lr %lr : tensor<8xf32>, f32
  return
}

// -----

func.func @sum_of_squares_c1() {
  // expected-error @below {{expected one or more tensors, but got none}}
  %a = "te.sum_of_squares"() {operandSegmentSizes = array<i32: 0, 0, 0>} : () -> tensor<f32>
  return
}
