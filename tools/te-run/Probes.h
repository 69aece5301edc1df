//===- Probes.h - what te-run says about a step's values ------------------===//
//
// Results that te-check-finite and te-insert-probes added to a step, read with
// what their `te.probe` says of them.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_PROBES_H
#define TE_TOOLS_TE_RUN_PROBES_H

#include "TEDialect/JIT/JIT.h"

#include "Support/Npz.h"

#include "mlir/IR/MLIRContext.h"

namespace te::run {

/// Whether `argument` is the counts of te-check-finite.
bool isFiniteCheck(const mlir::te::ArgumentInfo &argument);

/// Whether `argument` is statistics of te-insert-probes.
bool isStatistics(const mlir::te::ArgumentInfo &argument);

/// Prints one row for each statistics of `step`, from `outputs`, to `os`.
void printStatistics(const mlir::te::CompiledStep &step,
                     const support::NpzArchive &outputs, int64_t steps,
                     llvm::raw_ostream &os);

/// Looks for the first value of a step that is not finite; a
/// RunOptions::inspect.
class FiniteCheck {
public:
  /// `step` has results for which isFiniteCheck holds, or none.
  explicit FiniteCheck(const mlir::te::CompiledStep &step);

  /// Reports what `counts`, the result `name` of step `step` (from 1), has: the
  /// first NaN or infinity as an error, and casts that lose elements before it,
  /// once each, as warnings. False after an error.
  bool operator()(int64_t step, const std::string &name,
                  const support::NpyArray &counts);

private:
  llvm::StringMap<mlir::ArrayAttr> rowsOf;
  mlir::DenseSet<mlir::Attribute> warned;
};

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_PROBES_H
