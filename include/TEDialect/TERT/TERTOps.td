//===- TERTOps.td - ops of the tert dialect -------------------------------===//

#ifndef TEDIALECT_TERT_TERTOPS_TD
#define TEDIALECT_TERT_TERTOPS_TD

include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "TEDialect/TERT/TERTTypes.td"

def TERT_Cause : I32EnumAttr<"Cause", "why a buffer exists", [
  // A value of the forward that only the forward reads.
  I32EnumAttrCase<"Activation", 0, "activation">,
  // A value of the forward that the backward reads.
  I32EnumAttrCase<"Residual", 1, "residual">,
  // Data or scales of a quantised copy.
  I32EnumAttrCase<"CachedCast", 2, "cached_cast">,
  // The other usage of a quantised copy.
  I32EnumAttrCase<"Transpose", 3, "transpose">,
  // A value of the backward.
  I32EnumAttrCase<"Gradient", 4, "gradient">,
  // A value of a parameter update.
  I32EnumAttrCase<"Optimizer", 5, "optimizer">,
  // A splat.
  I32EnumAttrCase<"Constant", 6, "constant">
]> {
  let cppNamespace = "::mlir::tert";
}

def TERT_RowReduction : I32EnumAttr<"RowReduction", "how elements of a row become one", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Maximum", 1, "maximum">
]> {
  let cppNamespace = "::mlir::tert";
}

class TERT_Op<string mnemonic, list<Trait> traits = []>
    : Op<TERT_Dialect, mnemonic, traits>;

