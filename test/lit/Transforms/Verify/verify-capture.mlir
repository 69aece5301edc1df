// RUN: te-opt %s --split-input-file --allow-unregistered-dialect --te-verify-capture --verify-diagnostics

// The cast of an activation needs no flag. A random state that is advanced gives new bits in every replay.
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

// expected-error @below {{expected in a captured step arguments on the device, but got 'arg0' of type 'i1', whose value the capture would keep}}
func.func @branch(%host: i1, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected in a captured step no branch, which the host would decide once for all replays, but got 'llvm.cond_br'}}
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
  // expected-error @below {{expected in a captured step no op with unknown effects on memory, but got 'clock.now'}}
  %now = "clock.now"() : () -> tensor<f32>
  return %now : tensor<f32>
}

// -----

// A cached cast is a state with a flag that is an argument, also for two micro-batches in one step.
func.func @kept(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %skip: tensor<f32> {te.name = "skip"}, %old: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"}) -> (!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"}) {
  %first = te.quantize %w into %old unless %skip : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  %second = te.quantize %w into %first unless %skip : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %second : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}

// -----

func.func @stack(%w: tensor<4x256x512xbf16> {te.name = "w", te.weight}) {
  // expected-error @below {{expected in a captured step the cast of weight 'w' to have a skip flag (te-insert-skip-flags), but got 'te.quantize'}}
  %q = te.quantize %w : tensor<4x256x512xbf16> -> !te.scaled<4x256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return
}

// -----

func.func @computed(%w: tensor<256x512xbf16> {te.name = "w", te.weight}) {
  %c = arith.constant dense<2.0> : tensor<256x512xbf16>
  %twice = arith.mulf %c, %w : tensor<256x512xbf16>
  // expected-error @below {{expected in a captured step the cast of weight 'w' to have a skip flag (te-insert-skip-flags), but got 'te.quantize'}}
  %q = te.quantize %twice : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return
}

// -----

func.func @measured(%w: tensor<4x32x64xbf16> {te.name = "w", te.weight}) -> tensor<4xf32> {
  %rows = tensor.collapse_shape %w [[0], [1, 2]] : tensor<4x32x64xbf16> into tensor<4x2048xbf16>
  // expected-error @below {{expected in a captured step the amax of weight 'w' to have a skip flag (te-insert-skip-flags), but got 'te.amax_rows'}}
  %amax = te.amax_rows %rows : tensor<4x2048xbf16> -> tensor<4xf32>
  %scale = te.compute_scale %amax for f8E4M3FN : tensor<4xf32>
  return %scale : tensor<4xf32>
}

// -----

// 'm' is not marked as a weight, but the state that is returned is cast from it in every step.
func.func @carried(%m: tensor<256x512xbf16>, %old: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "kept"}) -> (!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "kept"}) {
  // expected-error @below {{expected in a captured step the value of state 'kept' to be kept by a skip flag, but got 'te.quantize'}}
  %q = te.quantize %m : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %q : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}

// -----

func.func @chosen(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %skip: tensor<f32>, %host: tensor<i1>, %old: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "kept"}) -> (!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "kept"}) {
  // expected-error @below {{expected in a captured step no read of a single element, which waits for the device, but got 'tensor.extract'}}
  %bit = tensor.extract %host[] : tensor<i1>
  %q = te.quantize %w into %old unless %skip : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  // expected-error @below {{expected in a captured step the value of state 'kept' to be kept by a skip flag, but got 'arith.select'}}
  %next = arith.select %bit, %q, %old : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %next : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}

// -----

func.func @exchanged(
    // expected-error @below {{expected in a captured step the value of state 'a' to be kept by a skip flag, but got 'b'}}
    %a: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "a"},
    // expected-error @below {{expected in a captured step the value of state 'b' to be kept by a skip flag, but got 'a'}}
    %b: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "b"}) -> (!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "a"}, !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "b"}) {
  return %b, %a : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}

// -----

func.func @columns(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %scale: tensor<f32>, %skip: tensor<f32>, %row: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> {te.name = "w.row"}, %col: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0> {te.name = "w.col"})
    -> (!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> {te.name = "w.row"}, !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0> {te.name = "w.col"}) {
  %q = te.quantize %w scale %scale into %row unless %skip : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
  // expected-error @below {{expected in a captured step the value of state 'w.col' to be kept by a skip flag, but got 'te.transpose'}}
  %t = te.transpose %q : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>
  return %q, %t : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>
}

