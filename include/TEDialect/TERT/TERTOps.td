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
  // A quantised copy, data or scales.
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

class TERT_Op<string mnemonic, list<Trait> traits = []>
    : Op<TERT_Dialect, mnemonic, traits>;

def TERT_AllocOp : TERT_Op<"alloc"> {
  let summary = "declare a temporary buffer";
  let description = [{
    A buffer that lives from its first to its last launch. `name` and `cause`
    are what reports say about it. `te-plan-memory` sets `offset`, its place in
    the arena.

    Constraints:
    1. (alloc-c1) `name` is not empty.
    2. (alloc-c2) `offset` is a multiple of 256 and not negative.

    Example:

    ```mlir
    %h = tert.alloc "w1.out" activation : !tert.buffer<2097152>
    %q = tert.alloc "x.data" cached_cast offset 4096 : !tert.buffer<131072>
    ```
  }];
  let arguments = (ins StrAttr:$name, TERT_Cause:$cause,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Res<TERT_BufferType, "the buffer", [MemAlloc]>:$buffer);
  let assemblyFormat = [{
    $name $cause (`offset` $offset^)? attr-dict `:` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def TERT_NullOp : TERT_Op<"null", [Pure]> {
  let summary = "stand for an optional buffer that is absent";
  let description = [{
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
  let summary = "point at a part of a buffer";
  let description = [{
    The bytes of `buffer` starting at `offset`, as a separate buffer: one of several
    matrices that are stored one after another.

    Constraints:
    1. (slice-c1) `offset` is not negative, and the part ends within `buffer`.
    2. (slice-c2) `buffer` is no slice itself.

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
    `kernel`, its parameters and its buffers are a row of
    Kernels.td, and mean what that row says. Launches run in the
    order they stand in, on the stream of the caller; those that are `side` on
    a second one. A launch waits for one of the other stream only where both use
    a buffer and one writes it (Streams.h), and a step ends when both streams
    have.

    A launch of `generated` has its code as `body`: elementwise `arith` and `math`
    ops on scalars, which `te-convert-tert-to-llvm` compiles.

    Constraints:
    1. (launch-c1) `kernel` is a row.
    2. (launch-c2) `parameters` are exactly the row's, by name and type.
    3. (launch-c3) there is one buffer for each of the row's.
    4. (launch-c4) only optional buffers are `tert.null`.
    5. (launch-c5) a written buffer is no other buffer of the launch, except an input of the row that may share its memory.
    6. (launch-c6) only a collective is `side`.
    7. (launch-c7) only a launch of `generated` has a `body`: `arith` and `math` ops on f32 and conversions between f32 and bf16 or f16, which take an element of each input buffer and end in `tert.yield` of one of each output buffer; the buffers have `count` elements.

    Example:

    ```mlir
    tert.launch "hadamard" {cols = 512 : i64, rows = 256 : i64} (%x, %y)
      : !tert.buffer<262144>, !tert.buffer<262144>
    tert.launch "all_reduce_max" {count = 65536 : i64, group_id = 0 : i32} (%x, %y) side
      : !tert.buffer<262144>, !tert.buffer<262144>
    ```
  }];
  let arguments = (ins StrAttr:$kernel, DictionaryAttr:$parameters,
                       Variadic<TERT_BufferType>:$buffers, UnitAttr:$side);
  let regions = (region MaxSizedRegion<1>:$body);
  let assemblyFormat = [{
    $kernel $parameters `(` $buffers `)` (`side` $side^)? attr-dict `:` type($buffers) ($body^)?
  }];
  let hasVerifier = 1;
}

def TERT_YieldOp
    : TERT_Op<"yield", [Pure, Terminator, HasParent<"LaunchOp">]> {
  let summary = "end generated code";
  let description = [{
    Gives an element of each output.

    Example:

    ```mlir
    tert.yield %sum : bf16
    ```
  }];
  let arguments = (ins Variadic<AnyFloat>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

#endif // TEDIALECT_TERT_TERTOPS_TD
