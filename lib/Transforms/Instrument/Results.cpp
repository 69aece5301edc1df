//===- Results.cpp - results that instruments add to a step ---------------===//

#include "Results.h"

#include "TEDialect/IR/TE.h"

using namespace mlir;
using namespace mlir::te;

bool mlir::te::isStep(func::FuncOp function) {
  return !function.isPrivate() && !function.isExternal() &&
         function.getBody().hasOneBlock();
}

std::string mlir::te::uniqueName(func::FuncOp function, StringRef base) {
  auto taken = [&](StringRef name) {
    auto is = [&](StringAttr other) { return other && other == name; };
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
      if (is(function.getArgAttrOfType<StringAttr>(i, kNameAttr)))
        return true;
    for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
      if (is(function.getResultAttrOfType<StringAttr>(i, kNameAttr)))
        return true;
    return false;
  };
  std::string name = base.str();
  for (unsigned i = 1; taken(name); ++i)
    name = (base + "." + Twine(i)).str();
  return name;
}

void mlir::te::addResult(func::FuncOp function, StringRef name, Value value,
                         ArrayAttr probe) {
  Builder b(function.getContext());
  // This fails only if the type of the function cannot be changed.
  (void)function.insertResult(
      function.getNumResults(), value.getType(),
      b.getDictionaryAttr({b.getNamedAttr(kNameAttr, b.getStringAttr(name)),
                           b.getNamedAttr(kProbeAttr, probe)}));
  Operation *terminator = function.getBody().front().getTerminator();
  terminator->insertOperands(terminator->getNumOperands(), value);
}
