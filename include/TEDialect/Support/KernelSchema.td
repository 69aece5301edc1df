//===- KernelSchema.td - the records of the kernel list -------------------===//
//
// What a row of Kernels.td can say. te-tblgen checks the rows and writes from
// them the list that compiled code is planned against, the checks of each
// parameter, the sizes of buffers, and the page docs/generated/kernels.md.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_SUPPORT_KERNELSCHEMA_TD
#define TEDIALECT_SUPPORT_KERNELSCHEMA_TD

include "TEDialect/Support/TESupport.td"

/// The operators of the two lists of a row.
def parameters;
def buffers;

//===----------------------------------------------------------------------===//
// Parameters: fixed when a plan is made
//===----------------------------------------------------------------------===//

/// `c` is how the parameter is passed: I64, I32 or F32. `takes` completes "takes
/// ..." on the page. `check` is the member of Checks (lib/Runtime/Core/Checks.h)
/// that every value must pass, and `arguments` are its arguments after the name and
/// the value. `check` is "" if any value is allowed, or if only a rule of the row
/// can check the value.
class ParameterType<string c, string takes, string check = "", string arguments = ""> {
  string C = c;
  string Takes = takes;
  string Check = check;
  string Arguments = arguments;
}

def Dim : ParameterType<"I64", "zero or more", "size">;
def Count : ParameterType<"I64", "one or more", "positive">;
def Matrices : ParameterType<"I64", "1 to 4096", "range", "1, 4096">;
/// Where a shard begins; the limits leave room for the shards before it.
def ShardStart : ParameterType<"I64", "-2^60 to 2^60", "shardStart">;
def AnyInt64 : ParameterType<"I64", "a number">;

def WideType : ParameterType<"I32", "f32, bf16 or f16", "wide">;
def Fp8Type : ParameterType<"I32", "f8E4M3FN or f8E5M2", "fp8">;
def AnyType : ParameterType<"I32", "a te_rt_dtype">;
/// The schemes from `first` to `last`.
class SchemeFrom<Scheme first, Scheme last>
    : ParameterType<"I32", first.Spelling # " to " # last.Spelling, "scheme",
                    first.Value # ", " # last.Value>;
def AnyScheme : SchemeFrom<PerTensor, NV16x16>;
def Flag : ParameterType<"I32", "0 or 1", "flag">;
def Activation : ParameterType<"I32", "a te_rt_activation", "activation">;
def GatedActivation : ParameterType<"I32", "a gated te_rt_activation", "gatedActivation">;
def AmaxAlgorithm
    : ParameterType<"I32", "max (0) or most_recent (1)", "choice", "2, \"max (0) or most_recent (1)\"">;
def FourOverSix
    : ParameterType<"I32", "off (0), mae (1) or mse (2)", "choice", "3, \"off (0), mae (1) or mse (2)\"">;
/// The largest block scale of an nv value.
def ScaleMax : ParameterType<"I32", "448 or 256", "scaleMax">;
/// In this range, fp8_max * 2^-margin is exact.
def Margin : ParameterType<"I32", "-100 to 100", "range", "-100, 100">;
def Ranks : ParameterType<"I32", "one or more, the size of the group", "positive">;
/// The number that the context knows a group of ranks by.
def GroupNumber : ParameterType<"I32", "the number of a group">;
def AnyInt32 : ParameterType<"I32", "a number">;

def Finite : ParameterType<"F32", "a finite number", "finite">;
def NonNegative : ParameterType<"F32", "finite, zero or more", "nonNegative">;
def Fp8Max : ParameterType<"F32", "positive, at most 65536", "fp8Max">;
def AnyFloat : ParameterType<"F32", "a number">;

//===----------------------------------------------------------------------===//
// Buffers: the pointers of one launch
//===----------------------------------------------------------------------===//

/// Expressions are C++ expressions of the parameters, the functions and constants
/// of KernelRows.h, and the names of schemes. The number of elements is the
/// product of `shape`. `type` is a parameter, the name of an element type, "byte",
/// or an expression.
class Buffer<list<string> shape, string type, bit isOutput, bit isOptional> {
  list<string> Shape = shape;
  string Type = type;
  bit IsOutput = isOutput;
  bit IsOptional = isOptional;
}
class In<list<string> shape, string type> : Buffer<shape, type, 0, 0>;
class Out<list<string> shape, string type> : Buffer<shape, type, 1, 0>;
class InOpt<list<string> shape, string type> : Buffer<shape, type, 0, 1>;
class OutOpt<list<string> shape, string type> : Buffer<shape, type, 1, 1>;

