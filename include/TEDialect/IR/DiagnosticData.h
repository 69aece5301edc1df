//===- DiagnosticData.h - what a diagnostic says, as data -----------------===//
//
// Programs that read diagnostics must not have to read English: a diagnostic
// that a program can act on carries a stable code and the layer that is in its
// text. They travel as the metadata of MLIR's Diagnostic and reach a host
// through te_compiler.h, which documents the codes. A diagnostic without data
// is only for people.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_IR_DIAGNOSTICDATA_H
#define TEDIALECT_IR_DIAGNOSTICDATA_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace mlir::te {

/// The codes of te_compiler.h that passes give.
namespace code {
inline constexpr llvm::StringLiteral kGroupSizes = "group-sizes";
inline constexpr llvm::StringLiteral kNoKernel = "no-kernel";
inline constexpr llvm::StringLiteral kFallback = "fallback";
inline constexpr llvm::StringLiteral kRematUnknown = "remat-unknown";
inline constexpr llvm::StringLiteral kMemoryBudget = "memory-budget";
inline constexpr llvm::StringLiteral kNotDifferentiable = "not-differentiable";
} // namespace code

struct DiagnosticData {
  /// One of the codes above, or empty.
  llvm::StringRef code;
  /// The layer that it is about; empty where it is about none.
  std::string layer = "";
};

/// `diagnostic`, which carries `data` from now on.
InFlightDiagnostic withData(InFlightDiagnostic diagnostic,
                            const DiagnosticData &data);

/// What `diagnostic` carries.
DiagnosticData readData(Diagnostic &diagnostic);

} // namespace mlir::te

#endif // TEDIALECT_IR_DIAGNOSTICDATA_H
