//===- TERT.h - the tert dialect: types and ops ---------------------------===//

#ifndef TEDIALECT_TERT_TERT_H
#define TEDIALECT_TERT_TERT_H

#include "TEDialect/IR/TE.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "TEDialect/TERT/TERTDialect.h.inc"
#include "TEDialect/TERT/TERTEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "TEDialect/TERT/TERTTypes.h.inc"

#define GET_OP_CLASSES
#include "TEDialect/TERT/TERTOps.h.inc"

namespace mlir::tert {

/// Names of the attributes the dialect description explains.
inline constexpr llvm::StringLiteral kSignatureAttr = "tert.signature";
/// Of an entry of the signature: the place of a result in the arena.
inline constexpr llvm::StringLiteral kOffsetEntry = "offset";
inline constexpr llvm::StringLiteral kLaunchesAttr = "tert.launches";
inline constexpr llvm::StringLiteral kUsesAttr = "tert.uses";
inline constexpr llvm::StringLiteral kArenaBytesAttr = "tert.arena_bytes";
inline constexpr llvm::StringLiteral kMaxLiveBytesAttr = "tert.max_live_bytes";
inline constexpr llvm::StringLiteral kWorkspaceBytesAttr =
    "tert.workspace_bytes";

/// On a function of generated code, or their shared memory: that it is of a
/// GPU; and what follows the name of such a function in those of the constants
/// that have its PTX, and its name in the PTX.
inline constexpr llvm::StringLiteral kDeviceAttr = "tert.device";
inline constexpr llvm::StringLiteral kCodeSuffix = "_code";
inline constexpr llvm::StringLiteral kNameSuffix = "_name";
inline constexpr llvm::StringLiteral kSharedMemory = "te_shared_memory";
/// The GPU that they are for, as in the option `target`.
inline constexpr llvm::StringLiteral kTargetAttr = "tert.target";
/// On a module whose machine code is neither read from disk nor stored there.
inline constexpr llvm::StringLiteral kNoCodeCacheAttr = "tert.no_code_cache";

/// Every offset in the arena is a multiple of this.
inline constexpr int64_t kArenaAlignment = 256;

} // namespace mlir::tert

#endif // TEDIALECT_TERT_TERT_H
