//===- Frontend.h - from source text to a compiled step -------------------===//
//
// The way from a program to machine code that every host shares: te-run, and
// the C API below Python. Who is at fault when it ends early is in the outcome,
// as tools and libraries say it differently.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_JIT_FRONTEND_H
#define TEDIALECT_JIT_FRONTEND_H

#include "TEDialect/JIT/JIT.h"
#include "TEDialect/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SourceMgr.h"

#include <functional>
#include <memory>
#include <string>

namespace mlir::te {

struct CompileRequest {
  /// The function to compile.
  std::string entry;
  /// What te-training-pipeline takes.
  std::string pipeline;
  /// Whether the entry is differentiated.
  bool vjp = false;
  /// te_rt_context_backend of the machine; "reference" is also the target
  /// if the pipeline names none.
  std::string backend;

  // Optional hooks; each may be empty.

  /// Changes the options after they are read.
  std::function<void(TrainingPipelineOptions &)> adjust;
  /// Sees the pass manager before its passes are added. Fails after a
  /// diagnostic.
  std::function<LogicalResult(PassManager &)> prepare;
  /// Called at the end of "parse", "passes" and "machine code".
  std::function<void(StringRef)> ended;
};

/// How a compilation ended.
enum class CompileOutcome {
  Ok,
  /// A diagnostic says what is wrong, with the program or with the value of an
  /// option.
  Diagnosed,
  /// `error` says what is wrong with the request's entry or pipeline.
  BadEntry,
  BadPipeline,
  /// A lowered program does not translate to machine code: a defect.
  Internal,
};

/// A program on its way to a step.
struct CompiledProgram {
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<CompiledStep> step;
  /// Names of the entry's parameters (`te.weight`).
  llvm::StringSet<> weights;
  /// The recipe in force for the entry.
  std::string recipe;
};

/// Parses the main buffer of `sources`, text (or bytecode, where its name ends
/// with .mlirbc), and runs the pipeline of `request` on it. `program.module` is
/// then what the pipeline made, where it ended.
CompileOutcome runPipeline(llvm::SourceMgr &sources, MLIRContext *context,
                           const CompileRequest &request,
                           CompiledProgram &program, std::string &error);

/// As runPipeline, whose last phase is to be lower, and then makes
/// `program.step`.
CompileOutcome compileProgram(llvm::SourceMgr &sources, MLIRContext *context,
                              const CompileRequest &request,
                              CompiledProgram &program, std::string &error);

} // namespace mlir::te

#endif // TEDIALECT_JIT_FRONTEND_H
