//===- TEDoc.td - everything the dialect's reference page shows -----------===//

#ifndef TEDIALECT_IR_TEDOC_TD
#define TEDIALECT_IR_TEDOC_TD

include "TEDialect/IR/TEAttrs.td"
include "TEDialect/IR/TETypes.td"
include "TEDialect/IR/TEOps.td"
include "TEDialect/IR/TEMoeOps.td"

#endif // TEDIALECT_IR_TEDOC_TD
