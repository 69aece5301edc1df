// RUN: te-opt %s --te-hoist-slices | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="vjp=shifted recipe=high_precision logits-budget=90000 compile-to=quantize" --remarks-filter="te-chunk-rows" 2>&1 | FileCheck %s --check-prefix=CHUNKS

// CHUNKS: 128 rows of logits are stored at a time, in 81920 bytes
// CHUNKS-LABEL: func.func @shifted(
// CHUNKS-NOT:     tensor<{{396|400|4x99|4x100}}x320x
// CHUNKS-LABEL: func.func @first(

// Logits without the last token of each sequence, in another type and cooled.
// CHECK-LABEL: func.func @shifted(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<400x128xbf16>
// CHECK:         tensor.expand_shape {{.*}} into tensor<4x100x128xbf16>
// CHECK:         tensor.extract_slice %{{.*}}[0, 0, 0] [4, 99, 128] [1, 1, 1]
// CHECK:         %[[C:.*]] = tensor.expand_shape {{.*}} into tensor<396x128xbf16>
// CHECK:         %[[Y:.*]] = te.linear %[[C]], %{{.*}} bias %{{.*}} -> tensor<396x320xbf16>
// CHECK:         %[[F:.*]] = arith.extf %[[Y]] : tensor<396x320xbf16> to tensor<396x320xf32>
// CHECK:         %[[T:.*]] = arith.constant dense<2.000000e+00> : tensor<396x320xf32>
// CHECK:         arith.divf %[[F]], %[[T]]
// CHECK-NOT:     400x320
func.func @shifted(%x: tensor<400x128xbf16> {te.name = "x"}, %w: tensor<320x128xbf16> {te.name = "w", te.weight}, %b: tensor<320xbf16> {te.name = "b"})
    -> (tensor<396xf32> {te.name = "sums"}) {
  %zero = arith.constant dense<0.0> : tensor<396xf32>
  %t = arith.constant dense<2.0> : tensor<4x100x320xf32>
  %y = te.linear %x, %w bias %b : tensor<320xbf16> : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %f = arith.extf %y : tensor<400x320xbf16> to tensor<400x320xf32>
  %e = tensor.expand_shape %f [[0, 1], [2]] output_shape [4, 100, 320] : tensor<400x320xf32> into tensor<4x100x320xf32>
  %c = arith.divf %e, %t : tensor<4x100x320xf32>
  %s = tensor.extract_slice %c[0, 0, 0] [4, 99, 320] [1, 1, 1] : tensor<4x100x320xf32> to tensor<4x99x320xf32>
  %m = tensor.collapse_shape %s [[0, 1], [2]] : tensor<4x99x320xf32> into tensor<396x320xf32>
  %p = math.exp %m : tensor<396x320xf32>
  %r = linalg.reduce { arith.addf } ins(%p : tensor<396x320xf32>) outs(%zero : tensor<396xf32>) dimensions = [1]
  return %r : tensor<396xf32>
}

// The first tokens, of a matrix; the weight is stored transposed.
// CHECK-LABEL: func.func @first(
// CHECK:         %[[S:.*]] = tensor.extract_slice %{{.*}}[0, 0] [4, 128] [1, 1]
// CHECK-NEXT:    %[[Y:.*]] = te.linear %[[S]], %{{.*}} {transposed_weight} : tensor<4x128xbf16>
// CHECK-NEXT:    return %[[Y]] : tensor<4x320xbf16>
func.func @first(%x: tensor<400x128xbf16>, %w: tensor<128x320xbf16>) -> tensor<4x320xbf16> {
  %y = te.linear %x, %w {transposed_weight} : tensor<400x128xbf16>, tensor<128x320xbf16> -> tensor<400x320xbf16>
  %s = tensor.extract_slice %y[0, 0] [4, 320] [1, 1] : tensor<400x320xbf16> to tensor<4x320xbf16>
  return %s : tensor<4x320xbf16>
}

// The tokens of a sequence and their logits are one dimension, as frontends write it.
// CHECK-LABEL: func.func @joined(
// CHECK:         tensor.extract_slice %{{.*}}[0, 1, 0] [4, 99, 128] [1, 1, 1] : tensor<4x100x128xbf16>
// CHECK:         te.linear {{.*}} -> tensor<396x320xbf16>
func.func @joined(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>) -> tensor<4x31680xbf16> {
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %c = tensor.collapse_shape %y [[0, 1]] : tensor<400x320xbf16> into tensor<128000xbf16>
  %e = tensor.expand_shape %c [[0, 1]] output_shape [4, 32000] : tensor<128000xbf16> into tensor<4x32000xbf16>
  %s = tensor.extract_slice %e[0, 320] [4, 31680] [1, 1] : tensor<4x32000xbf16> to tensor<4x31680xbf16>
  return %s : tensor<4x31680xbf16>
}

// With a last dimension of one element.
// CHECK-LABEL: func.func @elements(
// CHECK:         te.linear {{.*}} -> tensor<396x320xbf16>
func.func @elements(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>) -> tensor<4x31680x1xbf16> {
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %c = tensor.collapse_shape %y [[0, 1]] : tensor<400x320xbf16> into tensor<128000xbf16>
  %e = tensor.expand_shape %c [[0, 1, 2]] output_shape [4, 32000, 1] : tensor<128000xbf16> into tensor<4x32000x1xbf16>
  %s = tensor.extract_slice %e[0, 0, 0] [4, 31680, 1] [1, 1, 1] : tensor<4x32000x1xbf16> to tensor<4x31680x1xbf16>
  return %s : tensor<4x31680x1xbf16>
}