// -----

// The next replay would reuse the value that this one was given.
func.func @forgotten(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %skip: tensor<f32>, %old: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"}) {
  // expected-error @below {{expected in a captured step the value that the skip flag keeps to be returned under the name of its argument, but got 'te.quantize'}}
  %q = te.quantize %w into %old unless %skip : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return
}

// -----

func.func @constant_flag(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %old: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"}) -> (!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  // expected-error @below {{expected in a captured step a skip flag that is an argument of the step, which a replay can give another value, but got 'te.quantize'}}
  %q = te.quantize %w into %old unless %one : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %q : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}

// -----

// The backward's columns could be those of another micro-batch than the forward's rows.
func.func @two_flags(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %forward: tensor<f32>, %backward: tensor<f32>, %row: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"},
    %col: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 0> {te.name = "w.col"}) -> (!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"}, !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 0> {te.name = "w.col"}) {
  %r = te.quantize %w into %row unless %forward : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  // expected-error @below {{expected in a captured step one skip flag for all casts of weight 'w', but got 'te.quantize'}}
  %c = te.quantize %w into %col unless %backward : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 0>
  return %r, %c : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 0>
}

// -----

// Without te.zero_unless, gradients would be added to those of the last batch. A state that is not a weight's gradient is not checked.
func.func @never_anew(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %w: tensor<128x64xbf16> {te.name = "w", te.weight}, %skip: tensor<f32> {te.name = "skip_weight_update"},
    %sum: tensor<128x64xf32> {te.name = "grad.w"}, %own: tensor<128x64xf32> {te.name = "grad.other"}) -> (tensor<128x64xf32> {te.name = "grad.w"}, tensor<128x64xf32> {te.name = "grad.other"}) {
  // expected-error @below {{expected in a captured step the sum in 'grad.w' to go through te.zero_unless, but got 'te.linear_wgrad'}}
  %dw = te.linear_wgrad %dy, %x accumulate %sum : tensor<128x64xf32> : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xf32>
  %other = te.linear_wgrad %dy, %x accumulate %own : tensor<128x64xf32> : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xf32>
  return %dw, %other : tensor<128x64xf32>, tensor<128x64xf32>
}

// -----

// Another random state is advanced, and this one is not.
func.func @stuck(%dy: tensor<256x512xbf16>, %amax: tensor<f32>, %rng: tensor<2xi32> {te.name = "rng"}, %b: tensor<2xi32> {te.name = "b"})
    -> (tensor<2xi32> {te.name = "rng"}, tensor<2xi32> {te.name = "b"}) {
  // expected-error @below {{expected in a captured step random bits to come from a state that the step takes and returns advanced; every replay would draw the same ones, but got 'te.quantize'}}
  %q = te.quantize %dy amax %amax rng %rng : tensor<256x512xbf16> -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
  // expected-error @below {{expected in a captured step random bits to come from a state that the step takes and returns advanced; every replay would draw the same ones, but got 'te.quantize'}}
  %p = te.quantize %dy amax %amax rng %b : tensor<256x512xbf16> -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
  %from_b = te.rng_advance %b
  %same = te.rng_advance %b {count = 0 : i32}
  return %from_b, %same : tensor<2xi32>, tensor<2xi32>
}

// -----

// expected-error @below {{expected in a captured step arguments on the device, but got 'lr' of type 'f32', whose value the capture would keep}}
func.func @host_scalar(%lr: f32 {te.name = "lr"}) {
  return
}

// -----

// expected-error @below {{expected in a captured step arguments on the device, but got 'arg1' of type 'i1', whose value the capture would keep}}
func.func @conditional(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %host: i1) -> tensor<256x512xbf16> {
  // expected-error @below {{expected in a captured step no branch, which the host would decide once for all replays, but got 'scf.if'}}
  %r = scf.if %host -> tensor<256x512xbf16> {
    // expected-error @below {{expected in a captured step the cast of weight 'w' to have a skip flag (te-insert-skip-flags), but got 'te.quantize'}}
    %q = te.quantize %w : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    %d = te.dequantize %q : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> -> tensor<256x512xbf16>
    scf.yield %d : tensor<256x512xbf16>
  } else {
    scf.yield %w : tensor<256x512xbf16>
  }
  return %r : tensor<256x512xbf16>
}

