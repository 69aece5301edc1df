//===- GatheredOperands.h - casts of parts, before they are gathered ------===//
//
// A tensor that is gathered from the ranks of a process group is cast before it
// is gathered, with one amax over the group, if that gives the bits of a cast
// of the gathered tensor. Fewer bytes are then sent, and only this rank's part
// is saved for the backward. The same holds for the flat shard of a weight,
// which may begin and end within rows and blocks.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_GATHEREDOPERANDS_H
#define TE_TRANSFORMS_QUANTIZE_GATHEREDOPERANDS_H

#include "LayerGemms.h"

namespace mlir::te {

/// Returns why the casts of the parts of `operand` are not the cast of the
/// gathered tensor, or "" if they are. Precondition: `operand` is gathered.
std::string refuseCastOfParts(const Operand &operand,
                              const QuantPolicy &policy);

/// Returns `operand`, or the gathered tensor if its parts cannot be cast by
/// themselves. A remark in `function` gives the choice and the reason.
Operand keepExactGather(const Operand &operand, const QuantPolicy &policy,
                        StringRef function);

/// Whether the columns of `operand` are computed by transposing gathered rows,
/// so that only rows are gathered.
bool gathersRowsOnly(const Operand &operand, const QuantPolicy &policy);

/// Gathers the parts `local` of all ranks as `gather` does, at the builder's
/// position.
Value gatherParts(OpBuilder &builder, Value local, AllGatherOp gather);

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_GATHEREDOPERANDS_H
