// A step with four layers has as few reductions as the order of their uses permits. With delayed scaling, all twelve
// amaxes are reduced together at the end. With current scaling, a column-parallel layer needs the amax of its input before
// its GEMM, and a row-parallel one needs that of dy. The last dy is an argument, so its amax is reduced with that of x.
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=fuse recipe=delayed_scaling report=precision" -o /dev/null 2>&1 | FileCheck %s --check-prefix=DELAYED
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=fuse recipe=float8_current_scaling report=precision" -o /dev/null 2>&1 | FileCheck %s --check-prefix=CURRENT
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=schedule recipe=delayed_scaling" | FileCheck %s --check-prefix=LAUNCHES

// DELAYED: collective group launches values
// DELAYED: amax_reduce tp 1 12 48
// CURRENT: amax_reduce tp 3 4 16

// Amaxes are written where they are reduced, without copies.
// LAUNCHES-LABEL: func.func @step
// LAUNCHES: %[[AMAXES:.*]] = tert.alloc "amax_reduce.amaxes"
// LAUNCHES: tert.slice %[[AMAXES]] offset 4
// LAUNCHES: tert.launch "all_reduce_max" {count = 12 : i64, group_id = 0 : i32}
// LAUNCHES-NOT: all_reduce_max
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @step(%x: tensor<128x256xbf16> {te.name = "x"}, %w1: tensor<256x256xbf16> {te.name = "w1", te.weight},
                  %w2: tensor<256x256xbf16> {te.name = "w2", te.weight}, %w3: tensor<256x256xbf16> {te.name = "w3", te.weight},
                  %w4: tensor<256x256xbf16> {te.name = "w4", te.weight}) -> (tensor<128x256xbf16> {te.name = "y"}) {
    %a = te.linear %x, %w1 parallel <column, group = 0, sequence> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<256x256xbf16>
    %b = te.linear %a, %w2 parallel <row, group = 0, sequence> : tensor<256x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    %c = te.linear %b, %w3 parallel <column, group = 0, sequence> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<256x256xbf16>
    %y = te.linear %c, %w4 parallel <row, group = 0, sequence> : tensor<256x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    return %y : tensor<128x256xbf16>
  }
}
