//===- Optimizers.td - parameter updates ----------------------------------===//

def Optimizers : Family<"Optimizers", 10>;

/// The numbers of the types are 0 and 1.
def MomentType : ParameterType<"I32", "f32 or bf16", "choice", "2, \"f32 or bf16\"">;

def adamw : Kernel<Optimizers> {
  let Description = [{
    AdamW with decoupled weight decay, with all arithmetic in f32. `lr` and `step` (1
    for the first step) are f32[1]. math::adamw has the expressions; its gradient is
    grad, or rn32(grad * grad_scale) if grad_scale, f32[1], is given. The new parameter
    is computed from moments in f32. New moments in bf16 are rounded stochastically,
    because rounded to nearest, v could not follow small gradients: the bits of a
    finite number, plus 16 random bits, without their low 16. Random bits are word
    i mod 4 of Philox4x32-10 with key (seed, 0) and counter (g mod 2^32, g / 2^32, the
    bits of `step`, 2) for element i, where g = i / 4; m takes the low half of the
    word, and v the high half. If `skip`, f32[1], is given and exactly 1, new_param,
    new_m and new_v are param, m and v, and nothing else is read.
  }];
  let Parameters = (parameters Dim:$count, WideType:$param_type, WideType:$grad_type,
                               AnyFloat:$beta1, AnyFloat:$beta2, AnyFloat:$epsilon,
                               AnyFloat:$weight_decay, MomentType:$moment_type,
                               AnyInt32:$seed);
  let Buffers = (buffers In<["count"], "param_type">:$param, In<["count"], "grad_type">:$grad,
                         In<["count"], "moment_type">:$m, In<["count"], "moment_type">:$v,
                         In<["1"], "f32">:$lr,
                         In<["1"], "f32">:$step, InOpt<["1"], "f32">:$grad_scale, Out<["count"], "param_type">:$new_param,
                         Out<["count"], "moment_type">:$new_m,
                         Out<["count"], "moment_type">:$new_v, InOpt<["1"], "f32">:$skip);
  let Reuses = [MayReuse<"new_param", "param">, MayReuse<"new_m", "m">, MayReuse<"new_v", "v">];
  let Cases = [When<"moment_type == bf16", RandomBits>];
}

def adamw_fp8 : Kernel<Optimizers> {
  let Description = [{
    adamw with moments of 8 bits: m is the f8E4M3FN of `m`, and v the f8E5M2 of `v`,
    each times the scale of its block of 128 consecutive elements, of which the last
    one may be shorter. `scales` has those of m, then those of v. A new scale is
    2^max(e - t, -126), where 2^e is the largest power of two that is not above the
    largest finite magnitude of the block's new moments, and t is 7 for m and 14 for
    v; it is 2^-126 if there is no magnitude above zero. A new moment divided by its
    scale is rounded stochastically, with the random bits of adamw: to its magnitude,
    2^-6 (m) or 2^-14 (v) is added in f32 if it is below that, and subtracted from
    the result; the result has the bits of the magnitude, plus the 16 random bits,
    of which the first is at the place of the first bit behind the mantissa of the
    8-bit type, without all bits behind that mantissa. A v above 0 that becomes 0 is
    the smallest number of f8E5M2 instead. Infinities and NaN become NaN, 0x7f. `skip` is
    that of adamw, and keeps the scales, too.
  }];
  let Parameters = (parameters Dim:$count, WideType:$param_type, WideType:$grad_type,
                               AnyFloat:$beta1, AnyFloat:$beta2, AnyFloat:$epsilon,
                               AnyFloat:$weight_decay, AnyInt32:$seed);
  let Buffers = (buffers In<["count"], "param_type">:$param, In<["count"], "grad_type">:$grad,
                         In<["count"], "f8E4M3FN">:$m, In<["count"], "f8E5M2">:$v,
                         In<["2", "ceilDiv(count, kMomentBlock)"], "f32">:$scales,
                         In<["1"], "f32">:$lr,
                         In<["1"], "f32">:$step, InOpt<["1"], "f32">:$grad_scale, Out<["count"], "param_type">:$new_param,
                         Out<["count"], "f8E4M3FN">:$new_m,
                         Out<["count"], "f8E5M2">:$new_v,
                         Out<["2", "ceilDiv(count, kMomentBlock)"], "f32">:$new_scales,
                         InOpt<["1"], "f32">:$skip);
  let Reuses = [MayReuse<"new_param", "param">, MayReuse<"new_m", "m">,
                MayReuse<"new_v", "v">, MayReuse<"new_scales", "scales">];
  let Bits = RandomBits;
}

/// The most tensors of one launch: the pointers are arguments of the kernel, which
/// may take 4 KB.
defvar kAdamwGroup = 32;

