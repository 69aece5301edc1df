//===- GroupSizes.cpp - whether sizes of groups make sense ----------------===//

#include "Core/GroupSizes.h"

#include "Core/GroupLayout.h"

#include <string>

te::rt::Status te::rt::checkGroupSizes(const int32_t *sizes, int64_t groups,
                                       int64_t rows, int64_t alignment) {
  int64_t begin = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const bool fits = sizes[g] >= 0 && sizes[g] <= rows - begin;
    if (!fits)
      return {TE_RT_INVALID_ARGUMENT,
              "expected 'group_sizes[" + std::to_string(g) +
                  "]' to be from 0 to the " + std::to_string(rows - begin) +
                  " rows that are left of " + std::to_string(rows) +
                  ", but got " + std::to_string(sizes[g])};
    begin = groupRows(begin, sizes[g], rows, alignment).next;
  }
  return Status::ok();
}
