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

def generated : Kernel<Elementwise> {
  let Description = [{
    Runs code that the compiler generated for one step: out0[i], out1[i], ... from
    in0[i], in1[i], ... for each i < `count`, with reductions of rows between, sums in
    the order of `row_sum`, and amaxes of elements as further outputs. `function` is the address of a te_rt_generated in the module, which
    also knows the types of the elements.
    Buffers that the code does not use are absent; those it uses come first.
  }];
  let Parameters = (parameters Dim:$count, AnyInt64:$function);
  let Buffers = (buffers InOpt<["count"], "byte">:$in0,
                         InOpt<["count"], "byte">:$in1,
                         InOpt<["count"], "byte">:$in2,
                         InOpt<["count"], "byte">:$in3,
                         InOpt<["count"], "byte">:$in4,
                         InOpt<["count"], "byte">:$in5,
                         InOpt<["count"], "byte">:$in6,
                         InOpt<["count"], "byte">:$in7,
                         OutOpt<["count"], "byte">:$out0,
                         OutOpt<["count"], "byte">:$out1,
                         OutOpt<["count"], "byte">:$out2,
                         OutOpt<["count"], "byte">:$out3);
  let Reuses = [MayReuse<"out0", "in0">, MayReuse<"out1", "in0">, MayReuse<"out2", "in0">, MayReuse<"out3", "in0">,
                MayReuse<"out0", "in1">, MayReuse<"out1", "in1">, MayReuse<"out2", "in1">, MayReuse<"out3", "in1">,
                MayReuse<"out0", "in2">, MayReuse<"out1", "in2">, MayReuse<"out2", "in2">, MayReuse<"out3", "in2">,
                MayReuse<"out0", "in3">, MayReuse<"out1", "in3">, MayReuse<"out2", "in3">, MayReuse<"out3", "in3">,
                MayReuse<"out0", "in4">, MayReuse<"out1", "in4">, MayReuse<"out2", "in4">, MayReuse<"out3", "in4">,
                MayReuse<"out0", "in5">, MayReuse<"out1", "in5">, MayReuse<"out2", "in5">, MayReuse<"out3", "in5">,
                MayReuse<"out0", "in6">, MayReuse<"out1", "in6">, MayReuse<"out2", "in6">, MayReuse<"out3", "in6">,
                MayReuse<"out0", "in7">, MayReuse<"out1", "in7">, MayReuse<"out2", "in7">, MayReuse<"out3", "in7">];
  let Meaning = 3;
  let Bits = GeneratedCode;
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
