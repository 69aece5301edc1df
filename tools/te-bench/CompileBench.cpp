//===- CompileBench.cpp - how long a deep program takes to compile --------===//
//
// From text to machine code, nothing loaded and nothing run: what a training
// program waits for before its first step. The parts are apart, because they
// grow for different reasons: the pipeline with ops, machine code with
// launches.
//
//===----------------------------------------------------------------------===//

#include "CompileStep.h"

#include "Bench.h"

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace te::bench {

llvm::json::Array runCompileBench(const std::string &file) {
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  llvm::json::Array rows;
  llvm::outs() << "recipe                   launches  parse ms  pipeline ms  "
                  "machine code ms\n";
  for (const char *recipe :
       {"high_precision", "float8_current_scaling", "float8_block_scaling"}) {
    // A context of its own, so that no row finds types of another.
    mlir::MLIRContext context(registry);
    mlir::te::TrainingPipelineOptions options;
    options.recipe = recipe;
    int64_t launches = 0;
    CompileTime time;
    compileStep(&context, file, options, launches, /*entry=*/{}, &time);
    llvm::outs() << llvm::format("%-24s %8lld %9.1f %12.1f %16.1f\n", recipe,
                                 static_cast<long long>(launches), time.parse,
                                 time.pipeline, time.machineCode);
    llvm::outs().flush();
    rows.push_back(llvm::json::Object{{"recipe", recipe},
                                      {"launches", launches},
                                      {"parse_ms", time.parse},
                                      {"pipeline_ms", time.pipeline},
                                      {"machine_code_ms", time.machineCode}});
  }
  return rows;
}

} // namespace te::bench
