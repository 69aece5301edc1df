//===- CacheFolder.h - the user's cache folder, and files in it -----------===//

#ifndef TE_SUPPORT_CACHEFOLDER_H
#define TE_SUPPORT_CACHEFOLDER_H

#include <cstdint>
#include <string>
#include <sys/stat.h>

namespace te::support {

/// $XDG_CACHE_HOME/te-mlir or ~/.cache/te-mlir; empty if neither is known.
std::string cacheFolder();

/// The open descriptor of a regular file of at most `mostBytes`, which is no
/// link. Opening never waits, as it would for a writer of a FIFO.
class RegularFile {
public:
  RegularFile(const std::string &path, int flags, int64_t mostBytes);
  ~RegularFile();
  RegularFile(const RegularFile &) = delete;
  RegularFile &operator=(const RegularFile &) = delete;

  /// 0, or the errno of opening; EINVAL if it is no regular file of this size.
  int error = 0;

  /// What it holds; empty where reading fails.
  std::string text() const;
  /// Whether it belongs to the user of this process.
  bool isOwn() const;
  /// Gives it the present time as that of its last change.
  void touch() const;
  /// Waits up to a second for the lock, which closing releases.
  void lock() const;

private:
  struct stat status = {};
  int descriptor;
};

} // namespace te::support

#endif // TE_SUPPORT_CACHEFOLDER_H
