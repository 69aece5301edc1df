// A training step for checkpoints: two linear layers, their AdamW moments,
// and the states of the recipe. There are also functions for invalid files.
!w = tensor<64x64xf32>
!h = tensor<32x64xbf16>

module {
  func.func @loss(%x: !h {te.name = "x"}, %targets: tensor<32xi32> {te.name = "targets"},
                  %w1: !w {te.name = "w1", te.weight}, %w2: !w {te.name = "w2", te.weight})
      -> (tensor<f32> {te.name = "loss"}) {
    %w1_bf16 = arith.truncf %w1 : !w to tensor<64x64xbf16>
    %w2_bf16 = arith.truncf %w2 : !w to tensor<64x64xbf16>
    %u = te.linear %x, %w1_bf16 : !h, tensor<64x64xbf16> -> !h loc("first")
    %a = te.activation <gelu> %u : !h -> !h
    %logits = te.linear %a, %w2_bf16 : !h, tensor<64x64xbf16> -> !h loc("second")
    %loss = te.cross_entropy %logits, %targets : !h, tensor<32xi32>
    return %loss : tensor<f32>
  }

  func.func @step(%x: !h {te.name = "x"}, %targets: tensor<32xi32> {te.name = "targets"},
                  %step: tensor<f32> {te.name = "step", te.init = 1.0 : f32},
                  %w1: !w {te.name = "w1", te.weight}, %w1_m: !w {te.name = "w1.m", te.init = 0.0 : f32},
                  %w1_v: !w {te.name = "w1.v", te.init = 0.0 : f32},
                  %w2: !w {te.name = "w2", te.weight}, %w2_m: !w {te.name = "w2.m", te.init = 0.0 : f32},
                  %w2_v: !w {te.name = "w2.v", te.init = 0.0 : f32})
      -> (tensor<f32> {te.name = "loss"}, tensor<f32> {te.name = "step"},
          !w {te.name = "w1"}, !w {te.name = "w1.m"}, !w {te.name = "w1.v"},
          !w {te.name = "w2"}, !w {te.name = "w2.m"}, !w {te.name = "w2.v"}) {
    %one = arith.constant dense<1.0> : tensor<f32>
    %lr = arith.constant dense<1.0e-2> : tensor<f32>
    %loss, %dw1, %dw2 = te.vjp @loss(%x, %targets, %w1, %w2) cotangents(%one) wrt [2, 3]
        : (!h, tensor<32xi32>, !w, !w), (tensor<f32>) -> (tensor<f32>, !w, !w)
    %w1_next, %w1_m_next, %w1_v_next = te.adamw %w1, %dw1, %w1_m, %w1_v lr %lr step %step {weight_decay = 0.01 : f32} : !w, !w
    %w2_next, %w2_m_next, %w2_v_next = te.adamw %w2, %dw2, %w2_m, %w2_v lr %lr step %step {weight_decay = 0.01 : f32} : !w, !w
    %step_next = arith.addf %step, %one : tensor<f32>
    return %loss, %step_next, %w1_next, %w1_m_next, %w1_v_next, %w2_next, %w2_m_next, %w2_v_next
        : tensor<f32>, tensor<f32>, !w, !w, !w, !w, !w, !w
  }

  // States of every type that a step supports.
  func.func @types(%a: tensor<2x3xbf16> {te.name = "a"}, %b: tensor<3xf16> {te.name = "b"},
                   %c: tensor<2xi32> {te.name = "c"},
                   %x: tensor<32x64xbf16> {te.name = "x"},
                   %mx: !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1> {te.name = "mx"},
                   %nv: !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1> {te.name = "nv"},
                   %pt: !te.scaled<32x64xf8E5M2, per_tensor, contract = 1> {te.name = "pt"})
      -> (tensor<2x3xbf16> {te.name = "a"}, tensor<3xf16> {te.name = "b"}, tensor<2xi32> {te.name = "c"},
          !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1> {te.name = "mx"},
          !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1> {te.name = "nv"},
          !te.scaled<32x64xf8E5M2, per_tensor, contract = 1> {te.name = "pt"}) {
    %aa = arith.addf %a, %a : tensor<2x3xbf16>
    %cc = te.rng_advance %c {count = 3 : i32}
    return %aa, %b, %cc, %mx, %nv, %pt
        : tensor<2x3xbf16>, tensor<3xf16>, tensor<2xi32>,
          !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1>,
          !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>,
          !te.scaled<32x64xf8E5M2, per_tensor, contract = 1>
  }
}
