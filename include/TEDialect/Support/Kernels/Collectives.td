//===- Collectives.td - what the ranks of a group do together -------------===//

def Collectives : Family<"Collectives", 9>;

def all_gather : Kernel<Collectives> {
  let Description = [{
    y is the x of all ranks, `bytes` of each, one after another in the order of ranks.
  }];
  let Parameters = (parameters Dim:$bytes, Ranks:$ranks, GroupNumber:$group_id);
  let Buffers = (buffers In<["bytes"], "byte">:$x, Out<["ranks", "bytes"], "byte">:$y);
  let Relations = [Fits<"bytes", "ranks">];
  let IsCollective = 1;
}

def all_reduce_max : Kernel<Collectives> {
  let Description = [{
    Maximum of `count` f32 over the ranks of the group, however many.
    An element that is NaN on some rank is not defined, nor is the sign of a zero
    (amax gives neither NaN nor -0).
  }];
  let Parameters = (parameters Dim:$count, GroupNumber:$group_id);
  let Buffers = (buffers In<["count"], "f32">:$x, Out<["count"], "f32">:$y);
  let Reuses = [MayReuse<"y", "x">];
  let IsCollective = 1;
}

def all_reduce_sum : Kernel<Collectives> {
  let Description = [{
    y = x_0 + x_1 + ... over the ranks of the group, for `count` elements of `type`
    (bf16, f16, f32): added in f32 in the order of ranks, from x_0, and rounded
    once. Every rank gets the same bits. The cuda backend adds in NCCL's order and
    may round to `type` after each addition; over two ranks that is the same.
  }];
  let Parameters = (parameters Dim:$count, WideType:$type, Ranks:$ranks, GroupNumber:$group_id);
  let Buffers = (buffers In<["count"], "type">:$x, Out<["count"], "type">:$y);
  let Reuses = [MayReuse<"y", "x">];
  let IsCollective = 1;
}

def all_to_all : Kernel<Collectives> {
  let Description = [{
    Sends the r-th run of `bytes` of x to rank r, and receives from rank r the r-th run
    of y. The runs of `scale_bytes` of x_scale go to y_scale in the same exchange; there
    are none where it is 0.
  }];
  let Parameters = (parameters Dim:$bytes, Dim:$scale_bytes, Ranks:$ranks, GroupNumber:$group_id);
  let Buffers = (buffers In<["ranks", "bytes"], "byte">:$x, Out<["ranks", "bytes"], "byte">:$y,
                         InOpt<["ranks", "scale_bytes"], "byte">:$x_scale,
                         OutOpt<["ranks", "scale_bytes"], "byte">:$y_scale);
  let Relations = [Fits<"bytes", "ranks">, Fits<"scale_bytes", "ranks">];
  let IsCollective = 1;
}

def reduce_scatter_sum : Kernel<Collectives> {
  let Description = [{
    The sum is that of all_reduce_sum over x[ranks, count]; rank r receives x's r-th row
    of it as y[count].
  }];
  let Parameters = (parameters Dim:$count, WideType:$type, Ranks:$ranks, GroupNumber:$group_id);
  let Buffers = (buffers In<["ranks", "count"], "type">:$x, Out<["count"], "type">:$y);
  let Relations = [Fits<"count", "ranks">];
  let IsCollective = 1;
}
