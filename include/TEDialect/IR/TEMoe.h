//===- TEMoe.h - ops that route tokens to experts -------------------------===//

#ifndef TEDIALECT_IR_TEMOE_H
#define TEDIALECT_IR_TEMOE_H

#include "TEDialect/IR/TE.h"

#define GET_OP_CLASSES
#include "TEDialect/IR/TEMoeOps.h.inc"

#endif // TEDIALECT_IR_TEMOE_H
