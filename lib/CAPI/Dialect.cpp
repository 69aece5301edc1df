//===- Dialect.cpp - the dialects and passes behind MLIR's C API ----------===//

#include "te-c/Dialect.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/InitAllTE.h"
#include "TEDialect/Pipelines/Pipelines.h"
#include "TEDialect/TERT/TERT.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Pass.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Support.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(TE, te, te::TEDialect)
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(TERT, tert, tert::TERTDialect)

void teRegisterAllDialects(MlirDialectRegistry registry) {
  te::registerAllTEDialects(*unwrap(registry));
}

void teRegisterAllPasses() { te::registerAllTEPasses(); }

MlirLogicalResult tePopulateTrainingPipeline(MlirOpPassManager manager,
                                             MlirStringRef options,
                                             MlirStringCallback error,
                                             void *user) {
  OpPassManager &passes = *unwrap(manager);
  auto fail = [&](StringRef message) {
    if (error)
      error(wrap(message), user);
    return wrap(failure());
  };
  if (passes.getOpAnchorName() != "builtin.module")
    return fail("expected a pass manager of 'builtin.module'");
  te::TrainingPipelineOptions parsed;
  std::string message;
  if (failed(te::parseTrainingPipeline(unwrap(options), parsed, message)))
    return fail(message);
  // The pipeline reports values as diagnostics; a manager has no context.
  MLIRContext context;
  ScopedDiagnosticHandler handler(
      &context, [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
  auto report = [&] { return emitError(UnknownLoc::get(&context)); };
  if (failed(te::populateTETrainingPipeline(passes, parsed, report)))
    return fail(message);
  return wrap(success());
}
