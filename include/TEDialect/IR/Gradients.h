//===- Gradients.h - derivatives of ops of other dialects -----------------===//

#ifndef TEDIALECT_IR_GRADIENTS_H
#define TEDIALECT_IR_GRADIENTS_H

namespace mlir {
class DialectRegistry;
namespace te {

/// Gives arith, math and tensor ops their `DifferentiableOpInterface`, when
/// those dialects are loaded.
void registerTEGradients(DialectRegistry &registry);

} // namespace te
} // namespace mlir

#endif // TEDIALECT_IR_GRADIENTS_H
