//===- SupportSchema.td - the records of the support table ----------------===//
//
// The classes of the rows of TESupport.td. te-tblgen checks the rows (each pair of
// schemes has one row, and each row has every target once) and writes them as C++
// (SupportRows.inc), Markdown and JSON. This file does not depend on MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_SUPPORT_SUPPORTSCHEMA_TD
#define TEDIALECT_SUPPORT_SUPPORTSCHEMA_TD

/// A machine to compile for. `value` is its value in te_table::Target.
class Target<string spelling, int value> {
  string Spelling = spelling;
  int Value = value;
}
def SM90 : Target<"sm_90", 0>;
def SM100 : Target<"sm_100", 1>;
def Reference : Target<"reference", 2>;

/// `value` is that of te_rt_dtype.
class ElementType<string spelling, int value> {
  string Spelling = spelling;
  int Value = value;
}
def F32 : ElementType<"f32", 0>;
def BF16 : ElementType<"bf16", 1>;
def F16 : ElementType<"f16", 2>;
def F8E4M3FN : ElementType<"f8E4M3FN", 3>;
def F8E5M2 : ElementType<"f8E5M2", 4>;
def I32 : ElementType<"i32", 5>;
def F4E2M1FN : ElementType<"f4E2M1FN", 6>;
def F8E8M0FNU : ElementType<"f8E8M0FNU", 7>;

/// How a target runs an operation. `value` is its value in te_table::Path.
class Path<string name, int value, string meaning> {
  string Name = name;
  int Value = value;
  string Meaning = meaning;
}
def Never : Path<"no", 0, "refused">;
def Native : Path<"native", 1, "a mode of cuBLASLt">;
def OwnKernel : Path<"own kernel", 2, "a kernel of this project; cuBLASLt for what it does not take">;
def Emulated : Path<"emulated", 3, "both operands dequantised exactly, then a bf16 product; only with the pipeline option `emulate`">;
def ThroughMX : Path<"through MXFP8", 4, "scales rewritten as MXFP8; only where they are powers of two">;
def OnHost : Path<"reference", 5, "the CPU backend that defines every bit">;

/// How one target runs an operation. `rule` and `nearest` complete the error for a
/// step that does not meet the condition of `path` (an option, powers of two) or
/// that the target does not support: "...: <rule>; the nearest supported is
/// <nearest>". `cublasLt` is the least cublasLtGetVersion() that is required,
/// major * 10000 + minor * 100.
class On<Target target, Path path, int cublasLt = 0, string rule = "", string nearest = ""> {
  Target Machine = target;
  Path How = path;
  int CublasLt = cublasLt;
  string Rule = rule;
  string Nearest = nearest;
}

/// How elements share scales, and which casts support this.
class Scheme<string spelling, int value> {
  string Spelling = spelling;
  /// The value of te_rt_scheme.
  int Value = value;
  list<ElementType> Types = [F8E4M3FN, F8E5M2];
  ElementType ScaleType = F32;
  /// Both sizes of a value are multiples of this.
  int Multiple = 1;
  /// The `alignment` of groups of rows in a GEMM is a multiple of this, which
  /// blocks and kernels require of a contracted axis.
  int GroupAlignment = 16;
  /// Why te.transpose cannot derive the other usage; "" if it can.
  string NoTranspose = "";
  /// How each target runs quantize and dequantize.
  list<On> Casts = [On<SM90, OwnKernel>, On<SM100, OwnKernel>, On<Reference, OnHost>];
}

/// A pair of schemes that some target multiplies, and what the GEMM requires.
class Product<Scheme a, Scheme b> {
  Scheme A = a;
  Scheme B = b;
  list<ElementType> Results = [BF16, F16, F32];
  /// Result types for which the GEMM can add a bias.
  list<ElementType> BiasResults = [BF16, F32];
  /// Result types of this project's kernel, if a target has one.
  list<ElementType> OwnResults = [];
  bit FastAccumulation = 0;
  /// Multiples of the rows and columns of the result and of the contracted size.
  int M = 8;
  int N = 8;
  int K = 16;
  list<On> Machines = [];
  /// GEMMs of groups of rows, and the result types of this project's kernel.
  list<On> Groups = [];
  list<ElementType> GroupResults = [BF16, F32];
}

/// GEMMs of groups of rows in high precision, which emulated ones use, too.
class PlainGroups<list<On> machines> {
  list<On> Machines = machines;
  /// The operand and result types of this project's kernel.
  list<ElementType> Types = [BF16];
  list<ElementType> Results = [BF16, F32];
}

/// A pair of schemes that no target multiplies, and the one to use instead.
class NoProduct<Scheme a, Scheme b, string rule, Product nearest> {
  Scheme A = a;
  Scheme B = b;
  string Rule = rule;
  Product Nearest = nearest;
}

/// Two element types that no GEMM multiplies, for any schemes.
class NoTypes<ElementType a, ElementType b, string rule, ElementType nearestA> {
  ElementType A = a;
  ElementType B = b;
  string Rule = rule;
  ElementType NearestA = nearestA;
}

/// A value of te.recipe's `backward_override`, with its number.
class Override<string spelling, int value> {
  string Spelling = spelling;
  int Value = value;
}
def AsRecipe : Override<"none", 0>;
def HighPrecision : Override<"high_precision", 1>;
def Dequantized : Override<"dequantized", 2>;

/// A recipe, or a recipe with one option set (`variant`): the schemes of its
/// tensors with default options, and the overrides that it supports.
class Recipe<string spelling, Scheme x, Scheme w, Scheme dy, string variant = ""> {
  string Spelling = spelling;
  string Variant = variant;
  Scheme X = x;
  Scheme W = w;
  Scheme Dy = dy;
  /// Whether scales are powers of two by default.
  bit Pow2 = 0;
  list<Override> Overrides = [AsRecipe, HighPrecision, Dequantized];
  /// Why others are not supported; "" if all are.
  string OverrideRule = "";
}

#endif // TEDIALECT_SUPPORT_SUPPORTSCHEMA_TD