// Something else reads the result.
// CHECK-LABEL: func.func @both(
// CHECK:         te.linear {{.*}} -> tensor<400x320xbf16>
func.func @both(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>) -> (tensor<4x320xbf16>, tensor<400x320xbf16>) {
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %s = tensor.extract_slice %y[0, 0] [4, 320] [1, 1] : tensor<400x320xbf16> to tensor<4x320xbf16>
  return %s, %y : tensor<4x320xbf16>, tensor<400x320xbf16>
}

// Columns are cut, too.
// CHECK-LABEL: func.func @columns(
// CHECK:         te.linear {{.*}} -> tensor<400x320xbf16>
func.func @columns(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>) -> tensor<4x64xbf16> {
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %s = tensor.extract_slice %y[0, 0] [4, 64] [1, 1] : tensor<400x320xbf16> to tensor<4x64xbf16>
  return %s : tensor<4x64xbf16>
}

// The rows are in four dimensions with their columns, which are cut.
// CHECK-LABEL: func.func @heads(
// CHECK:         te.linear {{.*}} -> tensor<400x320xbf16>
func.func @heads(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>) -> tensor<4x100x3x64xbf16> {
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %e = tensor.expand_shape %y [[0, 1], [2, 3]] output_shape [4, 100, 5, 64] : tensor<400x320xbf16> into tensor<4x100x5x64xbf16>
  %s = tensor.extract_slice %e[0, 0, 0, 0] [4, 100, 3, 64] [1, 1, 1, 1] : tensor<4x100x5x64xbf16> to tensor<4x100x3x64xbf16>
  return %s : tensor<4x100x3x64xbf16>
}

// The result has as few elements as the slice of the input would have.
// CHECK-LABEL: func.func @narrow(
// CHECK:         te.linear {{.*}} -> tensor<400x16xbf16>
func.func @narrow(%x: tensor<400x128xbf16>, %w: tensor<16x128xbf16>) -> tensor<50x16xbf16> {
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<16x128xbf16> -> tensor<400x16xbf16>
  %s = tensor.extract_slice %y[0, 0] [50, 16] [1, 1] : tensor<400x16xbf16> to tensor<50x16xbf16>
  return %s : tensor<50x16xbf16>
}

// Another matrix is added.
// CHECK-LABEL: func.func @added(
// CHECK:         te.linear {{.*}} -> tensor<400x320xbf16>
func.func @added(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>, %z: tensor<400x320xbf16>) -> tensor<4x320xbf16> {
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %a = arith.addf %y, %z : tensor<400x320xbf16>
  %s = tensor.extract_slice %a[0, 0] [4, 320] [1, 1] : tensor<400x320xbf16> to tensor<4x320xbf16>
  return %s : tensor<4x320xbf16>
}

// Not behind an op whose result counts as a constant when the program is differentiated.
// CHECK-LABEL: func.func @stopped(
// CHECK:         te.linear %{{.*}} -> tensor<400x320xbf16>
// CHECK:         tensor.expand_shape {{.*}} {te.no_gradient}
func.func @stopped(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>) -> tensor<4x99x320xbf16> {
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %e = tensor.expand_shape %y [[0, 1], [2]] output_shape [4, 100, 320] {te.no_gradient} : tensor<400x320xbf16> into tensor<4x100x320xbf16>
  %s = tensor.extract_slice %e[0, 0, 0] [4, 99, 320] [1, 1, 1] : tensor<4x100x320xbf16> to tensor<4x99x320xbf16>
  return %s : tensor<4x99x320xbf16>
}

// The weight is the input, too, and keeps its rows.
// CHECK-LABEL: func.func @products(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<400x128xbf16>
// CHECK:         %[[S:.*]] = tensor.extract_slice %[[X]][0, 0] [4, 128] [1, 1]
// CHECK:         te.linear %[[S]], %[[X]] : tensor<4x128xbf16>, tensor<400x128xbf16> -> tensor<4x400xbf16>
func.func @products(%x: tensor<400x128xbf16>) -> tensor<4x400xbf16> {
  %y = te.linear %x, %x : tensor<400x128xbf16>, tensor<400x128xbf16> -> tensor<400x400xbf16>
  %s = tensor.extract_slice %y[0, 0] [4, 400] [1, 1] : tensor<400x400xbf16> to tensor<4x400xbf16>
  return %s : tensor<4x400xbf16>
}

// An input without columns has no slice.
// CHECK-LABEL: func.func @empty(
// CHECK:         te.linear {{.*}} -> tensor<400x320xbf16>
func.func @empty(%x: tensor<400x0xbf16>, %w: tensor<320x0xbf16>) -> tensor<4x320xbf16> {
  %y = te.linear %x, %w : tensor<400x0xbf16>, tensor<320x0xbf16> -> tensor<400x320xbf16>
  %s = tensor.extract_slice %y[0, 0] [4, 320] [1, 1] : tensor<400x320xbf16> to tensor<4x320xbf16>
  return %s : tensor<4x320xbf16>
}
