// RUN: te-opt %s --te-plan-memory=budget=512 --verify-diagnostics

// expected-error @below {{expected the temporaries of 'step' to fit in 512 bytes, but they need 1280}}
// expected-note @below {{the smallest 'budget' that works is 1280}}
func.func @step(%x: !tert.buffer<1000>, %y: !tert.buffer<1000>) {
  // expected-note @below {{'small' (residual, 4 bytes) is live at the peak}}
  %small = tert.alloc "small" residual : !tert.buffer<4>
  // expected-note @below {{'large' (gradient, 1000 bytes) is live at the peak}}
  %large = tert.alloc "large" gradient : !tert.buffer<1000>
  %null = tert.null : !tert.buffer<0>
  tert.launch "fill" {count = 1 : i64, type = 0 : i32, value = 0.0 : f32} (%small, %null) : !tert.buffer<4>, !tert.buffer<0>
  tert.launch "copy" {bytes = 1000 : i64} (%x, %large) : !tert.buffer<1000>, !tert.buffer<1000>
  tert.launch "copy" {bytes = 1000 : i64} (%large, %y) : !tert.buffer<1000>, !tert.buffer<1000>
  tert.launch "copy" {bytes = 4 : i64} (%small, %y) : !tert.buffer<4>, !tert.buffer<1000>
  return
}
