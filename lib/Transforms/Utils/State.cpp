//===- State.cpp - values that a step carries to the next one -------------===//

#include "TEDialect/Transforms/Utils/State.h"

#include "TEDialect/IR/TE.h"

#include "mlir/Interfaces/CallInterfaces.h"

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
  // This fails only if the type of the function cannot be changed.
  (void)function.insertArgument(index, type, attributes, function.getLoc());
  return function.getArgument(index);
}

LogicalResult te::checkNoCalls(func::FuncOp function, StringRef pass) {
  WalkResult walk = function.walk([&](Operation *op) {
    if (isa<VjpOp>(op)) {
      op->emitError() << "expected 'te.vjp' to be differentiated before '"
                      << pass
                      << "', which may change the arguments of functions; run "
                         "the import and autodiff phases first (te-legalize-"
                         "input, te-differentiate)";
      return WalkResult::interrupt();
    }
    if (isa<CallOpInterface>(op)) {
      op->emitError() << "expected calls to be inlined before '" << pass
                      << "', which may change the arguments of functions; run "
                         "the import phase first (te-legalize-input)";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
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
                           b.getNamedAttr(kInitAttr, b.getF32FloatAttr(init)),
                           b.getNamedAttr(kRecipeStateAttr, b.getUnitAttr())});
  Value state = function.getBody().front().addArgument(type, function.getLoc());
  names.insert(name);
  added[nameAttr] = {attributes, state};
  return state;
}

void StateThreading::setNext(StringRef name, Value value) {
  auto state = added.find(StringAttr::get(function.getContext(), name));
  assert(state != added.end() && "expected a state that was added");
  state->second.next = value;
}

void StateThreading::finish() {
  if (added.empty())
    return;
  Builder b(function.getContext());
  SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
  function.getAllArgAttrs(argumentAttrs);
  function.getAllResultAttrs(resultAttrs);
  SmallVector<Type> results(function.getResultTypes());
  SmallVector<Value> values;
  for (const auto &[name, state] : added) {
    argumentAttrs.push_back(state.attributes);
    resultAttrs.push_back(b.getDictionaryAttr(b.getNamedAttr(kNameAttr, name)));
    results.push_back(state.next.getType());
    values.push_back(state.next);
  }
  Block &body = function.getBody().front();
  function.setFunctionType(b.getFunctionType(body.getArgumentTypes(), results));
  function.setAllArgAttrs(argumentAttrs);
  function.setAllResultAttrs(resultAttrs);
  Operation *terminator = body.getTerminator();
  terminator->insertOperands(terminator->getNumOperands(), values);
}
