// Arguments with initial values, which a run does not have to pass.
module {
  func.func @step(%a: tensor<2xf32> {te.name = "a", te.init = 1.5 : f32}, %b: tensor<3xbf16> {te.name = "b", te.init = 2.0 : f32},
                  %count: tensor<2xi32> {te.name = "count", te.init = dense<-3> : tensor<2xi32>})
      -> (tensor<2xf32> {te.name = "a"}, tensor<3xbf16> {te.name = "twice"}, tensor<2xi32> {te.name = "seen"}) {
    %next = arith.addf %a, %a : tensor<2xf32>
    %twice = arith.addf %b, %b : tensor<3xbf16>
    return %next, %twice, %count : tensor<2xf32>, tensor<3xbf16>, tensor<2xi32>
  }
}
