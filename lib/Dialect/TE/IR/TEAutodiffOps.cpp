//===- TEAutodiffOps.cpp - verifiers of vjp and residual ------------------===//

#include "TEVerifiers.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::te;

/// `actual` equals `expected`, type by type; `what` names the list.
static LogicalResult verifyTypeList(VjpOp op, StringRef what,
                                    TypeRange expected, TypeRange actual) {
  if (expected.size() != actual.size())
    return op.emitOpError() << "expected " << expected.size() << " " << what
                            << ", but got " << actual.size();
  for (auto [index, pair] : llvm::enumerate(llvm::zip(expected, actual)))
    if (std::get<0>(pair) != std::get<1>(pair))
      return op.emitOpError()
             << "expected " << what << " number " << index << " to be "
             << std::get<0>(pair) << ", but got " << std::get<1>(pair);
  return success();
}

LogicalResult VjpOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // vjp-c1
  auto callee = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "expected '@" << getCallee()
                         << "' to be a function of this module";
  TypeRange arguments = getArguments().getTypes();
  if (failed(verifyTypeList(*this, "arguments", callee.getArgumentTypes(),
                            arguments)))
    return failure();
  // vjp-c2
  TypeRange results = callee.getResultTypes();
  for (Type type : results)
    if (!isa<FloatType>(getElementTypeOrSelf(type)))
      return emitOpError() << "expected '@" << getCallee()
                           << "' to return floating-point tensors, but got "
                           << type;
  if (failed(verifyTypeList(*this, "cotangents", results,
                            getCotangents().getTypes())))
    return failure();
  // vjp-c3
  SmallVector<Type> outputs(results);
  int64_t previous = -1;
  for (int64_t index : getWrt()) {
    if (index <= previous || index >= static_cast<int64_t>(arguments.size()))
      return emitOpError() << "expected 'wrt' to be increasing argument "
                              "numbers below "
                           << arguments.size() << ", but got " << index;
    previous = index;
    if (!isa<FloatType>(getElementTypeOrSelf(arguments[index])))
      return emitOpError() << "expected 'wrt' to name floating-point "
                              "arguments, but argument "
                           << index << " is " << arguments[index];
    outputs.push_back(arguments[index]);
  }
  // vjp-c4
  return verifyTypeList(*this, "results", outputs, getOutputs().getTypes());
}

LogicalResult ResidualOp::verify() {
  // residual-c1
  if (getName().empty())
    return emitOpError() << "expected 'name' not to be empty";
  return success();
}
