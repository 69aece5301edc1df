//===- Tensors.h - arrays of files against arguments of a step ------------===//
//
// A step's arguments have a name, an element type and a shape, and files have
// arrays. This file defines what an array must look like to be an argument,
// what a result looks like in a file, and the values of an argument for which
// no file has an array. No LLVM, no runtime calls.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_TENSORS_H
#define TE_TOOLS_TE_RUN_TENSORS_H

#include "Support/Npz.h"
#include "TEDialect/Runtime/te_runtime_types.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace te::run {

/// One argument or result of a step.
struct TensorSpec {
  std::string name;
  te_rt_dtype type = TE_RT_F32;
  std::vector<int64_t> shape;
  /// A parameter (`te.weight`): drawn small when there is no array for it.
  bool isWeight = false;
  /// A state that the recipe carries (`te.recipe_state`).
  bool isRecipeState = false;
  /// What it is when there is no array for it (`te.init`).
  std::optional<float> init = {};

  int64_t numElements() const;
  int64_t bytes() const;
  /// As users write it: "bf16 [256, 512]", "f32 []".
  std::string str() const;
};

/// Whether an array can be the argument `spec`: f32, i32 and f16 as
/// themselves, bf16 as 'bfloat16' or raw 16 bits, 8-bit floats under their
/// ml_dtypes name or as raw 8 bits. Nothing is converted. With `steps` > 0 the
/// array must have a leading dimension of that size.
bool fits(const TensorSpec &spec, const support::NpyArray &array, int64_t steps,
          std::string &error);

/// The element type string of results in files: numpy's where it has one, raw
/// unsigned integers otherwise.
std::string fileType(te_rt_dtype type);

/// What a .safetensors file calls the type.
std::string checkpointType(te_rt_dtype type);

/// The shape of `spec` there, where two FP4 elements in a byte count as two.
std::vector<int64_t> checkpointShape(const TensorSpec &spec);

/// The value of the element whose bits are `bits`.
double decodeElement(te_rt_dtype type, uint32_t bits);

/// Why `spec` has no array.
std::string noMemoryFor(const TensorSpec &spec);

/// An array for `spec` drawn from `seed` and the argument's name, so it does
/// not depend on the other arguments: floats normal(0, 1), weights
/// normal(0, 0.02), 8-bit floats uniform over the finite bytes, integers
/// uniform in [0, 256). Returns false if there is no memory for it.
bool drawArray(const TensorSpec &spec, uint64_t seed, support::NpyArray &array);

/// An array that is `value` everywhere, for a type above 8 bits, or that is
/// NaN, for any; false as above.
bool filledArray(const TensorSpec &spec, float value, support::NpyArray &array);

/// An array of zeros; false as above.
bool zerosArray(const TensorSpec &spec, support::NpyArray &array);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_TENSORS_H