/// The lists `names`0, `names`1, ... of the members of a group of `n`. The shape of
/// buffer i is `count`i, a parameter or an expression that ends with one. All are
/// optional, so that a group may be smaller.
class EachParameter<string names, ParameterType type, int n> {
  dag List = !dag(parameters, !listsplat(type, n), !foreach(i, !range(n), names # i));
}
class EachIn<string names, string count, string type, int n> {
  dag List = !dag(buffers, !foreach(i, !range(n), InOpt<[count # i], type>),
                  !foreach(i, !range(n), names # i));
}
/// `EachIn` of members whose types differ: that of buffer i is the parameter `types`i.
class EachTypedIn<string names, string count, string types, int n> {
  dag List = !dag(buffers, !foreach(i, !range(n), InOpt<[count # i], types # i>),
                  !foreach(i, !range(n), names # i));
}
class EachOut<string names, string count, string type, int n> {
  dag List = !dag(buffers, !foreach(i, !range(n), OutOpt<[count # i], type>),
                  !foreach(i, !range(n), names # i));
}

/// `output` may be the memory of `input`, which has the same size: the kernel
/// reads each element of `input` for the last time before it writes that element
/// of `output`.
class MayReuse<string output, string input> {
  string Output = output;
  string Input = input;
}

/// `MayReuse` of all members of a group of `n`.
class EachReuse<string outputs, string inputs, int n> {
  list<MayReuse> List = !foreach(i, !range(n), MayReuse<outputs # i, inputs # i>);
}

//===----------------------------------------------------------------------===//
// Rules over several parameters that many rows share
//===----------------------------------------------------------------------===//

/// A call of a member of Checks, made if all parameters before it are valid.
class Relation<string check, list<string> arguments> {
  string Check = check;
  list<string> Arguments = arguments;
}
/// Two sizes whose product, a number of elements, fits in memory; `what` names
/// the sizes.
class FitsText<string what, string a, string b>
    : Relation<"area", ["\"" # what # "\"", a, b]>;
class Fits<string a, string b> : FitsText<"'" # a # "' and '" # b # "'", a, b>;
class Multiple<string name, string of> : Relation<"multiple", ["\"" # name # "\"", name, of]>;
/// A size that is not larger than another one.
class AtMost<string name, string size> : Relation<"atMost", ["\"" # name # "\"", name, "\"" # size # "\"", size]>;
/// A result that is stored as its operands or as f32.
class SameOrF32<string name, string type>
    : Relation<"type", ["\"" # name # "\"", name, "{" # type # ", f32}"]>;
/// An operand in the type that is computed with, or in f32 if that is bf16 and
/// `condition` holds.
class RoundedFrom<string name, string type, string condition>
    : Relation<"roundedFrom", ["\"" # name # "\"", name, type, condition]>;
/// The choices of all tokens, which are counted in i32.
class Entries<string tokens, string k> : Relation<"entries", [tokens, k]>;

//===----------------------------------------------------------------------===//
// Determinism: whether launches with the same inputs have the same bits
//===----------------------------------------------------------------------===//

/// What decides the bits of a launch. `EachRun`: the same bits each time in one process.
/// `EachProcess`: the same bits in processes on GPUs of one model, with one version of
/// driver and libraries.
class Determinism<string why, bit eachRun = 1, bit eachProcess = 1> {
  string Why = why;
  bit EachRun = eachRun;
  bit EachProcess = eachProcess;
  /// Whether processes have to choose the algorithms of GEMMs alike.
  bit NeedsChoice = 0;
  /// Whether it concerns a library of the cuda backend: the reference backend has a
  /// fixed order.
  bit IsLibrary = 0;
  /// What to change in the program, if not in each process.
  string Remedy = "";
}

def FixedOrder : Determinism<"sums have a fixed order; maxima and counts need none">;
def Exchange : Determinism<"bytes are moved, or maxima taken: no order changes a bit">;
def RandomBits
    : Determinism<"a fixed order; random bits are a function of a seed and a count that the step takes">;
def GeneratedCode
    : Determinism<"sums have a fixed order; dropout is a function of a seed and an offset that the step takes">;
def CublasLt : Determinism<"the algorithm that is chosen while the step is loaded decides the order of the sum"> {
  let NeedsChoice = 1;
  let IsLibrary = 1;
}
def Cudnn
    : Determinism<"cuDNN's order of sums is fixed; dropout is a function of a seed and an offset that the step takes"> {
  let IsLibrary = 1;
}
def CudnnAnyOrder : Determinism<"cuDNN adds rows of the gradient of q in any order", 0, 0> {
  let IsLibrary = 1;
  let Remedy = "leave out 'deterministic = false' of te.attention; of PyTorch, call torch.use_deterministic_algorithms(True)";
}
def Nccl : Determinism<"NCCL's order of sums follows the connections between the GPUs", 1, 0> {
  let IsLibrary = 1;
  let Remedy = "gather the summands with te.all_gather and add them, or use a group of at most two ranks";
}

/// `condition` is an expression of the parameters and of `target`, a te_table::Target.
class When<string condition, Determinism result> {
  string Condition = condition;
  Determinism Bits = result;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// A section of the page.
class Family<string title, int place> {
  string Title = title;
  int Place = place;
}

/// One kernel; the record's name is its name.
class Kernel<Family family> {
  Family Of = family;
  /// What it computes: the formula, roundings, the order of sums, and the results
  /// for NaN, empty and out-of-range input.
  string Description;
  dag Parameters;
  /// In the order of a launch.
  dag Buffers;
  list<Relation> Relations = [];
  /// Whether Capabilities.cpp has a `checkRule` for it, which checks relations
  /// between parameters that no Relation expresses.
  bit HasRule = 0;
  list<MayReuse> Reuses = [];
  /// The most bytes of scratch memory that the cuda backend uses for a launch; ""
  /// for none.
  string Workspace = "";
  /// Whether it works together with other ranks.
  bit IsCollective = 0;
  /// What decides its bits: the first of `Cases` whose condition holds, else this.
  Determinism Bits = FixedOrder;
  list<When> Cases = [];
  /// To be raised if the same call computes something else than before, even in a
  /// single bit. A runtime refuses modules that were compiled for another meaning.
  /// test/lint/abi.py asks about it when the description changes.
  int Meaning = 1;
}

/// A part of the page's introduction.
class Convention<string title, int place> {
  string Title = title;
  int Place = place;
  string Text;
}

#endif // TEDIALECT_SUPPORT_KERNELSCHEMA_TD
