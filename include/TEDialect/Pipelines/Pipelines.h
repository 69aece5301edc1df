//===- Pipelines.h - the training pipeline by phase -----------------------===//
//
// The whole compiler as one function over a pass manager, so that te-opt,
// te-run and tests run exactly the same passes from the same option string.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_PIPELINES_PIPELINES_H
#define TEDIALECT_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir::te {

/// The phases of the pipeline in order; `compile-to` stops after one.
enum class Phase {
  /// Recipe settled, calls inlined, every op known, shapes legal for it.
  Import,
  /// te.vjp replaced by forward, residuals and backward.
  Autodiff,
  /// Linear layers replaced by casts and matmuls as the recipe says.
  Quantize,
  /// Casts fused into their producers; changes no bit.
  Fuse,
  /// Tensors replaced by launches on buffers placed in one arena.
  Schedule,
  /// Launches replaced by calls of the runtime ABI.
  Lower,
};

/// Names of the phases in order, as `compile-to` takes them. Each phase ends
/// with a te-verify-stage.
SmallVector<StringRef> getPhaseNames();

struct TrainingPipelineOptions
    : public PassPipelineOptions<TrainingPipelineOptions> {
  Option<std::string> recipe{
      *this, "recipe",
      llvm::cl::desc("recipe of the module, replacing its te.recipe")};
  Option<std::string> backwardOverride{
      *this, "backward-override",
      llvm::cl::desc("none, high_precision or dequantized, replacing the "
                     "recipe's own")};
  Option<std::string> transposePolicy{
      *this, "transpose-policy",
      llvm::cl::desc("how long weight transposes are kept: on-demand, cached, "
                     "budget or eager"),
      llvm::cl::init("on-demand")};
  Option<int64_t> transposeBudget{
      *this, "transpose-budget",
      llvm::cl::desc("most bytes saved for the backward, with "
                     "transpose-policy=budget: the rest is recomputed, "
                     "what is left is for weight transposes"),
      llvm::cl::init(-1)};
  Option<std::string> remat{
      *this, "remat",
      llvm::cl::desc("what the backward recomputes: nothing, everything, "
                     "ops:<names> or budget:<bytes to save at most>"),
      llvm::cl::init("nothing")};
  Option<std::string> target{
      *this, "target",
      llvm::cl::desc("machine to compile for: sm_90, sm_100 or reference"),
      llvm::cl::init("sm_90")};
  Option<bool> emulate{
      *this, "emulate",
      llvm::cl::desc("run MXFP8 and NVFP4 GEMMs as bf16 GEMMs of the "
                     "dequantised operands"),
      llvm::cl::init(false)};
  Option<bool> calibrate{
      *this, "calibrate",
      llvm::cl::desc("measure what the recipe would cast, but compute in "
                     "high precision"),
      llvm::cl::init(false)};
  Option<bool> exposeCasts{
      *this, "expose-casts",
      llvm::cl::desc("return the quantised input and weight of every linear "
                     "layer, as cast.<layer>.x and cast.<layer>.w"),
      llvm::cl::init(false)};
  Option<bool> checkFinite{
      *this, "check-finite",
      llvm::cl::desc("count the NaN and infinities of every value in a result "
                     "'nonfinite'"),
      llvm::cl::init(false)};
  ListOption<std::string> probes{
      *this, "probes",
      llvm::cl::desc("collect statistics of these operands of GEMMs, as "
                     "<layer>.<role> with * and ?, in results 'probe.*'")};
  Option<bool> cacheWeights{
      *this, "cache-weights",
      llvm::cl::desc("keep the casts of weights from step to step, unless "
                     "'skip_weight_update' is not 1"),
      llvm::cl::init(false)};
  Option<bool> capture{
      *this, "capture",
      llvm::cl::desc("check that the step may be captured once and replayed; "
                     "'cache-weights' does, too"),
      llvm::cl::init(false)};
  Option<bool> mainGrad{
      *this, "main-grad",
      llvm::cl::desc("add the gradients of weights to f32 states "
                     "'grad.<weight>', which start from zero unless "
                     "'skip_weight_update' is 1"),
      llvm::cl::init(false)};
  Option<int64_t> memoryBudget{
      *this, "memory-budget",
      llvm::cl::desc("largest arena in bytes; 0 is no limit"),
      llvm::cl::init(0)};
  ListOption<std::string> resultsInArena{
      *this, "results-in-arena",
      llvm::cl::desc("place these results in the arena, where the caller "
                     "reads them, as names with * and ?")};
  Option<int64_t> logitsBudget{
      *this, "logits-budget",
      llvm::cl::desc(
          "most bytes of the logits of a loss at a time, in the fuse "
          "phase; 0 stores all of them"),
      llvm::cl::init(268435456)};
  Option<std::string> overlap{
      *this, "overlap",
      llvm::cl::desc("run collectives on a stream of their own: auto, if "
                     "that is expected to pay, always or never (changes no "
                     "bit)"),
      llvm::cl::init("auto")};
  Option<bool> strict{
      *this, "strict",
      llvm::cl::desc("make every fall-back to higher precision an error"),
      llvm::cl::init(false)};
  Option<bool> deterministic{
      *this, "deterministic",
      llvm::cl::desc("refuse launches that may have other bits in another "
                     "process, and choose no algorithm by time"),
      llvm::cl::init(false)};
  Option<bool> codeCache{
      *this, "code-cache",
      llvm::cl::desc("store machine code in the user's cache folder, and use "
                     "what earlier compilations stored"),
      llvm::cl::init(true)};
  Option<bool> fuse{
      *this, "fuse",
      llvm::cl::desc("fuse ops and merge launches (changes no bit)"),
      llvm::cl::init(true)};
  Option<std::string> vjp{
      *this, "vjp",
      llvm::cl::desc("differentiate this function: it then takes cotangents "
                     "'grad.<result>' and returns 'grad.<argument>'")};
  Option<std::string> compileTo{
      *this, "compile-to",
      llvm::cl::desc("last phase: import, autodiff, quantize, fuse, schedule "
                     "or lower"),
      llvm::cl::init("lower")};
  ListOption<std::string> report{
      *this, "report",
      llvm::cl::desc(
          "print reports: constraints, capture, precision, schedule, time, "
          "determinism, memory")};
  Option<std::string> reportFormat{
      *this, "report-format", llvm::cl::desc("text, json, or, of memory, html"),
      llvm::cl::init("text")};

  /// Names of all options, sorted.
  SmallVector<StringRef> names() const;
};

/// Reads the text between `te-training-pipeline="` and `"`. On failure says in
/// `error` what is wrong with it.
LogicalResult parseTrainingPipeline(StringRef text,
                                    TrainingPipelineOptions &options,
                                    std::string &error);

/// What is wrong where a command line has an option of the pipeline among those
/// of the tool, which takes them with `flag`; "" where it has none. The options
/// of the tool are registered with LLVM.
std::string findMisplacedOption(ArrayRef<char *> commandLine, StringRef flag);

/// Adds every phase up to `compile-to`. An option value that is not one of the
/// accepted ones is reported through `emitError` and nothing is added.
LogicalResult
populateTETrainingPipeline(OpPassManager &manager,
                           const TrainingPipelineOptions &options,
                           function_ref<InFlightDiagnostic()> emitError);

/// Registers `--te-verify-derivatives`: te-verify-collectives of programs of
/// several ranks as they are written, and of what te.vjp expands to in them.
void registerTEVerifyDerivatives();

/// Registers `--te-training-pipeline`.
void registerTETrainingPipeline();

} // namespace mlir::te

#endif // TEDIALECT_PIPELINES_PIPELINES_H
