//===- State.h - values that a step carries to the next one ---------------===//
//
// A state of a recipe is a value that a step passes to the next one: an
// argument of the function and a result of the same `te.name`. A StateThreading
// adds such pairs to a function without callers. It adds the arguments of the
// block at once, after the others. The function's type, the attributes and the
// results follow together in finish(): the context keeps every function type,
// with n entries for n arguments, so changing the type for each state would
// take memory quadratic in the number of states.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TRANSFORMS_UTILS_STATE_H
#define TEDIALECT_TRANSFORMS_UTILS_STATE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace mlir::te {

/// Returns the argument `skip_weight_update` of `function`, a `tensor<f32>`
/// that is 1.0 in every micro-batch except the first. It is added if there is
/// none. If it has another type, the result is null and an error is reported.
Value getSkipFlag(func::FuncOp function);

/// Fails, with an error at the call, if `function` calls another function or
/// asks for its derivative. `pass` changes the arguments of functions, which
/// callers would not know, so earlier phases must leave no calls.
LogicalResult checkNoCalls(func::FuncOp function, StringRef pass);

class StateThreading {
public:
  explicit StateThreading(func::FuncOp function);

  /// Returns `base`, or `base.<n>`, so that no argument and no result has that
  /// name followed by one of `suffixes`.
  std::string uniqueBase(StringRef base, ArrayRef<StringRef> suffixes) const;

  /// Adds a state that starts as `init` in every element. Preconditions: the
  /// function is one block, and no argument or result has the name `name`.
  /// Until finish(), the new argument has no attributes.
  Value addState(StringRef name, Type type, double init);

  /// Sets the value of the state `name` for the next step. A state that is
  /// never set does not change.
  void setNext(StringRef name, Value value);

  /// Adds the states to the function's type, and returns their next values
  /// after the other results. Call it once.
  void finish();

private:
  func::FuncOp function;
  llvm::StringSet<> names;
  struct State {
    DictionaryAttr attributes;
    Value next;
  };
  /// The added states by name, in the order of their arguments.
  llvm::MapVector<StringAttr, State> added;
};

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_UTILS_STATE_H