def TERT_AllocOp : TERT_Op<"alloc"> {
  let summary = "declare a temporary buffer";
  let description = [{
    A buffer that is alive from its first to its last launch. Reports use `name`
    and `cause`. `te-plan-memory` sets `offset`, the position in the arena in bytes.

    With `of_result`, it is the memory of a result of the step, that of the function's
    buffer argument with this number. It is then alive until the end of the step, and
    the caller reads it in the arena. `te-plan-memory` creates such buffers.

    Constraints:
    1. (alloc-c1) `name` is not empty.
    2. (alloc-c2) `offset` is a multiple of 256 and not negative.
    3. (alloc-c3) `of_result` is the number of an argument of the function that has the same type and no uses.

    Example:

    ```mlir
    %h = tert.alloc "w1.out" activation : !tert.buffer<2097152>
    %q = tert.alloc "x.data" cached_cast offset 4096 : !tert.buffer<131072>
    %dw = tert.alloc "grad.w1" gradient of_result 0 offset 135168 : !tert.buffer<2097152>
    ```
  }];
  let arguments = (ins StrAttr:$name, TERT_Cause:$cause,
                       OptionalAttr<I64Attr>:$offset,
                       OptionalAttr<I64Attr>:$of_result);
  let results = (outs Res<TERT_BufferType, "the buffer", [MemAlloc]>:$buffer);
  let assemblyFormat = [{
    $name $cause (`of_result` $of_result^)? (`offset` $offset^)? attr-dict `:` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def TERT_NullOp : TERT_Op<"null", [Pure]> {
  let summary = "mark an optional buffer as absent";
  let description = [{
    The operand of a launch for an optional buffer of its kernel that is not given.

    Example:

    ```mlir
    %none = tert.null : !tert.buffer<0>
    ```

    Constraints:
    1. (null-c1) the type is `!tert.buffer<0>`.
  }];
  let results = (outs Res<TERT_BufferType, "no memory">:$buffer);
  let assemblyFormat = "attr-dict `:` qualified(type($buffer))";
  let hasVerifier = 1;
}

def TERT_SliceOp : TERT_Op<"slice", [Pure]> {
  let summary = "take a part of a buffer";
  let description = [{
    The bytes of `buffer` from `offset` on, as a separate buffer, such as one of
    several matrices that are stored one after another.

    Constraints:
    1. (slice-c1) `offset` is not negative, and the part ends within `buffer`.
    2. (slice-c2) `buffer` is not a slice itself.

    Example:

    ```mlir
    %second = tert.slice %weights offset 131072 : !tert.buffer<524288> -> !tert.buffer<131072>
    ```
  }];
  let arguments = (ins TERT_BufferType:$buffer, I64Attr:$offset);
  let results = (outs Res<TERT_BufferType, "the part">:$part);
  let assemblyFormat = [{
    $buffer `offset` $offset attr-dict
    `:` qualified(type($buffer)) `->` qualified(type($part))
  }];
  let hasVerifier = 1;
}

def TERT_LaunchOp
    : TERT_Op<"launch", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "run a kernel on buffers";
  let description = [{
    Launches the kernel `kernel`, as the row of Kernels.td with this name describes
    it. Launches are enqueued in program order on the caller's stream; those with
    `side` are enqueued on a second stream. A launch waits for an earlier one of the
    other stream only if both use a buffer and one of them writes it (Streams.h).
    A step ends when both streams have finished.

    A launch of `generated` has its code in `body`: elementwise `arith` and `math`
    ops on scalars, `tert.dropout`, `tert.row_reduce` and `tert.amax`, which `te-convert-tert-to-llvm` compiles. Element i of the
    outputs is computed from element i of each input; with `maps`, from the element
    that the input's map gives for i, which is how transposes, slices and broadcasts are read.
    `maps` may go on with the outputs: `d0 floordiv cols` is an output with an element for each
    row, if the body sums rows, and `0` one with the single element of a `tert.amax`.

    Constraints:
    1. (launch-c1) `kernel` is the name of a row.
    2. (launch-c2) `parameters` are exactly those of the row, by name and type.
    3. (launch-c3) there is one buffer for each buffer of the row.
    4. (launch-c4) only optional buffers are `tert.null`.
    5. (launch-c5) a buffer that is written is not also another buffer of the launch, except an input that the row allows to share its memory.
    6. (launch-c6) only collectives are `side`.
    7. (launch-c7) only a launch of `generated` has a `body`; it takes an element of each input buffer, consists of `arith` and `math` ops on f32, of conversions between f32 and bf16 or f16, of `tert.dropout`, whose operands are elements of type i32, of `tert.row_reduce` and of `tert.amax`, and ends in a `tert.yield` of an element of each output buffer; the buffers have `count` elements, or as many as their map reaches.
    8. (launch-c8) `maps` has a map of one dimension to one result for each input, or for each input and output, made of sums, products, `floordiv` and `mod`; that of an output is the identity, `d0 floordiv cols` if its value is the same for all elements of a row, or `0` exactly if its value is that of a `tert.amax`.

    Example:

    ```mlir
    tert.launch "hadamard" {cols = 512 : i64, rows = 256 : i64} (%x, %y)
      : !tert.buffer<262144>, !tert.buffer<262144>
    tert.launch "all_reduce_max" {count = 65536 : i64, group_id = 0 : i32} (%x, %y) side
      : !tert.buffer<262144>, !tert.buffer<262144>
    ```
  }];
  let arguments = (ins StrAttr:$kernel, DictionaryAttr:$parameters,
                       Variadic<TERT_BufferType>:$buffers, UnitAttr:$side,
                       OptionalAttr<AffineMapArrayAttr>:$maps);
  let regions = (region MaxSizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$kernel,
                                 "::mlir::DictionaryAttr":$parameters,
                                 "::mlir::ValueRange":$buffers), [{
    build($_builder, $_state, kernel, parameters, buffers, /*side=*/false,
          /*maps=*/::mlir::ArrayAttr());
  }]>];
  let extraClassDeclaration = [{
    /// Whether the launch may write the output of index `output` to the memory of
    /// the input of index `input`, of the same size: the kernel reads each element
    /// for the last time before it writes that element.
    bool mayShare(unsigned input, unsigned output);

    /// From an element to that of each buffer of generated code that is not absent.
    ::llvm::SmallVector<::mlir::AffineMap> getMapsOfBuffers();
  }];
  let assemblyFormat = [{
    $kernel $parameters `(` $buffers `)` (`side` $side^)? (`maps` $maps^)? attr-dict `:` type($buffers) ($body^)?
  }];
  let hasVerifier = 1;
}

def TERT_DropoutOp : TERT_Op<"dropout", [Pure]> {
  let summary = "the factor of an element for dropout";
  let description = [{
    An op of generated code: what `te.dropout` multiplies the element with that is
    being computed, 0 or `1 / (1 - probability)`. `seed` and `offset` are the
    elements of the random state.

    Example:

    ```mlir
    %factor = tert.dropout %seed, %offset {probability = 0.1 : f32, stream = 2 : i32}
    ```
  }];
  let arguments = (ins I32:$seed, I32:$offset, F32Attr:$probability,
                       I32Attr:$stream);
  let results = (outs F32:$factor);
  let assemblyFormat = "$seed `,` $offset attr-dict";
}

def TERT_RowReduceOp : TERT_Op<"row_reduce", [Pure]> {
  let summary = "the sum or the maximum of a row";
  let description = [{
    An op of generated code: the sum or the maximum of `x` over the elements of the row that
    is being computed, which are those from a multiple of `cols` on.

    Of a sum, element i belongs to lane i mod 256; each lane adds in order, and a halving
    tree adds the lanes, as in `row_sum`. A maximum is NaN if an element is, and +0 is larger
    than -0.

    Constraints:
    1. (row_reduce-c1) `cols` is from 1 to 2^24 and divides `count`; it is the same in all ops of a launch.

    Example:

    ```mlir
    %max = tert.row_reduce maximum %x {cols = 4096 : i64}
    ```
  }];
  let arguments = (ins TERT_RowReduction:$kind, F32:$x, I64Attr:$cols);
  let results = (outs F32:$y);
  let assemblyFormat = "$kind $x attr-dict";
}

def TERT_AmaxOp : TERT_Op<"amax", [Pure]> {
  let summary = "the largest magnitude of all elements";
  let description = [{
    An op of generated code: the largest `|x|` of all elements that the launch computes, as
    `te.amax` defines it: NaN is ignored, and 0 is the least.

    Constraints:
    1. (amax-c1) only `tert.yield` reads the result.

    Example:

    ```mlir
    %amax = tert.amax %x
    ```
  }];
  let arguments = (ins F32:$x);
  let results = (outs F32:$y);
  let assemblyFormat = "$x attr-dict";
}

def TERT_YieldOp
    : TERT_Op<"yield", [Pure, Terminator, HasParent<"LaunchOp">]> {
  let summary = "end the body of a launch";
  let description = [{
    Returns an element of each output buffer.

    Example:

    ```mlir
    tert.yield %sum : bf16
    ```
  }];
  let arguments = (ins Variadic<AnyFloat>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

#endif // TEDIALECT_TERT_TERTOPS_TD
