//===- ExposeCasts.cpp - the casts of the forward as results --------------===//
//
// The operands of a forward GEMM are the casts of its layer's input and weight,
// and its location has the layer's name. The names of the results depend only
// on these, so the forward of a training step and of an inference step return
// the same names in the same order.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/Transforms/Quantize/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::te {
#define GEN_PASS_DEF_EXPOSECASTSPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The `te.name`s of the arguments and results of `function`.
static llvm::StringSet<> namesOf(func::FuncOp function) {
  llvm::StringSet<> names;
  auto add = [&](StringAttr name) {
    if (name)
      names.insert(name.getValue());
  };
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    add(function.getArgAttrOfType<StringAttr>(i, kNameAttr));
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    add(function.getResultAttrOfType<StringAttr>(i, kNameAttr));
  return names;
}

namespace {
struct ExposeCasts final : te::impl::ExposeCastsPassBase<ExposeCasts> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    llvm::StringSet<> names = namesOf(function);
    function.walk([&](ScaledMatmulOp product) {
      std::optional<GemmOrigin> origin = GemmOrigin::find(product.getLoc());
      if (!origin || origin->gemm != "fprop")
        return;
      std::string base = "cast." + origin->layer, name = base;
      for (unsigned i = 1;
           names.contains(name + ".x") || names.contains(name + ".w"); ++i)
        name = base + "." + std::to_string(i);
      for (auto [suffix, value] : {std::pair(".x", Value(product.getA())),
                                   std::pair(".w", Value(product.getB()))}) {
        names.insert(name + suffix);
        addResult(name + suffix, value);
      }
    });
  }

  void addResult(const Twine &name, Value value) {
    func::FuncOp function = getOperation();
    Builder b(&getContext());
    // This fails only if the type of the function cannot be changed.
    (void)function.insertResult(
        function.getNumResults(), value.getType(),
        b.getDictionaryAttr(b.getNamedAttr(kNameAttr, b.getStringAttr(name))));
    Operation *end = function.getBody().front().getTerminator();
    end->insertOperands(end->getNumOperands(), value);
    ++numExposed;
  }
};
} // namespace
