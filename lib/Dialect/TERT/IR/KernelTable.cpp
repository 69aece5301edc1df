//===- KernelTable.cpp - te_runtime_kernels.inc as data -------------------===//
//
// Expands every row into constant arrays. The rows are sorted by name, which
// makes the lookup a binary search.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/TERT/KernelTable.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::tert;

namespace {

// The empty first entry is dropped below: a kernel may have no parameters.
#define TE_RT_I64(name) {#name, KernelParameter::I64},
#define TE_RT_I32(name) {#name, KernelParameter::I32},
#define TE_RT_F32(name) {#name, KernelParameter::F32},
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  constexpr KernelParameter name##Parameters[] = {{"", KernelParameter::I64},  \
                                                  parameters};
#include "TEDialect/Runtime/te_runtime_kernels.inc"

#define TE_RT_IN(name) {#name, false, false},
#define TE_RT_OUT(name) {#name, true, false},
#define TE_RT_IN_OPT(name) {#name, false, true},
#define TE_RT_OUT_OPT(name) {#name, true, true},
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  constexpr KernelBuffer name##Buffers[] = {buffers};
#include "TEDialect/Runtime/te_runtime_kernels.inc"

const KernelInfo kernels[] = {
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  {#name, llvm::ArrayRef(name##Parameters).drop_front(), name##Buffers},
#include "TEDialect/Runtime/te_runtime_kernels.inc"
};

/// The pairs that the kernel list allows to be one buffer.
struct SharedPair {
  llvm::StringLiteral kernel, input, output;
};
constexpr SharedPair sharedPairs[] = {
    {"adamw", "param", "new_param"},
    {"adamw", "m", "new_m"},
    {"adamw", "v", "new_v"},
    {"all_reduce_max", "x", "y"},
    {"all_reduce_sum", "x", "y"},
    {"bias_add", "x", "y"},
    {"count_nonfinite", "counts", "new_counts"},
    {"cross_entropy_backward", "logits", "dlogits"},
    {"delayed_scaling_update", "history", "new_history"},
    {"delayed_scaling_update", "scale", "new_scale"},
    {"grouped_scaled_wgrad", "c", "out"},
    {"grouped_wgrad", "c", "out"},
    {"grouped_zero_padding", "x", "y"},
    {"matmul", "c", "out"},
    {"pointwise", "a", "out"},
    {"pointwise", "b", "out"},
    {"rng_advance", "state", "new_state"},
    {"rope", "x", "y"},
    {"scaled_matmul", "c", "out"},
    {"sgd", "param", "new_param"},
    {"sgd", "buf", "new_buf"},
};

} // namespace

bool KernelInfo::mayShare(unsigned input, unsigned output) const {
  return llvm::any_of(sharedPairs, [&](const SharedPair &pair) {
    return pair.kernel == name && pair.input == buffers[input].name &&
           pair.output == buffers[output].name;
  });
}

bool KernelInfo::isCollective() const {
  return llvm::any_of(parameters, [](const KernelParameter &parameter) {
    return parameter.name == "group_id";
  });
}

std::optional<unsigned> KernelInfo::findBuffer(llvm::StringRef name) const {
  for (auto [index, buffer] : llvm::enumerate(buffers))
    if (buffer.name == name)
      return index;
  return std::nullopt;
}

llvm::ArrayRef<KernelInfo> mlir::tert::getKernels() { return kernels; }

const KernelInfo *mlir::tert::lookupKernel(llvm::StringRef name) {
  const KernelInfo *row = llvm::lower_bound(
      kernels, name,
      [](const KernelInfo &a, llvm::StringRef b) { return a.name < b; });
  return row != std::end(kernels) && row->name == name ? row : nullptr;
}
