// RUN: te-opt %s --te-plan-memory=results=dx --verify-diagnostics
// RUN: not te-opt %s --te-plan-memory=results=[ 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not te-opt %s --te-plan-memory=results=y,x 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: not te-opt %s --te-plan-memory="results=y budget=256" 2>&1 | FileCheck %s --check-prefix=BUDGET
// PATTERN: error: expected 'results-in-arena' to be patterns, but got '[': {{.+}}
// STATE: error: expected 'results-in-arena' to name results of 'step' that are no states, but got 'x'; there are 'grad.w', 'y'
// BUDGET: error: expected the temporaries of 'step' to fit in 256 bytes, but they need 512
// BUDGET: note: 'y.data' (activation, 512 bytes) is live at the peak

// expected-error @below {{expected 'results-in-arena' to name results of 'step' that are no states, but got 'dx'; there are 'grad.w', 'y'}}
func.func @step(%x: !tert.buffer<512>, %dw: !tert.buffer<512>, %y: !tert.buffer<512>, %state: !tert.buffer<512>)
    attributes {tert.signature = [
      {carried = -1 : i64, name = "x", part = "value", role = "argument", type = tensor<128xf32>},
      {carried = -1 : i64, name = "grad.w", part = "value", role = "result", type = tensor<128xf32>},
      {carried = -1 : i64, name = "y", part = "data", role = "result", type = tensor<128xf32>},
      {carried = 0 : i64, name = "x", part = "value", role = "result", type = tensor<128xf32>}]} {
  tert.launch "copy" {bytes = 512 : i64} (%x, %dw) : !tert.buffer<512>, !tert.buffer<512>
  tert.launch "copy" {bytes = 512 : i64} (%x, %y) : !tert.buffer<512>, !tert.buffer<512>
  return
}
