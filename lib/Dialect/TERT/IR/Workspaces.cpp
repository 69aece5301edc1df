//===- Workspaces.cpp - scratch memory of launches ------------------------===//
//
// The runtime knows what a plan takes once it is made, on the device. The row
// of a kernel has a formula for its own kernels, and a cap where a library
// decides, so that a plan without a device accounts for them.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/TERT/Workspaces.h"

#include "TEDialect/Support/KernelRows.h"
#include "TEDialect/TERT/KernelTable.h"

using namespace mlir;
using namespace mlir::tert;

int64_t tert::workspaceBytes(StringRef kernel, DictionaryAttr parameters) {
  const KernelInfo *info = lookupKernel(kernel);
  if (!info)
    return 0;
  return info->row->workspaceBytes(integerParameters(*info, parameters).data());
}
