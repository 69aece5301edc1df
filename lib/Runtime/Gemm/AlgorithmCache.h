//===- AlgorithmCache.h - tuned algorithms, kept on disk ------------------===//
//
// Tuning takes milliseconds per shape, so its results are kept: one text file
// per GPU, driver and library version, one line per problem. Reading and
// writing never fail a plan. A file that is not exactly what this code writes
// (truncated, edited, other machine) counts as empty; files are replaced by
// renaming a complete one, so readers see the old or the new.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_GEMM_ALGORITHMCACHE_H
#define TE_RUNTIME_GEMM_ALGORITHMCACHE_H

#include "Gemm/GemmDescriptors.h"

#include <map>
#include <optional>
#include <string>

namespace te::rt::cuda {

class AlgorithmCache {
public:
  /// `machine` names everything the algorithms depend on besides the problem;
  /// one line.
  explicit AlgorithmCache(std::string machine);

  std::optional<GemmAlgorithm> find(const GemmProblem &problem);

  /// Remembers `algorithm`, on disk too where that is possible.
  void insert(const GemmProblem &problem, const GemmAlgorithm &algorithm);

  /// The file in use; empty where no cache folder is known.
  const std::string &file() const { return path; }

private:
  using Table = std::map<std::string, GemmAlgorithm>;

  Table read() const;
  void write(const Table &table) const;

  const std::string machine;
  std::string path;
  bool loaded = false;
  Table table;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_ALGORITHMCACHE_H
