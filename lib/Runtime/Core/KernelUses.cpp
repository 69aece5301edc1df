//===- KernelUses.cpp - the kernels that a module was compiled for --------===//

#include "Core/KernelUses.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace te::rt {

static std::string hex(uint64_t hash) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016" PRIx64, hash);
  return text;
}

Status checkKernels(const te_rt_module &module,
                    std::span<const te_table::KernelRow> rows) {
  auto refused = [](const std::string &expected, const std::string &got) {
    return Status(TE_RT_INVALID_ARGUMENT, "expected " + expected +
                                              ", but got " + got +
                                              "; compile the module again with "
                                              "this runtime's release");
  };
  if (module.num_kernels < 0)
    return {TE_RT_INVALID_ARGUMENT,
            "expected the module's 'num_kernels' to be zero or more, but got " +
                std::to_string(module.num_kernels)};
  if (module.num_kernels > 0 && !module.kernels)
    return {TE_RT_INVALID_ARGUMENT, "expected the module to name its " +
                                        std::to_string(module.num_kernels) +
                                        " kernels, but 'kernels' is null"};
  for (int32_t i = 0; i < module.num_kernels; ++i) {
    const te_rt_kernel_use &use = module.kernels[i];
    const std::string_view name = use.name ? use.name : "";
    const auto row =
        std::lower_bound(rows.begin(), rows.end(), name,
                         [](const te_table::KernelRow &a, std::string_view b) {
                           return a.name < b;
                         });
    const std::string kernel = "'" + std::string(name) + "'";
    if (row == rows.end() || row->name != name)
      return refused("kernel " + kernel + ", which the module uses",
                     "a runtime that has no kernel of this name");
    if (row->hash != use.hash)
      return refused(
          "kernel " + kernel +
              " to be the one that the module was compiled for, row " +
              hex(use.hash),
          "row " + hex(row->hash) + " in this runtime");
  }
  return Status::ok();
}

} // namespace te::rt
