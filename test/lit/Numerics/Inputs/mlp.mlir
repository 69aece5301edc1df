// A residual block, with its loss and training step. Sizes are multiples of 16
// but not of 128, so that blocks, tiles and slices of k are partial at the end.

!x = tensor<144x176xbf16>
!wide = tensor<320x176xbf16>
!down = tensor<176x160xbf16>
!gamma = tensor<176xbf16>
!bias = tensor<320xbf16>

module {
  func.func @mlp(%x: !x {te.name = "x"}, %gamma: !gamma {te.name = "gamma", te.weight},
                 %w1: !wide {te.name = "w1", te.weight}, %b1: !bias {te.name = "b1", te.weight},
                 %w2: !down {te.name = "w2", te.weight}) -> (!x {te.name = "y"}) {
    %n = te.rms_norm %x, %gamma {epsilon = 1.0e-5 : f32} : !x, !gamma
    %h = te.linear %n, %w1 bias %b1 : !bias : !x, !wide -> tensor<144x320xbf16>
    %a = te.activation <swiglu> %h : tensor<144x320xbf16> -> tensor<144x160xbf16>
    %d = te.linear %a, %w2 : tensor<144x160xbf16>, !down -> !x
    %y = arith.addf %x, %d : !x
    return %y : !x
  }
}
