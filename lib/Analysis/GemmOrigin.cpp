//===- GemmOrigin.cpp - which layer and rule a GEMM came from -------------===//
//
// The origin is a dictionary in a FusedLoc. Locations survive cse,
// canonicalisation and inlining, and printing one is never required for the
// program to be right.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/GemmOrigin.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::te;

static constexpr StringLiteral kLayer = "te.layer";
static constexpr StringLiteral kGemm = "te.gemm";
static constexpr StringLiteral kReason = "te.reason";
static constexpr StringLiteral kFallback = "te.fallback";

Location GemmOrigin::attach(Location loc) const {
  Builder b(loc.getContext());
  NamedAttrList entries;
  entries.append(kLayer, b.getStringAttr(layer));
  entries.append(kGemm, b.getStringAttr(gemm));
  entries.append(kReason, b.getStringAttr(reason));
  if (fallback)
    entries.append(kFallback, b.getUnitAttr());
  return FusedLoc::get(b.getContext(), {loc},
                       entries.getDictionary(b.getContext()));
}

std::optional<GemmOrigin> GemmOrigin::find(Location loc) {
  std::optional<GemmOrigin> origin;
  loc->walk([&](Location inner) {
    auto fused = dyn_cast<FusedLoc>(inner);
    auto entries = fused ? dyn_cast_or_null<DictionaryAttr>(fused.getMetadata())
                         : DictionaryAttr();
    if (!entries)
      return WalkResult::advance();
    auto layer = entries.getAs<StringAttr>(kLayer);
    auto gemm = entries.getAs<StringAttr>(kGemm);
    auto reason = entries.getAs<StringAttr>(kReason);
    if (!layer || !gemm || !reason)
      return WalkResult::advance();
    origin = GemmOrigin{layer.str(), gemm.str(), reason.str(),
                        entries.contains(kFallback)};
    return WalkResult::interrupt();
  });
  return origin;
}

/// Whether `op` adds zeros at the end of its first operand, as casts need it.
static bool addsPadding(Operation *op) {
  auto concat = dyn_cast<tensor::ConcatOp>(op);
  return concat && llvm::all_of(concat.getInputs().drop_front(), [](Value end) {
           return matchPattern(end, m_PosZeroFloat());
         });
}

/// The value that the result of `op` is another form of, or null.
static Value storedValue(Operation *op) {
  if (addsPadding(op))
    return op->getOperand(0);
  auto form = dyn_cast<StoredFormOpInterface>(op);
  return form ? form.getStoredValue() : Value();
}

BlockArgument mlir::te::traceToArgument(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    value = storedValue(op);
    if (!value)
      return {};
  }
  return cast<BlockArgument>(value);
}

/// The attribute `name` of the function argument `argument`, or null.
static Attribute argumentAttr(BlockArgument argument, StringRef name) {
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function || !argument.getOwner()->isEntryBlock())
    return {};
  return function.getArgAttr(argument.getArgNumber(), name);
}

BlockArgument mlir::te::findWeight(Value value) {
  BlockArgument weight;
  SmallVector<Value> left = {value};
  DenseSet<Value> seen;
  while (!left.empty()) {
    Value current = left.pop_back_val();
    if (!seen.insert(current).second)
      continue;
    Operation *op = current.getDefiningOp();
    if (!op) {
      auto argument = cast<BlockArgument>(current);
      if (!argumentAttr(argument, kWeightAttr))
        return {};
      if (!weight)
        weight = argument;
    } else if (Value stored = storedValue(op)) {
      left.push_back(stored);
    } else if (op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
               (op->getNumOperands() != 0 ||
                op->hasTrait<OpTrait::ConstantLike>())) {
      llvm::append_range(left, llvm::reverse(op->getOperands()));
    } else {
      return {};
    }
  }
  return weight;
}

bool mlir::te::isWeight(Value value) {
  // Layers may share an argument, of which each has a part.
  while (auto part = value.getDefiningOp<tensor::ExtractSliceOp>())
    value = part.getSource();
  BlockArgument argument = traceToArgument(value);
  return argument && argumentAttr(argument, kWeightAttr);
}

bool mlir::te::measuresWeight(Operation *op) {
  return isa<AmaxOp, AmaxRowsOp, PartialAmaxOp>(op) &&
         findWeight(op->getOperand(0)) &&
         !llvm::all_of(op->getUsers(), [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>();
         });
}

std::string mlir::te::innermostName(Location loc) {
  std::string name;
  loc->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner))
      name = named.getName().str();
    return WalkResult::advance();
  });
  return name;
}

std::string mlir::te::describeValue(Value value) {
  for (Value current = value;;) {
    if (auto argument = dyn_cast<BlockArgument>(current)) {
      auto name =
          dyn_cast_or_null<StringAttr>(argumentAttr(argument, kNameAttr));
      return name ? name.str()
                  : "arg" + std::to_string(argument.getArgNumber());
    }
    Operation *op = current.getDefiningOp();
    if (auto residual = dyn_cast<ResidualOp>(op))
      return residual.getName().str();
    if (std::string name = innermostName(op->getLoc()); !name.empty())
      return name;
    // Flat shards are gathered and viewed as a matrix.
    if (!isa<StoredFormOpInterface, AllGatherOp, tensor::ExpandShapeOp>(op) &&
        !addsPadding(op))
      return op->getName().stripDialect().str();
    current = op->getOperand(0);
  }
}

std::string mlir::te::describeLayer(Location loc, Value weight) {
  if (std::string name = innermostName(loc); !name.empty())
    return name;
  // The parameter, not what a forward keeps of it: both passes name one layer.
  BlockArgument argument = traceToArgument(weight);
  return argument && isWeight(argument) ? describeValue(argument)
                                        : describeValue(weight);
}

std::string mlir::te::describePlace(Location loc) {
  std::string text;
  loc->walk([&](Location inner) {
    auto place = dyn_cast<FileLineColLoc>(inner);
    if (!place)
      return WalkResult::advance();
    llvm::raw_string_ostream(text)
        << place.getFilename().getValue() << ":" << place.getLine() << ":"
        << place.getColumn();
    return WalkResult::interrupt();
  });
  return text;
}
