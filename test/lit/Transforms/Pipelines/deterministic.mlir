// The option 'deterministic' refuses launches that may have other bits in another process, at the op, and marks the module.
// RUN: not te-opt %s --te-training-pipeline="vjp=attends deterministic" 2>&1 | FileCheck %s --implicit-check-not=error:
// CHECK: deterministic.mlir:[[@LINE+18]]:{{[0-9]+}}: error: expected the same bits in each process, because of 'deterministic', but got 'attention_backward': cuDNN adds rows of the gradient of q in any order; leave out 'deterministic = false' of te.attention; of PyTorch, call torch.use_deterministic_algorithms(True)
// CHECK: deterministic.mlir:[[@LINE+16]]:{{[0-9]+}}: error: {{.*}} got 'attention_backward'

// The report is printed also if the option refuses something.
// RUN: not te-opt %s --te-training-pipeline="vjp=attends deterministic" --te-report=determinism 2> %t.errors | FileCheck %s --check-prefix=REPORT
// REPORT: same bits of 'attends': {{[0-9]+}} launches in each process, 0 with one choice of algorithms, 2 not
// REPORT: attention_backward 2 no no

// Without a backward, and on the reference backend, nothing is refused. Only with the option, the last field of the module is 1.
// DEFINE: %{field} = sed -n '/@te_module()/,/^  }/p' | grep -B1 'llvm.mlir.poison' | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="deterministic" | %{field} --check-prefix=FLAG
// RUN: te-opt %s --te-training-pipeline="vjp=attends deterministic=true target=reference" | %{field} --check-prefix=FLAG
// RUN: te-opt %s --te-training-pipeline="vjp=attends" | %{field} --check-prefix=NO-FLAG
// FLAG: llvm.mlir.constant(1 : i32)
// NO-FLAG: llvm.mlir.constant(0 : i32)
func.func @attends(%q: tensor<64x64xbf16> {te.name = "q"}, %k: tensor<64x64xbf16> {te.name = "k"}, %v: tensor<64x64xbf16> {te.name = "v"})
    -> (tensor<64x64xbf16> {te.name = "y"}) {
  %first = te.attention %q, %k, %v {heads = 2 : i64, kv_heads = 2 : i64, sequence = 64 : i64, deterministic = false} : tensor<64x64xbf16>, tensor<64x64xbf16>
  %last = te.attention %first, %k, %v {heads = 2 : i64, kv_heads = 2 : i64, sequence = 64 : i64, causal, deterministic = false} : tensor<64x64xbf16>, tensor<64x64xbf16>
  return %last : tensor<64x64xbf16>
}
