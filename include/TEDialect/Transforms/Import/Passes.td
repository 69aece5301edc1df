//===- Passes.td - from a frontend's file to checked te -------------------===//

#ifndef TEDIALECT_TRANSFORMS_IMPORT_PASSES
#define TEDIALECT_TRANSFORMS_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def AssignRecipePass : Pass<"te-assign-recipe", "ModuleOp"> {
  let summary = "set the module's recipe from pipeline options";
  let description = [{
    Sets or replaces `te.recipe` on the module, then replaces every
    `te.backward_override` with a `te.recipe`: the one in force at that place, with
    this override. Last, the option `backward-override` replaces the override of
    every recipe in the module. The backward of a layer is therefore decided by,
    in this order: the option; `te.backward_override` on the op; `te.recipe` on
    the op; the same two on its function; the same two on the module. If an
    override reaches a recipe that takes none, such as `delayed_scaling`, that is
    an error. The pass is first in the pipeline, because every later pass asks for
    the recipe in force at an op.

    Example (`recipe=float8_block_scaling`):

    ```mlir
    module attributes {te.recipe = #te.recipe<float8_block_scaling>} {}
    ```
  }];
  let options = [
    Option<"recipe", "recipe", "std::string", "\"\"",
           "Name of a recipe, or the text between the <> of a #te.recipe<...>">,
    Option<"backwardOverride", "backward-override", "std::string", "\"\"",
           "none, high_precision or dequantized; empty keeps what the recipes say">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numRecipes", "num-recipes", "Number of recipes set or changed">
  ];
}

