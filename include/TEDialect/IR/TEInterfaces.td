//===- TEInterfaces.td - interfaces of te ops -----------------------------===//

#ifndef TEDIALECT_IR_TEINTERFACES_TD
#define TEDIALECT_IR_TEINTERFACES_TD

include "mlir/IR/OpBase.td"

def TE_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op with a reverse-mode derivative. `te-differentiate` visits the ops in
    reverse order and calls `differentiate` of each op of which a result has a
    cotangent.
  }];
  let methods = [
    InterfaceMethod<[{
        Adds to `adjoints` the cotangent of every operand that needs one. Creates
        ops with `builder`, whose insertion point is in the backward. Reads
        forward values only through `adjoints.residual`, which gives a name to
        each value that is saved for the backward.
      }],
      "::llvm::LogicalResult", "differentiate",
      (ins "::mlir::OpBuilder &":$builder,
           "::mlir::te::AdjointContext &":$adjoints)>
  ];
}

def TE_SkippableOpInterface : OpInterface<"SkippableOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op that is skipped if a flag of the step is exactly 1.0. The flag is read
    on the device, so a captured step can be replayed with another value.
  }];
  let methods = [
    InterfaceMethod<"The flag, or null if there is none.",
      "::mlir::Value", "getSkip">,
    InterfaceMethod<[{
        The value of result `index` if the op is skipped; null for a result that
        is then 0.
      }],
      "::mlir::Value", "getCached", (ins "unsigned":$index), "", "return {};">
  ];
}

def TE_QuantizeOpInterface : OpInterface<"QuantizeOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    A cast of a high-precision tensor: te.quantize of a matrix or a stack,
    te.quantize_shard of a flat shard, te.grouped_quantize of rows in groups. If an
    op does not have an operand or attribute, its getter returns null or "off".
  }];
  let methods = [
    InterfaceMethod<"The tensor that is cast.", "::mlir::Value", "getX">,
    InterfaceMethod<"The one or two quantised results.",
      "::mlir::ResultRange", "getUsages">,
    InterfaceMethod<"The scale of a `per_tensor` cast.",
      "::mlir::Value", "getScale">,
    InterfaceMethod<"The amaxes that its scales are derived from.",
      "::mlir::Value", "getGivenAmax">,
    InterfaceMethod<"The amax of the tensor, if the op measures it.",
      "::mlir::Value", "getAmax", (ins), "", "return {};">,
    InterfaceMethod<"The random state for stochastic rounding.",
      "::mlir::Value", "getRng", (ins), "", "return {};">,
    InterfaceMethod<"The sizes of the groups.",
      "::mlir::Value", "getGroupSizes", (ins), "", "return {};">,
    InterfaceMethod<"The flag of a cached cast.",
      "::mlir::Value", "getSkip", (ins), "", "return {};">,
    InterfaceMethod<"The lower bound of the amaxes of blocks.",
      "::llvm::APFloat", "getAmaxEpsilon">,
    InterfaceMethod<"How FP4 blocks choose the value that their amax maps to.",
      "::mlir::te::FourOverSix", "getFourOverSix", (ins), "",
      "return ::mlir::te::FourOverSix::Off;">,
    InterfaceMethod<[{
        Creates the same cast with results of the types `usages` and, unless it is
        null, `amax`. Discardable attributes are kept. Precondition: `amax` is null
        if the op cannot measure an amax.
      }],
      "::mlir::te::QuantizeOpInterface", "withResults",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::TypeRange":$usages,
           "::mlir::Type":$amax)>
  ];
  let extraSharedClassDeclaration = [{
    /// The type of the first usage. The second one differs only in its axis.
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
    An op that describes how the axes of its operands and results relate. Every te
    op declares this in its definition (`TE_Axes`, `TE_NoAxes`). Elementwise ops
    and reshapes of other dialects have external models.
  }];
  let methods = [
    InterfaceMethod<"The axes of this op's operands and results, as factors.",
      "::mlir::te::AxisRelation", "getAxisRelation">
  ];
}

/// The operator of the lists of axes of operands and of results.
def axes;

/// The C++ statements that add the axes in `operands` and `results` to an
/// AxisRelation `r`. Both are dags of `axes` with a text for each named value.
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

