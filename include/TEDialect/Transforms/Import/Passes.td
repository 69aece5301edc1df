//===- Passes.td - from a frontend's file to checked te -------------------===//

#ifndef TEDIALECT_TRANSFORMS_IMPORT_PASSES
#define TEDIALECT_TRANSFORMS_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def AssignRecipePass : Pass<"te-assign-recipe", "ModuleOp"> {
  let summary = "set the module's recipe from pipeline options";
  let description = [{
    Sets or replaces `te.recipe` on the module, then replaces every
    `te.backward_override` by a `te.recipe`: the one in force at that place, with
    this override. Last, the option `backward-override` replaces the override of
    every recipe in the module. So what decides the backward of a layer is, in
    this order: the option; `te.backward_override` on the op; `te.recipe` on the
    op; the same two on its function; the same two on the module. A recipe that
    takes no override, such as `delayed_scaling`, is an error where one reaches
    it. First in the pipeline, because every later pass asks for the recipe in
    force at an op.

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
  let summary = "replace a function by one that also returns its gradients";
  let description = [{
    Renames `entry` to a private function and puts in its place a function of
    the same name that also takes a cotangent `grad.<result>` per result and
    returns a gradient `grad.<argument>` per floating-point argument, through
    one `te.vjp`. Arguments and results without `te.name` count as `arg<N>` and
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
    in force in its own function. Then reports, all at once, whatever the
    compiler has no meaning for: ops that are not te, static reshapes, splat
    constants, or one of the elementwise arith and math ops the runtime has;
    dynamic shapes; tensors of 2^40 bytes or more; names given twice; a result
    that names an argument of another type, whose next state it would be. Later
    passes rely on what this one checked. Where it fails, it also reports what
    `te-check-constraints` would, since the pipeline ends here.

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
           "Also demand a single public function, as compiled modules have">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "Machine whose products the check of the recipes counts: sm_90, sm_100 or reference">,
    Option<"emulate", "emulate", "bool", "false",
           "Count products that the target emulates in bf16">
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
    Asks the support table about each `te.linear`, and the dgrad and wgrad it
    will have: whether the target multiplies what its recipe casts, into the
    layer's type, and in these sizes. All violations of the step are reported at
    once, with the tensors' names and the rule, and with the nearest supported
    choice or the smallest padding that fixes the step. Runs before anything is
    rewritten, so that messages speak of the user's ops.

    Example: under `float8_block_scaling` this is an error, since 100 is not a
    multiple of 16:

    ```mlir
    %y = te.linear %x, %w : tensor<256x100xbf16>, tensor<512x100xbf16> -> tensor<256x512xbf16>
    ```
  }];
  let options = [
    Option<"warnOnly", "warn-only", "bool", "false",
           "Warn instead of failing">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "Machine whose products the check of the recipes counts: sm_90, sm_100 or reference">,
    Option<"emulate", "emulate", "bool", "false",
           "Count products that the target emulates in bf16">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numViolations", "num-violations", "Number of violations found">
  ];
}

#endif // TEDIALECT_TRANSFORMS_IMPORT_PASSES
