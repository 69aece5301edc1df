//===- KernelTable.h - the kernel list as data ----------------------------===//
//
// The rows of the kernel list, for code that reasons about launches: the
// verifier of tert.launch, the conversion that creates launches, the memory
// planner, and the lowering to calls.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TERT_KERNELTABLE_H
#define TEDIALECT_TERT_KERNELTABLE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace te_table {
struct KernelRow;
} // namespace te_table

namespace mlir::tert {

struct KernelParameter {
  enum Type { I64, I32, F32 };
  llvm::StringRef name;
  Type type;
};

struct KernelBuffer {
  llvm::StringRef name;
  bool isOutput;
  bool isOptional;
};

struct KernelInfo {
  llvm::StringRef name;
  llvm::ArrayRef<KernelParameter> parameters;
  llvm::ArrayRef<KernelBuffer> buffers;
  /// What Kernels.td says beside; see KernelRows.h.
  const te_table::KernelRow *row;

  /// True when buffer `output` may be the memory of buffer `input`: the kernel
  /// reads each element of `input` for the last time before it writes that
  /// element of `output`. Only for buffers of equal size.
  bool mayShare(unsigned input, unsigned output) const;

  /// True when it works together with other ranks.
  bool isCollective() const;

  /// Index of the buffer called `name`, if there is one.
  std::optional<unsigned> findBuffer(llvm::StringRef name) const;
};

/// The integer parameters of a launch of `kernel` in the order of its row, as
/// the functions of the row take them; 0 for the others.
llvm::SmallVector<int64_t> integerParameters(const KernelInfo &kernel,
                                             DictionaryAttr parameters);

/// The row called `name`, or null.
const KernelInfo *lookupKernel(llvm::StringRef name);

/// Every row, sorted by name.
llvm::ArrayRef<KernelInfo> getKernels();

} // namespace mlir::tert

#endif // TEDIALECT_TERT_KERNELTABLE_H