// -----

func.func @allocation() -> !llvm.ptr {
  %four = llvm.mlir.constant(4 : i32) : i32
  // expected-error @below {{expected in a captured step no allocation; the arena is planned before, but got 'llvm.alloca'}}
  %m = llvm.alloca %four x f32 : (i32) -> !llvm.ptr
  return %m : !llvm.ptr
}

// -----

// A state without a name, and one that is not returned, have the same bits in every replay.
func.func @without_name(%dy: tensor<256x512xbf16>, %amax: tensor<f32>, %rng: tensor<2xi32>) -> tensor<2xi32> {
  // expected-error @below {{expected in a captured step random bits to come from a state that the step takes and returns advanced; every replay would draw the same ones, but got 'te.quantize'}}
  %q = te.quantize %dy amax %amax rng %rng : tensor<256x512xbf16> -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
  %next = te.rng_advance %rng
  return %next : tensor<2xi32>
}

// -----

func.func @not_returned(%dy: tensor<256x512xbf16>, %amax: tensor<f32>, %rng: tensor<2xi32> {te.name = "rng"}) {
  // expected-error @below {{random bits to come from a state that the step takes and returns advanced}}
  %q = te.quantize %dy amax %amax rng %rng : tensor<256x512xbf16> -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
  %next = te.rng_advance %rng
  return
}

// -----

func.func @constant_state(%dy: tensor<256x512xbf16>, %amax: tensor<f32>) {
  %rng = arith.constant dense<1> : tensor<2xi32>
  // expected-error @below {{random bits to come from a state that the step takes and returns advanced}}
  %q = te.quantize %dy amax %amax rng %rng : tensor<256x512xbf16> -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
  return
}

// -----

