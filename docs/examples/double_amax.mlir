// The step of examples/c_host, for the compiler: max |x + x| of 1000 floats.
func.func @step(%x: tensor<1000xf32> {te.name = "x"}) -> (tensor<f32> {te.name = "amax"}) {
  %twice = arith.addf %x, %x : tensor<1000xf32>
  %amax = te.amax %twice : tensor<1000xf32>
  return %amax : tensor<f32>
}
