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

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

def TE_AxisRelationOpInterface : OpInterface<"AxisRelationOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op that says how the axes of its operands and results relate. Every te op
    declares it with its definition (`TE_Axes`, `TE_NoAxes`); elementwise ops
    and reshapes of other dialects have external models.
  }];
  let methods = [
    InterfaceMethod<"The axes of this op's operands and results, as factors.",
      "::mlir::te::AxisRelation", "getAxisRelation">
  ];
}

/// Opens the list of the axes of operands or of results.
def axes;

/// The C++ statements that tell an AxisRelation `r` the axes in `operands` and
/// `results`, dags of `axes` with a text for each named value.
class TE_AxisStatements<dag operands, dag results> {
  string text =
      !interleave(!foreach(i, !range(!size(operands)),
          "r.operands(\"" # !getdagname(operands, i) # "\", getODSOperands(odsIndex_"
          # !getdagname(operands, i) # "), \"" # !getdagarg<string>(operands, i) # "\");"), " ")
      # " " #
      !interleave(!foreach(i, !range(!size(results)),
          "r.results(\"" # !getdagname(results, i) # "\", getODSResults(" # i
          # "), \"" # !getdagarg<string>(results, i) # "\");"), " ");
}

/// A trait with a C++ base class in mlir::te and a method of the op.
class TE_DeclaringTrait<string name, code method>
    : NativeOpTrait<name, [], method> {
  let cppNamespace = "::mlir::te";
}

class TE_AxisTrait<string body>
    : TraitList<[TE_AxisRelationOpInterface,
        TE_DeclaringTrait<"DeclaresAxes", "  ::mlir::te::AxisRelation getAxisRelation() {\n"
          # "    ::mlir::te::AxisRelation r(getOperation());\n    " # body # "\n    return r;\n  }\n">]>;

/// The rule of an op. An axis is a factor; axes with one factor have one size:
///
///   TE_Axes<(axes "m k":$x, "n k":$w, "n":$bias), (axes "m n":$y)>
///
/// `2n` is twice the size of `n`, `~t` has the elements of `t` in another number
/// (so that it is split where `t` is), `_` is related to nothing, `...` stands
/// for all axes of a value. Results are listed from the first on; operands that
/// are not listed, and values of scaled types, are related to nothing. The
/// result is a sum over `sums` where it lacks that factor, such as the gradient
/// of a parameter over tokens. Of `whole` a rank needs every element. With
/// `keepsZeros`, rows of zeros give rows of zeros.
class TE_Axes<dag operands, dag results, list<string> sums = [],
              list<string> whole = [], bit keepsZeros = 0>
    : TE_AxisTrait<TE_AxisStatements<operands, results>.text
        # !interleave(!foreach(f, sums, " r.sum(\"" # f # "\");"), "")
        # !interleave(!foreach(f, whole, " r.needWhole(\"" # f # "\");"), "")
        # !if(keepsZeros, " r.keepsZeros = true;", "")>;

/// As `TE_Axes`, where the rule depends on an attribute or operand.
class TE_AxesIf<string condition, dag operands, dag results,
                dag elseOperands, dag elseResults, list<string> sums = [],
                bit keepsZeros = 0>
    : TE_AxisTrait<"if (" # condition # ") { "
        # TE_AxisStatements<operands, results>.text # " } else { "
        # TE_AxisStatements<elseOperands, elseResults>.text # " }"
        # !interleave(!foreach(f, sums, " r.sum(\"" # f # "\");"), "")
        # !if(keepsZeros, " r.keepsZeros = true;", "")>;

/// The op defines `getAxisRelation` in C++.
def TE_AxesInCpp : DeclareOpInterfaceMethods<TE_AxisRelationOpInterface>;

/// No axis of the op is related to another one, or only to those of scaled
/// values.
def TE_NoAxes : TE_AxisTrait<"">;

//===----------------------------------------------------------------------===//
// Saved operands
//===----------------------------------------------------------------------===//

def TE_SavedOperandsOpInterface : OpInterface<"SavedOperandsOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op of the backward that reads values of the forward. They reach it
    through te.residual, or are arguments or constants; `te-verify-stage` checks
    it.
  }];
  let methods = [
    InterfaceMethod<"The operands that are values of the forward.",
      "::llvm::SmallVector<::mlir::Value>", "getSavedOperands">
  ];
}

/// The named operands are values of the forward, where `condition` holds.
class TE_Saves<list<string> operands, string condition = "true">
    : TraitList<[TE_SavedOperandsOpInterface,
        TE_DeclaringTrait<"DeclaresSavedOperands",
          "  ::llvm::SmallVector<::mlir::Value> getSavedOperands() {\n"
          # "    ::llvm::SmallVector<::mlir::Value> saved;\n    if (" # condition # ") { "
          # !interleave(!foreach(name, operands,
              "::llvm::append_range(saved, getODSOperands(odsIndex_" # name # "));"), " ")
          # " }\n    return saved;\n  }\n">]>;

//===----------------------------------------------------------------------===//
// Amaxes
//===----------------------------------------------------------------------===//

def TE_AmaxProducerOpInterface : OpInterface<"AmaxProducerOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op that can give the amax of a tensor that it makes, of the rounded
    values, as an optional result. `te-fuse-amax` asks for it.
  }];
  let methods = [
    InterfaceMethod<[{
        The amax of the result `rounded`, or null where the op cannot give it.
        An op that does not give it yet is replaced by one that does, with an
        amax of type `amax`, and erased.
      }],
      "::mlir::Value", "requireAmax",
      (ins "::mlir::Value":$rounded, "::mlir::Type":$amax)>
  ];
}

