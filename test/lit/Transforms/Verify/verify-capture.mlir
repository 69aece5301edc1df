// RUN: te-opt %s --split-input-file --allow-unregistered-dialect --te-verify-capture --verify-diagnostics

// A cast of an activation needs no flag; a state that is advanced is as good as a fresh one.
func.func @good(%dy: tensor<256x512xbf16>, %amax: tensor<f32>, %rng: tensor<2xi32> {te.name = "rng"}) -> (tensor<2xi32> {te.name = "rng"}) {
  %q = te.quantize %dy amax %amax rng %rng : tensor<256x512xbf16> -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
  %next = te.rng_advance %rng
  return %next : tensor<2xi32>
}

// -----

func.func @no_flag(%w: tensor<256x512xbf16> {te.name = "w", te.weight}) {
  // expected-error @below {{expected in a captured step the cast of weight 'w' to have a skip flag (te-insert-skip-flags), but got 'te.quantize'}}
  %q = te.quantize %w : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return
}

// -----

func.func @same_bits(%dy: tensor<256x512xbf16>, %amax: tensor<f32>, %rng: tensor<2xi32> {te.name = "rng"}) -> (tensor<2xi32> {te.name = "rng"}) {
  // expected-error @below {{expected in a captured step random bits to come from a state that the step takes and returns advanced; every replay would draw the same ones, but got 'te.quantize'}}
  %q = te.quantize %dy amax %amax rng %rng : tensor<256x512xbf16> -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
  return %rng : tensor<2xi32>
}

// -----

func.func @branch(%host: i1, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected in a captured step no branch, which the host would take once for all replays, but got 'llvm.cond_br'}}
  llvm.cond_br %host, ^left, ^right
^left:
  return %a : tensor<4xf32>
^right:
  return %b : tensor<4xf32>
}

// -----

func.func @read(%loss: tensor<f32>) -> f32 {
  // expected-error @below {{expected in a captured step no read of a single element, which waits for the device, but got 'tensor.extract'}}
  %v = tensor.extract %loss[] : tensor<f32>
  return %v : f32
}

// -----

func.func private @print(tensor<f32>)
func.func @call(%loss: tensor<f32>) {
  // expected-error @below {{expected in a captured step no call, which may allocate or wait; inline it, but got 'func.call'}}
  func.call @print(%loss) : (tensor<f32>) -> ()
  return
}

// -----

func.func @unknown() -> tensor<f32> {
  // expected-error @below {{expected in a captured step no op with effects on memory that are not known, but got 'clock.now'}}
  %now = "clock.now"() : () -> tensor<f32>
  return %now : tensor<f32>
}
