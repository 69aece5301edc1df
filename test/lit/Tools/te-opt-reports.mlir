// Several reports are one JSON object. Each report is a member, or three.
// RUN: te-opt %s --te-report=memory,precision,constraints,time,schedule --te-report-format=json > %t.json
// RUN: %python -c "import json, sys; print(*sorted(json.load(open(sys.argv[1]))))" %t.json | FileCheck %s
// CHECK: {{^}}constraints groups memory precision refused schedule time{{$}}

// By itself, too.
// RUN: te-opt %s --te-report=memory --te-report-format=json | %python -c "import json, sys; print(*json.load(sys.stdin))" | FileCheck %s --check-prefix=ONE
// ONE: {{^}}memory{{$}}

func.func @step(%x: tensor<32x64xbf16> {te.name = "x"}, %w: tensor<64x64xbf16> {te.name = "w", te.weight})
    -> (tensor<32x64xbf16> {te.name = "y"}) {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}
