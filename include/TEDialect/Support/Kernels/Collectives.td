//===- Collectives.td - what the ranks of a group do together -------------===//

def Collectives : Family<"Collectives", 9>;

def all_gather : Kernel<Collectives> {
  let Description = [{
    y is the x of all ranks, `bytes` of each, concatenated in the order of ranks.
  }];
  let Parameters = (parameters Dim:$bytes, Ranks:$ranks, GroupNumber:$group_id);
  let Buffers = (buffers In<["bytes"], "byte">:$x, Out<["ranks", "bytes"], "byte">:$y);
  let Relations = [Fits<"bytes", "ranks">];
  let IsCollective = 1;
  let Bits = Exchange;
}

def all_reduce_max : Kernel<Collectives> {
  let Description = [{
    The maximum of each of `count` f32 over the ranks of the group, of any size. The
    result is not defined for an element that is NaN on any rank, and neither is the
    sign of a zero (amax gives neither NaN nor -0).
  }];
  let Parameters = (parameters Dim:$count, GroupNumber:$group_id);
  let Buffers = (buffers In<["count"], "f32">:$x, Out<["count"], "f32">:$y);
  let Reuses = [MayReuse<"y", "x">];
  let IsCollective = 1;
  let Bits = Exchange;
}

def all_reduce_sum : Kernel<Collectives> {
  let Description = [{
    y = x_0 + x_1 + ... over the ranks of the group, for `count` elements of `type`
    (bf16, f16, f32). The elements are added in f32 in the order of ranks, from x_0, and
    rounded once. Every rank gets the same bits. The cuda backend adds in NCCL's order
    and may round to `type` after each addition, which is the same over two ranks.
  }];
  let Parameters = (parameters Dim:$count, WideType:$type, Ranks:$ranks, GroupNumber:$group_id);
  let Buffers = (buffers In<["count"], "type">:$x, Out<["count"], "type">:$y);
  let Reuses = [MayReuse<"y", "x">];
  let IsCollective = 1;
  let Bits = Nccl;
  let Cases = [When<"ranks <= 2", FixedOrder>];
}

def all_to_all : Kernel<Collectives> {
  let Description = [{
    Sends the r-th run of `bytes` of x to rank r, and receives the r-th run of y from
    rank r. The runs of `scale_bytes` of x_scale are exchanged to y_scale at the same
    time; `scale_bytes` is 0 if there are none.
  }];
  let Parameters = (parameters Dim:$bytes, Dim:$scale_bytes, Ranks:$ranks, GroupNumber:$group_id);
  let Buffers = (buffers In<["ranks", "bytes"], "byte">:$x, Out<["ranks", "bytes"], "byte">:$y,
                         InOpt<["ranks", "scale_bytes"], "byte">:$x_scale,
                         OutOpt<["ranks", "scale_bytes"], "byte">:$y_scale);
  let Relations = [Fits<"bytes", "ranks">, Fits<"scale_bytes", "ranks">];
  let IsCollective = 1;
  let Bits = Exchange;
}

def reduce_scatter_sum : Kernel<Collectives> {
  let Description = [{
    Computes the sum of all_reduce_sum over x[ranks, count]; rank r receives row r of it
    as y[count].
  }];
  let Parameters = (parameters Dim:$count, WideType:$type, Ranks:$ranks, GroupNumber:$group_id);
  let Buffers = (buffers In<["ranks", "count"], "type">:$x, Out<["count"], "type">:$y);
  let Relations = [Fits<"count", "ranks">];
  let IsCollective = 1;
  let Bits = Nccl;
  let Cases = [When<"ranks <= 2", FixedOrder>];
}
