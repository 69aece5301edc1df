// A hand-written plan that is wrong with two streams is an error before it is lowered.
// RUN: te-opt %s --te-convert-tert-to-llvm --split-input-file --verify-diagnostics

// 'beside' is written while the side stream may still read 'summand'.
func.func @reused_before_the_join(%x: !tert.buffer<256>, %y: !tert.buffer<256>)
    attributes {tert.arena_bytes = 1024 : i64, tert.max_live_bytes = 1024 : i64, tert.signature = []} {
  %summand = tert.alloc "summand" gradient offset 0 : !tert.buffer<256>
  %sum = tert.alloc "sum" gradient offset 256 : !tert.buffer<256>
  %beside = tert.alloc "beside" gradient offset 0 : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %summand) : !tert.buffer<256>, !tert.buffer<256>
  // expected-note @below {{that launch is here}}
  tert.launch "reduce_scatter_sum" {count = 64 : i64, group_id = 0 : i32, ranks = 1 : i32, type = 0 : i32} (%summand, %sum) side : !tert.buffer<256>, !tert.buffer<256>
  // expected-error @below {{expected 'beside' and 'summand' to share no byte of the arena, as this launch may run while one of the side stream uses 'summand'}}
  tert.launch "copy" {bytes = 256 : i64} (%x, %beside) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%sum, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----

// 'whole' may be written as soon as 'part' is available, which is before the last read of 'above'. For slices, overlapping bytes count.
func.func @reused_above_the_gather(%x: !tert.buffer<256>, %y: !tert.buffer<256>)
    attributes {tert.arena_bytes = 1024 : i64, tert.max_live_bytes = 1024 : i64, tert.signature = []} {
  %part = tert.alloc "part" activation offset 512 : !tert.buffer<128>
  %above = tert.alloc "above" activation offset 0 : !tert.buffer<512>
  %half = tert.slice %above offset 256 : !tert.buffer<512> -> !tert.buffer<256>
  %whole = tert.alloc "whole" activation offset 256 : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %half) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 128 : i64} (%x, %part) : !tert.buffer<256>, !tert.buffer<128>
  // expected-error @below {{expected 'above' and 'whole' to share no byte}}
  tert.launch "copy" {bytes = 256 : i64} (%half, %y) : !tert.buffer<256>, !tert.buffer<256>
  // expected-note @below {{that launch is here}}
  tert.launch "all_gather" {bytes = 128 : i64, group_id = 0 : i32, ranks = 2 : i32} (%part, %whole) side : !tert.buffer<128>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%whole, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}
