//===- KernelUses.h - the kernels that a module was compiled for ----------===//
//
// A module names the kernels it uses with the hashes of their rows. It runs on
// any runtime that has these, whatever else has changed.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_KERNELUSES_H
#define TE_RUNTIME_CORE_KERNELUSES_H

#include "Core/Status.h"
#include "TEDialect/Support/KernelRows.h"

#include <span>

namespace te::rt {

/// Whether `rows`, sorted by name, have every kernel that the module uses, with
/// the hash it was compiled for. The message names the first that they lack.
Status checkKernels(const te_rt_module &module,
                    std::span<const te_table::KernelRow> rows);

} // namespace te::rt

#endif // TE_RUNTIME_CORE_KERNELUSES_H
