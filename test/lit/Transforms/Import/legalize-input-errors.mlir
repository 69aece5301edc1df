// RUN: te-opt %s --te-legalize-input --split-input-file --verify-diagnostics

// All violations of a module are reported, each at its own location.

// expected-error @below {{expected only functions in the module, but got 'builtin.module'}}
module {}

// expected-error @below {{expected arguments to have different names, but arguments 0 and 1 of '@names' are both 'a'}}
func.func @names(%a: tensor<4xf32> {te.name = "a"}, %b: tensor<4xf32> {te.name = "a"}) {
  return
}

// expected-error @below {{expected results to have different names, but results 0 and 1 of '@results' are both 'y'}}
func.func @results(%a: tensor<4xf32>) -> (tensor<4xf32> {te.name = "y"}, tensor<4xf32> {te.name = "y"}) {
  return %a, %a : tensor<4xf32>, tensor<4xf32>
}

// expected-error @below {{expected result 'm' to have the type of the argument whose next state it is, but got 'tensor<4xf32>' and 'tensor<4xbf16>'}}
func.func @state(%m: tensor<4xbf16> {te.name = "m"}) -> (tensor<4xf32> {te.name = "m"}) {
  %y = arith.extf %m : tensor<4xbf16> to tensor<4xf32>
  return %y : tensor<4xf32>
}

// expected-error @below {{expected argument 0 to be a tensor of static shape, but got 'tensor<?xf32>'}}
func.func @dynamic(%a: tensor<?xf32>) {
  // expected-error @below {{expected a result of 'math.exp' to be a tensor of static shape, but got 'tensor<?xf32>'}}
  %y = math.exp %a : tensor<?xf32>
  return
}

func.func @ops(%a: tensor<4xf32>, %b: tensor<4x4xf32>) {
  // expected-error @below {{expected a tensor.empty to be only what a linalg.broadcast or linalg.transpose writes, but 'arith.negf' reads it}}
  %e = tensor.empty() : tensor<4xf32>
  %n = arith.negf %e : tensor<4xf32>
  // expected-error @below {{expected a constant tensor to hold one float in every element, or i32; pass others as arguments}}
  %c = arith.constant dense<[0.0, 1.0, 2.0, 3.0]> : tensor<4xf32>
  %i = arith.constant dense<1> : tensor<4xi32>
  // expected-error @below {{the runtime has no kernel for 'math.atan'; of arith and math it has arith.addf, arith.subf, arith.mulf, arith.divf, arith.maximumf, arith.minimumf, arith.negf, arith.cmpf, arith.select, arith.extf, arith.truncf, math.absf, math.exp, math.log, math.log1p, math.sin, math.cos, math.tanh, math.sqrt, arith.remf, math.exp2, math.log2, math.powf, math.erf, math.erfc, math.rsqrt, math.floor, math.ceil, math.trunc, math.roundeven}}
  %l = math.atan %a : tensor<4xf32>
  // expected-error @below {{the runtime has no kernel for 'arith.addi'}}
  %j = arith.addi %i, %i : tensor<4xi32>
  // expected-error @below {{expected an arith.cmpf to be only the condition of an arith.select, but 'arith.select' reads it}}
  %c0 = arith.cmpf olt, %a, %n : tensor<4xf32>
  %c1 = arith.cmpf olt, %n, %a : tensor<4xf32>
  // expected-error @below {{expected a result of 'arith.select' to have elements of bf16, f16, f32 or i32, but got 'tensor<4xi1>'}}
  %both = arith.select %c1, %c0, %c0 : tensor<4xi1>, tensor<4xi1>
  // expected-error @below {{expected the condition of an arith.select to be the result of an arith.cmpf}}
  %chosen = arith.select %both, %a, %n : tensor<4xi1>, tensor<4xf32>
  // expected-error @below {{expected a result of 'arith.constant' to be a tensor of static shape, but got 'f32'}}
  %s = arith.constant 1.0 : f32
  // expected-error @below {{expected a result of 'arith.extf' to have elements of bf16, f16, f32 or i32, but got 'tensor<4xf64>'}}
  %d = arith.extf %a : tensor<4xf32> to tensor<4xf64>
  return
}

// expected-error @below {{expected '@external' to have a body of one block, but it has 0}}
func.func private @external(tensor<4xf32>) -> tensor<4xf32>

// -----

// Values of 8 bits are moments of te.adamw, and nothing else.

