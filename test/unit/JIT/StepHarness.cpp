//===- StepHarness.cpp - compile and run a te module in a test ------------===//

#include "JIT/StepHarness.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/TERT/TERT.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"
#include "TEDialect/Transforms/Lower/Passes.h"
#include "TEDialect/Transforms/Schedule/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::te;
using namespace ::te::test;

Step::Step() : context(MLIRContext::Threading::DISABLED) {
  context.loadDialect<TEDialect, tert::TERTDialect, arith::ArithDialect,
                      func::FuncDialect, math::MathDialect,
                      tensor::TensorDialect, LLVM::LLVMDialect>();
}

Step::~Step() {
  te_rt_instance_destroy(instance);
  te_rt_context_destroy(runtime);
}

std::unique_ptr<Step> Step::compile(const std::string &text,
                                    std::string *error) {
  std::unique_ptr<Step> made(new Step());
  ScopedDiagnosticHandler handler(&made->context, [&](Diagnostic &diagnostic) {
    *error += diagnostic.str() + "\n";
    return success();
  });
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, &made->context);
  if (!module)
    return nullptr;
  PassManager passes(&made->context);
  passes.addNestedPass<func::FuncOp>(createFormRegionsPass());
  passes.addPass(createConvertToTERTPass());
  passes.addPass(createPlanMemoryPass());
  passes.addPass(createConvertTERTToLLVMPass());
  if (failed(passes.run(*module)))
    return nullptr;
  FailureOr<std::unique_ptr<CompiledStep>> step =
      CompiledStep::compile(*module);
  if (failed(step))
    return nullptr;
  made->step = std::move(*step);
  if (te_rt_context_create("reference", &made->runtime) != TE_RT_OK ||
      te_rt_instance_create(made->runtime, &made->step->module(),
                            &made->instance) != TE_RT_OK) {
    *error = te_rt_last_error();
    return nullptr;
  }
  return made;
}

Values Step::run(const Values &inputs) {
  ArrayRef<ArgumentInfo> infos = step->arguments();
  std::vector<void *> pointers;
  for (const ArgumentInfo &info : infos) {
    if (info.carriedInput >= 0) {
      pointers.push_back(pointers[info.carriedInput]);
      continue;
    }
    pointers.push_back(nullptr);
    EXPECT_EQ(te_rt_alloc(runtime, info.bytes, &pointers.back()), TE_RT_OK);
    if (info.role == ArgumentInfo::Role::Result)
      continue;
    auto found = inputs.find(info.qualifiedName());
    if (found == inputs.end() || int64_t(found->second.size()) != info.bytes) {
      ADD_FAILURE() << "no input of " << info.bytes << " bytes for "
                    << info.qualifiedName();
      continue;
    }
    EXPECT_EQ(te_rt_copy_to_device(runtime, pointers.back(),
                                   found->second.data(), info.bytes),
              TE_RT_OK);
  }

  EXPECT_EQ(te_rt_instance_run(instance, pointers.data(), nullptr), TE_RT_OK)
      << te_rt_last_error();
  EXPECT_EQ(te_rt_synchronize(runtime), TE_RT_OK) << te_rt_last_error();

  Values outputs;
  for (auto [index, info] : llvm::enumerate(infos)) {
    bool isResult = info.role == ArgumentInfo::Role::Result;
    std::vector<char> &bytes =
        outputs[(isResult ? "" : "after.") + info.qualifiedName()];
    bytes.resize(info.bytes);
    EXPECT_EQ(
        te_rt_copy_to_host(runtime, bytes.data(), pointers[index], info.bytes),
        TE_RT_OK);
  }
  for (auto [pointer, info] : llvm::zip_equal(pointers, infos))
    if (info.carriedInput < 0)
      te_rt_free(runtime, pointer);
  return outputs;
}
