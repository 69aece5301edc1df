//===- VerifyStage.cpp - te-verify-stage ----------------------------------===//
//
// Applies the rows of StageSpecs.cpp that hold after a stage to every op.
//
//===----------------------------------------------------------------------===//

#include "StageSpecs.h"

#include "TEDialect/Transforms/Verify/Passes.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::te {
#define GEN_PASS_DEF_VERIFYSTAGEPASS
#include "TEDialect/Transforms/Verify/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

void printRules(raw_ostream &os) {
  for (const StageRule &rule : getStageRules())
    os << "after " << stringifyStage(rule.from)
       << (rule.from == rule.to ? ""
                                : (" until " + stringifyStage(rule.to)).str())
       << ": " << rule.name << ": " << rule.sentence << "\n";
}

class VerifyStage final : public te::impl::VerifyStagePassBase<VerifyStage> {
public:
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (print)
      return printRules(llvm::outs());
    std::optional<Stage> checked = symbolizeStage(stage);
    if (!checked) {
      getOperation().emitError()
          << "expected 'stage' to be one of import, autodiff, quantize, fuse, "
             "schedule or lower, but got '"
          << stage << "'";
      return signalPassFailure();
    }
    getOperation().walk([&](Operation *op) {
      ++numChecks;
      for (const StageRule &rule : getStageRules())
        if (rule.from <= *checked && *checked <= rule.to && rule.isBroken(op)) {
          op->emitError() << "expected after stage '" << stage << "' that "
                          << rule.sentence << " (" << rule.name
                          << "), but got '" << op->getName() << "'";
          signalPassFailure();
        }
    });
  }
};

} // namespace