// expected-error @below {{expected argument 0 to have elements of bf16, f16, f32 or i32, but got 'tensor<4xf8E4M3FN>'}}
func.func @bytes(%m: tensor<4xf8E4M3FN>) -> tensor<4xf32> {
  %y = arith.extf %m : tensor<4xf8E4M3FN> to tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Calls that cannot be inlined do not prevent other reports.

func.func @loops(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @again(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @again(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected '@loops' not to call itself, directly or not}}
  %y = call @loops(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// expected-error @below {{expected '@external' to have a body of one block, but it has 0}}
func.func private @external(tensor<4xf32>) -> tensor<4xf32>
func.func @calls_nothing(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{the runtime has no kernel for 'math.atan'}}
  %l = math.atan %a : tensor<4xf32>
  // expected-error @below {{expected '@external' to have a body of one block, to inline it}}
  %y = call @external(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @broadcast_of_nothing() -> tensor<2x4xf32> {
  // expected-error @below {{expected a tensor.empty to be only what a linalg.broadcast or linalg.transpose writes, but 'linalg.broadcast' reads it}}
  %i = tensor.empty() : tensor<4xf32>
  %e = tensor.empty() : tensor<2x4xf32>
  %y = linalg.broadcast ins(%i : tensor<4xf32>) outs(%e : tensor<2x4xf32>) dimensions = [0]
  return %y : tensor<2x4xf32>
}

// -----

func.func @broadcast_of_integers(%i: tensor<4xi32>) -> tensor<2x4xi32> {
  %e = tensor.empty() : tensor<2x4xi32>
  // expected-error @below {{expected a linalg.broadcast of f32, bf16 or f16, but got one of 'tensor<4xi32>'}}
  %y = linalg.broadcast ins(%i : tensor<4xi32>) outs(%e : tensor<2x4xi32>) dimensions = [0]
  return %y : tensor<2x4xi32>
}

// -----

func.func @slices(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  // expected-error @below {{expected a tensor.extract_slice with constant offsets and sizes, strides of 1 and no dropped dimensions, but got one of 'tensor<4x8xf32>'}}
  %s = tensor.extract_slice %x[0, 0] [4, 4] [1, 2] : tensor<4x8xf32> to tensor<4x4xf32>
  // expected-error @below {{no dropped dimensions}}
  %r = tensor.extract_slice %x[1, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @reductions(%x: tensor<4x8xf32>, %h: tensor<4x8xbf16>, %i: tensor<4xf32>, %long: tensor<2x16777217xf32>) -> tensor<4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %narrow = arith.constant dense<0.0> : tensor<4xbf16>
  %lowest = arith.constant dense<0xFF800000> : tensor<4xf32>
  %lowest_of_two = arith.constant dense<0xFF800000> : tensor<2xf32>
  // expected-error @below {{expected a linalg.reduce of f32 to add all elements of at least one dimension to zero, or to take the arith.maximumf of them and -inf, or the arith.minimumf of them and +inf, but got one of 'tensor<4x8xbf16>'}}
  %a = linalg.reduce { arith.addf } ins(%h : tensor<4x8xbf16>) outs(%narrow : tensor<4xbf16>) dimensions = [1]
  // expected-error @below {{to add all elements}}
  %b = linalg.reduce { arith.maximumf } ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  // expected-error @below {{to add all elements}}
  %c = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%i : tensor<4xf32>) dimensions = [1]
  // expected-error @below {{to add all elements}}
  %d = linalg.reduce { arith.addf } ins(%i : tensor<4xf32>) outs(%zero : tensor<4xf32>) dimensions = []
  // expected-error @below {{to add all elements}}
  %e = linalg.reduce { arith.minimumf } ins(%x : tensor<4x8xf32>) outs(%lowest : tensor<4xf32>) dimensions = [1]
  // expected-error @below {{to add all elements}}
  %f = linalg.reduce { arith.mulf } ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  // expected-error @below {{to add all elements}}
  %last = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1] (%in: f32, %out: f32) {
    linalg.yield %in : f32
  }
  // expected-error @below {{to add all elements}}
  %same = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1] (%in: f32, %out: f32) {
    func.call @of_two(%in, %out) : (f32, f32) -> ()
    linalg.yield %in : f32
  }
  // expected-error @below {{expected a linalg.reduce that takes the maximum or minimum of dimensions of at most 16777216 elements, but got one of 'tensor<2x16777217xf32>'}}
  %g = linalg.reduce { arith.maximumf } ins(%long : tensor<2x16777217xf32>) outs(%lowest_of_two : tensor<2xf32>) dimensions = [1]
  return %c : tensor<4xf32>
}
// expected-error @below {{expected '@of_two' to have a body of one block}}
func.func private @of_two(f32, f32)

// -----

func.func @rounding_mode(%x: tensor<8xf32>) -> tensor<8xbf16> {
  // expected-error @below {{expected 'roundingmode' to be to_nearest_even, the only one that code is generated for}}
  %y = arith.truncf %x toward_zero : tensor<8xf32> to tensor<8xbf16>
  return %y : tensor<8xbf16>
}

// -----

// Sizes whose numbers of bytes would overflow, or exceed the memory of any device. This
// also applies if another size is 0, because buffers of only the rows may be needed.

// expected-error @below {{expected argument 0 to take fewer than 1099511627776 bytes (2^40), but got 'tensor<4294967296x1073741824xf32>', which takes 4294967296 x 1073741824 x 4}}
func.func @wraps_to_zero(%a: tensor<4294967296x1073741824xf32>) {
  return
}
// expected-error @below {{expected argument 0 to take fewer than 1099511627776 bytes (2^40), but got 'tensor<9223372036854775807xf32>', which takes 9223372036854775807 x 4}}
func.func @most_elements(%a: tensor<9223372036854775807xf32>) {
  return
}
// expected-error @below {{which takes 4611686018427387904 x 0 x 4}}
func.func @no_columns(%a: tensor<4611686018427387904x0xf32>) {
  return
}
// expected-error @below {{which takes 549755813888 x 2 x 1}}
func.func @casts(%a: !te.scaled<549755813888x2xf8E4M3FN, per_tensor, contract = 1>) {
  return
}
// expected-error @below {{which takes 549755813888 x 2}}
func.func @limit(%a: tensor<549755813888xbf16>, %b: tensor<549755813887xbf16>) {
  return
}
func.func @results(%x: tensor<4194304x1xbf16>, %w: tensor<4194304x1xbf16>) {
  // expected-error @below {{expected a result of 'te.linear' to take fewer than 1099511627776 bytes (2^40), but got 'tensor<4194304x4194304xbf16>', which takes 4194304 x 4194304 x 2}}
  %y = te.linear %x, %w : tensor<4194304x1xbf16>, tensor<4194304x1xbf16> -> tensor<4194304x4194304xbf16>
  return
}

// -----

func.func @slices_at_an_index(%x: tensor<4x8xf32>, %l: tensor<8xi32>) -> tensor<2x8xf32> {
  // expected-error @below {{expected a result of 'arith.constant' to be a tensor of static shape, but got 'index'}}
  %i = arith.constant 1 : index
  // expected-error @below {{expected a tensor.extract_slice with constant offsets and sizes, strides of 1 and no dropped dimensions, but got one of 'tensor<4x8xf32>'}}
  %s = tensor.extract_slice %x[%i, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  return %s : tensor<2x8xf32>
}

// -----

// Sums of something else than the elements.
func.func @other_sums(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> tensor<4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  // expected-error @below {{to add all elements}}
  %a = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1] (%in: f32, %sum: f32) {
    %s = arith.addf %in, %sum : f32
    %t = arith.negf %s : f32
    linalg.yield %t : f32
  }
  // expected-error @below {{to add all elements}}
  %b = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1] (%in: f32, %sum: f32) {
    %s = arith.addf %in, %sum : f32
    linalg.yield %in : f32
  }
  // expected-error @below {{to add all elements}}
  %c = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1] (%in: f32, %sum: f32) {
    %s = arith.addf %in, %in : f32
    linalg.yield %s : f32
  }
  // expected-error @below {{to add all elements}}
  %d = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1] (%in: f32, %sum: f32) {
    %s = arith.addf %sum, %sum : f32
    linalg.yield %s : f32
  }
  // expected-error @below {{to add all elements}}
  %e:2 = linalg.reduce ins(%x, %z : tensor<4x8xf32>, tensor<4x8xf32>) outs(%zero, %zero : tensor<4xf32>, tensor<4xf32>) dimensions = [1] (%in: f32, %other: f32, %sum: f32, %second: f32) {
    %s = arith.addf %in, %other : f32
    linalg.yield %s, %s : f32, f32
  }
  return %c : tensor<4xf32>
}

// -----

func.func @constants() -> tensor<4xf32> {
  // expected-error @below {{expected a constant tensor to hold one float in every element, or i32; pass others as arguments}}
  %a = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----

// expected-error @below {{expected '@declared' to have a body of one block, but it has 0}}
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func @calls_declared(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected '@declared' to have a body of one block, to inline it}}
  %y = call @declared(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @comparison_selected(%x: tensor<4xf32>) -> tensor<4xi1> {
  // expected-error @below {{expected an arith.cmpf to be only the condition of an arith.select, but 'arith.select' reads it}}
  %c = arith.cmpf ogt, %x, %x : tensor<4xf32>
  // expected-error @below {{expected an arith.cmpf to be only the condition}}
  %d = arith.cmpf olt, %x, %x : tensor<4xf32>
  // expected-error @below {{expected a result of 'arith.select' to have elements of bf16, f16, f32 or i32, but got 'tensor<4xi1>'}}
  %s = arith.select %c, %c, %d : tensor<4xi1>, tensor<4xi1>
  return %s : tensor<4xi1>
}
