//===- Elementwise.td - elementwise operations and copies -----------------===//

def Elementwise : Family<"Elementwise operations and copies", 11>;

def copy : Kernel<Elementwise> {
  let Description = [{
    y = x.
  }];
  let Parameters = (parameters Dim:$bytes);
  let Buffers = (buffers In<["bytes"], "byte">:$x, Out<["bytes"], "byte">:$y);
}

def copy_strided : Kernel<Elementwise> {
  let Description = [{
    y[p * y_part + r * y_row + b] = x[p * x_part + r * x_row + b] for every part p, row
    r and byte b < `bytes`. Nothing else of y is written. The kernel places the parts
    that ranks gather along an axis other than the first, or with padding.
  }];
  let Parameters = (parameters Dim:$parts, Dim:$rows, Dim:$bytes, Dim:$x_part, Dim:$x_row,
                               Dim:$y_part, Dim:$y_row);
  let Buffers = (buffers In<["strideExtent(parts, rows, bytes, x_part, x_row)"], "byte">:$x,
                         Out<["strideExtent(parts, rows, bytes, y_part, y_row)"], "byte">:$y);
  let Relations = [Fits<"parts", "rows">,
                   Fits<"rows", "bytes">,
                   Fits<"parts", "x_part">,
                   Fits<"parts", "y_part">];
}

def fill : Kernel<Elementwise> {
  let Description = [{
    Sets every element of y to `value` rounded to `type`, unless `skip` is 1.
  }];
  let Parameters = (parameters Dim:$count, WideType:$type, AnyFloat:$value);
  let Buffers = (buffers Out<["count"], "type">:$y, InOpt<["1"], "f32">:$skip);
}

def pointwise : Kernel<Elementwise> {
  let Description = [{
    One elementwise te_rt_pointwise_op, computed in f32 and rounded once to out_type.
    Only binary operators have `b`.
  }];
  let Parameters = (parameters Dim:$count, PointwiseOp:$op, WideType:$type, WideType:$out_type);
  let Buffers = (buffers In<["count"], "type">:$a, InOpt<["count"], "type">:$b,
                         Out<["count"], "out_type">:$out);
  let Reuses = [MayReuse<"out", "a">, MayReuse<"out", "b">];
}

def rng_advance : Kernel<Elementwise> {
  let Description = [{
    new_state = (seed, offset + count mod 2^32) of state = (seed, offset), both
    i32[2].
  }];
  let Parameters = (parameters AnyInt32:$count);
  let Buffers = (buffers In<["2"], "i32">:$state, Out<["2"], "i32">:$new_state);
  let Reuses = [MayReuse<"new_state", "state">];
}