def adamw_group : Kernel<Optimizers> {
  let Description = [{
    adamw of each tensor i whose count is not 0, with `count`i, `seed`i and the buffers
    with the number i, and with the other parameters and `lr`, `step`, `grad_scale` and
    `skip` of all. A tensor whose count is 0 has no buffers; all buffers of the others
    are needed.
  }];
  let Parameters = !con((parameters WideType:$param_type, WideType:$grad_type,
                                    AnyFloat:$beta1, AnyFloat:$beta2, AnyFloat:$epsilon,
                                    AnyFloat:$weight_decay, MomentType:$moment_type),
                        EachParameter<"count", Dim, kAdamwGroup>.List,
                        EachParameter<"seed", AnyInt32, kAdamwGroup>.List);
  let Buffers = !con(EachIn<"param", "count", "param_type", kAdamwGroup>.List,
                     EachIn<"grad", "count", "grad_type", kAdamwGroup>.List,
                     EachIn<"m", "count", "moment_type", kAdamwGroup>.List,
                     EachIn<"v", "count", "moment_type", kAdamwGroup>.List,
                     (buffers In<["1"], "f32">:$lr, In<["1"], "f32">:$step,
                              InOpt<["1"], "f32">:$grad_scale),
                     EachOut<"new_param", "count", "param_type", kAdamwGroup>.List,
                     EachOut<"new_m", "count", "moment_type", kAdamwGroup>.List,
                     EachOut<"new_v", "count", "moment_type", kAdamwGroup>.List,
                     (buffers InOpt<["1"], "f32">:$skip));
  let Reuses = !listconcat(EachReuse<"new_param", "param", kAdamwGroup>.List,
                           EachReuse<"new_m", "m", kAdamwGroup>.List,
                           EachReuse<"new_v", "v", kAdamwGroup>.List);
  let Cases = [When<"moment_type == bf16", RandomBits>];
}

def sgd : Kernel<Optimizers> {
  let Description = [{
    SGD with an optional momentum buffer: g = grad + weight_decay * param;
    u = momentum * buf + g; new_param = param - lr * u, or with nesterov
    param - lr * (momentum * u + g). Arithmetic is in f32, as in math::sgd. An absent
    buf counts as 0. grad is multiplied by grad_scale as in adamw. If `skip` is given and
    exactly 1, new_param and new_buf are param and buf, and nothing else is read.
  }];
  let Parameters = (parameters Dim:$count, WideType:$param_type, WideType:$grad_type,
                               AnyFloat:$momentum, AnyFloat:$weight_decay, Flag:$nesterov);
  let Buffers = (buffers In<["count"], "param_type">:$param, In<["count"], "grad_type">:$grad,
                         InOpt<["count"], "f32">:$buf, In<["1"], "f32">:$lr,
                         InOpt<["1"], "f32">:$grad_scale,
                         Out<["count"], "param_type">:$new_param,
                         OutOpt<["count"], "f32">:$new_buf, InOpt<["1"], "f32">:$skip);
  let Reuses = [MayReuse<"new_param", "param">, MayReuse<"new_buf", "buf">];
}

/// The most tensors of one launch, as of adamw_group.
defvar kSquaresGroup = 32;

def sum_of_squares : Kernel<Optimizers> {
  let Description = [{
    new_sum = sum, to which the sum of x * x of each tensor i whose count is not 0 is
    added, in their order, in f32. An absent sum counts as 0. Runs of 4096 elements of a
    tensor (the last one may be shorter) are each a lane sum with fmaf(x, x, acc). The
    sum of x * x is the lane sum of the runs with acc + run. NaN and infinities come
    through; a square or sum that overflows is infinite. If `skip`, f32[1], is given
    and exactly 1, new_sum is 0, and nothing else is read. A tensor whose count is 0
    has no buffer.
  }];
  let Parameters = !con(EachParameter<"count", Dim, kSquaresGroup>.List,
                        EachParameter<"type", WideType, kSquaresGroup>.List);
  let Buffers = !con(EachTypedIn<"x", "count", "type", kSquaresGroup>.List,
                     (buffers InOpt<["1"], "f32">:$sum, Out<["1"], "f32">:$new_sum,
                              InOpt<["1"], "f32">:$skip));
  let Reuses = [MayReuse<"new_sum", "sum">];
  // The sums of all runs, and those of the tensors.
  let Workspace = "4 * (" # !cast<string>(kSquaresGroup) # !interleave(
      !foreach(i, !range(kSquaresGroup), " + ceilDiv(count" # i # ", kSquaresRun)"), "") # ")";
}

def clip_factor : Kernel<Optimizers> {
  let Description = [{
    norm = sqrt(sum) and factor = max_norm / (norm + 1e-6) in f32; a factor above 1 is 1.
    NaN stays NaN.
  }];
  let Parameters = (parameters AnyFloat:$max_norm);
  let Buffers = (buffers In<["1"], "f32">:$sum, Out<["1"], "f32">:$norm,
                         Out<["1"], "f32">:$factor);
}
