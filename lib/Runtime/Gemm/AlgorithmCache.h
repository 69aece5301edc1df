//===- AlgorithmCache.h - tuned algorithms, stored on disk ----------------===//
//
// Tuning takes milliseconds for each shape, so its results are stored: one text
// file for each GPU, driver and library version, one line for each problem.
// Reading and writing never make a plan fail. A file that is not exactly what
// this code writes (truncated, edited, from another machine) counts as empty,
// and so does what is no regular file. A file is replaced by renaming a
// complete one, so readers see the old file or the new one. Writers hold a lock
// on a file beside it, so that none loses what another one added meanwhile.
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
  /// `machine` is one line that names everything that the algorithms depend on
  /// besides the problem.
  explicit AlgorithmCache(std::string machine);

  std::optional<GemmAlgorithm> find(const GemmProblem &problem);

  /// Stores `algorithm`, on disk too where that is possible.
  void insert(const GemmProblem &problem, const GemmAlgorithm &algorithm);

  /// The file in use, or empty where no cache folder is known.
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
