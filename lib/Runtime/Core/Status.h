//===- Status.h - how runtime internals report failure --------------------===//
//
// Inside the runtime a failure is a `Status`: a code and a sentence. The ABI
// layer turns it into a return code and the thread's message. Exceptions do
// not leave lib/Runtime/ABI.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_STATUS_H
#define TE_RUNTIME_CORE_STATUS_H

#include "TEDialect/Runtime/te_runtime_types.h"

#include <string>
#include <utility>

namespace te::rt {

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(te_rt_status code, std::string message)
      : code(code), message(std::move(message)) {}

  static Status ok() { return {}; }
  bool failed() const { return code != TE_RT_OK; }

  te_rt_status code = TE_RT_OK;
  std::string message;
};

#define TE_RT_RETURN_IF_FAILED(expression)                                     \
  do {                                                                         \
    if (::te::rt::Status status_ = (expression); status_.failed())             \
      return status_;                                                          \
  } while (false)

} // namespace te::rt

#endif // TE_RUNTIME_CORE_STATUS_H
