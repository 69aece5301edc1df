//===- GeneratedCode.h - code for launches that bring their own -----------===//
//
// Each different body of a launch of `generated` becomes
//
//   te_generated_N          a loop over elements for the CPU
//   te_generated_N_device   a GPU kernel with the attribute tert.device, which
//                           lib/JIT compiles to PTX apart from the module
//   te_generated_N_record   the te_rt_generated that names both
//
// Functions of Core/Math.h (exp, tanh, ...) and conversions of narrow floats
// are calls of te_scalar_*; lib/JIT links their definitions, which are those of
// the runtime, so that both kinds of code have the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_LOWER_GENERATEDCODE_H
#define TE_TRANSFORMS_LOWER_GENERATEDCODE_H

#include "TEDialect/TERT/TERT.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::te {

class GeneratedCode {
public:
  /// Functions are placed before `step`; those of a GPU only if `forDevice`.
  GeneratedCode(func::FuncOp step, bool forDevice)
      : step(step), forDevice(forDevice) {}

  /// The record of the launch's code.
  LLVM::GlobalOp get(tert::LaunchOp launch);

  unsigned numGenerated() const { return records.size(); }

private:
  func::FuncOp step;
  bool forDevice;
  /// By the text of a body.
  llvm::StringMap<LLVM::GlobalOp> records;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_LOWER_GENERATEDCODE_H
