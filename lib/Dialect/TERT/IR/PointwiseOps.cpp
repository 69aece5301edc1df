//===- PointwiseOps.cpp - elementwise ops the runtime computes ------------===//

#include "TEDialect/TERT/PointwiseOps.h"

#include "TEDialect/Runtime/te_runtime_types.h"

using namespace mlir::tert;

static constexpr PointwiseOp ops[] = {
    {"arith.addf", TE_RT_ADD},     {"arith.subf", TE_RT_SUB},
    {"arith.mulf", TE_RT_MUL},     {"arith.divf", TE_RT_DIV},
    {"arith.maximumf", TE_RT_MAX}, {"arith.minimumf", TE_RT_MIN},
    {"arith.negf", TE_RT_NEG},     {"arith.extf", TE_RT_CAST},
    {"arith.truncf", TE_RT_CAST},  {"math.exp", TE_RT_EXP},
    {"math.tanh", TE_RT_TANH},     {"math.sqrt", TE_RT_SQRT},
};

llvm::ArrayRef<PointwiseOp> mlir::tert::getPointwiseOps() { return ops; }

std::optional<int32_t> mlir::tert::lookupPointwise(llvm::StringRef name) {
  for (const PointwiseOp &op : ops)
    if (op.name == name)
      return op.code;
  return std::nullopt;
}
