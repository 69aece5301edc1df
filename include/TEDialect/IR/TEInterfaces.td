//===- TEInterfaces.td - interfaces of te ops -----------------------------===//

#ifndef TEDIALECT_IR_TEINTERFACES_TD
#define TEDIALECT_IR_TEINTERFACES_TD

include "mlir/IR/OpBase.td"

def TE_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op that knows its reverse-mode derivative. `te-differentiate` visits ops
    in reverse order and asks each one that has a cotangent on some result.
  }];
  let methods = [
    InterfaceMethod<[{
        Adds to `adjoints` the cotangent of every operand that wants one, built
        with `builder` (positioned in the backward part). Forward values are
        reached only through `adjoints.residual`, so that what is saved for the
        backward has a name.
      }],
      "::llvm::LogicalResult", "differentiate",
      (ins "::mlir::OpBuilder &":$builder,
           "::mlir::te::AdjointContext &":$adjoints)>
  ];
}

#endif // TEDIALECT_IR_TEINTERFACES_TD
