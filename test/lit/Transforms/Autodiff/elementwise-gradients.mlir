// RUN: te-opt %s --te-wrap-vjp=entry=f --te-differentiate --te-verify-stage=stage=autodiff --split-input-file | FileCheck %s

// Each function has the derivative of one op of another
// dialect. Only the gradients of the callee's arguments remain.

// y = a + a: the gradients of both uses are added.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[Y:.*]] = arith.addf %[[A]], %[[A]]
// CHECK-NEXT:    %[[DA:.*]] = arith.addf %[[DY]], %[[DY]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %a, %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = a - b: db = -dy.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[B:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[Y:.*]] = arith.subf %[[A]], %[[B]]
// CHECK-NEXT:    %[[DB:.*]] = arith.negf %[[DY]]
// CHECK-NEXT:    return %[[Y]], %[[DY]], %[[DB]]
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.subf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = a b: the gradient of each factor needs the other factor.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[B:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[Y:.*]] = arith.mulf %[[A]], %[[B]]
// CHECK-NEXT:    %[[DA:.*]] = arith.mulf %[[DY]], %[[B]]
// CHECK-NEXT:    %[[DB:.*]] = arith.mulf %[[DY]], %[[A]]
// CHECK-NEXT:    return %[[Y]], %[[DA]], %[[DB]]
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.mulf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A constant factor is not saved and gets no gradient.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[HALF:.*]] = arith.constant dense<5.000000e-01>
// CHECK-NEXT:    %[[Y:.*]] = arith.mulf %[[A]], %[[HALF]]
// CHECK-NEXT:    %[[DA:.*]] = arith.mulf %[[DY]], %[[HALF]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %y = arith.mulf %a, %half : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = a / b: da = dy / b, db = -(dy / b) y.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[B:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[Y:.*]] = arith.divf %[[A]], %[[B]]
// CHECK-NEXT:    %[[Y_R:.*]] = te.residual %[[Y]] "divf0.out"
// CHECK-NEXT:    %[[DA:.*]] = arith.divf %[[DY]], %[[B]]
// CHECK-NEXT:    %[[P:.*]] = arith.mulf %[[DA]], %[[Y_R]]
// CHECK-NEXT:    %[[DB:.*]] = arith.negf %[[P]]
// CHECK-NEXT:    return %[[Y]], %[[DA]], %[[DB]]
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.divf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = -a, with a narrowing and a widening cast.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[T:.*]] = arith.truncf %[[A]] : tensor<4xf32> to tensor<4xbf16>
// CHECK-NEXT:    %[[N:.*]] = arith.negf %[[T]]
// CHECK-NEXT:    %[[Y:.*]] = arith.extf %[[N]] : tensor<4xbf16> to tensor<4xf32>
// CHECK-NEXT:    %[[DN:.*]] = arith.truncf %[[DY]] : tensor<4xf32> to tensor<4xbf16>
// CHECK-NEXT:    %[[DT:.*]] = arith.negf %[[DN]]
// CHECK-NEXT:    %[[DA:.*]] = arith.extf %[[DT]] : tensor<4xbf16> to tensor<4xf32>
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %t = arith.truncf %a : tensor<4xf32> to tensor<4xbf16>
  %n = arith.negf %t : tensor<4xbf16>
  %y = arith.extf %n : tensor<4xbf16> to tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = exp(a): da = dy y.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[Y:.*]] = math.exp %[[A]]
// CHECK-NEXT:    %[[Y_R:.*]] = te.residual %[[Y]] "exp0.out"
// CHECK-NEXT:    %[[DA:.*]] = arith.mulf %[[DY]], %[[Y_R]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.exp %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = tanh(a): da = dy (1 - y y).
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xbf16>, %[[DY:[^ ]*]]: tensor<4xbf16>
// CHECK:         %[[Y:.*]] = math.tanh %[[A]]
// CHECK-NEXT:    %[[Y_R:.*]] = te.residual %[[Y]] "tanh0.out"
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<4xbf16>
// CHECK-NEXT:    %[[SQUARE:.*]] = arith.mulf %[[Y_R]], %[[Y_R]]
// CHECK-NEXT:    %[[SLOPE:.*]] = arith.subf %[[ONE]], %[[SQUARE]]
// CHECK-NEXT:    %[[DA:.*]] = arith.mulf %[[DY]], %[[SLOPE]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xbf16>) -> tensor<4xbf16> {
  %y = math.tanh %a : tensor<4xbf16>
  return %y : tensor<4xbf16>
}

// -----

