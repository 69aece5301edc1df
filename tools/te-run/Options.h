//===- Options.h - the command line of te-run -----------------------------===//

#ifndef TE_TOOLS_TE_RUN_OPTIONS_H
#define TE_TOOLS_TE_RUN_OPTIONS_H

#include "TEDialect/JIT/Frontend.h"
#include "TEDialect/Pipelines/PipelineGuard.h"
#include "TEDialect/Runtime/te_runtime.h"

#include <cstdint>
#include <optional>
#include <string>

namespace te::run {

using mlir::te::ExitCode;
using mlir::te::kDiagnostics;
using mlir::te::kInternal;
using mlir::te::kOk;
using mlir::te::kUsage;

struct Options {
  std::string file;
  std::string entry;
  std::string backend = "auto";
  std::string pipeline;
  std::string inputs;
  std::string outputs;
  std::string load;
  std::string loadWeights;
  std::string save;
  std::string summary;
  std::string trace;
  bool digests = false;
  /// The entry to compare with; empty: none. The others say how its step
  /// differs from the first; the pipeline is the same where it is absent.
  std::string compare;
  std::string compareFile;
  std::optional<std::string> comparePipeline;
  bool compareVjp = false;
  int64_t steps = 1;
  /// Seconds to wait for other processes.
  int64_t timeout = 600;
  /// How algorithms of GEMMs are chosen: a te_rt_gemm_choice, the tuning file
  /// (empty: that of the cache folder), and the seconds that measuring may take
  /// (0: no limit).
  int32_t gemmChoice = TE_RT_GEMM_TUNED;
  std::string gemmFile;
  int64_t tuneSeconds = 0;
  /// Whether to tune the GEMMs, and to run nothing.
  bool tune = false;
  /// Of a job; the first one speaks for all.
  int rank = 0;
  std::optional<uint64_t> seed;
  bool vjp = false;
  /// Whether no option of LLVM is set, which may change machine code.
  bool usesCodeCache = true;
  bool graph = false;
  bool quiet = false;
  bool checkFinite = false;
  /// Which operands of GEMMs to probe, empty for none.
  std::string probes;
};

/// Fills `options`; returns an exit code if there is nothing to run (--help,
/// --version, or a usage error that was printed).
std::optional<ExitCode> parseOptions(int argc, char **argv, Options &options);

/// Makes `options` those of process `rank` of `size`: '{rank}' in names of
/// files is replaced, and only the first process reports. False, with `error`
/// set, where processes would write one file, or read one input.
bool placeInJob(int rank, int size, Options &options, std::string &error);

/// What is compiled: the entry with the pipeline of `options`, for the machine
/// of `context`.
mlir::te::CompileRequest requestOf(const Options &options,
                                   const te_rt_context &context);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_OPTIONS_H
