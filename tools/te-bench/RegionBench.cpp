//===- RegionBench.cpp - code generated for elementwise ops ---------------===//
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

/// A program of tensors T (bf16) and W (f32) of one shape.
struct Region {
  const char *name;
  const char *arguments;
  const char *body;
  const char *result;
};

constexpr Region regions[] = {
    {"add bf16", "%a: T, %b: T", "%y = arith.addf %a, %b : T", "T"},
    {"cast f32 to bf16", "%a: W", "%y = arith.truncf %a : W to T", "T"},
    {"cast bf16 to f32", "%a: T", "%y = arith.extf %a : T to W", "W"},
    {"exp bf16", "%a: T", "%y = math.exp %a : T", "T"},
    {"tanh bf16", "%a: T", "%y = math.tanh %a : T", "T"},
    {"add f32", "%a: W, %b: W", "%y = arith.addf %a, %b : W", "W"},
    {"a b + c bf16", "%a: T, %b: T, %c: T",
     "%p = arith.mulf %a, %b : T\n %y = arith.addf %p, %c : T", "T"},
    {"add f32, cast to bf16", "%a: W, %b: W",
     "%s = arith.addf %a, %b : W\n %y = arith.truncf %s : W to T", "T"},
};

std::string programOf(const Region &region, int64_t rows, int64_t cols) {
  const std::string shape =
      "tensor<" + std::to_string(rows) + "x" + std::to_string(cols) + "x";
  std::string text;
  for (const std::string part :
       {std::string("func.func @f("), std::string(region.arguments),
        std::string(") -> ("), std::string(region.result),
        std::string(" {te.name = \"y\"}) {\n"), std::string(region.body),
        "\n return %y : " + std::string(region.result) + "\n}\n"})
    text += part;
  std::string program;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool isAlone =
        !std::isalnum(text[i + 1]) && !std::isalnum(text[i - 1]);
    if (text[i] == 'T' && isAlone)
      program += shape + "bf16>";
    else if (text[i] == 'W' && isAlone)
      program += shape + "f32>";
    else
      program += text[i];
  }
  return program;
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
        for (auto &set : arguments)
          set.push_back(
              info.role == mlir::te::ArgumentInfo::Role::Result
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
