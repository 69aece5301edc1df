//===- CompileStep.h - compile a benchmark's program ----------------------===//

#ifndef TE_BENCH_COMPILESTEP_H
#define TE_BENCH_COMPILESTEP_H

#include "TEDialect/JIT/JIT.h"
#include "TEDialect/Pipelines/Pipelines.h"

namespace te::bench {

/// Milliseconds of the parts of a compilation.
struct CompileTime {
  double parse = 0, pipeline = 0, machineCode = 0;
};

/// Compiles `file` as `options` say; `launches` is how many kernels its step
/// enqueues. With `entry` other functions that can be seen are left out. Exits
/// with the tools' code where it does not compile.
std::unique_ptr<mlir::te::CompiledStep>
compileStep(mlir::MLIRContext *context, const std::string &file,
            const mlir::te::TrainingPipelineOptions &options, int64_t &launches,
            llvm::StringRef entry = {}, CompileTime *time = nullptr);

/// The same of a program's text.
std::unique_ptr<mlir::te::CompiledStep>
compileText(mlir::MLIRContext *context, llvm::StringRef text,
            const mlir::te::TrainingPipelineOptions &options,
            int64_t &launches);

} // namespace te::bench

#endif // TE_BENCH_COMPILESTEP_H
