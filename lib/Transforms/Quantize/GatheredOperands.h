//===- GatheredOperands.h - casts of parts, before they are gathered ------===//
//
// A tensor that is gathered from the ranks of a process group is cast before it
// is gathered, with one amax over the group, where that gives the bits of a
// cast of the gathered tensor: fewer bytes are sent, and only this rank's part
// is saved for the backward. The same holds for the flat shard of a weight,
// which is cut within rows and blocks.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_GATHEREDOPERANDS_H
#define TE_TRANSFORMS_QUANTIZE_GATHEREDOPERANDS_H

#include "LayerGemms.h"

namespace mlir::te {

/// Why a cast of the parts of `operand` is not the cast of the gathered tensor,
/// or empty where it is. Precondition: `operand` is gathered.
std::string refuseCastOfParts(const Operand &operand,
                              const QuantPolicy &policy);

/// `operand`, or where its parts cannot be cast by themselves the gathered
/// tensor in its place. A remark in `function` says which and why.
Operand keepExactGather(const Operand &operand, const QuantPolicy &policy,
                        StringRef function);

/// Whether the columns of `operand` are made by transposing gathered rows, so
/// that only rows are gathered.
bool gathersRowsOnly(const Operand &operand, const QuantPolicy &policy);

/// The parts `local` of all ranks of `gather`, put together, at the builder's
/// position.
Value gatherParts(OpBuilder &builder, Value local, AllGatherOp gather);

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_GATHEREDOPERANDS_H
