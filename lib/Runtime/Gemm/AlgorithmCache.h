//===- AlgorithmCache.h - tuned algorithms, stored on disk ----------------===//
//
// Tuning takes milliseconds for each shape, so its results are stored: one text
// file for each GPU, driver and library version, one line for each problem.
//
// Without a name, the file is in the user's cache folder. Reading and writing
// it never fail: a file that is not exactly what this code writes (truncated,
// edited, from another machine) counts as empty, and so does what is no regular
// file. A file that the user names is a promise, and what is wrong with it is
// an error.
//
// A file is replaced by renaming a complete one, so readers see the old file or
// the new one. Writers hold a lock on a file beside it. None loses what another
// one added meanwhile, and of two that add a problem, the second takes over
// what the first one chose.
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

  /// Forgets everything and uses the file `name` from now on; null is the one
  /// in the cache folder. A missing file is an error if it `mustExist`.
  Status open(const char *name, bool mustExist);

  std::optional<GemmAlgorithm> find(const GemmProblem &problem);

  /// Stores `*algorithm`, on disk too, unless another process was faster: then
  /// `*algorithm` becomes that one's. `replaces` an entry that is of no use.
  Status insert(const GemmProblem &problem, bool replaces,
                GemmAlgorithm *algorithm);

  /// The file in use, or empty where no cache folder is known.
  const std::string &file() const { return path; }

private:
  using Table = std::map<std::string, GemmAlgorithm>;

  Status read(bool mustExist, Table *table) const;
  Status parse(std::string text, Table *table) const;
  Status write(const Table &table) const;

  const std::string machine;
  std::string path;
  /// Whether the user named the file.
  bool isNamed = false;
  bool loaded = false;
  Table table;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_ALGORITHMCACHE_H
