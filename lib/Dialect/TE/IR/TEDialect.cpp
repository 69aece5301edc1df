//===- TEDialect.cpp - registration and discardable attributes ------------===//

#include "TEVerifiers.h"

#include "TEDialect/IR/Chunks.h"
#include "TEDialect/IR/TEMoe.h"

#include "TEDialect/IR/BackwardOverride.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

#include "TEDialect/IR/TEDialect.cpp.inc"
#include "TEDialect/IR/TEEnums.cpp.inc"
#include "TEDialect/IR/TEInterfaces.cpp.inc"

using OptionalOperand = std::optional<OpAsmParser::UnresolvedOperand>;

/// f32, one for each group of `type`, if it has groups.
static Type perGroupType(ScaledType type) {
  SmallVector<int64_t, 1> shape;
  if (type.isGrouped() || type.isStacked())
    shape.push_back(type.getNumGroups());
  return RankedTensorType::get(shape, Float32Type::get(type.getContext()));
}

static Type groupSizesType(ScaledType type) {
  return RankedTensorType::get({type.getNumGroups()},
                               IntegerType::get(type.getContext(), 32));
}

using Unresolved = OpAsmParser::UnresolvedOperand;

/// The usages of a cast, and the first of their types, or null with an error.
static ScaledType parseUsages(OpAsmParser &parser,
                              SmallVectorImpl<Type> &usages) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseTypeList(usages))
    return {};
  auto usage = dyn_cast<ScaledType>(usages.front());
  if (!usage)
    parser.emitError(loc) << "expected a '!te.scaled' type, but got "
                          << usages.front();
  return usage;
}

/// What the factors of a cast to `usage` are where they are given.
static void inferFactors(ScaledType usage, Type &scale,
                         const OptionalOperand &scaleOperand, Type &givenAmax,
                         const OptionalOperand &amaxOperand) {
  if (scaleOperand)
    scale = perGroupType(usage);
  if (amaxOperand)
    givenAmax =
        usage.is(ScaleVariant::RowScaled)
            ? RankedTensorType::get({usage.getRows()},
                                    Float32Type::get(usage.getContext()))
            : perGroupType(usage);
}

static ParseResult
parseCastTypes(OpAsmParser &parser, SmallVectorImpl<Type> &usages, Type &scale,
               const OptionalOperand &scaleOperand, Type &givenAmax,
               const OptionalOperand &amaxOperand,
               SmallVectorImpl<Type> &cached, ArrayRef<Unresolved> into) {
  ScaledType usage = parseUsages(parser, usages);
  if (!usage)
    return failure();
  // As many as there are operands; the verifier compares the numbers.
  for (size_t i = 0; i < into.size(); ++i)
    cached.push_back(usages[std::min(i, usages.size() - 1)]);
  inferFactors(usage, scale, scaleOperand, givenAmax, amaxOperand);
  return success();
}

static void printCastTypes(OpAsmPrinter &printer, Operation *, TypeRange usages,
                           Type, Value, Type, Value, TypeRange, ValueRange) {
  printer << usages;
}

static ParseResult
parseGroupedCastTypes(OpAsmParser &parser, SmallVectorImpl<Type> &usages,
                      Type &scale, const OptionalOperand &scaleOperand,
                      Type &givenAmax, const OptionalOperand &amaxOperand,
                      Type &groupSizes) {
  ScaledType usage = parseUsages(parser, usages);
  if (!usage)
    return failure();
  groupSizes = groupSizesType(usage);
  inferFactors(usage, scale, scaleOperand, givenAmax, amaxOperand);
  return success();
}

static void printGroupedCastTypes(OpAsmPrinter &printer, Operation *,
                                  TypeRange usages, Type, Value, Type, Value,
                                  Type) {
  printer << usages;
}

static ParseResult parseShardTypes(OpAsmParser &parser, Type &usage,
                                   Type &givenAmax,
                                   const OptionalOperand &amaxOperand,
                                   Type &cached, const OptionalOperand &into) {
  SmallVector<Type, 1> usages;
  ScaledType type = parseUsages(parser, usages);
  if (!type)
    return failure();
  if (usages.size() != 1)
    return parser.emitError(parser.getNameLoc())
           << "expected one result with 'shard', but got " << usages.size();
  usage = type;
  if (amaxOperand)
    givenAmax = type.isShard()
                    ? RankedTensorType::get(type.getBlocks(),
                                            parser.getBuilder().getF32Type())
                    : perGroupType(type);
  if (into)
    cached = usage;
  return success();
}

static void printShardTypes(OpAsmPrinter &printer, Operation *, Type usage,
                            Type, Value, Type, Value) {
  printer << usage;
}

/// `q, k` of attention, or `q, k, v -> o` where heads of values have a size of
/// their own.
static ParseResult parseAttentionTypes(OpAsmParser &parser, Type &q, Type &k,
                                       Type &v, Type &o) {
  if (parser.parseType(q) || parser.parseComma() || parser.parseType(k))
    return failure();
  v = k;
  o = q;
  if (failed(parser.parseOptionalComma()))
    return success();
  return failure(parser.parseType(v) || parser.parseArrow() ||
                 parser.parseType(o));
}

