//===- TEOps.td - every op of the te dialect, in documentation order ------===//

#ifndef TEDIALECT_IR_TEOPS_TD
#define TEDIALECT_IR_TEOPS_TD

include "TEDialect/IR/TECastOps.td"
include "TEDialect/IR/TEQuantizeOps.td"
include "TEDialect/IR/TEGemmOps.td"
include "TEDialect/IR/TEGroupedOps.td"
include "TEDialect/IR/TELayerOps.td"
include "TEDialect/IR/TECollectiveOps.td"
include "TEDialect/IR/TEAttentionOps.td"
include "TEDialect/IR/TEOptimizerOps.td"
include "TEDialect/IR/TEAutodiffOps.td"
include "TEDialect/IR/TEProbeOps.td"

#endif // TEDIALECT_IR_TEOPS_TD
