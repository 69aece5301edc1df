//===- WrapVjp.cpp - te-wrap-vjp ------------------------------------------===//
//
// The pass gives a forward function the signature of its own derivative. The
// function becomes private and is otherwise unchanged; it is the callee of one
// te.vjp, which te-differentiate expands.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Import/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::te {
#define GEN_PASS_DEF_WRAPVJPPASS
#include "TEDialect/Transforms/Import/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

/// `te.name` in `attributes`, else `fallback` followed by the number.
std::string nameOf(DictionaryAttr attributes, StringRef fallback,
                   unsigned number) {
  if (attributes)
    if (auto name = attributes.getAs<StringAttr>(kNameAttr))
      return name.str();
  return (fallback + Twine(number)).str();
}

DictionaryAttr gradientName(Builder &b, StringRef name) {
  return b.getDictionaryAttr(
      b.getNamedAttr(kNameAttr, b.getStringAttr("grad." + name)));
}

bool isFloatTensor(Type type) {
  return isa<RankedTensorType>(type) &&
         isa<FloatType>(getElementTypeOrSelf(type));
}

/// Inputs and outputs of the new function, with one entry for each value.
struct Signature {
  SmallVector<Type> inputs, results;
  SmallVector<DictionaryAttr> inputAttrs, resultAttrs;
  SmallVector<int64_t> wrt;

  void addInput(Type type, DictionaryAttr attributes) {
    inputs.push_back(type);
    inputAttrs.push_back(attributes);
  }
  void addResult(Type type, DictionaryAttr attributes) {
    results.push_back(type);
    resultAttrs.push_back(attributes);
  }
};

class WrapVjp final : public te::impl::WrapVjpPassBase<WrapVjp> {
public:
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp primal = findEntry();
    Signature signature;
    if (!primal || failed(buildSignature(primal, signature)))
      return signalPassFailure();
    wrap(primal, signature);
    numGradients += signature.wrt.size();
  }

private:
  func::FuncOp findEntry() {
    if (auto found =
            getOperation().lookupSymbol<func::FuncOp>(entry.getValue()))
      return found;
    InFlightDiagnostic diagnostic =
        emitError(getModuleLoc(getOperation()))
        << "expected a function of the module to differentiate, but got '"
        << entry.getValue() << "'; there is ";
    auto functions = getOperation().getOps<func::FuncOp>();
    if (functions.empty())
      diagnostic << "none";
    llvm::interleaveComma(functions, diagnostic, [&](func::FuncOp function) {
      diagnostic << "'" << function.getName() << "'";
    });
    return {};
  }

  LogicalResult buildSignature(func::FuncOp primal, Signature &signature) {
    if (primal.isExternal())
      return primal.emitError()
             << "expected '" << primal.getName() << "' to have a body";
    Builder b(&getContext());
    llvm::StringSet<> names;
    for (auto [i, type] : llvm::enumerate(primal.getArgumentTypes())) {
      DictionaryAttr attributes = primal.getArgAttrDict(i);
      std::string name = nameOf(attributes, "arg", i);
      if (!isa<RankedTensorType>(type))
        return primal.emitError()
               << "expected every argument to be a tensor, but '" << name
               << "' is " << type;
      signature.addInput(type, attributes);
      names.insert(name);
      if (isFloatTensor(type))
        signature.wrt.push_back(i);
    }
    if (signature.wrt.empty())
      return primal.emitError() << "expected '" << primal.getName()
                                << "' to take a floating-point tensor to "
                                   "differentiate with respect to";

    for (auto [i, type] : llvm::enumerate(primal.getResultTypes())) {
      DictionaryAttr attributes = primal.getResultAttrDict(i);
      std::string name = nameOf(attributes, "result", i);
      if (!isFloatTensor(type))
        return primal.emitError()
               << "expected every result to be a floating-point tensor, but '"
               << name << "' is " << type;
      // Otherwise, grad.<name> would be both a cotangent and its own next
      // state.
      if (names.contains(name))
        return primal.emitError() << "expected no result to be the next state "
                                     "of an argument, but '"
                                  << name << "' is; differentiate the function "
                                  << "without its update";
      signature.addInput(type, gradientName(b, name));
      signature.addResult(type, attributes);
    }
    for (int64_t i : signature.wrt)
      signature.addResult(
          primal.getArgumentTypes()[i],
          gradientName(b, nameOf(primal.getArgAttrDict(i), "arg", i)));
    return success();
  }

  void wrap(func::FuncOp primal, const Signature &signature) {
    SymbolTable symbols(getOperation());
    StringAttr name = primal.getNameAttr();
    OpBuilder b(primal);
    auto wrapper = func::FuncOp::create(
        b, primal.getLoc(), name,
        b.getFunctionType(signature.inputs, signature.results));
    wrapper->setDiscardableAttrs(primal->getDiscardableAttrDictionary());
    wrapper.setAllArgAttrs(signature.inputAttrs);
    wrapper.setAllResultAttrs(signature.resultAttrs);

    // Other callers still call the original function.
    std::string primalName = (name.getValue() + "_primal").str();
    for (unsigned i = 1; symbols.lookup(primalName); ++i)
      primalName = (name.getValue() + "_primal" + Twine(i)).str();
    (void)SymbolTable::replaceAllSymbolUses(primal, b.getStringAttr(primalName),
                                            getOperation());
    SymbolTable::setSymbolName(primal, primalName);
    primal.setPrivate();

    Block *body = wrapper.addEntryBlock();
    b.setInsertionPointToStart(body);
    unsigned count = primal.getNumArguments();
    auto vjp =
        VjpOp::create(b, primal.getLoc(), signature.results, primalName,
                      body->getArguments().take_front(count),
                      body->getArguments().drop_front(count), signature.wrt);
    func::ReturnOp::create(b, primal.getLoc(), vjp.getOutputs());
  }
};

} // namespace
