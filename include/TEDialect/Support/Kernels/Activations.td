//===- Activations.td - activations and their gradients -------------------===//

def Activations : Family<"Activations", 1>;

def activation : Kernel<Activations> {
  let Description = [{
    y = act(x) in f32, rounded once. Gated kinds read x as [rows, 2*cols] = [a | b] and
    compute act(a) * gate(b). `amax`, when present, is max|y| over the stored (rounded)
    values. act is math::activation; gate(b) is b except for clamped_swiglu:
      gelu, geglu      the tanh form            silu, swiglu   a * sigmoid(a)
      qgelu, qgeglu    a * sigmoid(1.702 a)     glu            sigmoid(a)
      relu, reglu      max(a, 0)                srelu, sreglu  max(a, 0)^2
      gelu_erf, geglu_erf   a * Phi(a), Phi(a) = (1 + erf(a / sqrt 2)) / 2, and 0
                       for a <= -13
      clamped_swiglu   c * sigmoid(alpha c), c = min(a, limit); the gate is
                       min(max(b, -limit), limit) + offset
    Only clamped_swiglu reads `limit`, `alpha` and `offset`. NaN passes through.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, Activation:$kind,
                               NonNegative:$limit, Finite:$alpha, Finite:$offset);
  let Buffers = (buffers In<["rows", "inputs(kind) * cols"], "type">:$x,
                         Out<["rows", "cols"], "type">:$y, OutOpt<["1"], "f32">:$amax);
  let Relations = [Fits<"rows", "cols">];
}

def activation_backward : Kernel<Activations> {
  let Description = [{
    dx = dy * act'(x); for gated kinds dx is [(act'(a) * dy) * gate(b) | act(a) * dy].
    If clamped_swiglu clamps (a > limit or |b| > limit), act' is 0 and so is the
    gradient of b. The derivatives of relu and srelu are 0 at 0 and at NaN. `amax`, when
    present, is max|dx| over the stored values.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, Activation:$kind,
                               NonNegative:$limit, Finite:$alpha, Finite:$offset);
  let Buffers = (buffers In<["rows", "cols"], "type">:$dy,
                         In<["rows", "inputs(kind) * cols"], "type">:$x,
                         Out<["rows", "inputs(kind) * cols"], "type">:$dx,
                         OutOpt<["1"], "f32">:$amax);
  let Relations = [Fits<"rows", "cols">];
}

