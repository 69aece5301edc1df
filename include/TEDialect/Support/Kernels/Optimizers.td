//===- Optimizers.td - parameter updates ----------------------------------===//

def Optimizers : Family<"Optimizers", 10>;

def adamw : Kernel<Optimizers> {
  let Description = [{
    AdamW with decoupled weight decay, with all arithmetic in f32. `lr` and `step` (1
    for the first step) are f32[1]. math::adamw has the expressions.
  }];
  let Parameters = (parameters Dim:$count, WideType:$param_type, WideType:$grad_type,
                               AnyFloat:$beta1, AnyFloat:$beta2, AnyFloat:$epsilon,
                               AnyFloat:$weight_decay);
  let Buffers = (buffers In<["count"], "param_type">:$param, In<["count"], "grad_type">:$grad,
                         In<["count"], "f32">:$m, In<["count"], "f32">:$v, In<["1"], "f32">:$lr,
                         In<["1"], "f32">:$step, Out<["count"], "param_type">:$new_param,
                         Out<["count"], "f32">:$new_m, Out<["count"], "f32">:$new_v);
  let Reuses = [MayReuse<"new_param", "param">, MayReuse<"new_m", "m">, MayReuse<"new_v", "v">];
}

def sgd : Kernel<Optimizers> {
  let Description = [{
    SGD with an optional momentum buffer: g = grad + weight_decay * param;
    u = momentum * buf + g; new_param = param - lr * u, or with nesterov
    param - lr * (momentum * u + g). Arithmetic is in f32, as in math::sgd. An absent
    buf counts as 0.
  }];
  let Parameters = (parameters Dim:$count, WideType:$param_type, WideType:$grad_type,
                               AnyFloat:$momentum, AnyFloat:$weight_decay, Flag:$nesterov);
  let Buffers = (buffers In<["count"], "param_type">:$param, In<["count"], "grad_type">:$grad,
                         InOpt<["count"], "f32">:$buf, In<["1"], "f32">:$lr,
                         Out<["count"], "param_type">:$new_param,
                         OutOpt<["count"], "f32">:$new_buf);
  let Reuses = [MayReuse<"new_param", "param">, MayReuse<"new_buf", "buf">];
}
