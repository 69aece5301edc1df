//===- KernelBench.cpp - each kernel alone, at the MLP block's shapes -----===//
//
// Kernels are planned and launched through the ABI compiled code uses. Bytes
// are the fewest a kernel must move (inputs once, outputs once), which its row
// in Kernels.td gives; the fraction is against a copy of the same number of
// bytes measured right before it.
//
//===----------------------------------------------------------------------===//

#include "BenchKernel.h"
#include "KernelCases.h"

#include "TEDialect/Support/KernelRows.h"
#include "TEDialect/TERT/KernelTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace te::bench;
using mlir::tert::KernelBuffer;
using mlir::tert::KernelInfo;
using mlir::tert::KernelParameter;

namespace {

double valueOf(const KernelCase &test, llvm::StringRef parameter) {
  for (const auto &[name, value] : test.parameters)
    if (name == parameter)
      return value;
  return 0;
}

/// Ends the program if `test` names a kernel, parameter or buffer that there is
/// not: its value would be ignored.
void checkNames(const KernelCase &test) {
  const KernelInfo *kernel = mlir::tert::lookupKernel(test.kernel);
  auto require = [&](bool isThere, const char *what, llvm::StringRef name) {
    if (!isThere)
      llvm::report_fatal_error("case '" + llvm::StringRef(test.name) +
                               "': expected a " + what + " of kernel '" +
                               test.kernel + "', but got '" + name + "'");
  };
  if (!kernel)
    llvm::report_fatal_error("case '" + llvm::StringRef(test.name) +
                             "': no kernel '" + test.kernel + "'");
  for (const auto &[name, value] : test.parameters)
    require(llvm::any_of(
                kernel->parameters,
                [&](const KernelParameter &each) { return each.name == name; }),
            "parameter", name);
  for (const std::string &name : test.optional)
    require(kernel->findBuffer(name).has_value(), "buffer", name);
  for (const auto &[name, sigma] : test.sigmas)
    require(kernel->findBuffer(name).has_value(), "buffer", name);
  for (const auto &[name, values] : test.integers)
    require(kernel->findBuffer(name).has_value(), "buffer", name);
}

/// Calls te_rt_plan_<kernel> for slot 0.
te_rt_status plan(te_rt_instance *instance, const KernelCase &test) {
  const llvm::StringRef kernel = test.kernel;
#define TE_RT_I64(name) , static_cast<int64_t>(valueOf(test, #name))
#define TE_RT_I32(name) , static_cast<int32_t>(valueOf(test, #name))
#define TE_RT_F32(name) , static_cast<float>(valueOf(test, #name))
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  if (kernel == #name)                                                         \
    return te_rt_plan_##name(instance, 0 parameters);
#include "TEDialect/Runtime/te_runtime_kernels.inc"

  llvm::report_fatal_error("no kernel '" + kernel + "'");
}

/// A buffer of a case: its size, or nothing where it is absent.
struct CaseBuffer {
  bool isThere;
  te_table::BufferSize size;
  float sigma;
  std::vector<int32_t> values = {};
};

std::vector<CaseBuffer> buffersOf(const KernelCase &test) {
  const KernelInfo &kernel = *mlir::tert::lookupKernel(test.kernel);
  std::vector<int64_t> values;
  for (const KernelParameter &parameter : kernel.parameters)
    values.push_back(parameter.type == KernelParameter::F32
                         ? 0
                         : static_cast<int64_t>(valueOf(test, parameter.name)));
  std::vector<te_table::BufferSize> sizes(kernel.buffers.size());
  kernel.row->sizes(values.data(), sizes.data());
  std::vector<CaseBuffer> buffers;
  for (auto [buffer, size] : llvm::zip_equal(kernel.buffers, sizes)) {
    float sigma = 1;
    for (const auto &[name, value] : test.sigmas)
      if (name == buffer.name)
        sigma = value;
    buffers.push_back(
        {!buffer.isOptional || llvm::is_contained(test.optional, buffer.name),
         size, sigma});
    for (const auto &[name, values] : test.integers)
      if (name == buffer.name)
        buffers.back().values = values;
  }
  return buffers;
}

int64_t bytesOf(const std::vector<CaseBuffer> &buffers) {
  int64_t bytes = 0;
  for (const CaseBuffer &buffer : buffers)
    bytes += buffer.isThere ? buffer.size.bytes() : 0;
  return bytes;
}

class KernelBench {
public:
  KernelBench(te_rt_context *context, const Effort &effort)
      : context(context), effort(effort), copies(context, effort) {}

  void run(const KernelCase &test);

  llvm::json::Array rows;

private:
  te_rt_context *context;
  const Effort &effort;
  CopyTimes copies;
};

} // namespace

void KernelBench::run(const KernelCase &test) {
  const std::vector<CaseBuffer> buffers = buffersOf(test);
  const int64_t bytes = test.flops == 0 ? bytesOf(buffers) : 0;
  DeviceBuffers memory(context);
  // Three sets, so that no launch finds its input in the cache.
  constexpr int sets = 3;
  std::vector<std::vector<void *>> pointers(sets);
  for (auto &set : pointers)
    for (const CaseBuffer &buffer : buffers) {
      const auto type = static_cast<te_rt_dtype>(buffer.size.type);
      const int64_t count =
          type == TE_RT_F4E2M1FN ? buffer.size.bytes() : buffer.size.count;
      if (!buffer.isThere)
        set.push_back(nullptr);
      else if (!buffer.values.empty())
        set.push_back(memory.allocateCopy(buffer.values));
      else
        set.push_back(memory.allocateRandom(count, type, buffer.sigma));
    }
  Kernel kernel(context,
                [&](te_rt_instance *instance) { return plan(instance, test); });
  const double copyMs = bytes ? copies.of(bytes) : 0;
  const Timing timing = measure(context, effort, [&](int64_t i) {
    kernel.enqueue(pointers[i % sets].data());
  });
  llvm::json::Object row{{"name", test.name},
                         {"burst_us", timing.burstMs * 1e3},
                         {"sustained_us", timing.sustainedMs * 1e3}};
  llvm::outs() << llvm::format("%-46s %9.1f %9.1f us", test.name.c_str(),
                               timing.burstMs * 1e3, timing.sustainedMs * 1e3);
  if (bytes) {
    const double fraction = copyMs / timing.sustainedMs;
    row["bytes"] = bytes;
    row["copy_us"] = copyMs * 1e3;
    row["fraction_of_copy"] = fraction;
    llvm::outs() << llvm::format("  %5.2f TB/s  %4.0f %% of copy\n",
                                 bytes / timing.sustainedMs * 1e-9,
                                 fraction * 100);
  } else {
    row["tflops_burst"] = test.flops / timing.burstMs * 1e-9;
    row["tflops_sustained"] = test.flops / timing.sustainedMs * 1e-9;
    llvm::outs() << llvm::format("  %5.0f burst %5.0f sustained TFLOPS\n",
                                 test.flops / timing.burstMs * 1e-9,
                                 test.flops / timing.sustainedMs * 1e-9);
  }
  llvm::outs().flush();
  rows.push_back(std::move(row));
}

llvm::json::Array te::bench::runKernelBench(te_rt_context *context,
                                            const Effort &effort,
                                            const std::string &filter) {
  const std::vector<KernelCase> cases = kernelCases();
  llvm::for_each(cases, checkNames);
  KernelBench bench(context, effort);
  llvm::outs() << "kernel                                             "
                  "burst sustained\n";
  for (const KernelCase &test : cases)
    if (test.name.find(filter) != std::string::npos)
      bench.run(test);
  return std::move(bench.rows);
}
