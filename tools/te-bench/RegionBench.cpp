//===- RegionBench.cpp - code generated for regions -----------------------===//
//
// Each row is a program whose step is one launch of generated code, compared
// with a copy that moves equally many bytes.
//
//===----------------------------------------------------------------------===//

#include "BenchKernel.h"
#include "CompileStep.h"

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace te::bench {

namespace {

/// A program whose types are !n (bf16) and !w (f32), of one shape, and !r
/// (f32), with an element for each row.
struct Region {
  const char *name;
  const char *arguments;
  const char *body;
  const char *result;
};

constexpr Region regions[] = {
    {"add bf16", "%a: !n, %b: !n", "%y = arith.addf %a, %b : !n", "!n"},
    {"cast f32 to bf16", "%a: !w", "%y = arith.truncf %a : !w to !n", "!n"},
    {"cast bf16 to f32", "%a: !n", "%y = arith.extf %a : !n to !w", "!w"},
    {"exp bf16", "%a: !n", "%y = math.exp %a : !n", "!n"},
    {"tanh bf16", "%a: !n", "%y = math.tanh %a : !n", "!n"},
    {"add f32", "%a: !w, %b: !w", "%y = arith.addf %a, %b : !w", "!w"},
    {"a b + c bf16", "%a: !n, %b: !n, %c: !n",
     "%p = arith.mulf %a, %b : !n\n %y = arith.addf %p, %c : !n", "!n"},
    {"dropout bf16", "%a: !n, %s: tensor<2xi32>",
     "%y = te.dropout %a rng %s {probability = 0.1 : f32} : !n", "!n"},
    {"dropout + add bf16", "%a: !n, %b: !n, %s: tensor<2xi32>",
     "%d = te.dropout %a rng %s {probability = 0.1 : f32} : !n\n"
     " %y = arith.addf %d, %b : !n",
     "!n"},
    {"add f32, cast to bf16", "%a: !w, %b: !w",
     "%s = arith.addf %a, %b : !w\n %y = arith.truncf %s : !w to !n", "!n"},
    {"x / norm of its row bf16", "%a: !n",
     "%w = arith.extf %a : !n to !w\n %q = arith.mulf %w, %w : !w\n"
     "%0 = arith.constant dense<0.0> : !r\n"
     "%s = linalg.reduce {arith.addf} ins(%q : !w) outs(%0 : !r) "
     "dimensions = [1]\n"
     "%1 = arith.constant dense<1.0> : !r\n %t = math.sqrt %s : !r\n"
     "%r = arith.divf %1, %t : !r\n %e = tensor.empty() : !w\n"
     "%b = linalg.broadcast ins(%r : !r) outs(%e : !w) dimensions = [1]\n"
     "%d = arith.mulf %w, %b : !w\n %y = arith.truncf %d : !w to !n",
     "!n"},
    {"softmax without a maximum bf16", "%a: !n",
     "%w = arith.extf %a : !n to !w\n %x = math.exp %w : !w\n"
     "%0 = arith.constant dense<0.0> : !r\n"
     "%s = linalg.reduce {arith.addf} ins(%x : !w) outs(%0 : !r) "
     "dimensions = [1]\n"
     "%e = tensor.empty() : !w\n"
     "%b = linalg.broadcast ins(%s : !r) outs(%e : !w) dimensions = [1]\n"
     "%d = arith.divf %x, %b : !w\n %y = arith.truncf %d : !w to !n",
     "!n"},
    {"softmax bf16", "%a: !n", "%y = te.softmax %a {scale = 0.125 : f32} : !n",
     "!n"},
    {"add + softmax bf16", "%a: !n, %b: !n",
     "%s = arith.addf %a, %b : !n\n"
     " %y = te.softmax %s {scale = 0.125 : f32} : !n",
     "!n"},
    {"softmax + dropout bf16", "%a: !n, %s: tensor<2xi32>",
     "%p = te.softmax %a {scale = 0.125 : f32} : !n\n"
     " %y = te.dropout %p rng %s {probability = 0.1 : f32} : !n",
     "!n"},
    {"gradient of softmax bf16", "%a: !n, %g: !n",
     "%y = te.softmax_backward %g, %a {scale = 0.125 : f32} : !n", "!n"},
    {"sum of products bf16", "%a: !n, %g: !n",
     "%w = arith.extf %a : !n to !w\n %v = arith.extf %g : !n to !w\n"
     "%p = arith.mulf %w, %v : !w\n %0 = arith.constant dense<0.0> : !r\n"
     "%y = linalg.reduce {arith.addf} ins(%p : !w) outs(%0 : !r) "
     "dimensions = [1]",
     "!r"},
};

std::string programOf(const Region &region, int64_t rows, int64_t cols) {
  const std::string shape =
      "tensor<" + std::to_string(rows) + "x" + std::to_string(cols) + "x";
  std::string text;
  llvm::raw_string_ostream(text)
      << "!n = " << shape << "bf16>\n!w = " << shape << "f32>\n"
      << "!r = tensor<" << rows << "xf32>\n"
      << "func.func @f(" << region.arguments << ") -> (" << region.result
      << " {te.name = \"y\"}) {\n " << region.body
      << "\n return %y : " << region.result << "\n}\n";
  return text;
}

} // namespace

llvm::json::Array runRegionBench(te_rt_context *context, const Effort &effort,
                                 bool small, const std::string &filter) {
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  mlir::MLIRContext mlirContext(registry);
  CopyTimes copies(context, effort);
  llvm::json::Array rows;
  llvm::outs() << "region                                             "
                  "burst sustained\n";
  std::vector<std::pair<int64_t, int64_t>> shapes = {
      {8192, 4096}, {8192, 14336}, {2048, 4096}};
  if (small)
    shapes = {{64, 128}};
  for (auto [numRows, cols] : shapes)
    for (const Region &region : regions) {
      const std::string name = std::string(region.name) + " " +
                               std::to_string(numRows) + "x" +
                               std::to_string(cols);
      if (name.find(filter) == std::string::npos)
        continue;
      int64_t launches = 0;
      auto step = compileText(&mlirContext, programOf(region, numRows, cols),
                              {}, launches);
      DeviceBuffers memory(context);
      constexpr int sets = 3;
      std::vector<std::vector<void *>> arguments(sets);
      int64_t bytes = 0;
      for (const mlir::te::ArgumentInfo &info : step->arguments()) {
        bytes += info.bytes;
        // Any bits are a random state.
        for (auto &set : arguments)
          set.push_back(
              info.role == mlir::te::ArgumentInfo::Role::Result ||
                      info.type == TE_RT_I32
                  ? memory.allocate(info.bytes)
                  : memory.allocateRandom(numRows * cols, info.type, 1.0f));
      }
      te_rt_instance *instance = nullptr;
      check(te_rt_instance_create(context, &step->module(), &instance),
            "loading the step");
      const Timing timing = measure(context, effort, [&](int64_t i) {
        check(te_rt_instance_run(instance, arguments[i % sets].data(), nullptr),
              "step");
      });
      te_rt_instance_destroy(instance);
      const double copyMs = copies.of(bytes);
      const double fraction = copyMs / timing.sustainedMs;
      llvm::outs() << llvm::format(
          "%-46s %9.1f %9.1f us  %4.0f %% of copy  %lld launches\n",
          name.c_str(), timing.burstMs * 1e3, timing.sustainedMs * 1e3,
          fraction * 100, static_cast<long long>(launches));
      llvm::outs().flush();
      rows.push_back(
          llvm::json::Object{{"name", name},
                             {"burst_us", timing.burstMs * 1e3},
                             {"sustained_us", timing.sustainedMs * 1e3},
                             {"bytes", bytes},
                             {"copy_us", copyMs * 1e3},
                             {"fraction_of_copy", fraction},
                             {"launches", launches}});
    }
  return rows;
}

} // namespace te::bench
