//===- MemoryBench.cpp - memory of transpose policies, planned and met ----===//
//
// One step of test/bench/llama_stack.mlir per row: layers over several
// micro-batches, whose weights are cast once a step. All rows use the same
// arguments, so that what the device holds more than before is the step's own.
// `plan` is the arena; `workspace` what the kernels of the loaded step take
// beside it, and `device` what cuMemGetInfo says loading the step and one run
// took, which is both and the rounding of allocations. One step is loaded and
// dropped first: code and library handles stay on the device and belong to no
// step. Results are compared over the policies of a recipe, byte for byte.
//
//===----------------------------------------------------------------------===//

#include "CompileStep.h"

#include "Bench.h"

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <map>
#include <optional>

using mlir::te::ArgumentInfo;

namespace {

/// Bytes that are free on the device of the calling thread, whose context the
/// runtime has set; -1 without a driver.
int64_t freeBytes(te_rt_context *context) {
  if (llvm::StringRef(te_rt_context_backend(context)) != "cuda")
    return -1;
  static auto library =
      llvm::sys::DynamicLibrary::getPermanentLibrary("libcuda.so.1");
  using MemGetInfo = int (*)(size_t *, size_t *);
  auto query = reinterpret_cast<MemGetInfo>(
      library.getAddressOfSymbol("cuMemGetInfo_v2"));
  size_t free = 0, total = 0;
  if (!query || query(&free, &total) != 0)
    return -1;
  return static_cast<int64_t>(free);
}

/// The arguments of the program, which are the same for every policy.
struct Arguments {
  Arguments(const mlir::te::CompiledStep &step,
            te::bench::DeviceBuffers &memory) {
    for (const ArgumentInfo &info : step.arguments()) {
      int64_t count = 1;
      for (int64_t size : info.shape)
        count *= size;
      bytes += info.bytes;
      if (info.role == ArgumentInfo::Role::Result) {
        pointers.push_back(memory.allocate(info.bytes));
        results.push_back({pointers.back(), info.bytes});
        continue;
      }
      // Weights are named l<layer>.<name>.
      bool isWeight = llvm::StringRef(info.name).starts_with("l");
      if (isWeight && info.shape.size() == 2)
        weightElements += count;
      pointers.push_back(
          memory.allocateRandom(count, info.type, isWeight ? 0.02f : 1.0f));
    }
  }
  std::vector<void *> pointers;
  std::vector<std::pair<void *, int64_t>> results;
  int64_t bytes = 0, weightElements = 0;
};

/// A hash of every result.
uint64_t hashResults(te_rt_context *context, const Arguments &arguments) {
  uint64_t hash = 0;
  std::vector<char> host;
  for (auto [pointer, bytes] : arguments.results) {
    host.resize(bytes);
    te::bench::check(te_rt_copy_to_host(context, host.data(), pointer, bytes),
                     "copy");
    hash = hash * 31 + llvm::xxh3_64bits(llvm::StringRef(host.data(), bytes));
  }
  return hash;
}

} // namespace

namespace te::bench {

llvm::json::Array runMemoryBench(te_rt_context *context, const Effort &effort,
                                 const std::string &file, bool &failed) {
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  mlir::MLIRContext mlirContext(registry);
  DeviceBuffers memory(context);
  std::optional<Arguments> arguments;
  std::map<std::string, uint64_t> hashes;
  llvm::json::Array rows;
  llvm::outs()
      << "recipe / transposes                  plan MiB  workspace MiB  "
         "device MiB  "
         "arguments MiB  FP8 weights MiB  burst ms  sustained ms  "
         "results\n";
  for (const char *recipe : {"float8_block_scaling", "float8_current_scaling"})
    for (const char *policy : {"eager", "cached", "on-demand"}) {
      mlir::te::TrainingPipelineOptions options;
      options.recipe = recipe;
      options.transposePolicy = policy;
      options.strict = true;
      int64_t launches = 0;
      auto step = compileStep(&mlirContext, file, options, launches);
      auto load = [&] {
        te_rt_instance *instance = nullptr;
        check(te_rt_instance_create(context, &step->module(), &instance),
              "loading the step");
        check(te_rt_instance_run(instance, arguments->pointers.data(), nullptr),
              "step");
        check(te_rt_synchronize(context), "synchronize");
        return instance;
      };
      if (!arguments)
        arguments.emplace(*step, memory);
      te_rt_instance_destroy(load());
      const int64_t before = freeBytes(context);
      te_rt_instance *instance = load();
      const int64_t after = freeBytes(context);
      int64_t plan = 0, workspace = 0;
      check(te_rt_instance_memory(instance, &plan, &workspace), "memory");
      const uint64_t hash = hashResults(context, *arguments);
      const bool same = hashes.try_emplace(recipe, hash).first->second == hash;
      failed |= !same;
      const Timing timing = measure(context, effort, [&](int64_t) {
        check(te_rt_instance_run(instance, arguments->pointers.data(), nullptr),
              "step");
      });
      te_rt_instance_destroy(instance);

      const int64_t device = before < 0 ? -1 : before - after;
      auto mib = [](int64_t bytes) { return bytes / 1048576.0; };
      llvm::outs() << llvm::format(
          "%-36s %8.1f %14.1f %11.1f %14.1f %16.1f %9.3f %13.3f  %s\n",
          (std::string(recipe) + " / " + policy).c_str(), mib(plan),
          mib(workspace), device < 0 ? 0.0 : mib(device), mib(arguments->bytes),
          mib(arguments->weightElements), timing.burstMs, timing.sustainedMs,
          same ? "same" : "DIFFER");
      llvm::outs().flush();
      llvm::json::Object row{{"recipe", recipe},
                             {"transpose_policy", policy},
                             {"plan_bytes", plan},
                             {"workspace_bytes", workspace},
                             {"argument_bytes", arguments->bytes},
                             {"fp8_weight_bytes", arguments->weightElements},
                             {"launches", launches},
                             {"burst_ms", timing.burstMs},
                             {"sustained_ms", timing.sustainedMs},
                             {"results_same_as_eager", same}};
      if (device >= 0)
        row["device_bytes"] = device;
      rows.push_back(std::move(row));
    }
  return rows;
}

} // namespace te::bench