// y = sqrt(a): da = dy / (y + y).
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[Y:.*]] = math.sqrt %[[A]]
// CHECK-NEXT:    %[[Y_R:.*]] = te.residual %[[Y]] "sqrt0.out"
// CHECK-NEXT:    %[[TWICE:.*]] = arith.addf %[[Y_R]], %[[Y_R]]
// CHECK-NEXT:    %[[DA:.*]] = arith.divf %[[DY]], %[[TWICE]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.sqrt %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = log(a): da = dy / a.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK-NEXT:    %[[Y:.*]] = math.log %[[A]]
// CHECK-NEXT:    %[[DA:.*]] = arith.divf %[[DY]], %[[A]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.log %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = log(1 + a): da = dy / (1 + a).
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK-NEXT:    %[[Y:.*]] = math.log1p %[[A]]
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %[[SUM:.*]] = arith.addf %[[A]], %[[ONE]]
// CHECK-NEXT:    %[[DA:.*]] = arith.divf %[[DY]], %[[SUM]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.log1p %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = sin(a): da = dy cos(a).
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK-NEXT:    %[[Y:.*]] = math.sin %[[A]]
// CHECK-NEXT:    %[[SLOPE:.*]] = math.cos %[[A]]
// CHECK-NEXT:    %[[DA:.*]] = arith.mulf %[[DY]], %[[SLOPE]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.sin %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = cos(a): da = -dy sin(a).
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK-NEXT:    %[[Y:.*]] = math.cos %[[A]]
// CHECK-NEXT:    %[[SLOPE:.*]] = math.sin %[[A]]
// CHECK-NEXT:    %[[PRODUCT:.*]] = arith.mulf %[[DY]], %[[SLOPE]]
// CHECK-NEXT:    %[[DA:.*]] = arith.negf %[[PRODUCT]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.cos %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = |a|: da = dy sign(a), 0 at 0.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[Y:.*]] = math.absf %[[A]]
// CHECK-NEXT:    %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %[[MINUS:.*]] = arith.negf %[[DY]]
// CHECK-NEXT:    %[[IS_NEGATIVE:.*]] = arith.cmpf olt, %[[A]], %[[ZERO]]
// CHECK-NEXT:    %[[SIGNED:.*]] = arith.select %[[IS_NEGATIVE]], %[[MINUS]], %[[DY]]
// CHECK-NEXT:    %[[IS_ZERO:.*]] = arith.cmpf oeq, %[[A]], %[[ZERO]]
// CHECK-NEXT:    %[[DA:.*]] = arith.select %[[IS_ZERO]], %[[ZERO]], %[[SIGNED]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.absf %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = max(a, b): the larger one has dy, equal ones have half of it each.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xbf16>, %[[B:[^ ]*]]: tensor<4xbf16>, %[[DY:[^ ]*]]: tensor<4xbf16>
// CHECK:         %[[Y:.*]] = arith.maximumf %[[A]], %[[B]]
// CHECK:         %[[HALF:.*]] = arith.mulf %[[DY]]
// CHECK:         %[[TIE:.*]] = arith.cmpf oeq, %[[A]], %[[B]]
// CHECK-NEXT:    %[[REST:.*]] = arith.select %[[TIE]], %[[HALF]]
// CHECK-NEXT:    %[[LARGER:.*]] = arith.cmpf ogt, %[[A]], %[[B]]
// CHECK-NEXT:    %[[DA:.*]] = arith.select %[[LARGER]], %[[DY]], %[[REST]]
// CHECK:         arith.cmpf oeq, %[[B]], %[[A]]
// CHECK:         %[[OTHER:.*]] = arith.cmpf ogt, %[[B]], %[[A]]
// CHECK-NEXT:    %[[DB:.*]] = arith.select %[[OTHER]], %[[DY]]
// CHECK-NEXT:    return %[[Y]], %[[DA]], %[[DB]]
func.func @f(%a: tensor<4xbf16>, %b: tensor<4xbf16>) -> tensor<4xbf16> {
  %y = arith.maximumf %a, %b : tensor<4xbf16>
  return %y : tensor<4xbf16>
}

// -----

// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[B:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         arith.minimumf
// CHECK:         arith.cmpf olt, %[[A]], %[[B]]
// CHECK:         arith.cmpf olt, %[[B]], %[[A]]
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.minimumf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// The backward of a choice saves the operands of the comparison, and compares again.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[B:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[E:.*]] = math.exp %[[A]]
// CHECK:         %[[E_R:.*]] = te.residual %[[E]] "select0.lhs" : tensor<4xf32>
// CHECK:         %[[HOLDS:.*]] = arith.cmpf ult, %[[E_R]], %[[B]]
// CHECK-NEXT:    %[[DE:.*]] = arith.select %[[HOLDS]], %[[DY]], %[[ZERO:.*]] :
// CHECK:         %[[HOLDS:.*]] = arith.cmpf ult, %[[E_R]], %[[B]]
// CHECK-NEXT:    %[[DB:.*]] = arith.select %[[HOLDS]], %{{.*}}, %[[DY]] :
// CHECK-NEXT:    %[[DA:.*]] = arith.mulf %[[DE]], %{{.*}}
// CHECK-NEXT:    return %{{.*}}, %[[DA]], %[[DB]]
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %e = math.exp %a : tensor<4xf32>
  %holds = arith.cmpf ult, %e, %b : tensor<4xf32>
  %y = arith.select %holds, %e, %b : tensor<4xi1>, tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = erf(a): da = dy (e^(-a a) 2 / sqrt(pi)).
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[Y:.*]] = math.erf %[[A]]
// CHECK:         %[[A2:.*]] = arith.mulf %[[A]], %[[A]]
// CHECK-NEXT:    %[[N:.*]] = arith.negf %[[A2]]
// CHECK-NEXT:    %[[BELL:.*]] = math.exp %[[N]]
// CHECK-NEXT:    %[[C:.*]] = arith.constant dense<1.12837923>
// CHECK-NEXT:    %[[SLOPE:.*]] = arith.mulf %[[BELL]], %[[C]]
// CHECK-NEXT:    %[[DA:.*]] = arith.mulf %[[DY]], %[[SLOPE]]
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.erf %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// y = a^b: da = dy (b a^(b - 1)), and 0 where b is; db = dy (y log(a)), and 0
// where a is and b is not negative.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[B:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[Y:.*]] = math.powf %[[A]], %[[B]]
// CHECK-NEXT:    %[[Y_R:.*]] = te.residual %[[Y]] "powf0.out"
// CHECK:         %[[LESS:.*]] = arith.subf %[[B]], %{{.*}}
// CHECK:         %[[P:.*]] = math.powf %[[A]], %[[LESS]]
// CHECK-NEXT:    %[[SLOPE:.*]] = arith.mulf %[[B]], %[[P]]
// CHECK-NEXT:    %[[DA0:.*]] = arith.mulf %[[DY]], %[[SLOPE]]
// CHECK:         arith.cmpf oeq, %[[B]]
// CHECK-NEXT:    %[[DA:.*]] = arith.select %{{.*}}, %{{.*}}, %[[DA0]]
// CHECK:         %[[LOG:.*]] = math.log %[[A]]
// CHECK-NEXT:    %[[SLOPE:.*]] = arith.mulf %[[Y_R]], %[[LOG]]
// CHECK-NEXT:    %[[DB0:.*]] = arith.mulf %[[DY]], %[[SLOPE]]
// CHECK:         arith.cmpf oge, %[[B]]
// CHECK-NEXT:    %[[AT:.*]] = arith.select %{{.*}}, %{{.*}}, %[[DB0]]
// CHECK:         arith.cmpf oeq, %[[A]]
// CHECK-NEXT:    %[[DB:.*]] = arith.select %{{.*}}, %[[AT]], %[[DB0]]
// CHECK-NEXT:    return %[[Y]], %[[DA]], %[[DB]]
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.powf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Whole numbers have no gradient.
// CHECK-LABEL: func.func @f(
// CHECK:         %[[Y:.*]] = math.floor
// CHECK-NEXT:    %[[NONE:.*]] = arith.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    return %[[Y]], %[[NONE]] :
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %c = math.ceil %a : tensor<4xf32>
  %t = math.trunc %c : tensor<4xf32>
  %r = math.roundeven %t : tensor<4xf32>
  %y = math.floor %r : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A value that is only compared has no gradient.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<4xf32>, %[[B:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<4xf32>
// CHECK:         %[[DB:.*]] = arith.select %{{.*}}, %[[DY]], %{{.*}} :
// CHECK-NEXT:    %[[NONE:.*]] = arith.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    return %{{.*}}, %[[NONE]], %[[DB]] :
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %holds = arith.cmpf oge, %a, %one : tensor<4xf32>
  %y = arith.select %holds, %b, %one : tensor<4xi1>, tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// The gradient of a reshape is the inverse reshape.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:[^ ]*]]: tensor<2x3x4xf32>, %[[DY:[^ ]*]]: tensor<6x2x2xf32>
// CHECK:         tensor.collapse_shape
// CHECK-NEXT:    %[[Y:.*]] = tensor.expand_shape
// CHECK-NEXT:    %[[DC:.*]] = tensor.collapse_shape %[[DY]] {{\[\[}}0], [1, 2]] : tensor<6x2x2xf32> into tensor<6x4xf32>
// CHECK-NEXT:    %[[DA:.*]] = tensor.expand_shape %[[DC]] {{\[\[}}0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
// CHECK-NEXT:    return %[[Y]], %[[DA]]
func.func @f(%a: tensor<2x3x4xf32>) -> tensor<6x2x2xf32> {
  %c = tensor.collapse_shape %a [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
  %y = tensor.expand_shape %c [[0], [1, 2]] output_shape [6, 2, 2] : tensor<6x4xf32> into tensor<6x2x2xf32>
  return %y : tensor<6x2x2xf32>
}
