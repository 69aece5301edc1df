// 2 Llama-like layers, 3 micro-batches of 128 tokens: scripts/llama_stack.py.

!x = tensor<128x128xbf16>
!gamma = tensor<128xbf16>
!qkv = tensor<256x128xbf16>
!out = tensor<128x128xbf16>
!up = tensor<512x128xbf16>
!down = tensor<128x256xbf16>
!gates = tensor<128x256xbf16>
!wide = tensor<128x512xbf16>
!ffn = tensor<128x256xbf16>

module {
  func.func private @layer(%x: !x, %gamma0: !gamma, %qkv: !qkv, %out: !out, %gamma1: !gamma, %up: !up, %down: !down) -> !x {
    %n0 = te.rms_norm %x, %gamma0 : !x, !gamma
    %q = te.linear %n0, %qkv : !x, !qkv -> !gates
    %g = te.activation <swiglu> %q : !gates -> !x
    %o = te.linear %g, %out : !x, !out -> !x
    %y = arith.addf %x, %o : !x
    %n1 = te.rms_norm %y, %gamma1 : !x, !gamma
    %u = te.linear %n1, %up : !x, !up -> !wide
    %a = te.activation <swiglu> %u : !wide -> !ffn
    %d = te.linear %a, %down : !ffn, !down -> !x
    %z = arith.addf %y, %d : !x
    return %z : !x
  }

  func.func private @stack(%x0: !x, %w0: !gamma, %w1: !qkv, %w2: !out, %w3: !gamma, %w4: !up, %w5: !down, %w6: !gamma, %w7: !qkv, %w8: !out, %w9: !gamma, %w10: !up, %w11: !down) -> !x {
    %x1 = func.call @layer(%x0, %w0, %w1, %w2, %w3, %w4, %w5) : (!x, !gamma, !qkv, !out, !gamma, !up, !down) -> !x
    %x2 = func.call @layer(%x1, %w6, %w7, %w8, %w9, %w10, %w11) : (!x, !gamma, !qkv, !out, !gamma, !up, !down) -> !x
    return %x2 : !x
  }

  func.func @step(%x0: !x {te.name = "x0"},
                  %dy0: !x {te.name = "dy0"},
                  %x1: !x {te.name = "x1"},
                  %dy1: !x {te.name = "dy1"},
                  %x2: !x {te.name = "x2"},
                  %dy2: !x {te.name = "dy2"},
                  %w0: !gamma {te.name = "l0.gamma0", te.weight},
                  %w1: !qkv {te.name = "l0.qkv", te.weight},
                  %w2: !out {te.name = "l0.out", te.weight},
                  %w3: !gamma {te.name = "l0.gamma1", te.weight},
                  %w4: !up {te.name = "l0.up", te.weight},
                  %w5: !down {te.name = "l0.down", te.weight},
                  %w6: !gamma {te.name = "l1.gamma0", te.weight},
                  %w7: !qkv {te.name = "l1.qkv", te.weight},
                  %w8: !out {te.name = "l1.out", te.weight},
                  %w9: !gamma {te.name = "l1.gamma1", te.weight},
                  %w10: !up {te.name = "l1.up", te.weight},
                  %w11: !down {te.name = "l1.down", te.weight})
      -> (!x {te.name = "dx0"},
                  !gamma {te.name = "d.l0.gamma0"},
                  !qkv {te.name = "d.l0.qkv"},
                  !out {te.name = "d.l0.out"},
                  !gamma {te.name = "d.l0.gamma1"},
                  !up {te.name = "d.l0.up"},
                  !down {te.name = "d.l0.down"},
                  !gamma {te.name = "d.l1.gamma0"},
                  !qkv {te.name = "d.l1.qkv"},
                  !out {te.name = "d.l1.out"},
                  !gamma {te.name = "d.l1.gamma1"},
                  !up {te.name = "d.l1.up"},
                  !down {te.name = "d.l1.down"}) {
    %r0:14 = te.vjp @stack(%x0, %w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7, %w8, %w9, %w10, %w11) cotangents(%dy0) wrt [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] : (!x, !gamma, !qkv, !out, !gamma, !up, !down, !gamma, !qkv, !out, !gamma, !up, !down), (!x) -> (!x, !x, !gamma, !qkv, !out, !gamma, !up, !down, !gamma, !qkv, !out, !gamma, !up, !down)
    %r1:14 = te.vjp @stack(%x1, %w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7, %w8, %w9, %w10, %w11) cotangents(%dy1) wrt [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] : (!x, !gamma, !qkv, !out, !gamma, !up, !down, !gamma, !qkv, !out, !gamma, !up, !down), (!x) -> (!x, !x, !gamma, !qkv, !out, !gamma, !up, !down, !gamma, !qkv, !out, !gamma, !up, !down)
    %r2:14 = te.vjp @stack(%x2, %w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7, %w8, %w9, %w10, %w11) cotangents(%dy2) wrt [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] : (!x, !gamma, !qkv, !out, !gamma, !up, !down, !gamma, !qkv, !out, !gamma, !up, !down), (!x) -> (!x, !x, !gamma, !qkv, !out, !gamma, !up, !down, !gamma, !qkv, !out, !gamma, !up, !down)
    %s1_0 = arith.addf %r0#2, %r1#2 : !gamma
    %s1_1 = arith.addf %r0#3, %r1#3 : !qkv
    %s1_2 = arith.addf %r0#4, %r1#4 : !out
    %s1_3 = arith.addf %r0#5, %r1#5 : !gamma
    %s1_4 = arith.addf %r0#6, %r1#6 : !up
    %s1_5 = arith.addf %r0#7, %r1#7 : !down
    %s1_6 = arith.addf %r0#8, %r1#8 : !gamma
    %s1_7 = arith.addf %r0#9, %r1#9 : !qkv
    %s1_8 = arith.addf %r0#10, %r1#10 : !out
    %s1_9 = arith.addf %r0#11, %r1#11 : !gamma
    %s1_10 = arith.addf %r0#12, %r1#12 : !up
    %s1_11 = arith.addf %r0#13, %r1#13 : !down
    %s2_0 = arith.addf %s1_0, %r2#2 : !gamma
    %s2_1 = arith.addf %s1_1, %r2#3 : !qkv
    %s2_2 = arith.addf %s1_2, %r2#4 : !out
    %s2_3 = arith.addf %s1_3, %r2#5 : !gamma
    %s2_4 = arith.addf %s1_4, %r2#6 : !up
    %s2_5 = arith.addf %s1_5, %r2#7 : !down
    %s2_6 = arith.addf %s1_6, %r2#8 : !gamma
    %s2_7 = arith.addf %s1_7, %r2#9 : !qkv
    %s2_8 = arith.addf %s1_8, %r2#10 : !out
    %s2_9 = arith.addf %s1_9, %r2#11 : !gamma
    %s2_10 = arith.addf %s1_10, %r2#12 : !up
    %s2_11 = arith.addf %s1_11, %r2#13 : !down
    return %r0#1, %s2_0, %s2_1, %s2_2, %s2_3, %s2_4, %s2_5, %s2_6, %s2_7, %s2_8, %s2_9, %s2_10, %s2_11 : !x, !gamma, !qkv, !out, !gamma, !up, !down, !gamma, !qkv, !out, !gamma, !up, !down
  }
}
