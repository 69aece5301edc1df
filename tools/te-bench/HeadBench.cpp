//===- HeadBench.cpp - the head of a language model and its loss ----------===//
//
// Each row is a step of one linear layer and its cross entropy, forward and
// backward, with whole logits or over a few rows of them at a time. FLOPs are
// those of the three GEMMs. `beyond` is what the step needs beside its
// arguments and results: the arena and the workspace.
//
//===----------------------------------------------------------------------===//

#include "Bench.h"
#include "CompileStep.h"

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using mlir::te::ArgumentInfo;

namespace te::bench {

namespace {

struct Sizes {
  int64_t tokens, hidden, vocabulary;
  /// The option logits-budget of the rows that do not store all logits.
  int64_t budget;
};

std::string programOf(const Sizes &s) {
  return llvm::formatv(
      R"(!x = tensor<{0}x{1}xbf16>
!w = tensor<{2}x{1}xbf16>
!logits = tensor<{0}x{2}xbf16>
!targets = tensor<{0}xi32>
func.func @head(%x: !x {{te.name = "x"}, %w: !w {{te.name = "w", te.weight},
                %targets: !targets {{te.name = "targets"}) -> (tensor<f32> {{te.name = "loss"}) {{
  %logits = te.linear %x, %w : !x, !w -> !logits
  %loss = te.cross_entropy %logits, %targets : !logits, !targets
  return %loss : tensor<f32>
}
)",
      s.tokens, s.hidden, s.vocabulary);
}

void *inputFor(const ArgumentInfo &info, const Sizes &sizes,
               DeviceBuffers &memory) {
  int64_t count = 1;
  for (int64_t size : info.shape)
    count *= size;
  if (info.role == ArgumentInfo::Role::Result)
    return memory.allocate(info.bytes);
  if (info.name == "targets") {
    std::vector<int32_t> targets(count);
    for (int64_t t = 0; t < count; ++t)
      targets[t] = static_cast<int32_t>(t * 7919 % sizes.vocabulary);
    return memory.allocateCopy(targets);
  }
  return memory.allocateRandom(count, info.type,
                               info.name == "w" ? 0.02f : 1.0f);
}

} // namespace

llvm::json::Array runHeadBench(te_rt_context *context, const Effort &effort,
                               bool small, const std::string &filter) {
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  mlir::MLIRContext mlirContext(registry);
  const Sizes sizes = small ? Sizes{512, 64, 256, 128 * 256 * 2}
                            : Sizes{8192, 4096, 128256, 1 << 28};
  const double flops = 6.0 * static_cast<double>(sizes.tokens) *
                       static_cast<double>(sizes.hidden) *
                       static_cast<double>(sizes.vocabulary);
  llvm::json::Array rows;
  llvm::outs() << "head                                     burst ms sustained "
                  "ms  TFLOPS  beyond MB  launches\n";
  for (const char *recipe :
       {"high_precision", "float8_current_scaling", "float8_block_scaling"})
    for (int64_t budget : {int64_t{0}, sizes.budget, sizes.budget / 2}) {
      const std::string name =
          std::string(recipe) +
          (budget ? ", logits-budget=" + std::to_string(budget) : ", whole");
      if (name.find(filter) == std::string::npos ||
          (small && budget == sizes.budget / 2))
        continue;
      mlir::te::TrainingPipelineOptions options;
      options.recipe = recipe;
      options.vjp = "head";
      options.logitsBudget = budget;
      int64_t launches = 0;
      auto step =
          compileText(&mlirContext, programOf(sizes), options, launches);
      DeviceBuffers memory(context);
      std::vector<void *> arguments;
      for (const ArgumentInfo &info : step->arguments())
        arguments.push_back(inputFor(info, sizes, memory));
      te_rt_instance *instance = nullptr;
      check(te_rt_instance_create(context, &step->module(), &instance),
            "loading the step");
      int64_t arena = 0, workspace = 0;
      check(te_rt_instance_memory(instance, &arena, &workspace), "memory");
      const Timing timing = measure(context, effort, [&](int64_t) {
        check(te_rt_instance_run(instance, arguments.data(), nullptr), "step");
      });
      te_rt_instance_destroy(instance);
      const double tflops = flops / timing.sustainedMs / 1e9;
      llvm::outs() << llvm::format("%-46s %9.3f %9.3f %9.1f %9.0f %6lld\n",
                                   name.c_str(), timing.burstMs,
                                   timing.sustainedMs, tflops,
                                   static_cast<double>(arena + workspace) / 1e6,
                                   static_cast<long long>(launches));
      llvm::outs().flush();
      rows.push_back(llvm::json::Object{{"name", name},
                                        {"burst_ms", timing.burstMs},
                                        {"sustained_ms", timing.sustainedMs},
                                        {"tflops", tflops},
                                        {"arena_bytes", arena},
                                        {"workspace_bytes", workspace},
                                        {"launches", launches}});
    }
  return rows;
}

} // namespace te::bench