def activation_backward_quantize : Kernel<Activations> {
  let Description = [{
    The result of activation_backward, rounded to `type`, is cast as activation_quantize
    casts y. The rounded dx is not stored in memory.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, Activation:$kind,
                               NonNegative:$limit, Finite:$alpha, Finite:$offset,
                               Fp8Type:$fp8_type, SchemeFrom<PerTensor, Block1x128>:$scheme,
                               Flag:$pow2_scales, NonNegative:$amax_epsilon);
  let Buffers = (buffers In<["rows", "cols"], "type">:$dy,
                         In<["rows", "inputs(kind) * cols"], "type">:$x,
                         InOpt<["1"], "f32">:$scale,
                         OutOpt<["rows", "inputs(kind) * cols"], "fp8_type">:$row,
                         OutOpt<["scales(scheme, rows, inputs(kind) * cols, 1)"], "f32">:$row_scale,
                         OutOpt<["inputs(kind) * cols", "rows"], "fp8_type">:$col,
                         OutOpt<["scales(scheme, rows, inputs(kind) * cols, 0)"], "f32">:$col_scale,
                         OutOpt<["1"], "f32">:$amax);
  let Relations = [Fits<"rows", "cols">];
  let HasRule = 1;
}

def activation_quantize : Kernel<Activations> {
  let Description = [{
    The result of activation, rounded to `type`, is quantised as by quantize_block with
    block_1x128 scales, or as by quantize_tensor with `scale`, which only per_tensor has,
    as only it has an `amax`. The rounded y is not stored in memory.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, Activation:$kind,
                               NonNegative:$limit, Finite:$alpha, Finite:$offset,
                               Fp8Type:$fp8_type, SchemeFrom<PerTensor, Block1x128>:$scheme,
                               Flag:$pow2_scales, NonNegative:$amax_epsilon);
  let Buffers = (buffers In<["rows", "inputs(kind) * cols"], "type">:$x,
                         InOpt<["1"], "f32">:$scale,
                         OutOpt<["rows", "cols"], "fp8_type">:$row,
                         OutOpt<["scales(scheme, rows, cols, 1)"], "f32">:$row_scale,
                         OutOpt<["cols", "rows"], "fp8_type">:$col,
                         OutOpt<["scales(scheme, rows, cols, 0)"], "f32">:$col_scale,
                         OutOpt<["1"], "f32">:$amax);
  let Relations = [Fits<"rows", "cols">];
  let HasRule = 1;
}

def gated_activation : Kernel<Activations> {
  let Description = [{
    Computes what activation does for a gated kind, with the two halves in separate
    buffers, each [rows, cols].
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, GatedActivation:$kind,
                               NonNegative:$limit, Finite:$alpha, Finite:$offset);
  let Buffers = (buffers In<["rows", "cols"], "type">:$a, In<["rows", "cols"], "type">:$b,
                         Out<["rows", "cols"], "type">:$y, OutOpt<["1"], "f32">:$amax);
  let Relations = [Fits<"rows", "cols">];
}

def gated_activation_backward : Kernel<Activations> {
  let Description = [{
    Computes the gradients of gated_activation as activation_backward does, with an amax
    of each.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, GatedActivation:$kind,
                               NonNegative:$limit, Finite:$alpha, Finite:$offset);
  let Buffers = (buffers In<["rows", "cols"], "type">:$dy, In<["rows", "cols"], "type">:$a,
                         In<["rows", "cols"], "type">:$b, Out<["rows", "cols"], "type">:$da,
                         Out<["rows", "cols"], "type">:$db, OutOpt<["1"], "f32">:$da_amax,
                         OutOpt<["1"], "f32">:$db_amax);
  let Relations = [Fits<"rows", "cols">];
}

def gated_activation_quantize : Kernel<Activations> {
  let Description = [{
    The result of gated_activation, rounded to `type`, is cast as activation_quantize
    casts y. The rounded y is not stored in memory.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, GatedActivation:$kind,
                               NonNegative:$limit, Finite:$alpha, Finite:$offset,
                               Fp8Type:$fp8_type, SchemeFrom<PerTensor, Block1x128>:$scheme,
                               Flag:$pow2_scales, NonNegative:$amax_epsilon);
  let Buffers = (buffers In<["rows", "cols"], "type">:$a, In<["rows", "cols"], "type">:$b,
                         InOpt<["1"], "f32">:$scale,
                         OutOpt<["rows", "cols"], "fp8_type">:$row,
                         OutOpt<["scales(scheme, rows, cols, 1)"], "f32">:$row_scale,
                         OutOpt<["cols", "rows"], "fp8_type">:$col,
                         OutOpt<["scales(scheme, rows, cols, 0)"], "f32">:$col_scale,
                         OutOpt<["1"], "f32">:$amax);
  let Relations = [Fits<"rows", "cols">];
  let HasRule = 1;
}

def gated_activation_backward_quantize : Kernel<Activations> {
  let Description = [{
    The results of gated_activation_backward, rounded to `type`, are cast as
    activation_quantize casts y, each with a scale and an amax of its own. The rounded
    gradients are not stored in memory.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, GatedActivation:$kind,
                               NonNegative:$limit, Finite:$alpha, Finite:$offset,
                               Fp8Type:$fp8_type, SchemeFrom<PerTensor, Block1x128>:$scheme,
                               Flag:$pow2_scales, NonNegative:$amax_epsilon);
  let Buffers = (buffers In<["rows", "cols"], "type">:$dy, In<["rows", "cols"], "type">:$a,
                         In<["rows", "cols"], "type">:$b,
                         InOpt<["1"], "f32">:$scale,
                         OutOpt<["rows", "cols"], "fp8_type">:$row,
                         OutOpt<["scales(scheme, rows, cols, 1)"], "f32">:$row_scale,
                         OutOpt<["cols", "rows"], "fp8_type">:$col,
                         OutOpt<["scales(scheme, rows, cols, 0)"], "f32">:$col_scale,
                         OutOpt<["1"], "f32">:$amax,
                         InOpt<["1"], "f32">:$gate_scale,
                         OutOpt<["rows", "cols"], "fp8_type">:$gate_row,
                         OutOpt<["scales(scheme, rows, cols, 1)"], "f32">:$gate_row_scale,
                         OutOpt<["cols", "rows"], "fp8_type">:$gate_col,
                         OutOpt<["scales(scheme, rows, cols, 0)"], "f32">:$gate_col_scale,
                         OutOpt<["1"], "f32">:$gate_amax);
  let Relations = [Fits<"rows", "cols">];
  let HasRule = 1;
}
