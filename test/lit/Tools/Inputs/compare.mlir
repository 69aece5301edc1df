// Two programs for te-run-compare.test whose second layers read different
// tensors, and a program that has no result in common with them.
!h = tensor<32x64xbf16>
!w = tensor<64x64xbf16>

module {
  func.func @gelu(%x: !h {te.name = "x"}, %v: !w {te.name = "v", te.weight}, %w: !w {te.name = "w"}) -> (!h {te.name = "y"}) {
    %u = te.linear %x, %v : !h, !w -> !h
    %a = te.activation <gelu> %u : !h -> !h
    %y = te.linear %a, %w : !h, !w -> !h
    return %y : !h
  }

  func.func @relu(%x: !h {te.name = "x"}, %v: !w {te.name = "v"}, %w: !w {te.name = "w", te.weight}) -> (!h {te.name = "y"}) {
    %u = te.linear %x, %v : !h, !w -> !h
    %a = te.activation <relu> %u : !h -> !h
    %y = te.linear %a, %w : !h, !w -> !h
    return %y : !h
  }

  // Three layers share a weight, and therefore a name.
  func.func @shared(%x: !h {te.name = "x"}, %w: !w {te.name = "w", te.weight}) -> (!h {te.name = "y"}) {
    %u = te.linear %x, %w : !h, !w -> !h
    %v = te.linear %u, %w : !h, !w -> !h
    %a = arith.addf %u, %v : !h
    %y = te.linear %a, %w : !h, !w -> !h
    return %y : !h
  }

  func.func @moved(%x: !h {te.name = "x"}, %w: !w {te.name = "w", te.weight}) -> (!h {te.name = "y"}) {
    %u = te.linear %x, %w : !h, !w -> !h
    %v = te.linear %u, %w : !h, !w -> !h
    %a = arith.mulf %u, %v : !h
    %y = te.linear %a, %w : !h, !w -> !h
    return %y : !h
  }

  func.func @elsewhere(%x: !h {te.name = "x"}) -> (!h {te.name = "z"}) {
    %z = arith.addf %x, %x : !h
    return %z : !h
  }
}
