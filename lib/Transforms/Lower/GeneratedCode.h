//===- GeneratedCode.h - code of fused elementwise regions ----------------===//
//
// Launches of the kernel `generated` have a body with elementwise ops. Two
// functions are emitted for each distinct body, and a record for each launch
// that draws from other random streams:
//
//   te_generated_N          the host function, a loop over elements
//   te_generated_N_device   the GPU kernel. It has the attribute tert.device;
//                           lib/JIT removes it from the module and compiles it
//                           to PTX, the constant te_generated_N_device_code.
//   te_generated_N_record_S a te_rt_generated that refers to both, for the
//                           stream S
//
// and te_shared_memory once for all kernels that have shared memory.
//
// The functions of Core/Math.h (exp, tanh, ...) and conversions of narrow
// floats are emitted as calls of te_scalar_*. lib/JIT links one definition of
// these for the host and for GPUs, so that both compute the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_LOWER_GENERATEDCODE_H
#define TE_TRANSFORMS_LOWER_GENERATEDCODE_H

#include "TEDialect/TERT/TERT.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace mlir::te {

/// Emits the code of all `generated` launches of a step.
class GeneratedCode {
public:
  /// Inserts functions before `step`. GPU kernels are emitted only if
  /// `forDevice` is set.
  GeneratedCode(func::FuncOp step, bool forDevice)
      : step(step), forDevice(forDevice) {}

  /// The te_rt_generated record of the launch. Launches with equal bodies and
  /// streams share one.
  LLVM::GlobalOp get(tert::LaunchOp launch);

  unsigned numGenerated() const { return codes.size(); }

private:
  /// The functions of a body, and what a launch of them needs.
  struct Code {
    std::string name;
    int32_t block, blockElements, sharedBytes, amaxes;
    std::map<int32_t, LLVM::GlobalOp> records;
  };
  Code emit(tert::LaunchOp launch, std::string name);
  LLVM::GlobalOp emitRecord(const Code &code, int32_t stream, Location loc);

  func::FuncOp step;
  bool forDevice;
  /// The key is the printed body, and which buffers are absent.
  llvm::StringMap<Code> codes;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_LOWER_GENERATEDCODE_H
