//===- CompileStep.cpp - compile a benchmark's program --------------------===//

#include "CompileStep.h"

#include "TEDialect/Pipelines/PipelineGuard.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/WithColor.h"

#include <chrono>
#include <cstdlib>
#include <utility>

using Parse =
    llvm::function_ref<mlir::OwningOpRef<mlir::ModuleOp>(mlir::MLIRContext *)>;

static std::unique_ptr<mlir::te::CompiledStep>
compileParsed(mlir::MLIRContext *context, Parse parseModule,
              const mlir::te::TrainingPipelineOptions &options,
              int64_t &launches, llvm::StringRef entry,
              te::bench::CompileTime *time) {
  using Clock = std::chrono::steady_clock;
  auto last = Clock::now();
  auto sinceLast = [&] {
    auto before = std::exchange(last, Clock::now());
    return std::chrono::duration<double, std::milli>(last - before).count();
  };
  auto module = parseModule(context);
  if (!module)
    std::exit(mlir::te::kDiagnostics);
  for (auto function :
       llvm::make_early_inc_range(module->getOps<mlir::func::FuncOp>()))
    if (!entry.empty() && function.isPublic() && function.getName() != entry)
      function.erase();
  const double parse = sinceLast();
  mlir::te::PipelineGuard guard("te-bench");
  mlir::PassManager manager(context);
  guard.watch(manager);
  if (failed(mlir::te::populateTETrainingPipeline(
          manager, options,
          [&] { return mlir::emitError(mlir::UnknownLoc::get(context)); })) ||
      failed(manager.run(*module)))
    std::exit(guard.exitCode(mlir::failure()));
  const double pipeline = sinceLast();
  launches = 0;
  module->walk([&](mlir::LLVM::CallOp call) {
    launches += call.getCallee() == llvm::StringRef("te_rt_launch");
  });
  auto step = mlir::te::CompiledStep::compile(*module);
  if (failed(step))
    std::exit(guard.exitCode(
        guard.reportInternal("the lowered program cannot be compiled")));
  if (time)
    *time = {parse, pipeline, sinceLast()};
  return std::move(*step);
}

std::unique_ptr<mlir::te::CompiledStep>
te::bench::compileStep(mlir::MLIRContext *context, const std::string &file,
                       const mlir::te::TrainingPipelineOptions &options,
                       int64_t &launches, llvm::StringRef entry,
                       CompileTime *time) {
  return compileParsed(
      context,
      [&](mlir::MLIRContext *into) {
        if (llvm::sys::fs::exists(file))
          return mlir::parseSourceFile<mlir::ModuleOp>(file, into);
        llvm::WithColor::error(llvm::errs(), "te-bench")
            << "cannot read '" << file
            << "'; '--mlp', '--stack' and '--moe' name other files\n";
        return mlir::OwningOpRef<mlir::ModuleOp>();
      },
      options, launches, entry, time);
}

std::unique_ptr<mlir::te::CompiledStep>
te::bench::compileText(mlir::MLIRContext *context, llvm::StringRef text,
                       const mlir::te::TrainingPipelineOptions &options,
                       int64_t &launches) {
  return compileParsed(
      context,
      [&](mlir::MLIRContext *into) {
        return mlir::parseSourceString<mlir::ModuleOp>(text, into);
      },
      options, launches, {}, nullptr);
}
