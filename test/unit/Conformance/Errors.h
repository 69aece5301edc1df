//===- Errors.h - refusals of the runtime and their words -----------------===//

#ifndef TE_CONFORMANCE_ERRORS_H
#define TE_CONFORMANCE_ERRORS_H

#include "Conformance/Harness.h"

namespace te::conformance {

/// Whether the last error of this thread contains all of `parts`.
inline testing::AssertionResult
lastErrorHas(std::initializer_list<const char *> parts) {
  const std::string text = te_rt_last_error();
  for (const char *part : parts)
    if (text.find(part) == std::string::npos)
      return testing::AssertionFailure()
             << "no \"" << part << "\" in: " << text;
  return testing::AssertionSuccess();
}

inline te_rt_status loadNothing(te_rt_instance *) { return TE_RT_OK; }
inline void stepNothing(te_rt_instance *, char *, void *const *) {}

class Errors : public BackendTest {
protected:
  te_rt_status create(const te_rt_module &module) {
    te_rt_instance *instance = nullptr;
    const te_rt_status status =
        te_rt_instance_create(device().context, &module, &instance);
    EXPECT_EQ(instance == nullptr, status != TE_RT_OK);
    te_rt_instance_destroy(instance);
    return status;
  }
  te_rt_module module(int32_t plans, te_rt_status (*load)(te_rt_instance *),
                      void (*step)(te_rt_instance *, char *,
                                   void *const *) = stepNothing) {
    return {TE_RT_MODULE_MAGIC,
            TE_RT_VERSION,
            0,
            plans,
            0,
            load,
            step,
            nullptr,
            nullptr,
            0,
            0};
  }
  /// Plans one kernel and expects an error whose text contains `parts`.
  testing::AssertionResult refuses(te_rt_status code, const PlanFunction &plan,
                                   std::initializer_list<const char *> parts) {
    static const PlanFunction *current;
    current = &plan;
    const te_rt_status status =
        create(module(1, [](te_rt_instance *i) { return (*current)(i, 0); }));
    if (status != code)
      return testing::AssertionFailure()
             << "expected status " << code << ", but got " << status << ": "
             << te_rt_last_error();
    return lastErrorHas(parts);
  }
};

} // namespace te::conformance

#endif // TE_CONFORMANCE_ERRORS_H
