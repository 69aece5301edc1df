//===- Kernels.cpp - which kernels compute the ops of a step --------------===//
//
// Every te op has a model of KernelOpInterface, attached in the file of its
// family or, for ops without a kernel, here. A missing model is an error when
// the dialect is loaded.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Transforms/ConvertToTERT/Kernels.h"

#include "LaunchCall.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// An op that is replaced by others before launches are emitted.
template <typename Op>
struct ReplacedModel : KernelOpInterface::ExternalModel<ReplacedModel<Op>, Op> {
  LogicalResult emitLaunches(Operation *op, LaunchEmitter &) const {
    return refuseLaunch(op);
  }
};

template <typename... Ops> void attachReplaced(MLIRContext *context) {
  (Ops::template attachInterface<ReplacedModel<Ops>>(*context), ...);
}

} // namespace

static void requireKernels(MLIRContext *context) {
  for (RegisteredOperationName op : context->getRegisteredOperations())
    if (isa<TEDialect>(op.getDialect()) &&
        !op.hasInterface<KernelOpInterface>())
      llvm::report_fatal_error(
          "op '" + op.getStringRef() +
          "' does not implement KernelOpInterface; add its launches to the "
          "Emit file of its family, or list it among the ops that are "
          "replaced before");
}

void te::registerTEKernels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TEDialect *) {
    attachAttentionKernels(context);
    attachCastKernels(context);
    attachByRowsKernels(context);
    attachCollectiveKernels(context);
    attachGroupedKernels(context);
    attachLayerKernels(context);
    attachMoeKernels(context);
    attachProbeKernels(context);
    attachProductKernels(context);
    attachViews<ResidualOp>(context);
    attachReplaced<VjpOp, RankOp, DropoutOp, SoftmaxOp, SoftmaxBackwardOp,
                   ZeroUnusedOp, YieldOp, LinearOp, LinearDgradOp,
                   LinearWgradOp, GroupedLinearOp, GroupedLinearDgradOp,
                   GroupedLinearWgradOp>(context);
    requireKernels(context);
  });
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachArithKernels(context);
  });
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attachLinalgKernels(context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attachTensorKernels(context);
  });
}
