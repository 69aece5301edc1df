func.func @adamw_fp8(%p: tensor<?xf32> {te.name = "p"}, %g: tensor<?xbf16> {te.name = "g"}, %m: tensor<?xf8E4M3FN> {te.name = "m"},
                     %v: tensor<?xf8E5M2> {te.name = "v"}, %s: tensor<2x3xf32> {te.name = "s"}, %lr: tensor<f32> {te.name = "lr"}, %t: tensor<f32> {te.name = "t"})
    -> (tensor<?xf32> {te.name = "p"}, tensor<?xf8E4M3FN> {te.name = "m"}, tensor<?xf8E5M2> {te.name = "v"}, tensor<2x3xf32> {te.name = "s"}) {
  %p1, %m1, %v1, %s1 = te.adamw %p, %g, %m, %v scales %s lr %lr step %t {seed = 5 : i32} : tensor<?xf32>, tensor<?xbf16>, tensor<?xf8E4M3FN>
  return %p1, %m1, %v1, %s1 : tensor<?xf32>, tensor<?xf8E4M3FN>, tensor<?xf8E5M2>, tensor<2x3xf32>
}