static void printAttentionTypes(OpAsmPrinter &printer, Operation *, Type q,
                                Type k, Type v, Type o) {
  printer << q << ", " << k;
  if (v != k || o != q)
    printer << ", " << v << " -> " << o;
}

/// The same and `, lse`.
static ParseResult parseAttentionBackwardTypes(OpAsmParser &parser, Type &q,
                                               Type &k, Type &v, Type &o,
                                               Type &lse) {
  if (parser.parseType(q) || parser.parseComma() || parser.parseType(k) ||
      parser.parseComma() || parser.parseType(lse))
    return failure();
  v = k;
  o = q;
  if (failed(parser.parseOptionalArrow()))
    return success();
  v = lse;
  return failure(parser.parseType(o) || parser.parseComma() ||
                 parser.parseType(lse));
}

static void printAttentionBackwardTypes(OpAsmPrinter &printer, Operation *op,
                                        Type q, Type k, Type v, Type o,
                                        Type lse) {
  printAttentionTypes(printer, op, q, k, v, o);
  printer << ", " << lse;
}

/// `: type`, which is followed by the types of the other operands after a colon
/// of their own.
static ParseResult parseBiasType(OpAsmParser &parser, Type &bias) {
  SMLoc place = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalColon())) {
    if (parser.parseType(bias))
      return failure();
    place = parser.getCurrentLocation();
    if (failed(parser.parseOptionalComma()))
      return success();
  }
  return parser.emitError(place)
         << "expected 'bias' to be followed by its own type, and the types of "
            "the other operands to begin with a second ':', as in 'bias %b : "
            "tensor<8xbf16> : tensor<4x16xbf16>, ...'";
}
static void printBiasType(OpAsmPrinter &printer, Operation *, Type bias) {
  printer << ": " << bias;
}

/// The sizes of the groups of a value of type `scaled`, which is written.
static ParseResult parseSizesType(OpAsmParser &, Type scaled, Type &groupSizes,
                                  const OptionalOperand &operand) {
  if (auto type = dyn_cast<ScaledType>(scaled); type && operand)
    groupSizes = groupSizesType(type);
  return success();
}
static void printSizesType(OpAsmPrinter &, Operation *, Type, Type, Value) {}

/// `: type`, or nothing for one f32.
static ParseResult parseAmaxType(OpAsmParser &parser, Type &amax) {
  if (succeeded(parser.parseOptionalColon()))
    return parser.parseType(amax);
  amax = RankedTensorType::get({}, parser.getBuilder().getF32Type());
  return success();
}
static void printAmaxType(OpAsmPrinter &printer, Operation *, Type amax) {
  if (cast<RankedTensorType>(amax).getRank() != 0)
    printer << ": " << amax;
}

/// `: types`, or nothing where every amax is one f32. Results have the types of
/// the amaxes.
static ParseResult
parseAmaxTypes(OpAsmParser &parser, SmallVectorImpl<Type> &amaxes,
               SmallVectorImpl<Type> &reduced,
               ArrayRef<OpAsmParser::UnresolvedOperand> operands) {
  if (succeeded(parser.parseOptionalColon())) {
    if (parser.parseTypeList(amaxes))
      return failure();
  } else {
    amaxes.assign(operands.size(),
                  RankedTensorType::get({}, parser.getBuilder().getF32Type()));
  }
  reduced.assign(amaxes.begin(), amaxes.end());
  return success();
}
static void printAmaxTypes(OpAsmPrinter &printer, Operation *, TypeRange amaxes,
                           TypeRange, OperandRange) {
  auto isScalar = [](Type type) {
    return cast<RankedTensorType>(type).getRank() == 0;
  };
  if (!llvm::all_of(amaxes, isScalar))
    printer << ": " << amaxes;
}

/// The result of a transpose, and the type of the cached value, which has it.
static ParseResult parseTransposeTypes(OpAsmParser &parser, Type &transposed,
                                       Type &cached,
                                       const OptionalOperand &into) {
  ScaledType type;
  if (parser.parseCustomTypeWithFallback(type))
    return failure();
  transposed = type;
  if (into)
    cached = transposed;
  return success();
}

static void printTransposeTypes(OpAsmPrinter &printer, Operation *,
                                Type transposed, Type, Value) {
  printer.printStrippedAttrOrType(cast<ScaledType>(transposed));
}

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
  addOperations<
#define GET_OP_LIST
#include "TEDialect/IR/TEMoeOps.cpp.inc"
      >();
  addInterfaces<TEInlinerInterface>();
  attachMeaningOfOtherDialects(getContext());
  requireMeaning(getContext(), getDialectNamespace());
}

