//===- Rotation.h - the formula of the rotary embedding -------------------===//
//
// Apart from Formulas.h, which every kernel includes. Host and device compile
// it with contraction off, so both backends have the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_ROTATION_H
#define TE_RUNTIME_CORE_ROTATION_H

#include "Core/Math.h"

namespace te::rt::math {

/// Turns the pair (a, b) by the angle of `cosine` and `sine`.
TE_HOST_DEVICE void rotate(float cosine, float sine, float &a, float &b) {
  const float x = a;
  a = x * cosine - b * sine;
  b = b * cosine + x * sine;
}

} // namespace te::rt::math

#endif // TE_RUNTIME_CORE_ROTATION_H
