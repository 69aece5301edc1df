//===- TEConstraints.td - operand and result constraints ------------------===//

#ifndef TEDIALECT_IR_TECONSTRAINTS_TD
#define TEDIALECT_IR_TECONSTRAINTS_TD

include "TEDialect/IR/TEAttrs.td"
include "TEDialect/IR/TETypes.td"
include "TEDialect/IR/TEInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

/// A statically shaped tensor of a high-precision float.
def TE_HPTensor : StaticShapeTensorOf<[BF16, F16, F32]>;
def TE_HPMatrix
    : 2DTensorOf<[BF16, F16, F32]>;
/// One matrix, or one for each group.
def TE_HPMatrices : TensorRankOf<[BF16, F16, F32], [2, 3]>;
def TE_HPStack : 3DTensorOf<[BF16, F16, F32]>;
def TE_HPVector : 1DTensorOf<[BF16, F16, F32]>;
/// One f32: amax, scale, loss, learning rate.
def TE_F32Scalar
    : Type<And<[0DTensorOf<[F32]>.predicate]>, "0D tensor of 32-bit float values",
           "::mlir::RankedTensorType">,
      BuildableType<
          "::mlir::RankedTensorType::get({}, $_builder.getF32Type())">;
def TE_F32Vector : 1DTensorOf<[F32]>;
def TE_F32Matrix : 2DTensorOf<[F32]>;
def TE_F32Tensor : StaticShapeTensorOf<[F32]>;
/// A scaled value that is not the shard of one rank.
def TE_WholeScaled
    : Type<And<[TE_ScaledType.predicate,
                CPred<"!::llvm::cast<::mlir::te::ScaledType>($_self).isShard()">]>,
           "a scaled value without 'shard', which te.all_gather puts together",
           "::mlir::te::ScaledType">;
// The results of the three casts: of a matrix or stack, of a shard, of groups.
def TE_MatrixScaled
    : Type<And<[TE_WholeScaled.predicate,
                CPred<"!::llvm::cast<::mlir::te::ScaledType>($_self).isGrouped()">]>,
           "a scaled value without 'groups' (of te.grouped_quantize) and 'shard' (of te.quantize_shard)",
           "::mlir::te::ScaledType">;
def TE_ShardScaled
    : Type<And<[TE_ScaledType.predicate,
                CPred<"::llvm::cast<::mlir::te::ScaledType>($_self).isShard()">]>,
           "a scaled value with 'shard'", "::mlir::te::ScaledType">;
def TE_GroupedScaled
    : Type<And<[TE_WholeScaled.predicate,
                CPred<"::llvm::cast<::mlir::te::ScaledType>($_self).isGrouped()">]>,
           "a scaled value with 'groups'", "::mlir::te::ScaledType">;
/// Seed and offset of a random generator.
def TE_RngState
    : Type<And<[1DTensorOf<[I32]>.predicate,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).hasStaticShape({2})">]>,
           "1D tensor of 2 32-bit signless integer values",
           "::mlir::RankedTensorType">,
      BuildableType<"::mlir::RankedTensorType::get({2}, $_builder.getI32Type())">;
/// The counts of te.count_nonfinite, with one row for each check.
def TE_CountMatrix : 2DTensorOf<[I32]>;
def TE_IdVector : 1DTensorOf<[I32]>;
/// The number of rows of each group, which a step computes or takes.
def TE_GroupSizes
    : ConfinedType<1DTensorOf<[I32]>, [],
                   "sizes of groups, a 1-D tensor of i32 (cast those of i64 before the step takes them)">;
/// Where the documents that are packed into rows begin and end.
def TE_Documents
    : ConfinedType<1DTensorOf<[I32]>, [],
                   "boundaries of documents, a 1-D tensor of i32 (cast those of i64 before the step takes them)">;

class TE_Op<string mnemonic, list<Trait> traits = []>
    : Op<TE_Dialect, mnemonic, traits>;

/// An op without side effects. `axes` is its TE_Axes, or TE_NoAxes.
class TE_PureOp<string mnemonic, Trait axes, list<Trait> traits = []>
    : TE_Op<mnemonic, [Pure, axes] # traits>;

/// An op of the backward. The operands `saved` are values of the forward.
class TE_BackwardOp<string mnemonic, Trait axes, list<string> saved,
                    list<Trait> traits = []>
    : TE_PureOp<mnemonic, axes, [TE_Saves<saved>] # traits>;

#endif // TEDIALECT_IR_TECONSTRAINTS_TD
