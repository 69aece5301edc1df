//===- Parallel.h - parts of the suite 'parallel' -------------------------===//

#ifndef TE_BENCH_PARALLEL_H
#define TE_BENCH_PARALLEL_H

#include "CompileStep.h"

#include "Bench.h"
#include "Ranks.h"

#include "mlir/IR/MLIRContext.h"

namespace te::bench {

/// The type of a bf16 matrix.
std::string matrix(int64_t rows, int64_t columns);

struct Sizes {
  int64_t tokens, sequence, hidden, ffn, heads, kvHeads;
};

/// One rank's part of the layer, whose group is numbered by its size.
std::string layerOf(const Sizes &sizes, int64_t ranks);

/// A step loaded on one rank with random inputs; activations rotate.
class LoadedLayer {
public:
  static constexpr int sets = 3;

  LoadedLayer(te_rt_context *context, const mlir::te::CompiledStep &step);
  ~LoadedLayer() { te_rt_instance_destroy(instance); }
  LoadedLayer(const LoadedLayer &) = delete;

  /// Hashes of all results of a captured step, then of one that is not, each on
  /// what the one before left. Waits for them.
  std::vector<size_t> twoSteps();

  /// Hashes of all arguments, twice: what `twoSteps` says of a step that gives
  /// its arguments back. None of what is random has to be zero or NaN.
  std::vector<size_t> hashesOfArguments(const mlir::te::CompiledStep &step);

  DeviceBuffers memory;
  std::vector<std::vector<void *>> arguments;
  te_rt_instance *instance = nullptr;

private:
  size_t hash(size_t index, int64_t bytes) const;

  /// Places and bytes of the results.
  std::vector<std::pair<size_t, int64_t>> results;
};

struct Experts {
  int64_t experts, capacity, hidden;
};

/// The two exchanges of a mixture of experts, there and back. Prints and adds a
/// row for each payload. Sets `differ` where what was brought back is not what
/// was sent.
void benchExchanges(mlir::MLIRContext *mlirContext, const Ranks &ranks,
                    const Effort &effort, const Experts &sizes, bool &differ,
                    llvm::json::Array &rows);

struct Collective {
  std::string kernel;
  /// Bytes of a gather, elements of the others.
  int64_t count;
  int32_t type, group;

  bool isAmax() const { return kernel == "all_reduce_max"; }
  int64_t bytesOf(int32_t ranks) const {
    const int64_t element = kernel == "all_gather" ? 1
                            : isAmax()             ? 4
                            : type == TE_RT_F32    ? 4
                                                   : 2;
    return count * element *
           (kernel == "all_reduce_sum" || isAmax() ? 1 : ranks);
  }
};

/// The collectives of a step, in its order.
std::vector<Collective> collectivesOf(const mlir::te::CompiledStep &step);

/// Milliseconds of one step of nothing but `collectives`, captured.
double timeCollectives(const Ranks &ranks, const Effort &effort,
                       const std::vector<Collective> &collectives);

} // namespace te::bench

#endif // TE_BENCH_PARALLEL_H