// An update after the last of several micro-batches.
func.func @updates(%w: tensor<8xf32> {te.name = "w", te.weight}, %m: tensor<8xf32> {te.name = "m"}, %v: tensor<8xf32> {te.name = "v"}, %sum: tensor<8xf32> {te.name = "grad.w"},
    %g: tensor<8xf32>, %lr: tensor<f32>, %first: tensor<f32>, %skip: tensor<f32>)
    -> (tensor<8xf32> {te.name = "w"}, tensor<8xf32> {te.name = "m"}, tensor<8xf32> {te.name = "v"}, tensor<8xf32> {te.name = "grad.w"}) {
  %from = te.zero_unless %sum, %first : tensor<8xf32>
  %next = arith.addf %from, %g : tensor<8xf32>
  %s = te.sum_of_squares %next unless %skip : tensor<8xf32>
  %norm, %factor = te.clip_factor %s {max_norm = 1.0 : f32}
  %w1, %m1, %v1 = te.adamw %w, %next, %m, %v lr %lr step %lr grad_scale %factor unless %skip : tensor<8xf32>, tensor<8xf32>
  return %w1, %m1, %v1, %next : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Without gradients that are added up, an update needs no flag.
func.func @every_step(%w: tensor<8xf32> {te.name = "w", te.weight}, %g: tensor<8xf32>, %lr: tensor<f32>) -> (tensor<8xf32> {te.name = "w"}) {
  %w1 = te.sgd %w, %g lr %lr : tensor<8xf32>, tensor<8xf32>
  return %w1 : tensor<8xf32>
}

// -----

func.func @update_without_flag(%w: tensor<8xf32> {te.name = "w", te.weight}, %sum: tensor<8xf32> {te.name = "grad.w"}, %g: tensor<8xf32>, %lr: tensor<f32>, %first: tensor<f32>)
    -> (tensor<8xf32> {te.name = "w"}, tensor<8xf32> {te.name = "grad.w"}) {
  %from = te.zero_unless %sum, %first : tensor<8xf32>
  %next = arith.addf %from, %g : tensor<8xf32>
  // expected-error @below {{expected in a captured step a skip flag ('unless') of what reads the sum of gradients over micro-batches, but got 'te.sgd'}}
  %w1 = te.sgd %w, %next lr %lr : tensor<8xf32>, tensor<8xf32>
  return %w1, %next : tensor<8xf32>, tensor<8xf32>
}

// -----

// One parameter would be updated in each micro-batch, and the other one after the last.
func.func @one_update_without_flag(%w: tensor<8xf32> {te.name = "w", te.weight}, %b: tensor<8xf32> {te.name = "b"}, %g: tensor<8xf32>, %lr: tensor<f32>, %skip: tensor<f32>)
    -> (tensor<8xf32> {te.name = "w"}, tensor<8xf32> {te.name = "b"}) {
  // expected-error @below {{expected in a captured step one skip flag for all updates and sums of squares, but got 'te.sgd'}}
  %w1 = te.sgd %w, %g lr %lr : tensor<8xf32>, tensor<8xf32>
  %b1 = te.sgd %b, %g lr %lr unless %skip : tensor<8xf32>, tensor<8xf32>
  return %w1, %b1 : tensor<8xf32>, tensor<8xf32>
}

// -----

func.func @two_flags_of_updates(%w: tensor<8xf32> {te.name = "w", te.weight}, %b: tensor<8xf32> {te.name = "b"}, %g: tensor<8xf32>, %lr: tensor<f32>, %skip: tensor<f32>, %other: tensor<f32>)
    -> (tensor<8xf32> {te.name = "w"}, tensor<f32>) {
  %w1 = te.sgd %w, %g lr %lr unless %skip : tensor<8xf32>, tensor<8xf32>
  // expected-error @below {{expected in a captured step one skip flag for all updates and sums of squares, but got 'te.sum_of_squares'}}
  %s = te.sum_of_squares %g unless %other : tensor<8xf32>
  return %w1, %s : tensor<8xf32>, tensor<f32>
}

// -----

// The first of several micro-batches would update, and the last one would not.
func.func @flag_of_gradients(%w: tensor<8xf32> {te.name = "w", te.weight}, %sum: tensor<8xf32> {te.name = "grad.w"}, %g: tensor<8xf32>, %lr: tensor<f32>, %skip: tensor<f32>)
    -> (tensor<8xf32> {te.name = "w"}, tensor<8xf32> {te.name = "grad.w"}) {
  %from = te.zero_unless %sum, %skip : tensor<8xf32>
  %next = arith.addf %from, %g : tensor<8xf32>
  // expected-error @below {{expected in a captured step a skip flag that is not that of casts and gradients, which is 1.0 in the last micro-batch, but got 'te.sgd'}}
  %w1 = te.sgd %w, %next lr %lr unless %skip : tensor<8xf32>, tensor<8xf32>
  return %w1, %next : tensor<8xf32>, tensor<8xf32>
}

// -----

func.func @flag_is_computed(%w: tensor<8xf32> {te.name = "w", te.weight}, %g: tensor<8xf32>, %lr: tensor<f32>, %a: tensor<f32>) -> (tensor<8xf32> {te.name = "w"}) {
  %skip = arith.addf %a, %a : tensor<f32>
  // expected-error @below {{expected in a captured step a skip flag that is an argument of the step, which a replay can give another value, but got 'te.sgd'}}
  %w1 = te.sgd %w, %g lr %lr unless %skip : tensor<8xf32>, tensor<8xf32>
  return %w1 : tensor<8xf32>
}

// -----

func.func @moments_are_lost(%w: tensor<8xf32> {te.name = "w", te.weight}, %m: tensor<8xf32> {te.name = "m"}, %v: tensor<8xf32> {te.name = "v"}, %g: tensor<8xf32>, %lr: tensor<f32>, %skip: tensor<f32>)
    -> (tensor<8xf32> {te.name = "w"}, tensor<8xf32> {te.name = "m"}) {
  // expected-error @below {{expected in a captured step the value that the skip flag keeps to be returned under the name of its argument, but got 'te.adamw'}}
  %w1, %m1, %v1 = te.adamw %w, %g, %m, %v lr %lr step %lr unless %skip : tensor<8xf32>, tensor<8xf32>
  return %w1, %m1 : tensor<8xf32>, tensor<8xf32>
}
