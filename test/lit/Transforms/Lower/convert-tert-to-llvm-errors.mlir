// RUN: te-opt %s --split-input-file --te-convert-tert-to-llvm --verify-diagnostics

// expected-error @below {{expected the memory of 'step' to be planned; run te-convert-to-tert and te-plan-memory before}}
func.func @step() { return }

// -----

// expected-error @below {{expected a module to have one function to compile, but it has 2}}
module {
  func.func @a() { return }
  func.func @b() { return }
}
