//===- Passes.td - from ops on tensors to launches on buffers -------------===//

#ifndef TEDIALECT_TRANSFORMS_CONVERTTOTERT_PASSES
#define TEDIALECT_TRANSFORMS_CONVERTTOTERT_PASSES

include "mlir/Pass/PassBase.td"

def ConvertToTERTPass : Pass<"te-convert-to-tert", "ModuleOp"> {
  let summary = "replace tensors by buffers and ops by kernel launches";
  let description = [{
    Every function becomes a straight line of `tert.launch` ops on buffers:
    arguments first, then results, then temporaries. A view (`te.residual`, a
    reshape) becomes the buffer of its operand. What `tensor.concat` joins is computed
    in the rows of its result, if nothing else reads it; matrices of one size whose
    columns are joined are copied there by one launch. A splat is filled directly
    before its first use. A result with the name of an argument is written to
    that argument's buffer. Its producer writes it if all other accesses of the
    old value come earlier, or if the kernel reads each element before it writes
    it; otherwise, a copy at the end of the step does. Private functions that
    are not called are erased.

    The pass needs calls to be inlined, layers to be replaced by casts and GEMMs,
    and elementwise ops to be formed into regions by `te-form-regions`. It leaves
    no op of `te`, and no type of `te` except in `tert.signature`. It is the last
    pass before memory is planned, because from here on the order of launches
    decides how much memory is used.

    ```mlir
    func.func @f(%x: tensor<1x64xf32> {te.name = "x"}, %b: tensor<64xf32> {te.name = "b"}) -> (tensor<1x64xf32> {te.name = "x"}) {
      %y = te.bias_add %x, %b : tensor<1x64xf32>, tensor<64xf32>
      return %y : tensor<1x64xf32>
    }
    // becomes
    func.func @f(%x: !tert.buffer<256>, %b: !tert.buffer<256>, %unused: !tert.buffer<256>) attributes {tert.signature = [...]} {
      tert.launch "bias_add" {cols = 64 : i64, rows = 1 : i64, type = 0 : i32} (%x, %b, %x) : ...
      return
    }
    ```
  }];
  let dependentDialects = ["::mlir::tert::TERTDialect"];
  let statistics = [
    Statistic<"numLaunches", "num-launches", "launches created">,
    Statistic<"numInPlace", "num-in-place", "results written by their producer">,
    Statistic<"numCopies", "num-copies", "results that needed a copy">
  ];
}

def HoistSumsPass : Pass<"te-hoist-sums", "func::FuncOp"> {
  let summary = "hoist additions and updates if that frees memory";
  let description = [{
    An elementwise op moves up to the last of its operands' producers if it is
    the last use of operands that together are larger than its result. A step
    over several micro-batches that adds its gradients at the end then keeps one
    sum alive instead of every summand.

    An optimizer update (`te.adamw`, `te.sgd`) that is the only reader of a
    gradient moves up in the same way, but not above other readers of what it
    overwrites; if one of those is below the update, the update does not move. A
    step with its updates at the end then does not keep all gradients alive. An
    update whose gradient comes from a collective, directly or through
    elementwise ops, does not move, so that GEMMs can run beside the collective.

    The values do not change, because the order of ops has no effect before
    `te-convert-to-tert`. The pass runs directly before that pass, because
    fusions choose the places of ops themselves.

    ```mlir
    %a = te.matmul ...
    %b = te.matmul ...
    %sum = arith.addf %a, %b : tensor<4096x4096xbf16>   // moved here from the end
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numMoved", "num-moved", "ops moved up">
  ];
}

def FormRegionsPass : Pass<"te-form-regions", "func::FuncOp"> {
  let summary = "form launches of elementwise ops, fused where they can be";
  let description = [{
    Elementwise `arith` and `math` ops on one number of elements (a *region*) become
    one `linalg.generic` on flat tensors, for which code is generated. It reads the
    operands of reshapes, transposes, slices and broadcasts in place; what other ops
    read of the last three is stored by a `linalg.generic` that copies. A slice of an
    argument is read in place by any op if its elements follow one another from a
    multiple of 16 bytes on; of others, those of one argument and type are stored by one
    `linalg.generic`. An op that is
    merged with no other is a region of its own. Intermediate values are not stored, and
    each input is read once. The result of every op is still rounded to its type, so that
    no bit changes.

    A table that is rounded from f32 and read only by `te.embedding` is rounded after
    the lookup, if this moves fewer bytes: rows that no token names are not rounded.

    `te.softmax` and its gradient become ops on elements and rows. Sums of
    `linalg.reduce` are brought into a form that has a kernel. If a region has the
    operand of a sum of rows, of 32 elements or more, or reads its result, the sum is a
    `tert.row_reduce` in it; ops with an element for each row may then be part of it, too. The
    result of such an op has the map `d0 floordiv cols`. Maxima and minima become maxima of
    rows, of any length, each in a region. A `te.amax` without `unless` whose operand a
    region computes becomes a `tert.amax` in it.

    The region of an operand is merged with its
    reader, and is then computed at the position of the reader, unless

    * another op needs a result of the region before that position;
    * other ops run in between, and the inputs that the region would keep alive
      have more bytes than its results;
    * the region reads an argument of the function that an op in between also
      reads, because that op may update the argument in place;
    * the merged region would have more than 8 inputs or 4 outputs, or more code
      than 64 additions (`exp` counts as 8, `tanh` as 16), which bounds the time to
      compile it. The code of a softmax, from the maximum to the quotients, counts as
      soon as the region has one op of it: a softmax without room begins a region of
      its own instead of storing what is in its middle.

    The pass runs after `te-hoist-sums`, directly before `te-convert-to-tert`.

    ```mlir
    %a = arith.mulf %x, %y : tensor<64x32xbf16>
    %b = arith.addf %a, %z : tensor<64x32xbf16>
    // becomes
    %b = linalg.generic {...} ins(%x, %y, %z : ...) outs(%empty : tensor<64x32xbf16>) {
    ^bb0(%in: bf16, %in_0: bf16, %in_1: bf16, %out: bf16):
      ...
      linalg.yield %5 : bf16
    } -> tensor<64x32xbf16>
    ```
  }];
  let options = [
    Option<"merge", "merge", "bool", "true",
           "merge ops; otherwise each one is a region of its own">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::tert::TERTDialect"];
  let statistics = [
    Statistic<"numRegions", "num-regions", "regions formed">,
    Statistic<"numOps", "num-ops", "ops in regions">
  ];
}

#endif // TEDIALECT_TRANSFORMS_CONVERTTOTERT_PASSES
