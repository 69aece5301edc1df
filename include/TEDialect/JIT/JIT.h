//===- JIT.h - compile a lowered step in this process ---------------------===//
//
// The one library that sees both the compiler and the runtime: takes a module
// after the lower phase, makes machine code of it, and describes the arguments
// of the step, so that a host program can fill them. The code and the module
// it hands to te_rt_instance_create live as long as the CompiledStep.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_JIT_JIT_H
#define TEDIALECT_JIT_JIT_H

#include "TEDialect/Runtime/te_runtime_types.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace mlir::te {

/// Where groups lie whose sizes a step is given.
struct GroupLayoutInfo {
  int64_t rows, alignment;
};

/// One device pointer of a step.
struct ArgumentInfo {
  enum class Role { Argument = TE_RT_ARGUMENT, Result = TE_RT_RESULT };
  enum class Part {
    Value = TE_RT_PART_VALUE,
    Data = TE_RT_PART_DATA,
    Scale = TE_RT_PART_SCALE,
    Amax = TE_RT_PART_AMAX
  };

  /// `te.name`, else "arg<i>" or "result<i>".
  std::string name;
  Role role;
  /// A scaled value is its buffers Data, Scale and (FP4) Amax, in this order.
  Part part;
  /// The buffer as stored, padding included; row-major.
  std::vector<int64_t> shape;
  te_rt_dtype type;
  /// The element type as MLIR writes it, e.g. "bf16".
  std::string typeName;
  /// The type of the whole te value, e.g. "tensor<256x512xbf16>".
  std::string valueType;
  int64_t bytes;
  /// For a result that is the next state of an argument: that argument's index
  /// in the list. The step writes it into the argument's buffer, and this entry
  /// is given the same pointer. Else -1.
  int carriedInput;
  /// For a result in the arena: its place there in bytes. The step writes it
  /// there, and its pointer is not used. Else -1.
  int64_t arenaOffset;
  /// `te.weight`: a parameter.
  bool isWeight;
  /// `te.recipe_state`: the recipe carries it, and another recipe has others.
  bool isRecipeState;
  /// `te.init`: what every element is where the caller has no value.
  std::optional<float> init;
  /// Of sizes of groups: what they have to fit.
  std::optional<GroupLayoutInfo> groups;
  /// `te.probe`: of a result that a pass added, what each of its elements or
  /// rows is. Else null.
  ArrayAttr probe;
  /// Slots of the first and the last launch that reads or writes it, -1 where
  /// none does.
  int firstLaunch = -1, lastLaunch = -1;

  /// `name`, with ".data", ".scale" or ".amax" for the parts of a scaled value.
  std::string qualifiedName() const;
};

/// One launch of a step.
struct LaunchInfo {
  /// A row of Kernels.td.
  std::string kernel;
  /// Layer and product of a GEMM ("w1 dgrad"), else the first buffer written.
  std::string name;
  /// Place of the user's op, as "file:line:column"; may be empty.
  std::string location;
  /// The kernel's parameters by name.
  DictionaryAttr parameters;
  /// Scratch memory that was planned for it; 0 where the target takes none.
  int64_t workspaceBytes = 0;
  /// Runs on the side stream.
  bool side = false;
};

/// A group of ranks that a step has collectives over. Ranks are numbered over
/// the axes in the order in which groups first name them, the last one fastest.
struct GroupInfo {
  int32_t id;
  std::string name, axis;
  int64_t size;
};

/// The pointers that the step of `lowered`, the output of
/// te-convert-tert-to-llvm, takes. Errors are reported on the module.
FailureOr<std::vector<ArgumentInfo>> readArguments(ModuleOp lowered);

/// The launches of the step, by slot; none where the module does not say.
std::vector<LaunchInfo> readLaunches(ModuleOp lowered);

/// The groups that the module of the step declares.
std::vector<GroupInfo> readGroups(ModuleOp lowered);

class CompiledStep {
public:
  /// Compiles `lowered`, the output of te-convert-tert-to-llvm. Errors are
  /// reported on the module.
  static FailureOr<std::unique_ptr<CompiledStep>> compile(ModuleOp lowered);
  ~CompiledStep();

  /// For te_rt_instance_create. Destroy the instance before this object.
  const te_rt_module &module() const { return *entry; }

  /// In the order of the pointers te_rt_instance_run takes: arguments, then
  /// results.
  ArrayRef<ArgumentInfo> arguments() const { return info; }

  /// By slot, as te_rt_instance_trace names them.
  ArrayRef<LaunchInfo> launches() const { return slots; }

  /// As the module declares them.
  ArrayRef<GroupInfo> groups() const { return declaredGroups; }

private:
  CompiledStep();

  std::unique_ptr<llvm::orc::LLJIT> jit;
  const te_rt_module *entry = nullptr;
  std::vector<ArgumentInfo> info;
  std::vector<LaunchInfo> slots;
  std::vector<GroupInfo> declaredGroups;
};

} // namespace mlir::te

#endif // TEDIALECT_JIT_JIT_H
