// A residual block with three micro-batches in one step. The backward of
// each reads the columns of both weights, and the gradients are added.

!x = tensor<64x96xbf16>
!gamma = tensor<96xbf16>
!up = tensor<128x96xf32>
!down = tensor<96x64xf32>

module {
  func.func private @block(%x: !x, %gamma: !gamma, %up: !up, %down: !down) -> !x {
    %up16 = arith.truncf %up : !up to tensor<128x96xbf16>
    %down16 = arith.truncf %down : !down to tensor<96x64xbf16>
    %n = te.rms_norm %x, %gamma : !x, !gamma
    %h = te.linear %n, %up16 : !x, tensor<128x96xbf16> -> tensor<64x128xbf16>
    %a = te.activation <swiglu> %h : tensor<64x128xbf16> -> tensor<64x64xbf16>
    %d = te.linear %a, %down16 : tensor<64x64xbf16>, tensor<96x64xbf16> -> !x
    %y = arith.addf %x, %d : !x
    return %y : !x
  }

  func.func @step(%x0: !x {te.name = "x0"}, %x1: !x {te.name = "x1"}, %x2: !x {te.name = "x2"},
                  %dy0: !x {te.name = "dy0"}, %dy1: !x {te.name = "dy1"}, %dy2: !x {te.name = "dy2"},
                  %gamma: !gamma {te.name = "gamma", te.weight}, %up: !up {te.name = "up", te.weight},
                  %down: !down {te.name = "down", te.weight})
      -> (!x {te.name = "y0"}, !x {te.name = "y1"}, !x {te.name = "y2"},
          !x {te.name = "dx0"}, !x {te.name = "dx1"}, !x {te.name = "dx2"},
          !gamma {te.name = "dgamma"}, !up {te.name = "dup"}, !down {te.name = "ddown"}) {
    %y0, %dx0, %dgamma0, %dup0, %ddown0 = te.vjp @block(%x0, %gamma, %up, %down) cotangents(%dy0) wrt [0, 1, 2, 3]
      : (!x, !gamma, !up, !down), (!x) -> (!x, !x, !gamma, !up, !down)
    %y1, %dx1, %dgamma1, %dup1, %ddown1 = te.vjp @block(%x1, %gamma, %up, %down) cotangents(%dy1) wrt [0, 1, 2, 3]
      : (!x, !gamma, !up, !down), (!x) -> (!x, !x, !gamma, !up, !down)
    %y2, %dx2, %dgamma2, %dup2, %ddown2 = te.vjp @block(%x2, %gamma, %up, %down) cotangents(%dy2) wrt [0, 1, 2, 3]
      : (!x, !gamma, !up, !down), (!x) -> (!x, !x, !gamma, !up, !down)
    %dgamma01 = arith.addf %dgamma0, %dgamma1 : !gamma
    %dgamma = arith.addf %dgamma01, %dgamma2 : !gamma
    %dup01 = arith.addf %dup0, %dup1 : !up
    %dup = arith.addf %dup01, %dup2 : !up
    %ddown01 = arith.addf %ddown0, %ddown1 : !down
    %ddown = arith.addf %ddown01, %ddown2 : !down
    return %y0, %y1, %y2, %dx0, %dx1, %dx2, %dgamma, %dup, %ddown : !x, !x, !x, !x, !x, !x, !gamma, !up, !down
  }
}
