/* EmitTest.c - a compiler in C that emits te through MLIR's C API.
 *
 * Builds a module of a linear layer op by op, differentiates and lowers it by
 * the training pipeline, and reads the result.
 */

#include "te-c/Dialect.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "failed: %s\n", what);
    ++failures;
  }
}

static MlirStringRef text(const char *string) {
  return mlirStringRefCreateFromCString(string);
}

/* Keeps the last text it is given. */
typedef struct {
  char bytes[1 << 16];
} Text;

static void keep(MlirStringRef part, void *user) {
  Text *to = user;
  size_t used = strlen(to->bytes);
  if (used + part.length + 1 < sizeof(to->bytes)) {
    memcpy(to->bytes + used, part.data, part.length);
    to->bytes[used + part.length] = 0;
  }
}

/* func.func @linear(%x, %w) { return te.linear %x, %w } */
static void emitLinear(MlirContext context, MlirModule module) {
  MlirLocation loc = mlirLocationUnknownGet(context);
  MlirType x = mlirTypeParseGet(context, text("tensor<64x32xbf16>"));
  MlirType w = mlirTypeParseGet(context, text("tensor<128x32xbf16>"));
  MlirType y = mlirTypeParseGet(context, text("tensor<64x128xbf16>"));
  MlirType inputs[2] = {x, w};
  MlirLocation locs[2] = {loc, loc};
  MlirBlock body = mlirBlockCreate(2, inputs, locs);

  MlirValue operands[2] = {mlirBlockGetArgument(body, 0),
                           mlirBlockGetArgument(body, 1)};
  MlirOperationState linear = mlirOperationStateGet(text("te.linear"), loc);
  mlirOperationStateAddOperands(&linear, 2, operands);
  mlirOperationStateAddResults(&linear, 1, &y);
  MlirOperation op = mlirOperationCreate(&linear);
  expect(!mlirOperationIsNull(op), "te.linear is made");
  mlirBlockAppendOwnedOperation(body, op);
  MlirValue result = mlirOperationGetResult(op, 0);
  MlirOperationState end = mlirOperationStateGet(text("func.return"), loc);
  mlirOperationStateAddOperands(&end, 1, &result);
  mlirBlockAppendOwnedOperation(body, mlirOperationCreate(&end));

  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, body);
  const char *attributes[][2] = {
      {"sym_name", "\"linear\""},
      {"function_type", "(tensor<64x32xbf16>, tensor<128x32xbf16>) -> "
                        "tensor<64x128xbf16>"},
      {"arg_attrs", "[{te.name = \"x\"}, {te.name = \"w\", te.weight}]"},
      {"res_attrs", "[{te.name = \"y\"}]"}};
  MlirOperationState function = mlirOperationStateGet(text("func.func"), loc);
  for (int i = 0; i < 4; ++i) {
    MlirAttribute value =
        mlirAttributeParseGet(context, text(attributes[i][1]));
    MlirNamedAttribute named = mlirNamedAttributeGet(
        mlirIdentifierGet(context, text(attributes[i][0])), value);
    mlirOperationStateAddAttributes(&function, 1, &named);
  }
  mlirOperationStateAddOwnedRegions(&function, 1, &region);
  mlirBlockAppendOwnedOperation(mlirModuleGetBody(module),
                                mlirOperationCreate(&function));
}

static void testPipeline(MlirContext context) {
  MlirModule module = mlirModuleCreateEmpty(mlirLocationUnknownGet(context));
  emitLinear(context, module);
  MlirOperation op = mlirModuleGetOperation(module);
  expect(mlirOperationVerify(op), "the emitted module verifies");
  MlirPassManager manager =
      mlirPassManagerCreateOnOperation(context, text("builtin.module"));
  MlirOpPassManager passes = mlirPassManagerGetAsOpPassManager(manager);

  static Text error;
  expect(mlirLogicalResultIsFailure(tePopulateTrainingPipeline(
             passes, text("target=sm_70"), keep, &error)),
         "a target that is not there is refused");
  expect(strstr(error.bytes, "sm_70") != NULL, error.bytes);
  memset(&error, 0, sizeof(error));
  expect(mlirLogicalResultIsFailure(
             tePopulateTrainingPipeline(passes, text("recpe=x"), keep, &error)),
         "an option that is not there is refused");
  expect(strstr(error.bytes, "recpe") != NULL, error.bytes);
  expect(mlirLogicalResultIsFailure(tePopulateTrainingPipeline(
             mlirOpPassManagerGetNestedUnder(passes, text("func.func")),
             text(""), NULL, NULL)),
         "a manager of functions is refused");

  expect(mlirLogicalResultIsSuccess(tePopulateTrainingPipeline(
             passes,
             text("recipe=float8_current_scaling vjp=linear "
                  "compile-to=schedule"),
             keep, &error)),
         error.bytes);
  expect(mlirLogicalResultIsSuccess(mlirPassManagerRunOnOp(manager, op)),
         "the pipeline runs");
  static Text ir;
  mlirOperationPrint(op, keep, &ir);
  expect(strstr(ir.bytes, "tert.launch") && strstr(ir.bytes, "scaled_matmul") &&
             strstr(ir.bytes, "grad.w"),
         "the step is planned and differentiated");
  mlirPassManagerDestroy(manager);
  mlirModuleDestroy(module);
}

static void testPassByName(MlirContext context) {
  teRegisterAllPasses();
  MlirPassManager manager =
      mlirPassManagerCreateOnOperation(context, text("builtin.module"));
  static Text error;
  expect(mlirLogicalResultIsSuccess(mlirParsePassPipeline(
             mlirPassManagerGetAsOpPassManager(manager),
             text("builtin.module(te-differentiate,te-report-memory)"), keep,
             &error)),
         error.bytes);
  mlirPassManagerDestroy(manager);
}

int main(void) {
  MlirContext context = mlirContextCreate();
  MlirDialectHandle te = mlirGetDialectHandle__te__();
  expect(mlirStringRefEqual(mlirDialectHandleGetNamespace(te), text("te")) &&
             mlirStringRefEqual(
                 mlirDialectHandleGetNamespace(mlirGetDialectHandle__tert__()),
                 text("tert")),
         "the handles have their names");
  expect(!mlirDialectIsNull(mlirDialectHandleLoadDialect(te, context)),
         "the dialect is loaded by its handle");
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  teRegisterAllDialects(registry);
  mlirContextAppendDialectRegistry(context, registry);
  mlirContextLoadAllAvailableDialects(context);
  testPipeline(context);
  testPassByName(context);
  mlirDialectRegistryDestroy(registry);
  mlirContextDestroy(context);
  if (!failures)
    printf("emitted, differentiated, planned\n");
  return failures != 0;
}
