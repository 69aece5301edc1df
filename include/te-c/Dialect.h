//===- Dialect.h - the dialects and passes for users of MLIR's C API ------===//
//
// For compilers that emit te through MLIR's C API: dialect handles, the
// registration of passes, and the training pipeline by its option string.
// Attributes and types are made with mlirAttributeParseGet and
// mlirTypeParseGet. To only compile a program, use te_compiler.h.
//
//===----------------------------------------------------------------------===//

#ifndef TE_C_DIALECT_H
#define TE_C_DIALECT_H

#include "mlir-c/IR.h"
#include "mlir-c/Pass.h"
#include "mlir-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

/// mlirGetDialectHandle__te__ and mlirGetDialectHandle__tert__.
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(TE, te);
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(TERT, tert);

/// Adds te, tert and every dialect a te program may use to `registry`.
MLIR_CAPI_EXPORTED void teRegisterAllDialects(MlirDialectRegistry registry);

/// Makes every te pass and te-training-pipeline known to
/// mlirParsePassPipeline. Once in a process.
MLIR_CAPI_EXPORTED void teRegisterAllPasses(void);

/// Adds the training pipeline to `manager`, a manager of "builtin.module".
/// `options` is what te-opt takes as --te-training-pipeline="...". What is
/// wrong with them is passed to `error` with `user`, and nothing is added.
MLIR_CAPI_EXPORTED MlirLogicalResult
tePopulateTrainingPipeline(MlirOpPassManager manager, MlirStringRef options,
                           MlirStringCallback error, void *user);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // TE_C_DIALECT_H
