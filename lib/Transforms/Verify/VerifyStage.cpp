//===- VerifyStage.cpp - te-verify-stage ----------------------------------===//
//
// The pass applies the rows of StageSpecs.cpp that hold after a stage to every
// op.
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

  LogicalResult initialize(MLIRContext *context) override {
    checked = symbolizeStage(stage);
    if (checked || print)
      return success();
    return emitError(UnknownLoc::get(context))
           << "expected option 'stage' of 'te-verify-stage' to be one of "
              "import, autodiff, quantize, fuse, schedule or lower, but got '"
           << stage << "'";
  }

  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (print)
      return printRules(llvm::outs());
    BlockFacts facts;
    getOperation().walk([&](Operation *op) {
      ++numChecks;
      for (const StageRule &rule : getStageRules())
        if (rule.from <= *checked && *checked <= rule.to &&
            rule.isBroken(op, facts)) {
          op->emitError() << "expected after stage '" << stage << "' that "
                          << rule.sentence << " (" << rule.name
                          << "), but got '" << op->getName() << "'";
          signalPassFailure();
        }
    });
  }

private:
  std::optional<Stage> checked;
};

} // namespace
