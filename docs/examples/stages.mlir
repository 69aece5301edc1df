// Two stages of a pipeline that do not meet: te-verify-collectives says where.
module attributes {te.groups = [#te.group<id = 0, name = "pp", axis = "pp", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} { func.func @first(%amax: tensor<f32>, %x: tensor<8xf32>) {
      %a = te.amax_reduce %amax group 0
      %y = te.all_reduce %x group 0 : tensor<8xf32>
      return
    }}
  module attributes {te.ranks = array<i64: 1>} { func.func @second(%amax: tensor<f32>, %x: tensor<8xf32>) {
      %y = te.all_reduce %x group 0 : tensor<8xf32>
      %a = te.amax_reduce %amax group 0
      return
    }}
}
