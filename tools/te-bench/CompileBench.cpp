//===- CompileBench.cpp - how long a deep program takes to compile --------===//
//
// From text to machine code, nothing loaded and nothing run: what a training
// program waits for before its first step. The parts are apart, because they
// grow for different reasons: the pipeline with ops, machine code with
// launches. Each recipe is compiled twice, with a cache of machine code that is
// empty at first.
//
//===----------------------------------------------------------------------===//

#include "CompileStep.h"

#include "Bench.h"

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

namespace te::bench {

llvm::json::Array runCompileBench(const std::string &file) {
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  llvm::json::Array rows;
  llvm::SmallString<128> cache;
  if (llvm::sys::fs::createUniqueDirectory("te-bench", cache))
    return rows;
  llvm::outs() << "recipe                   launches  parse ms  pipeline ms  "
                  "machine code ms  cached ms  whole, cached / whole\n";
  for (const char *recipe :
       {"high_precision", "float8_current_scaling", "float8_block_scaling"}) {
    // The runtime is not in use, so that no other thread reads the variable.
    setenv("XDG_CACHE_HOME", (cache + "/" + recipe).str().c_str(), 1);
    mlir::te::TrainingPipelineOptions options;
    options.recipe = recipe;
    int64_t launches = 0;
    CompileTime time, again;
    for (CompileTime *of : {&time, &again}) {
      // A context of its own, so that no row finds types of another.
      mlir::MLIRContext context(registry);
      compileStep(&context, file, options, launches, /*entry=*/{}, of);
    }
    const double part = (again.parse + again.pipeline + again.machineCode) /
                        (time.parse + time.pipeline + time.machineCode);
    llvm::outs() << llvm::format(
        "%-24s %8lld %9.1f %12.1f %16.1f %10.1f %22.2f\n", recipe,
        static_cast<long long>(launches), time.parse, time.pipeline,
        time.machineCode, again.machineCode, part);
    llvm::outs().flush();
    rows.push_back(
        llvm::json::Object{{"recipe", recipe},
                           {"launches", launches},
                           {"parse_ms", time.parse},
                           {"pipeline_ms", time.pipeline},
                           {"machine_code_ms", time.machineCode},
                           {"cached_parse_ms", again.parse},
                           {"cached_pipeline_ms", again.pipeline},
                           {"cached_machine_code_ms", again.machineCode}});
  }
  llvm::sys::fs::remove_directories(cache);
  return rows;
}

} // namespace te::bench
