//===- KernelTable.cpp - the kernel list as data --------------------------===//
//
// Expands every row into constant arrays. The rows are sorted by name, which
// makes the lookup a binary search.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/TERT/KernelTable.h"

#include "TEDialect/Support/KernelRows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

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
  {#name, llvm::ArrayRef(name##Parameters).drop_front(), name##Buffers,        \
   te_table::findKernelRow(#name)},
#include "TEDialect/Runtime/te_runtime_kernels.inc"
};

} // namespace

bool KernelInfo::mayShare(unsigned input, unsigned output) const {
  return llvm::any_of(llvm::ArrayRef(row->reuses, row->numReuses),
                      [&](te_table::KernelReuse reuse) {
                        return reuse.input == int(input) &&
                               reuse.output == int(output);
                      });
}

bool KernelInfo::isCollective() const { return row->isCollective; }

std::optional<unsigned> KernelInfo::findBuffer(llvm::StringRef name) const {
  for (auto [index, buffer] : llvm::enumerate(buffers))
    if (buffer.name == name)
      return index;
  return std::nullopt;
}

llvm::SmallVector<int64_t>
mlir::tert::integerParameters(const KernelInfo &kernel,
                              DictionaryAttr parameters) {
  return llvm::map_to_vector(
      kernel.parameters, [&](const KernelParameter &parameter) -> int64_t {
        auto value = parameters.getAs<IntegerAttr>(parameter.name);
        return value ? value.getInt() : 0;
      });
}

llvm::ArrayRef<KernelInfo> mlir::tert::getKernels() { return kernels; }

const KernelInfo *mlir::tert::lookupKernel(llvm::StringRef name) {
  const KernelInfo *row = llvm::lower_bound(
      kernels, name,
      [](const KernelInfo &a, llvm::StringRef b) { return a.name < b; });
  return row != std::end(kernels) && row->name == name ? row : nullptr;
}