LogicalResult TEDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  if (attribute.getName() == kBackwardOverrideAttr) {
    auto mode = dyn_cast<StringAttr>(attribute.getValue());
    if (mode && symbolizeBackwardOverride(mode.getValue()))
      return success();
    return op->emitError() << "expected 'te.backward_override' to be one of "
                              "\"none\", \"high_precision\", "
                              "\"dequantized\", but got "
                           << attribute.getValue();
  }
  if (attribute.getName() == kGroupsAttr)
    return verifyGroupsAttr(op, attribute.getValue());
  if (attribute.getName() == kRanksAttr)
    return verifyRanksAttr(op, attribute.getValue());
  // no_gradient-c1, chunk-c1
  if (attribute.getName() == kNoGradientAttr ||
      attribute.getName() == kChunkAttr) {
    if (isa<UnitAttr>(attribute.getValue()))
      return success();
    return op->emitError() << "expected '" << attribute.getName().getValue()
                           << "' to have no value, but got "
                           << attribute.getValue();
  }
  if (attribute.getName() != kRecipeAttr)
    return op->emitError() << "unknown attribute '"
                           << attribute.getName().getValue()
                           << "'; the te dialect knows 'te.recipe', "
                              "'te.backward_override', 'te.no_gradient' and "
                              "'te.chunk' on ops, 'te.groups' and 'te.ranks' "
                              "on modules";
  if (!isa<RecipeAttr>(attribute.getValue()))
    return op->emitError() << "expected 'te.recipe' to be a #te.recipe<...>, "
                              "but got "
                           << attribute.getValue();
  return success();
}

/// `te.init` is a value for every element of an argument of type `argument`.
static LogicalResult verifyInit(Operation *op, Attribute init, Type argument) {
  // init-c1
  auto splat = dyn_cast<SplatElementsAttr>(init);
  if (!splat && !isa<FloatAttr>(init))
    return op->emitError()
           << "expected 'te.init' to be a float or a splat, but got " << init;
  // init-c3
  if (isa<ScaledType>(argument)) {
    if (auto value = dyn_cast<FloatAttr>(init);
        value && value.getValue().isNaN())
      return success();
    return op->emitError() << "expected 'te.init' of a scaled value to be NaN, "
                              "which no run may read, but got "
                           << init;
  }
  // init-c2
  auto tensor = dyn_cast<RankedTensorType>(argument);
  if (!tensor || !tensor.getElementType().isIntOrFloat())
    return op->emitError() << "expected an argument with 'te.init' to be a "
                              "tensor of floats or integers, but got "
                           << argument;
  if (splat && splat.getType() != tensor)
    return op->emitError()
           << "expected 'te.init' to have the type of its argument, but got "
           << splat.getType() << " and " << tensor;
  return success();
}

/// `te.name` is a string, `te.weight` a unit attribute; `argument` is the type
/// of the argument they are of, null for results.
static LogicalResult verifySignatureAttribute(Operation *op,
                                              NamedAttribute attribute,
                                              Type argument) {
  StringRef name = attribute.getName().getValue();
  if (name == kNameAttr) {
    auto value = dyn_cast<StringAttr>(attribute.getValue());
    if (value && !value.getValue().empty())
      return success();
    return op->emitError() << "expected 'te.name' to be a string that is not "
                              "empty, but got "
                           << attribute.getValue();
  }
  if (name == kInitAttr && argument)
    return verifyInit(op, attribute.getValue(), argument);
  if ((name == kWeightAttr || name == kOverwriteAttr ||
       name == kRecipeStateAttr) &&
      argument) {
    if (isa<UnitAttr>(attribute.getValue()))
      return success();
    return op->emitError() << "expected '" << name
                           << "' to have no value, but got "
                           << attribute.getValue();
  }
  return op->emitError()
         << "unknown attribute '" << name << "'; the te dialect knows 'te.name'"
         << (argument
                 ? ", 'te.sharding', 'te.weight', 'te.overwrite_main_grad', "
                   "'te.recipe_state' and 'te.init' on arguments"
                 : " and 'te.sharding' on results");
}

LogicalResult TEDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned index,
                                                  NamedAttribute attribute) {
  Type type = cast<FunctionOpInterface>(op).getArgumentTypes()[index];
  if (attribute.getName() == kShardingAttr)
    return verifyShardingAttr(op, attribute.getValue(), type);
  return verifySignatureAttribute(op, attribute, type);
}

/// `te.probe` describes a result of type `type`.
static LogicalResult verifyProbe(Operation *op, Attribute probe, Type type) {
  // probe-c1
  auto entries = dyn_cast<ArrayAttr>(probe);
  auto tensor = dyn_cast<RankedTensorType>(type);
  int64_t size = tensor && tensor.getRank() > 0 ? tensor.getDimSize(0) : 1;
  if (entries && static_cast<int64_t>(entries.size()) == size)
    return success();
  return op->emitError() << "expected 'te.probe' to be an array of " << size
                         << " for a result of type " << type << ", but got "
                         << probe;
}

LogicalResult TEDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned index,
                                                     NamedAttribute attribute) {
  Type type = cast<FunctionOpInterface>(op).getResultTypes()[index];
  if (attribute.getName() == kProbeAttr)
    return verifyProbe(op, attribute.getValue(), type);
  if (attribute.getName() == kShardingAttr)
    return verifyShardingAttr(op, attribute.getValue(), type);
  return verifySignatureAttribute(op, attribute, /*argument=*/Type());
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
