//===- Experts.td - routing of tokens to experts --------------------------===//

def Experts : Family<"Experts", 8>;

def moe_permute : Kernel<Experts> {
  let Description = [{
    y[r, :] = x[entry_of[r] / k, :] (* probs[entry_of[r]], f32[tokens * k], rounded once
    after the multiplication); padding is zeros. Here and in the two kernels that read
    the maps, moe_unpermute and moe_prob_grad, an entry of a map that is out of range
    counts as -1.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$k, Dim:$rows, Dim:$cols, WideType:$type);
  let Buffers = (buffers In<["tokens", "cols"], "type">:$x, In<["rows"], "i32">:$entry_of,
                         InOpt<["tokens", "k"], "f32">:$probs, Out<["rows", "cols"], "type">:$y);
  let Relations = [Entries<"tokens", "k">, Fits<"rows", "cols">, Fits<"tokens", "cols">];
}

def moe_prob_grad : Kernel<Experts> {
  let Description = [{
    dprobs[i] = the lane sum of dout[i / k, :] * y[row_of[i], :], where each product is
    rounded; 0 for an entry without a row.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$k, Dim:$rows, Dim:$cols, WideType:$type);
  let Buffers = (buffers In<["tokens", "cols"], "type">:$dout, In<["rows", "cols"], "type">:$y,
                         In<["tokens", "k"], "i32">:$row_of, Out<["tokens", "k"], "f32">:$dprobs);
  let Relations = [Entries<"tokens", "k">, Fits<"rows", "cols">, Fits<"tokens", "cols">];
}

def moe_route : Kernel<Experts> {
  let Description = [{
    Assigns the entries of a [tokens * k] list of expert ids to rows in group layout:
    entry i = token * k + slot becomes a row of group ids[i], in order of i. At most
    `capacity` entries of one expert (0: any number), and no more than fit in `rows`,
    get a row. An entry with an id outside [0, groups) gets none. Tokens whose `used` is 0
    have no entries. row_of[i] is the row
    of entry i, or -1 if it has none. entry_of[r] is the entry of a row, or -1 for
    padding. dropped counts the entries without a row. With `padded`, every group has
    `capacity` rows and every group_sizes[g] is `capacity`: rows is groups * capacity,
    and capacity is a multiple of the alignment.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$k, Count:$groups, Dim:$rows, Count:$alignment,
                               Dim:$capacity, Flag:$padded);
  let Buffers = (buffers In<["tokens", "k"], "i32">:$ids, InOpt<["tokens"], "f32">:$used,
                         Out<["groups"], "i32">:$group_sizes, Out<["tokens", "k"], "i32">:$row_of, Out<["rows"], "i32">:$entry_of,
                         Out<["1"], "i32">:$dropped);
  let Relations = [Entries<"tokens", "k">];
  let HasRule = 1;
  let Workspace = "kMostRouteBlocks * (groups + 1) * 4";
}

def moe_unpermute : Kernel<Experts> {
  let Description = [{
    out[t, :] = sum over the slots j of token t, in order from 0, of y[row_of[t * k +
    j], :] (* probs[t * k + j]) in f32, rounded once. An entry without a row adds
    nothing.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$k, Dim:$rows, Dim:$cols, WideType:$type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$y, In<["tokens", "k"], "i32">:$row_of,
                         InOpt<["tokens", "k"], "f32">:$probs,
                         Out<["tokens", "cols"], "type">:$out);
  let Relations = [Entries<"tokens", "k">, Fits<"rows", "cols">, Fits<"tokens", "cols">];
}

def router_topk : Kernel<Experts> {
  let Description = [{
    Selects k experts for each token. scores are the softmax (0) or the sigmoid (1) of a
    row of logits, in f32: exp(x - max) divided by their sum in order, or 1 / (1 +
    exp(-x)). ids are the k largest scores + bias, in descending order, among experts of
    the chosen_groups groups of consecutive experts whose two largest scores + bias have
    the largest sum; of equal ones the lower index comes first (a NaN is below every
    number). probs are the scores of the ids, divided by (their sum in that order, plus
    1e-20) if `normalize`.
  }];
  let Parameters = (parameters Dim:$tokens, Dim:$experts, Count:$k, WideType:$type, Flag:$score,
                               Flag:$normalize, Count:$groups, Count:$chosen_groups);
  let Buffers = (buffers In<["tokens", "experts"], "type">:$logits, InOpt<["experts"], "f32">:$bias,
                         Out<["tokens", "k"], "i32">:$ids, Out<["tokens", "k"], "f32">:$probs,
                         Out<["tokens", "experts"], "f32">:$scores);
  let Relations = [Entries<"tokens", "k">, Fits<"tokens", "experts">];
  let HasRule = 1;
}

def router_topk_backward : Kernel<Experts> {
  let Description = [{
    dlogits of router_topk. Let S be the sum of the selected scores plus 1e-20, and D
    the sum of dprobs * probs, both in order of the slots. The score of slot j has the
    gradient (dprobs[j] - D) / S, or dprobs[j] without `normalize`; a score that was not
    selected has the gradient 0. Through softmax, dlogits = s * (ds - sum of ds * s over
    the slots); through sigmoid, ds * (s * (1 - s)). A slot whose id is outside [0,
    experts) is ignored.
  }];
  let Parameters = (parameters Dim:$tokens, Dim:$experts, Count:$k, WideType:$type, Flag:$score,
                               Flag:$normalize);
  let Buffers = (buffers In<["tokens", "k"], "f32">:$dprobs, In<["tokens", "k"], "i32">:$ids,
                         In<["tokens", "k"], "f32">:$probs,
                         In<["tokens", "experts"], "f32">:$scores,
                         Out<["tokens", "experts"], "type">:$dlogits);
  let Relations = [Entries<"tokens", "k">, Fits<"tokens", "experts">];
  let HasRule = 1;
}
