//===- QuantPolicy.h - what a recipe means for one GEMM -------------------===//
//
// The decisions of the quantise phase, free of any IR walk: from a recipe, the
// role of a tensor and the GEMM that reads it to formats, accumulation and size
// rules. Passes, constraint checks and reports all ask here, so they agree.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_ANALYSIS_QUANTPOLICY_H
#define TEDIALECT_ANALYSIS_QUANTPOLICY_H

#include "TEDialect/IR/Support.h"
#include "TEDialect/IR/TE.h"

namespace mlir::te {

/// The three GEMMs of a linear layer `y[M, N] = x[M, K] w[N, K]ᵀ`.
enum class Gemm { Fprop, Dgrad, Wgrad };
StringRef stringifyGemm(Gemm gemm);

/// The tensors a linear layer may quantise.
enum class TensorRole { X, W, Dy };

/// What `gemm` reads as its operands `a` and `b`; with `transposed`, of a layer
/// whose weight is stored as [K, N], a wgrad has them the other way around.
std::pair<TensorRole, TensorRole> operandRoles(Gemm gemm,
                                               bool transposed = false);

/// The GEMM that reads a tensor of `role` cast for axis `contract`, where a
/// weight is [N, K].
Gemm readerOf(TensorRole role, unsigned contract);

/// What the operands of a GEMM are.
enum class OperandMode {
  /// The tensors themselves.
  HighPrecision,
  /// `dy` itself; the others dequantised from the forward's casts.
  Dequantized,
  /// Casts for the contracted axis.
  Quantized
};

/// Sizes of a linear layer, see `Gemm`.
struct LinearSizes {
  int64_t m, n, k;
};

/// One size of which the casts of a GEMM have a multiple.
struct SizeRule {
  /// 'M', 'N' or 'K'.
  char axis;
  int64_t multiple;
  Gemm gemm;
  /// True when the GEMM contracts this axis.
  bool contracted;

  int64_t size(LinearSizes sizes) const {
    return axis == 'M' ? sizes.m : axis == 'N' ? sizes.n : sizes.k;
  }
};

class QuantPolicy {
public:
  explicit QuantPolicy(RecipeAttr recipe) : recipe(recipe) {}

  RecipeAttr getRecipe() const { return recipe; }

  /// Whether `gemm` casts with scales from earlier steps.
  bool isDelayed(Gemm gemm) const {
    return recipeOf(gemm).getKind() == RecipeKind::DelayedScaling;
  }

  /// What the recipe asks for, before sizes are looked at.
  OperandMode operandMode(Gemm gemm) const;

  /// The type of a tensor of `shape` that `gemm` contracts along axis
  /// `contract`. FP8 weights and activations are always E4M3, so no GEMM meets
  /// two E5M2 operands. Precondition: `gemm` quantises.
  ScaledType castType(TensorRole role, Gemm gemm, ArrayRef<int64_t> shape,
                      unsigned contract) const;

  /// The recipe that `gemm` follows: the recipe itself, or the one that a
  /// custom recipe has for it.
  RecipeAttr recipeOf(Gemm gemm) const;

  /// What the cast of a tensor for its second direction reads.
  CastSource columnSource(TensorRole role) const;

  /// Whether the tensor core may use its short accumulator.
  bool fastAccumulation(Gemm gemm) const;

  /// How `gemm` reads a tensor of `role`: how its scales are shared, its
  /// element type, what its type says beside, and how FP4 is rounded.
  /// Precondition: `gemm` quantises.
  Scheme scheme(TensorRole role, Gemm gemm) const;
  Type elementType(TensorRole role, Gemm gemm) const;
  ScaleVariant variant(TensorRole role, Gemm gemm) const;
  FourOverSix fourOverSix(TensorRole role, Gemm gemm) const;
  bool stochasticRounding(TensorRole role, Gemm gemm) const;

  /// Why no target multiplies the quantised operands of `gemm`, tensors of
  /// `operandTypes` before their casts, into `resultType`, or why `target` does
  /// not; empty where they can be multiplied, or are not quantised. Here and
  /// below, `transposed` is of a layer whose weight is stored as [K, N].
  std::string refusal(Gemm gemm, ArrayRef<Type> operandTypes, Type resultType,
                      bool bias, bool transposed = false) const;
  std::string targetRefusal(Gemm gemm, support::Target target, bool emulate,
                            bool transposed = false) const;

  /// Why `target` does not run `gemm` on groups of rows; its own, as groups are
  /// multiplied by other kernels than matrices.
  std::string groupsRefusal(Gemm gemm, support::Target target, bool emulate,
                            Type operandType, Type resultType) const;

  /// Why the quantised operands of `gemm` are not multiplied in groups that
  /// start at multiples of `alignment`; empty where they are, or are not
  /// quantised.
  std::string alignmentRefusal(Gemm gemm, int64_t alignment) const;

  /// Why a flat shard of `count` elements of a weight is not cast by itself for
  /// `gemm`, which contracts axis `contract` of the whole; empty where it is.
  std::string shardRefusal(Gemm gemm, unsigned contract, int64_t count) const;

  /// The multiples to which the casts of `gemm` are padded; empty when its
  /// operands are not quantised.
  SmallVector<SizeRule> sizeRules(Gemm gemm, bool transposed = false) const;

  /// Why `gemm` runs as `operandMode` says: "recipe 'x'" or "override 'x'".
  std::string reason(Gemm gemm) const;

private:
  RecipeAttr recipe;
};

} // namespace mlir::te

#endif // TEDIALECT_ANALYSIS_QUANTPOLICY_H
