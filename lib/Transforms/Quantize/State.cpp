//===- State.cpp - values that a step carries to its next run -------------===//

#include "State.h"

#include "TEDialect/IR/TE.h"

using namespace mlir;
using namespace mlir::te;

static constexpr StringLiteral kSkip = "skip_weight_update";

Value te::getSkipFlag(func::FuncOp function) {
  Builder b(function.getContext());
  auto type = RankedTensorType::get({}, b.getF32Type());
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttr);
    if (!name || name.getValue() != kSkip)
      continue;
    if (argument.getType() == type)
      return argument;
    emitError(argument.getLoc()) << "expected argument '" << kSkip << "' to be "
                                 << type << ", but got " << argument.getType();
    return {};
  }
  unsigned index = function.getNumArguments();
  auto attributes =
      b.getDictionaryAttr({b.getNamedAttr(kNameAttr, b.getStringAttr(kSkip)),
                           b.getNamedAttr(kInitAttr, b.getF32FloatAttr(0.0f))});
  // Fails only where the type of the function cannot be changed.
  (void)function.insertArgument(index, type, attributes, function.getLoc());
  return function.getArgument(index);
}

StateThreading::StateThreading(func::FuncOp function) : function(function) {
  auto add = [&](StringAttr name) {
    if (name)
      names.insert(name.getValue());
  };
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    add(function.getArgAttrOfType<StringAttr>(i, kNameAttr));
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    add(function.getResultAttrOfType<StringAttr>(i, kNameAttr));
}

std::string StateThreading::uniqueBase(StringRef base,
                                       ArrayRef<StringRef> suffixes) const {
  auto taken = [&](const std::string &candidate) {
    return llvm::any_of(suffixes, [&](StringRef suffix) {
      return names.contains(candidate + suffix.str());
    });
  };
  std::string candidate = base.str();
  for (unsigned i = 1; taken(candidate); ++i)
    candidate = (base + "." + Twine(i)).str();
  return candidate;
}

Value StateThreading::addState(StringRef name, Type type, double init) {
  Builder b(function.getContext());
  StringAttr nameAttr = b.getStringAttr(name);
  auto attributes =
      b.getDictionaryAttr({b.getNamedAttr(kNameAttr, nameAttr),
                           b.getNamedAttr(kInitAttr, b.getF32FloatAttr(init))});
  unsigned index = function.getNumArguments();
  // Fails only where the type of the function cannot be changed.
  (void)function.insertArgument(index, type, attributes, function.getLoc());
  names.insert(name);
  Value state = function.getArgument(index);
  next[nameAttr] = state;
  return state;
}

void StateThreading::setNext(StringRef name, Value value) {
  auto state = next.find(StringAttr::get(function.getContext(), name));
  assert(state != next.end() && "expected a state that was added");
  state->second = value;
}

void StateThreading::finish() {
  Operation *terminator = function.getBody().front().getTerminator();
  Builder b(function.getContext());
  for (auto [name, value] : next) {
    (void)function.insertResult(
        function.getNumResults(), value.getType(),
        b.getDictionaryAttr(b.getNamedAttr(kNameAttr, name)));
    terminator->insertOperands(terminator->getNumOperands(), value);
  }
}
