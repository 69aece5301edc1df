//===- State.h - values that a step carries to its next run ---------------===//
//
// What a recipe remembers between steps is a value: an argument of the function
// and a result of the same `te.name`. A StateThreading adds such pairs to a
// function that nobody calls. Arguments of its block are there at once, behind
// the others; the function's type, their attributes and the results when it
// finishes, all in one step: a type of n arguments is n entries that the
// context keeps, so one step for each state would take memory quadratic in
// states.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TRANSFORMS_UTILS_STATE_H
#define TEDIALECT_TRANSFORMS_UTILS_STATE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace mlir::te {

/// The argument `skip_weight_update` of `function`, a `tensor<f32>` that is 1.0
/// in every micro-batch but the first, added where it has none; null, with an
/// error, where it is something else.
Value getSkipFlag(func::FuncOp function);

/// Fails, with an error at the call, where `function` calls another or asks for
/// its derivative: `pass` changes the arguments of functions, which callers do
/// not know, so the phases before it have to leave none.
LogicalResult checkNoCalls(func::FuncOp function, StringRef pass);

class StateThreading {
public:
  explicit StateThreading(func::FuncOp function);

  /// `base`, or `base.<n>`, such that no argument and no result is called that
  /// followed by one of `suffixes`.
  std::string uniqueBase(StringRef base, ArrayRef<StringRef> suffixes) const;

  /// A new state that starts as `init` in every element. Preconditions: the
  /// function is one block, and `name` is of no argument and no result. Until
  /// finish() the new argument has no attributes to ask for.
  Value addState(StringRef name, Type type, double init);

  /// Makes `value` the state `name` of the next step. A state that is never set
  /// stays as it is.
  void setNext(StringRef name, Value value);

  /// Adds the states to the function's type, and returns the next ones behind
  /// the other results; call it once.
  void finish();

private:
  func::FuncOp function;
  llvm::StringSet<> names;
  struct State {
    DictionaryAttr attributes;
    Value next;
  };
  /// By name, in the order of their arguments.
  llvm::MapVector<StringAttr, State> added;
};

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_UTILS_STATE_H
