//===- GroupSizes.h - whether sizes of groups make sense ------------------===//
//
// For sizes that the host can read. On a GPU they are values of the step, which
// nobody waits for: there, groupRows cuts bad ones to what fits.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_GROUPSIZES_H
#define TE_RUNTIME_CORE_GROUPSIZES_H

#include "Core/Status.h"

#include <cstdint>

namespace te::rt {

/// Every group has a size that is not negative, and its rows fit behind those
/// before it. `rows` is a multiple of `alignment`, which is positive.
Status checkGroupSizes(const int32_t *sizes, int64_t groups, int64_t rows,
                       int64_t alignment);

} // namespace te::rt

#endif // TE_RUNTIME_CORE_GROUPSIZES_H
