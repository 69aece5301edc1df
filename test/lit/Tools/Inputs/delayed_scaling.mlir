// A cast whose scale is computed in earlier steps. The states
// of the scale are two named arguments and results of the step.
module {
  func.func @step(%x: tensor<16x32xf32> {te.name = "x"}, %history: tensor<4xf32> {te.name = "x.amax_history"},
                  %scale: tensor<f32> {te.name = "x.scale"})
      -> (tensor<16x32xf32> {te.name = "y"}, tensor<f32> {te.name = "amax"}, tensor<f32> {te.name = "used"},
          tensor<4xf32> {te.name = "x.amax_history"}, tensor<f32> {te.name = "x.scale"}) {
    %q, %amax = te.quantize %x scale %scale : tensor<16x32xf32>
      -> !te.scaled<16x32xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
    %y = te.dequantize %q : !te.scaled<16x32xf8E4M3FN, per_tensor, contract = 1> -> tensor<16x32xf32>
    %zero = arith.constant dense<0.0> : tensor<f32>
    %used = arith.addf %scale, %zero : tensor<f32>
    %next_history, %next_scale = te.delayed_scaling_update %amax, %history, %scale for f8E4M3FN {margin = 1 : i32}
      : tensor<f32>, tensor<4xf32>
    return %y, %amax, %used, %next_history, %next_scale
      : tensor<16x32xf32>, tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<f32>
  }
}
