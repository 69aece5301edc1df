//===- InitAllTE.cpp - register everything of this project ----------------===//

#include "TEDialect/InitAllTE.h"
#include "TEDialect/IR/Gradients.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Pipelines/Pipelines.h"
#include "TEDialect/TERT/TERT.h"
#include "TEDialect/Transforms/Autodiff/Passes.h"
#include "TEDialect/Transforms/ConvertToTERT/Kernels.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"
#include "TEDialect/Transforms/Distribute/Passes.h"
#include "TEDialect/Transforms/Fuse/Passes.h"
#include "TEDialect/Transforms/Import/Passes.h"
#include "TEDialect/Transforms/Instrument/Passes.h"
#include "TEDialect/Transforms/Lower/Passes.h"
#include "TEDialect/Transforms/Quantize/Passes.h"
#include "TEDialect/Transforms/Report/Passes.h"
#include "TEDialect/Transforms/Residuals/Passes.h"
#include "TEDialect/Transforms/Schedule/Passes.h"
#include "TEDialect/Transforms/Verify/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void te::registerAllTEDialects(DialectRegistry &registry) {
  registry.insert<te::TEDialect, tert::TERTDialect, arith::ArithDialect,
                  func::FuncDialect, linalg::LinalgDialect, math::MathDialect,
                  scf::SCFDialect, tensor::TensorDialect, LLVM::LLVMDialect>();
  func::registerInlinerExtension(registry);
  registerTEGradients(registry);
  registerTEKernels(registry);
}

void te::registerAllTEPasses() {
  registerTEImportPasses();
  registerTEAutodiffPasses();
  registerTEDistributePasses();
  registerTEQuantizePasses();
  registerTEResidualsPasses();
  registerTEFusePasses();
  registerTEConvertToTERTPasses();
  registerTESchedulePasses();
  registerTELowerPasses();
  registerTEVerifyPasses();
  registerTEReportPasses();
  registerTEInstrumentPasses();
  registerTETrainingPipeline();
  registerTEVerifyDerivatives();
  registerTransformsPasses();
}
