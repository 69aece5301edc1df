// RUN: te-opt %s --te-plan-memory --verify-diagnostics

func.func @step(%x: !tert.buffer<4>) {
  %a = tert.alloc "a" residual : !tert.buffer<4611686018427387904>
  // expected-error @below {{expected the temporaries of 'step' to take fewer than 2^63 bytes together, but 'b' of 4611686018427387904 bytes exceeds that}}
  %b = tert.alloc "b" gradient : !tert.buffer<4611686018427387904>
  tert.launch "copy" {bytes = 4 : i64} (%x, %a) : !tert.buffer<4>, !tert.buffer<4611686018427387904>
  tert.launch "copy" {bytes = 4 : i64} (%a, %b) : !tert.buffer<4611686018427387904>, !tert.buffer<4611686018427387904>
  tert.launch "copy" {bytes = 4 : i64} (%b, %x) : !tert.buffer<4611686018427387904>, !tert.buffer<4>
  return
}
