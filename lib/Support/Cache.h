//===- Cache.h - results on disk, by what decides them --------------------===//
//
// A folder has a file for each result. Its name is a digest of everything that
// decides the result, and it begins with a digest of that name and its
// contents. Several processes may use a folder: a file is complete or absent,
// and who makes a result that another one has stored stores the same again.
//
// Nothing fails: a file that is missing, damaged or under the name of another
// one, that belongs to another user or is no regular file, is not found, and
// what cannot be written is not stored.
//
//===----------------------------------------------------------------------===//

#ifndef TE_SUPPORT_CACHE_H
#define TE_SUPPORT_CACHE_H

#include "Support/Sha256.h"

#include <optional>
#include <string>
#include <string_view>

namespace te::support {

class Cache {
public:
  /// The files in `folder` have at most `mostBytes` together, or a little more
  /// while several processes store results.
  Cache(std::string folder, int64_t mostBytes)
      : folder(std::move(folder)), mostBytes(mostBytes) {}

  /// The result that was stored under `key`.
  std::optional<std::string> find(const Digest &key) const;

  /// Stores `result`, in place of those that were not used for longest.
  void insert(const Digest &key, std::string_view result) const;

private:
  std::string fileOf(const Digest &key) const;
  void removeOldest() const;

  std::string folder;
  int64_t mostBytes;
};

} // namespace te::support

#endif // TE_SUPPORT_CACHE_H
