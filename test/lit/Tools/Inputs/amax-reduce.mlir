// An amax over the ranks of a group, and
// a value that differs between the ranks.
module attributes {te.groups = [#te.group<id = 0, name = "all", axis = "all", size = 2>]} {
  func.func @step(%x: tensor<4x8xf32> {te.name = "x"})
      -> (tensor<f32> {te.name = "amax"}, tensor<4x8xf32> {te.name = "y"}) {
    %amax = te.amax %x : tensor<4x8xf32>
    %all = te.amax_reduce %amax group 0
    %y = arith.addf %x, %x : tensor<4x8xf32>
    return %all, %y : tensor<f32>, tensor<4x8xf32>
  }
}
