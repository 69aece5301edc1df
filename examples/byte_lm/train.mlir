// A byte-level language model and its training step.
//
// The model predicts the next byte of a text from the 8 bytes before it, for
// 256 positions at a time: the embeddings of the 8 bytes are laid side by side,
// then come two pre-norm blocks x + down(swiglu(up(rms_norm(x)))) and a linear
// layer to 256 logits. Parameters are f32, computation is bf16, and how each
// linear layer is quantised is the recipe's business: none is named here, so
// the pipeline option decides.
//
//   te-run train.mlir --entry=train_step --pipeline="recipe=float8_block_scaling" ...
//
// `train.py` beside this file makes the inputs and runs every recipe.

!table = tensor<256x32xf32>
!square = tensor<256x256xf32>
!wide = tensor<512x256xf32>
!vector = tensor<256xf32>
!hidden = tensor<256x256xbf16>

module {
  // One residual block.
  func.func private @block(%x: !hidden, %gamma: !vector, %w_up: !wide, %w_down: !square) -> !hidden {
    %gamma_bf16 = arith.truncf %gamma : !vector to tensor<256xbf16>
    %w_up_bf16 = arith.truncf %w_up : !wide to tensor<512x256xbf16>
    %w_down_bf16 = arith.truncf %w_down : !square to !hidden
    %n = te.rms_norm %x, %gamma_bf16 {epsilon = 1.0e-5 : f32} : !hidden, tensor<256xbf16>
    %u = te.linear %n, %w_up_bf16 : !hidden, tensor<512x256xbf16> -> tensor<256x512xbf16>
    %a = te.activation <swiglu> %u : tensor<256x512xbf16> -> !hidden
    %d = te.linear %a, %w_down_bf16 : !hidden, !hidden -> !hidden
    %y = arith.addf %x, %d : !hidden
    return %y : !hidden
  }

  // Mean loss in nats a byte. `context` holds, for each position, the ids of
  // the 8 bytes before it, oldest first.
  func.func @loss(%context: tensor<2048xi32> {te.name = "context"},
                  %targets: tensor<256xi32> {te.name = "targets"},
                  %embedding: !table {te.name = "embedding", te.weight},
                  %w_in: !square {te.name = "w_in", te.weight},
                  %block0_gamma: !vector {te.name = "block0.gamma", te.weight},
                  %block0_w_up: !wide {te.name = "block0.w_up", te.weight},
                  %block0_w_down: !square {te.name = "block0.w_down", te.weight},
                  %block1_gamma: !vector {te.name = "block1.gamma", te.weight},
                  %block1_w_up: !wide {te.name = "block1.w_up", te.weight},
                  %block1_w_down: !square {te.name = "block1.w_down", te.weight},
                  %gamma_out: !vector {te.name = "gamma_out", te.weight},
                  %w_out: !square {te.name = "w_out", te.weight})
      -> (tensor<f32> {te.name = "loss"}) {
    %embedding_bf16 = arith.truncf %embedding : !table to tensor<256x32xbf16>
    %w_in_bf16 = arith.truncf %w_in : !square to !hidden
    %gamma_out_bf16 = arith.truncf %gamma_out : !vector to tensor<256xbf16>
    %w_out_bf16 = arith.truncf %w_out : !square to !hidden

    %e = te.embedding %context, %embedding_bf16 : tensor<2048xi32>, tensor<256x32xbf16> -> tensor<2048x32xbf16>
    %window = tensor.expand_shape %e [[0, 1], [2]] output_shape [256, 8, 32]
        : tensor<2048x32xbf16> into tensor<256x8x32xbf16>
    %flat = tensor.collapse_shape %window [[0], [1, 2]] : tensor<256x8x32xbf16> into !hidden
    %x0 = te.linear %flat, %w_in_bf16 : !hidden, !hidden -> !hidden
    %x1 = func.call @block(%x0, %block0_gamma, %block0_w_up, %block0_w_down) : (!hidden, !vector, !wide, !square) -> !hidden
    %x2 = func.call @block(%x1, %block1_gamma, %block1_w_up, %block1_w_down) : (!hidden, !vector, !wide, !square) -> !hidden
    %n = te.rms_norm %x2, %gamma_out_bf16 {epsilon = 1.0e-5 : f32} : !hidden, tensor<256xbf16>
    %logits = te.linear %n, %w_out_bf16 : !hidden, !hidden -> !hidden
    %loss = te.cross_entropy %logits, %targets : !hidden, tensor<256xi32>
    return %loss : tensor<f32>
  }

  // Forward, backward and AdamW. A result named like an argument is that
  // argument's next value. `step` counts from 1.
  func.func @train_step(%context: tensor<2048xi32> {te.name = "context"},
                        %targets: tensor<256xi32> {te.name = "targets"},
                        %lr: tensor<f32> {te.name = "lr"},
                        %step: tensor<f32> {te.name = "step"},
                        %embedding: !table {te.name = "embedding", te.weight},
                        %embedding_m: !table {te.name = "embedding.m"},
                        %embedding_v: !table {te.name = "embedding.v"},
                        %w_in: !square {te.name = "w_in", te.weight},
                        %w_in_m: !square {te.name = "w_in.m"},
                        %w_in_v: !square {te.name = "w_in.v"},
                        %block0_gamma: !vector {te.name = "block0.gamma", te.weight},
                        %block0_gamma_m: !vector {te.name = "block0.gamma.m"},
                        %block0_gamma_v: !vector {te.name = "block0.gamma.v"},
                        %block0_w_up: !wide {te.name = "block0.w_up", te.weight},
                        %block0_w_up_m: !wide {te.name = "block0.w_up.m"},
                        %block0_w_up_v: !wide {te.name = "block0.w_up.v"},
                        %block0_w_down: !square {te.name = "block0.w_down", te.weight},
                        %block0_w_down_m: !square {te.name = "block0.w_down.m"},
                        %block0_w_down_v: !square {te.name = "block0.w_down.v"},
                        %block1_gamma: !vector {te.name = "block1.gamma", te.weight},
                        %block1_gamma_m: !vector {te.name = "block1.gamma.m"},
                        %block1_gamma_v: !vector {te.name = "block1.gamma.v"},
                        %block1_w_up: !wide {te.name = "block1.w_up", te.weight},
                        %block1_w_up_m: !wide {te.name = "block1.w_up.m"},
                        %block1_w_up_v: !wide {te.name = "block1.w_up.v"},
                        %block1_w_down: !square {te.name = "block1.w_down", te.weight},
                        %block1_w_down_m: !square {te.name = "block1.w_down.m"},
                        %block1_w_down_v: !square {te.name = "block1.w_down.v"},
                        %gamma_out: !vector {te.name = "gamma_out", te.weight},
                        %gamma_out_m: !vector {te.name = "gamma_out.m"},
                        %gamma_out_v: !vector {te.name = "gamma_out.v"},
                        %w_out: !square {te.name = "w_out", te.weight},
                        %w_out_m: !square {te.name = "w_out.m"},
                        %w_out_v: !square {te.name = "w_out.v"})
      -> (tensor<f32> {te.name = "loss"},
          !table {te.name = "embedding"}, !table {te.name = "embedding.m"}, !table {te.name = "embedding.v"},
          !square {te.name = "w_in"}, !square {te.name = "w_in.m"}, !square {te.name = "w_in.v"},
          !vector {te.name = "block0.gamma"}, !vector {te.name = "block0.gamma.m"}, !vector {te.name = "block0.gamma.v"},
          !wide {te.name = "block0.w_up"}, !wide {te.name = "block0.w_up.m"}, !wide {te.name = "block0.w_up.v"},
          !square {te.name = "block0.w_down"}, !square {te.name = "block0.w_down.m"}, !square {te.name = "block0.w_down.v"},
          !vector {te.name = "block1.gamma"}, !vector {te.name = "block1.gamma.m"}, !vector {te.name = "block1.gamma.v"},
          !wide {te.name = "block1.w_up"}, !wide {te.name = "block1.w_up.m"}, !wide {te.name = "block1.w_up.v"},
          !square {te.name = "block1.w_down"}, !square {te.name = "block1.w_down.m"}, !square {te.name = "block1.w_down.v"},
          !vector {te.name = "gamma_out"}, !vector {te.name = "gamma_out.m"}, !vector {te.name = "gamma_out.v"},
          !square {te.name = "w_out"}, !square {te.name = "w_out.m"}, !square {te.name = "w_out.v"}) {
    %one = arith.constant dense<1.0> : tensor<f32>
    %loss, %embedding_grad, %w_in_grad,
        %block0_gamma_grad, %block0_w_up_grad, %block0_w_down_grad,
        %block1_gamma_grad, %block1_w_up_grad, %block1_w_down_grad,
        %gamma_out_grad, %w_out_grad
      = te.vjp @loss(%context, %targets,
          %embedding, %w_in, %block0_gamma, %block0_w_up, %block0_w_down,
          %block1_gamma, %block1_w_up, %block1_w_down, %gamma_out, %w_out)
        cotangents(%one) wrt [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
        : (tensor<2048xi32>, tensor<256xi32>,
           !table, !square, !vector, !wide, !square, !vector, !wide, !square, !vector, !square), (tensor<f32>)
        -> (tensor<f32>, !table, !square, !vector, !wide, !square, !vector, !wide, !square, !vector, !square)

    %embedding_next, %embedding_m_next, %embedding_v_next = te.adamw %embedding, %embedding_grad, %embedding_m, %embedding_v
        lr %lr step %step {weight_decay = 0.01 : f32} : !table, !table
    %w_in_next, %w_in_m_next, %w_in_v_next = te.adamw %w_in, %w_in_grad, %w_in_m, %w_in_v
        lr %lr step %step {weight_decay = 0.01 : f32} : !square, !square
    %block0_gamma_next, %block0_gamma_m_next, %block0_gamma_v_next = te.adamw %block0_gamma, %block0_gamma_grad, %block0_gamma_m, %block0_gamma_v
        lr %lr step %step {weight_decay = 0.0 : f32} : !vector, !vector
    %block0_w_up_next, %block0_w_up_m_next, %block0_w_up_v_next = te.adamw %block0_w_up, %block0_w_up_grad, %block0_w_up_m, %block0_w_up_v
        lr %lr step %step {weight_decay = 0.01 : f32} : !wide, !wide
    %block0_w_down_next, %block0_w_down_m_next, %block0_w_down_v_next = te.adamw %block0_w_down, %block0_w_down_grad, %block0_w_down_m, %block0_w_down_v
        lr %lr step %step {weight_decay = 0.01 : f32} : !square, !square
    %block1_gamma_next, %block1_gamma_m_next, %block1_gamma_v_next = te.adamw %block1_gamma, %block1_gamma_grad, %block1_gamma_m, %block1_gamma_v
        lr %lr step %step {weight_decay = 0.0 : f32} : !vector, !vector
    %block1_w_up_next, %block1_w_up_m_next, %block1_w_up_v_next = te.adamw %block1_w_up, %block1_w_up_grad, %block1_w_up_m, %block1_w_up_v
        lr %lr step %step {weight_decay = 0.01 : f32} : !wide, !wide
    %block1_w_down_next, %block1_w_down_m_next, %block1_w_down_v_next = te.adamw %block1_w_down, %block1_w_down_grad, %block1_w_down_m, %block1_w_down_v
        lr %lr step %step {weight_decay = 0.01 : f32} : !square, !square
    %gamma_out_next, %gamma_out_m_next, %gamma_out_v_next = te.adamw %gamma_out, %gamma_out_grad, %gamma_out_m, %gamma_out_v
        lr %lr step %step {weight_decay = 0.0 : f32} : !vector, !vector
    %w_out_next, %w_out_m_next, %w_out_v_next = te.adamw %w_out, %w_out_grad, %w_out_m, %w_out_v
        lr %lr step %step {weight_decay = 0.01 : f32} : !square, !square
    return %loss,
        %embedding_next, %embedding_m_next, %embedding_v_next,
        %w_in_next, %w_in_m_next, %w_in_v_next,
        %block0_gamma_next, %block0_gamma_m_next, %block0_gamma_v_next,
        %block0_w_up_next, %block0_w_up_m_next, %block0_w_up_v_next,
        %block0_w_down_next, %block0_w_down_m_next, %block0_w_down_v_next,
        %block1_gamma_next, %block1_gamma_m_next, %block1_gamma_v_next,
        %block1_w_up_next, %block1_w_up_m_next, %block1_w_up_v_next,
        %block1_w_down_next, %block1_w_down_m_next, %block1_w_down_v_next,
        %gamma_out_next, %gamma_out_m_next, %gamma_out_v_next,
        %w_out_next, %w_out_m_next, %w_out_v_next
        : tensor<f32>,
          !table, !table, !table,
          !square, !square, !square,
          !vector, !vector, !vector,
          !wide, !wide, !wide,
          !square, !square, !square,
          !vector, !vector, !vector,
          !wide, !wide, !wide,
          !square, !square, !square,
          !vector, !vector, !vector,
          !square, !square, !square
  }
}
