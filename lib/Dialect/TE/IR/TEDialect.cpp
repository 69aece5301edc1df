//===- TEDialect.cpp - registration and discardable attributes ------------===//

#include "TEDialect/IR/TE.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

#include "TEDialect/IR/TEDialect.cpp.inc"
#include "TEDialect/IR/TEEnums.cpp.inc"
#include "TEDialect/IR/TEInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "TEDialect/IR/TEOps.cpp.inc"

namespace {
/// Every te op is pure straight-line code, so it may be inlined anywhere.
struct TEInlinerInterface : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void TEDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "TEDialect/IR/TEOps.cpp.inc"
      >();
  addInterfaces<TEInlinerInterface>();
}

LogicalResult TEDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  if (attribute.getName() != kRecipeAttr)
    return op->emitError() << "unknown attribute '"
                           << attribute.getName().getValue()
                           << "'; the te dialect knows 'te.recipe' on ops";
  if (!isa<RecipeAttr>(attribute.getValue()))
    return op->emitError() << "expected 'te.recipe' to be a #te.recipe<...>, "
                              "but got "
                           << attribute.getValue();
  return success();
}

/// `te.name` is a string, `te.weight` a unit attribute.
static LogicalResult verifySignatureAttribute(Operation *op,
                                              NamedAttribute attribute,
                                              bool allowWeight) {
  StringRef name = attribute.getName().getValue();
  if (name == kNameAttr) {
    auto value = dyn_cast<StringAttr>(attribute.getValue());
    if (value && !value.getValue().empty())
      return success();
    return op->emitError() << "expected 'te.name' to be a string that is not "
                              "empty, but got "
                           << attribute.getValue();
  }
  if (name == kWeightAttr && allowWeight) {
    if (isa<UnitAttr>(attribute.getValue()))
      return success();
    return op->emitError() << "expected 'te.weight' to have no value, but got "
                           << attribute.getValue();
  }
  return op->emitError() << "unknown attribute '" << name
                         << "'; the te dialect knows 'te.name'"
                         << (allowWeight ? " and 'te.weight' on arguments"
                                         : " on results");
}

LogicalResult TEDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned,
                                                  NamedAttribute attribute) {
  return verifySignatureAttribute(op, attribute, /*allowWeight=*/true);
}

LogicalResult TEDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned,
                                                     NamedAttribute attribute) {
  return verifySignatureAttribute(op, attribute, /*allowWeight=*/false);
}

Location mlir::te::getModuleLoc(Operation *module) {
  auto hasPlace = [](Location loc) {
    auto place = dyn_cast<FileLineColLoc>(loc);
    return place && place.getLine() != 0;
  };
  if (hasPlace(module->getLoc()))
    return module->getLoc();
  for (Region &region : module->getRegions())
    for (Operation &op : region.getOps())
      if (hasPlace(op.getLoc()))
        return op.getLoc();
  return module->getLoc();
}