def WrapVjpPass : Pass<"te-wrap-vjp", "ModuleOp"> {
  let summary = "replace a function with one that also returns its gradients";
  let description = [{
    Renames `entry` to a private function and replaces it with a function of the
    same name that also takes a cotangent `grad.<result>` for each result and
    returns a gradient `grad.<argument>` for each floating-point argument, through
    one `te.vjp`. Arguments and results without `te.name` are called `arg<N>` and
    `result<N>`. Runs before calls are inlined, so that exactly the user's
    function is differentiated.

    Example (`entry=f`):

    ```mlir
    func.func @f(%x: tensor<4xf32> {te.name = "x"}, %grad.y: tensor<4xf32> {te.name = "grad.y"})
        -> (tensor<4xf32> {te.name = "y"}, tensor<4xf32> {te.name = "grad.x"}) {
      %y, %dx = te.vjp @f_primal(%x) cotangents(%grad.y) wrt [0]
        : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
      return %y, %dx : tensor<4xf32>, tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"entry", "entry", "std::string", "\"\"",
           "Name of the function to differentiate">
  ];
  let dependentDialects = ["::mlir::te::TEDialect",
                           "::mlir::func::FuncDialect"];
  let statistics = [
    Statistic<"numGradients", "num-gradients", "Number of gradients added">
  ];
}

def LegalizeInputPass : Pass<"te-legalize-input", "ModuleOp"> {
  let summary = "inline calls and check that the input can be compiled";
  let description = [{
    Inlines every `func.call`; an inlined `te.linear` keeps the recipe that was
    in force in its own function. Then the pass reports, all at once, everything
    that the compiler does not support: ops that are not te ops, static reshapes,
    slices and concatenations of tensor, broadcasts, transposes and sums of linalg,
    splat constants, or one of the elementwise arith and math ops of the runtime;
    dynamic shapes; tensors of 2^40 bytes or more; names given twice; a result
    that has the name of an argument of another type, whose next state it would
    be. Later passes rely on these checks. If it fails, it also reports what
    `te-check-constraints` would, because the pipeline ends here.

    Example: with `@twice` inlined,

    ```mlir
    func.func @step(%x: tensor<4xf32> {te.name = "x"}) -> (tensor<4xf32> {te.name = "y"}) {
      %y = arith.addf %x, %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"oneEntry", "one-entry", "bool", "false",
           "Also require a single public function, as compiled modules have">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "Machine that the recipes are checked for: sm_90, sm_100 or reference">,
    Option<"emulate", "emulate", "bool", "false",
           "Accept GEMMs that the target emulates in bf16">
  ];
  let dependentDialects = ["::mlir::te::TEDialect",
                           "::mlir::func::FuncDialect"];
  let statistics = [
    Statistic<"numInlined", "num-inlined", "Number of calls inlined">
  ];
}

def CheckConstraintsPass : Pass<"te-check-constraints", "ModuleOp"> {
  let summary = "report everything the recipe's kernels cannot take";
  let description = [{
    Asks the support table about each `te.linear`, and about the dgrad and wgrad
    that it will have: whether the target multiplies the formats of the recipe,
    with the layer's type as a result. All violations of the step are reported at
    once, with the rule and the nearest supported choice. The pass runs
    before anything is rewritten, so that messages name the user's ops.

    Example: under `float8_block_scaling` this is an error, because no GEMM adds a
    bias to an f16 result:

    ```mlir
    %y = te.linear %x, %w bias %b : tensor<512xf16> : tensor<256x64xf16>, tensor<512x64xf16> -> tensor<256x512xf16>
    ```
  }];
  let options = [
    Option<"warnOnly", "warn-only", "bool", "false",
           "Warn instead of failing">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "Machine that the recipes are checked for: sm_90, sm_100 or reference">,
    Option<"emulate", "emulate", "bool", "false",
           "Accept GEMMs that the target emulates in bf16">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numViolations", "num-violations", "Number of violations found">
  ];
}

def ZeroUnusedPass : Pass<"te-zero-unused", "::mlir::func::FuncOp"> {
  let summary = "keep rows that are not used out of casts, sums and experts";
  let description = [{
    Follows the rows that te.zero_unused sets to zero. Where they may be other than
    zero, because a bias was added or attention read other rows, the pass inserts
    another te.zero_unused before a te.linear or te.grouped_linear that casts them, so
    that amaxes and scales are those of the used rows, and before a linalg.reduce that
    sums over them. te.permute of such rows gets `used`, so that no expert has them.
    Functions without te.zero_unused are not changed. Runs before the program is differentiated, so that the backward reads
    what the forward casts.

    Example:

    ```mlir
    %0 = te.zero_unused %x, %used : tensor<256x512xbf16>, tensor<256xf32>
    %1 = te.layer_norm %0, %gamma, %beta : tensor<256x512xbf16>, tensor<512xbf16>
    %2 = te.zero_unused %1, %used : tensor<256x512xbf16>, tensor<256xf32>
    %y = te.linear %2, %w : tensor<256x512xbf16>, tensor<64x512xbf16> -> tensor<256x64xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numInserted", "num-inserted", "Number of te.zero_unused inserted">
  ];
}

def HoistSlicesPass : Pass<"te-hoist-slices", "::mlir::func::FuncOp"> {
  let summary = "slice the rows of a linear layer's input in place of its result";
  let description = [{
    If all that reads the result of a `te.linear` is one slice of its rows, such as the
    logits without the last token of each sequence, the layer gets that slice of its
    input. Between the layer and the slice there may be elementwise ops with one operand,
    or with numbers, and a reshape of rows. The result for all rows is then never stored,
    and `te-chunk-rows` finds a matrix in what follows. The pass declines if the slice of
    the input has as many elements as the result, and for layers that are split over ranks.

    Each row of the result has the bits that it has without the pass, except that a recipe
    computes amaxes, and scales of blocks of rows, from the rows that are left. The gradient
    of the weight is the sum over these rows. The pass runs before the program is
    differentiated, and after `te-zero-unused`, which follows rows from the input.

    Example:

    ```mlir
    %0 = tensor.extract_slice %x[0, 0] [255, 512] [1, 1] : tensor<256x512xbf16> to tensor<255x512xbf16>
    %y = te.linear %0, %w : tensor<255x512xbf16>, tensor<4096x512xbf16> -> tensor<255x4096xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numHoisted", "num-hoisted", "Number of layers with a slice of their input">
  ];
}

#endif // TEDIALECT_TRANSFORMS_IMPORT_PASSES
