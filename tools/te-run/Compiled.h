//===- Compiled.h - a compiled step as te-run sees it ---------------------===//
//
// Translates between the JIT's view of a step (MLIR types) and the runner's
// (names, element types, bytes).
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_COMPILED_H
#define TE_TOOLS_TE_RUN_COMPILED_H

#include "Runner.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>
#include <vector>

namespace te::run {

class Compiled {
public:
  virtual ~Compiled() = default;

  /// Makes machine code of a lowered module. Null, with `error` set, where the
  /// JIT cannot.
  static std::unique_ptr<Compiled>
  create(mlir::ModuleOp module, llvm::StringRef entry, std::string &error);

  /// The step, for te_rt_instance_create; its code lives as long as this.
  virtual const te_rt_module &module() const = 0;
  /// Its pointers in order, inputs before results. A scaled value is two:
  /// `<name>.data` and `<name>.scale`.
  virtual const std::vector<StepArgument> &arguments() const = 0;
};

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_COMPILED_H
