//===- Cache.cpp - results on disk, by what decides them ------------------===//

#include "Support/Cache.h"

#include "Support/CacheFolder.h"
#include "Support/OutputFile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <dirent.h>
#include <filesystem>
#include <memory>
#include <vector>

namespace te::support {

/// What a file begins with.
static Digest sealOf(const Digest &key, std::string_view result) {
  Sha256 seal;
  seal.update(key.data(), key.size());
  seal.update(result.data(), result.size());
  return seal.finish();
}

std::string Cache::fileOf(const Digest &key) const {
  return folder + "/" + hexOf(key);
}

std::optional<std::string> Cache::find(const Digest &key) const {
  const RegularFile file(fileOf(key), O_RDONLY, mostBytes);
  if (!file.isOwn())
    return std::nullopt;
  std::string text = file.text();
  Digest seal;
  if (text.size() < seal.size())
    return std::nullopt;
  std::memcpy(seal.data(), text.data(), seal.size());
  text.erase(0, seal.size());
  if (!sameDigest(seal, sealOf(key, text)))
    return std::nullopt;
  file.touch();
  return text;
}

void Cache::insert(const Digest &key, std::string_view result) const {
  if (static_cast<int64_t>(result.size()) > mostBytes / 8)
    return;
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  const std::string path = fileOf(key);
  // An output would follow a link, and wait for the reader of a FIFO.
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return;
  const Digest seal = sealOf(key, result);
  OutputFile output;
  std::string ignored;
  if (output.open(path, ignored) && output.write(seal.data(), seal.size()) &&
      output.write(result.data(), result.size()) &&
      output.commit(ignored, /*durable=*/false))
    removeOldest();
}

void Cache::removeOldest() const {
  struct Entry {
    timespec used;
    int64_t bytes;
    std::string path;
  };
  std::vector<Entry> entries;
  int64_t bytes = 0;
  const std::unique_ptr<DIR, int (*)(DIR *)> opened(opendir(folder.c_str()),
                                                    closedir);
  while (const dirent *entry = opened ? readdir(opened.get()) : nullptr) {
    struct stat status = {};
    if (::fstatat(dirfd(opened.get()), entry->d_name, &status,
                  AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode))
      continue;
    bytes += status.st_size;
    entries.push_back(
        {status.st_mtim, status.st_size, folder + "/" + entry->d_name});
  }
  if (bytes <= mostBytes)
    return;
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) <
           std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  // Some more, so that not every result that follows has to look again.
  for (const Entry &entry : entries) {
    if (bytes <= mostBytes / 4 * 3)
      break;
    if (::unlink(entry.path.c_str()) == 0)
      bytes -= entry.bytes;
  }
}

} // namespace te::support
