//===- Chunks.h - rows that a layer computes at a time --------------------===//

#ifndef TEDIALECT_IR_CHUNKS_H
#define TEDIALECT_IR_CHUNKS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::te {

/// On a tensor.extract_slice: the rows that te-chunk-rows gives a layer at a
/// time.
inline constexpr llvm::StringLiteral kChunkAttr = "te.chunk";

} // namespace mlir::te

#endif // TEDIALECT_IR_CHUNKS_H
