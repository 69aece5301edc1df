//===- Support.h - the support table in the words of the dialect ----------===//

#ifndef TEDIALECT_IR_SUPPORT_H
#define TEDIALECT_IR_SUPPORT_H

#include "TEDialect/Support/SupportTable.h"

#include "mlir/IR/Types.h"

namespace mlir::te {

namespace support = ::te_table;

/// The number of `elementType` in the support table, its te_rt_dtype; nothing
/// where the runtime has no such type.
std::optional<int32_t> getTypeNumber(Type elementType);

} // namespace mlir::te

#endif // TEDIALECT_IR_SUPPORT_H
