//===- TEVerifiers.h - checks that several ops share ----------------------===//
//
// Each check states one fact and reports it on the op it is given, in the
// words of the op's own operand names.
//
//===----------------------------------------------------------------------===//

#ifndef TE_DIALECT_IR_TEVERIFIERS_H
#define TE_DIALECT_IR_TEVERIFIERS_H

#include "TEDialect/IR/TE.h"

namespace mlir::te {

/// 'name' is finite.
LogicalResult verifyFinite(Operation *op, StringRef name, APFloat value);

/// 'name' is finite and not negative.
LogicalResult verifyNonNegative(Operation *op, StringRef name, APFloat value);

/// One or two scaled results of `shape` that differ in nothing but `contract`.
LogicalResult verifyUsages(Operation *op, TypeRange usages,
                           ArrayRef<int64_t> shape);

/// `type` has exactly `shape`; `name` is the operand or result it belongs to.
LogicalResult verifyShape(Operation *op, StringRef name, Type type,
                          ArrayRef<int64_t> shape);

/// Both types have one element type.
LogicalResult verifySameElementType(Operation *op, StringRef name, Type type,
                                    StringRef otherName, Type other);

/// `accumulate`, if there, has the type `result`.
LogicalResult verifyAccumulate(Operation *op, Value accumulate, Type result);

/// `rows` rows can hold groups that start at multiples of `alignment`.
LogicalResult verifyGroupLayout(Operation *op, int64_t rows, int64_t alignment);

/// Shards of `count` elements, one for each rank of `group`, cover a matrix of
/// `shape` and nothing but padding beyond.
LogicalResult verifyCovers(Operation *op, GroupAttr group, int64_t count,
                           ArrayRef<int64_t> shape);

/// The value `name` of `type` has scales row by row: only products read those
/// that are swizzled.
LogicalResult verifyNotSwizzled(Operation *op, StringRef name, ScaledType type);

/// What a cached cast of `results` gives while its flag `skip` is 1.0, `into`.
LogicalResult verifyCached(Operation *op, ValueRange into, Value skip,
                           TypeRange results);

/// The process group `id`, which the module declares.
FailureOr<GroupAttr> verifyGroup(Operation *op, int64_t id);

/// `te.groups` and `te.ranks` of `op`, and `te.sharding` of an argument or
/// result of type `type` (the dialect's groups-, ranks- and sharding-c).
LogicalResult verifyGroupsAttr(Operation *op, Attribute value);
LogicalResult verifyRanksAttr(Operation *op, Attribute value);
LogicalResult verifyShardingAttr(Operation *op, Attribute value, Type type);

/// "256x512", or "()" of a scalar, for messages.
std::string formatShape(ArrayRef<int64_t> shape);

inline ArrayRef<int64_t> shapeOf(Type type) {
  return cast<ShapedType>(type).getShape();
}

/// Whether `x` is f32 and may be rounded to `to` by the op that reads it.
inline bool isRoundedF32(Type x, Type to) {
  return getElementTypeOrSelf(x).isF32() && to.isBF16();
}

} // namespace mlir::te

#endif // TE_DIALECT_IR_TEVERIFIERS_H
