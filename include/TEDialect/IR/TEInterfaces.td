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

def TE_SkippableOpInterface : OpInterface<"SkippableOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op that does not do its work where a flag of the step is exactly 1.0. The
    flag is read on the device, so a captured step can be replayed with another.
  }];
  let methods = [
    InterfaceMethod<"The flag, or null where there is none.",
      "::mlir::Value", "getSkip">,
    InterfaceMethod<[{
        What the results are where the flag is 1.0: a value for each of the first
        results, none for those that are 0 then.
      }],
      "::mlir::OperandRange", "getCached", (ins), "",
      "return $_op.getOperation()->getOperands().take_front(0);">
  ];
}

def TE_QuantizeOpInterface : OpInterface<"QuantizeOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    A cast of a high-precision tensor: te.quantize of a matrix or a stack,
    te.quantize_shard of a flat run, te.grouped_quantize of rows in groups. What
    an op has no operand for is null, and what it has no attribute for is off.
  }];
  let methods = [
    InterfaceMethod<"The tensor that is cast.", "::mlir::Value", "getX">,
    InterfaceMethod<"The one or two usages that it is cast to.",
      "::mlir::ResultRange", "getUsages">,
    InterfaceMethod<"The scale of a `per_tensor` cast.",
      "::mlir::Value", "getScale">,
    InterfaceMethod<"The amaxes that its scales are derived from.",
      "::mlir::Value", "getGivenAmax">,
    InterfaceMethod<"What it measures of the tensor.",
      "::mlir::Value", "getAmax", (ins), "", "return {};">,
    InterfaceMethod<"The state that it rounds stochastically with.",
      "::mlir::Value", "getRng", (ins), "", "return {};">,
    InterfaceMethod<"The sizes of the groups.",
      "::mlir::Value", "getGroupSizes", (ins), "", "return {};">,
    InterfaceMethod<"The flag of a cached cast.",
      "::mlir::Value", "getSkip", (ins), "", "return {};">,
    InterfaceMethod<"What amaxes of blocks are at least.",
      "::llvm::APFloat", "getAmaxEpsilon">,
    InterfaceMethod<"How blocks of FP4 choose their largest value.",
      "::mlir::te::FourOverSix", "getFourOverSix", (ins), "",
      "return ::mlir::te::FourOverSix::Off;">,
    InterfaceMethod<[{
        The same cast, at the builder's position, with results of the types
        `usages` and, unless it is null, `amax`. Discardable attributes are kept.
        Precondition: an op that measures nothing is given no `amax`.
      }],
      "::mlir::te::QuantizeOpInterface", "withResults",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::TypeRange":$usages,
           "::mlir::Type":$amax)>
  ];
  let extraSharedClassDeclaration = [{
    /// The type of the first usage, which others differ from in their axis.
    ::mlir::te::ScaledType getUsageType() {
      return ::llvm::cast<::mlir::te::ScaledType>(
          $_op.getUsages().front().getType());
    }
  }];
}

#endif // TEDIALECT_IR_TEINTERFACES_TD
