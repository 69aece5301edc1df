// RUN: not te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{policy=cached}))' 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{target=sm_80}))' 2>&1 | FileCheck %s --check-prefix=TARGET

// POLICY: expected option 'policy' of 'te-materialize-transposes' to be 'on-demand' or 'eager', but got 'cached'
// TARGET: te-materialize-transposes: expected 'target' to be one of sm_90, sm_100, reference, but got 'sm_80'
func.func @empty() { return }
