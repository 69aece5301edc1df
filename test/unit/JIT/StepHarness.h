//===- StepHarness.h - compile and run a te module in a test --------------===//
//
// Compiles MLIR text to a step and runs it on the reference backend: the
// schedule and lower stages, the JIT, and one instance.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TEST_UNIT_JIT_STEPHARNESS_H
#define TE_TEST_UNIT_JIT_STEPHARNESS_H

#include "TEDialect/JIT/JIT.h"
#include "TEDialect/Runtime/te_runtime.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace te::test {

/// Bytes by qualified name.
using Values = std::map<std::string, std::vector<char>>;

template <typename T> std::vector<char> bytesOf(const std::vector<T> &values) {
  auto *begin = reinterpret_cast<const char *>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}
template <typename T> std::vector<T> valuesOf(const std::vector<char> &bytes) {
  auto *begin = reinterpret_cast<const T *>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(T)};
}

class Step {
public:
  /// Compiles `text`; on failure, returns null and sets `error`.
  static std::unique_ptr<Step> compile(const std::string &text,
                                       std::string *error);
  ~Step();

  /// Runs one step. `inputs` are all arguments. Returns every result, and the
  /// state of every argument under "after.<name>". A carried result gets its
  /// argument's pointer.
  Values run(const Values &inputs);

  const mlir::te::CompiledStep &compiled() const { return *step; }

private:
  Step();

  mlir::MLIRContext context;
  std::unique_ptr<mlir::te::CompiledStep> step;
  te_rt_context *runtime = nullptr;
  te_rt_instance *instance = nullptr;
};

} // namespace te::test

#endif // TE_TEST_UNIT_JIT_STEPHARNESS_H
