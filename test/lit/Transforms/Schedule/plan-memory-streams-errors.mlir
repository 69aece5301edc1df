// The error for a step that would fit with one stream says so.
// RUN: te-opt %s --te-plan-memory=budget=512 --verify-diagnostics

// expected-error @below {{expected the temporaries of 'step' to fit in 512 bytes, but they need 768}}
// expected-note @below {{the smallest 'budget' that works is 768}}
// expected-note @below {{buffers of overlapped collectives are alive for longer; 'overlap=never' avoids this}}
func.func @step(%x: !tert.buffer<256>, %y: !tert.buffer<256>, %z: !tert.buffer<256>) {
  // expected-note @below {{'summand' (gradient, 256 bytes) is live at the peak}}
  %summand = tert.alloc "summand" gradient : !tert.buffer<256>
  // expected-note @below {{'sum' (gradient, 256 bytes) is live at the peak}}
  %sum = tert.alloc "sum" gradient : !tert.buffer<256>
  // expected-note @below {{'beside' (gradient, 256 bytes) is live at the peak}}
  %beside = tert.alloc "beside" gradient : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %summand) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "reduce_scatter_sum" {count = 64 : i64, group_id = 0 : i32, ranks = 1 : i32, type = 0 : i32} (%summand, %sum) side : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %beside) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%beside, %y) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%sum, %z) : !tert.buffer<256>, !tert.buffer<256>
  return
}
