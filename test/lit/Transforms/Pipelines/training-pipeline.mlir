// The passes that options of te-training-pipeline add or leave out.
// RUN: te-opt %s --te-training-pipeline="compile-to=lower overlap=never fuse=false" --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: te-opt %s --te-training-pipeline="compile-to=schedule vjp=layer main-grad=true recipe=float8_current_scaling expose-casts=true emulate=true target=sm_100 cache-weights=true transpose-policy=cached check-finite=true probes=w.x strict=true overlap=always report=constraints,capture,precision,schedule,time,memory" --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: te-opt %s --te-training-pipeline="compile-to=fuse vjp=layer transpose-policy=budget transpose-budget=4096 capture=true strict=true" --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=BUDGET

// FEW: te-legalize-input{emulate=false one-entry=true
// FEW-NOT: te-wrap-vjp
// FEW-NOT: te-report
// FEW-NOT: te-accumulate-main-grads
// FEW-NOT: te-expose-casts
// FEW-NOT: te-emulate-products
// FEW-NOT: te-swizzle-scales
// FEW-NOT: te-insert-skip-flags
// FEW-NOT: te-verify-capture
// FEW-NOT: te-check-finite
// FEW-NOT: te-insert-probes
// FEW-NOT: te-fuse
// FEW-NOT: te-chunk-logits
// FEW: te-batch-reductions
// FEW-NOT: te-report
// FEW: te-form-regions{merge=false}
// FEW-NOT: te-overlap
// FEW: te-plan-memory
// FEW-NOT: te-report
// FEW: te-convert-tert-to-llvm

// ALL: te-verify-collectives
// ALL: te-wrap-vjp{entry=layer}
// ALL: te-legalize-input{emulate=true one-entry=false target=sm_100}
// ALL: te-report-constraints
// ALL: te-check-constraints
// ALL: te-accumulate-main-grads
// ALL: te-insert-collectives
// ALL: te-materialize-transposes{policy=cached rows-are-kept=true target=sm_100 transpose-budget=-1}
// ALL: te-rematerialize{policy=nothing}
// ALL: te-accumulate-gradients
// ALL: te-expose-casts
// ALL: te-emulate-products
// ALL: te-align-products
// ALL: te-swizzle-scales
// ALL: te-insert-skip-flags{transposes=true}
// ALL: te-verify-capture{fresh-casts=false}
// ALL: te-report-capture
// ALL: te-verify-collectives
// ALL: te-check-finite
// ALL: te-insert-probes
// ALL: te-fuse-padding
// ALL: te-fuse-amax
// ALL: te-fuse-norm-add
// ALL: te-fuse-amax
// ALL: te-report-precision{format=text quiet=false strict=true target=sm_100}
// ALL: te-form-regions{merge=true}
// ALL: te-overlap-communication{always=true target=sm_100}
// ALL: te-report-schedule
// ALL: te-report-time
// ALL: te-report-memory
// ALL-NOT: te-convert-tert-to-llvm

// BUDGET: te-materialize-transposes{policy=budget rows-are-kept=false {{.*}}transpose-budget=4096}
// BUDGET: te-rematerialize{policy=budget:4096}
// BUDGET-NOT: te-insert-skip-flags
// BUDGET: te-verify-capture{fresh-casts=true}
// BUDGET-NOT: te-report-capture
// BUDGET: te-report-precision{format=text quiet=true strict=true
// BUDGET-NOT: te-form-regions

func.func @layer(%x: tensor<128x128xbf16> {te.name = "x"}, %w: tensor<128x128xbf16> {te.name = "w", te.weight}) -> (tensor<128x128xbf16> {te.name = "y"}) {
  %y = te.linear %x, %w : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xbf16>
  return %y : tensor<128x128xbf16>
}
