//===- KernelCases.h - the rows of the kernel benchmark -------------------===//

#ifndef TE_BENCH_KERNELCASES_H
#define TE_BENCH_KERNELCASES_H

#include <string>
#include <utility>
#include <vector>

namespace te::bench {

/// One row. Sizes of buffers, and the bytes that the kernel must move, are
/// those that Kernels.td gives for the parameters.
struct KernelCase {
  std::string name;
  const char *kernel;
  /// By name; 0 where not given.
  std::vector<std::pair<std::string, double>> parameters;
  /// The optional buffers that are there.
  std::vector<std::string> optional = {};
  /// Of a product: reported instead of bytes.
  double flops = 0;
  /// Standard deviations of buffers that are not 1.
  std::vector<std::pair<std::string, float>> sigmas = {};
  /// The values of buffers of integers, by name.
  std::vector<std::pair<std::string, std::vector<int32_t>>> integers = {};
};

/// Every row, at the shapes of the Llama-8B MLP block.
std::vector<KernelCase> kernelCases();

} // namespace te::bench

#endif // TE_BENCH_KERNELCASES_H