/// The C++ statements that say which operands keep rows of zeros.
class TE_ZeroStatements<list<string> operands> {
  string text = !interleave(!foreach(name, operands,
      " r.keepZerosOf(getODSOperands(odsIndex_" # name # "));"), "");
}

class TE_AxisTrait<string body>
    : TraitList<[TE_AxisRelationOpInterface,
        TE_DeclaringTrait<"DeclaresAxes", "  ::mlir::te::AxisRelation getAxisRelation() {\n"
          # "    ::mlir::te::AxisRelation r(getOperation());\n    " # body # "\n    return r;\n  }\n">]>;

/// The axis relation of an op. Each axis has the name of a factor, and axes with
/// the same factor have the same size:
///
///   TE_Axes<(axes "m k":$x, "n k":$w, "n":$bias), (axes "m n":$y)>
///
/// * `2n` is twice the size of `n`.
/// * `~t` has the elements of `t` in a different number, such as repeated tokens,
///   and is split over ranks if `t` is.
/// * `_` is not related to another axis.
/// * `...` stands for all axes of a value.
///
/// Results are listed from the first one. The axes of operands that are not
/// listed, and of scaled values, are not related to others. A result without a
/// factor of `sums` is a sum over that factor, such as the gradient of a parameter
/// over tokens. A rank needs every element of the factors in `whole`. Where the rows of
/// all operands `zeros` that are given are zeros, so are those of the results.
class TE_Axes<dag operands, dag results, list<string> sums = [],
              list<string> whole = [], list<string> zeros = []>
    : TE_AxisTrait<TE_AxisStatements<operands, results>.text
        # !interleave(!foreach(f, sums, " r.sum(\"" # f # "\");"), "")
        # !interleave(!foreach(f, whole, " r.needWhole(\"" # f # "\");"), "")
        # TE_ZeroStatements<zeros>.text>;

/// Like `TE_Axes`, for an op whose relation depends on an attribute or operand.
class TE_AxesIf<string condition, dag operands, dag results,
                dag elseOperands, dag elseResults, list<string> sums = [],
                list<string> zeros = []>
    : TE_AxisTrait<"if (" # condition # ") { "
        # TE_AxisStatements<operands, results>.text # " } else { "
        # TE_AxisStatements<elseOperands, elseResults>.text # " }"
        # !interleave(!foreach(f, sums, " r.sum(\"" # f # "\");"), "")
        # TE_ZeroStatements<zeros>.text>;

/// The op defines `getAxisRelation` in C++.
def TE_AxesInCpp : DeclareOpInterfaceMethods<TE_AxisRelationOpInterface>;

/// No axis of the op is related to another axis, except to axes of scaled values.
def TE_NoAxes : TE_AxisTrait<"">;

//===----------------------------------------------------------------------===//
// Saved operands
//===----------------------------------------------------------------------===//

def TE_SavedOperandsOpInterface : OpInterface<"SavedOperandsOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op of the backward that reads values of the forward: results of
    te.residual, arguments or constants. `te-verify-stage` checks this.
  }];
  let methods = [
    InterfaceMethod<"The operands that are values of the forward.",
      "::llvm::SmallVector<::mlir::Value>", "getSavedOperands">
  ];
}

/// The named operands are values of the forward, if `condition` holds.
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
    An op that can compute the amax of one of its results, after rounding, as a
    further result. `te-fuse-amax` uses it.
  }];
  let methods = [
    InterfaceMethod<[{
        The amax of the result `rounded`, or null if the op cannot compute it. If
        the op does not compute it yet, it is erased and replaced by an op that
        does, with a result of type `amax`.
      }],
      "::mlir::Value", "requireAmax",
      (ins "::mlir::Value":$rounded, "::mlir::Type":$amax)>
  ];
}

/// For each pair `[t, a]`, result `a` of the definition is the amax of result
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
    An op whose first result is its first operand in another form: a cast, a
    transposed copy, or a saved value. Reports and policies look through such ops
    to find the weight or layer.
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
        The properties of the call that must be equal on all ranks of the group;
        none if the op does not communicate.
      }],
      "::std::optional<::mlir::te::CollectiveCall>", "getCollectiveCall">,
    InterfaceMethod<[{
        Whether the results are equal on all ranks of a group, or differ between
        them, for any operands; none if this depends on the operands.
      }],
      "::std::optional<::mlir::te::GroupEffect>", "getGroupEffect">
  ];
}

def TE_ZeroPaddedOpInterface : OpInterface<"ZeroPaddedOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op on groups of rows that writes zeros to the rows that belong to no group.
  }];
  let methods = [
    InterfaceMethod<[{
        The groups of the rows of `result`, between which it has zeros; none if it
        has no groups.
      }],
      "::std::optional<::mlir::te::RowGroups>", "getZeroPaddedGroups",
      (ins "::mlir::Value":$result)>
  ];
}

/// The rows of the result that belong to no group of `group_sizes` are zeros.
def TE_PadsWithZeros : TraitList<[TE_ZeroPaddedOpInterface,
    TE_DeclaringTrait<"DeclaresZeroPadding", [{
  ::std::optional<::mlir::te::RowGroups> getZeroPaddedGroups(::mlir::Value) {
    return ::mlir::te::RowGroups{getGroupSizes(), static_cast<int64_t>(getAlignment())};
  }
}]>]>;

#endif // TEDIALECT_IR_TEINTERFACES_TD
