//===- GemmOptions.cpp - rules of the options of GEMMs --------------------===//

#include "Core/GemmOptions.h"

#include <string>
#include <utility>

namespace te::rt {

static Status invalid(std::string message) {
  return {TE_RT_INVALID_ARGUMENT, std::move(message)};
}

Status checkGemmOptions(const te_rt_gemm_options &options) {
  const int32_t choice = options.choice;
  if (choice != TE_RT_GEMM_TUNED && choice != TE_RT_GEMM_FIRST &&
      choice != TE_RT_GEMM_FILE)
    return invalid("expected 'choice' to be 0 (tuned), 1 (first) or 2 (file), "
                   "but got " +
                   std::to_string(choice));
  if (options.reserved != 0)
    return invalid("expected 'reserved' to be 0, but got " +
                   std::to_string(options.reserved));
  if (options.file && !*options.file)
    return invalid("expected 'file' not to be empty");
  if (options.file && choice == TE_RT_GEMM_FIRST)
    return invalid("expected no 'file' with the choice 'first', but got '" +
                   std::string(options.file) + "'");
  if (options.budget_ms < 0)
    return invalid("expected 'budget_ms' to be zero or more, but got " +
                   std::to_string(options.budget_ms));
  if (options.budget_ms && choice != TE_RT_GEMM_TUNED)
    return invalid("expected 'budget_ms' only with the choice 'tuned', but got "
                   "it with '" +
                   std::string(choice == TE_RT_GEMM_FIRST ? "first" : "file") +
                   "'");
  return Status::ok();
}

} // namespace te::rt
