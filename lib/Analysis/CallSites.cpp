//===- CallSites.cpp - what callers pass to private functions -------------===//

#include "TEDialect/Analysis/CallSites.h"

#include "TEDialect/Analysis/GemmOrigin.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::te;

CallSites::CallSites(ModuleOp module) {
  SymbolTable symbols(module);
  auto add = [&](StringRef name, OperandRange arguments) {
    auto callee = symbols.lookup<func::FuncOp>(name);
    if (callee && callee.isPrivate())
      passed.try_emplace(callee, arguments);
  };
  module.walk([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op))
      add(call.getCallee(), call.getArgOperands());
    else if (auto vjp = dyn_cast<VjpOp>(op))
      add(vjp.getCallee(), vjp.getArguments());
  });
}

static bool isNamed(BlockArgument argument) {
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return function && function.getArgAttr(argument.getArgNumber(), kNameAttr);
}

Value CallSites::outermost(Value value) const {
  Value named = value;
  // Functions that call each other in a circle are an error elsewhere.
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (BlockArgument argument = traceToArgument(value)) {
    if (isNamed(argument))
      named = value;
    Operation *function = argument.getOwner()->getParentOp();
    const auto call = passed.find(function);
    if (call == passed.end() || !seen.insert(function).second ||
        argument.getArgNumber() >= call->second.size())
      break;
    value = call->second[argument.getArgNumber()];
  }
  return named;
}
