//===- LayerPadding.h - zeros up to the sizes that casts need -------------===//
//
// Quantised GEMMs need multiples of 8, 16 or 32. A cast of a tensor of another
// size is the cast of the tensor with zeros after its rows and columns, and the
// result of the GEMM is cut. Zeros change no amax, no scale of a block with
// other elements, and no sum.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_LAYERPADDING_H
#define TE_TRANSFORMS_QUANTIZE_LAYERPADDING_H

#include "LayerGemms.h"

#include <array>

namespace mlir::te {

/// The padding of all tensors that the layers of a function cast. All GEMMs
/// that read a tensor read it with one padding, so that they share its casts,
/// and two tensors that are contracted along one axis have one size of it.
class LayerPadding {
public:
  /// Computes what the GEMMs `ops`, linear layers and their backward, need.
  explicit LayerPadding(ArrayRef<Operation *> ops);

  /// Sets the padding of the operands of `gemm`.
  void applyTo(LayerGemm &gemm) const;

private:
  /// The multiples that the last two axes of an operand need.
  using Multiples = std::array<int64_t, 2>;

  DenseMap<Operation *, std::array<Multiples, 2>> multiplesOf;
};

/// "M 68 to 80, K 100 to 112", the sizes of `gemm` that are padded, or "".
std::string describePadding(const LayerGemm &gemm);

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_LAYERPADDING_H