/// For each pair `[t, a]` result `a` of the definition is the amax of result
/// `t`.
class TE_MeasuresAmax<list<list<int>> pairs>
    : TraitList<[TE_AmaxProducerOpInterface,
        TE_DeclaringTrait<"DeclaresAmax",
          "  ::mlir::Value requireAmax(::mlir::Value rounded, ::mlir::Type amax) {\n"
          # "    return ::mlir::te::requireAmaxOf(*this, rounded, amax, {"
          # !interleave(!foreach(pair, pairs, "{" # !interleave(pair, ", ") # "}"), ", ")
          # "});\n  }\n">]>;

//===----------------------------------------------------------------------===//
// Forms of one value
//===----------------------------------------------------------------------===//

def TE_StoredFormOpInterface : OpInterface<"StoredFormOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op whose first result is its first operand, stored in another form: a
    cast, a transposed copy, or a saved value. Reports and policies look through
    it to the weight or layer behind.
  }];
  let methods = [
    InterfaceMethod<"The value that the result is another form of.",
      "::mlir::Value", "getStoredValue", (ins), "",
      "return $_op->getOperand(0);">
  ];
}

//===----------------------------------------------------------------------===//
// Ranks and groups of rows
//===----------------------------------------------------------------------===//

def TE_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op that communicates over the ranks of a group, or a parallel layer that
    `te-insert-collectives` will replace by such ops.
  }];
  let methods = [
    InterfaceMethod<[{
        What the ranks of the group have to agree on; nothing where the op does
        not communicate.
      }],
      "::std::optional<::mlir::te::CollectiveCall>", "getCollectiveCall">,
    InterfaceMethod<[{
        Whether the results are the same on all ranks of a group, or differ
        there, whatever the operands are; nothing where they are as the operands
        are.
      }],
      "::std::optional<::mlir::te::GroupEffect>", "getGroupEffect">
  ];
}

def TE_ZeroPaddedOpInterface : OpInterface<"ZeroPaddedOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op of groups of rows that makes the rows of no group zeros.
  }];
  let methods = [
    InterfaceMethod<[{
        The groups between whose rows `result` has zeros; nothing where it has
        no groups.
      }],
      "::std::optional<::mlir::te::RowGroups>", "getZeroPaddedGroups",
      (ins "::mlir::Value":$result)>
  ];
}

/// The rows of the result that are in none of `group_sizes` are zeros.
def TE_PadsWithZeros : TraitList<[TE_ZeroPaddedOpInterface,
    TE_DeclaringTrait<"DeclaresZeroPadding", [{
  ::std::optional<::mlir::te::RowGroups> getZeroPaddedGroups(::mlir::Value) {
    return ::mlir::te::RowGroups{getGroupSizes(), static_cast<int64_t>(getAlignment())};
  }
}]>]>;

#endif // TEDIALECT_IR_TEINTERFACES_TD
