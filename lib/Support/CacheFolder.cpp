//===- CacheFolder.cpp - the user's cache folder, and files in it ---------===//

#include "Support/CacheFolder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace te::support {

std::string cacheFolder() {
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache && cache[0] == '/')
    return std::string(cache) + "/te-mlir";
  const char *home = std::getenv("HOME");
  if (home && home[0] == '/')
    return std::string(home) + "/.cache/te-mlir";
  return "";
}

RegularFile::RegularFile(const std::string &path, int flags, int64_t mostBytes)
    : descriptor(::open(path.c_str(),
                        flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0644)) {
  if (descriptor < 0) {
    error = errno;
  } else if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
             status.st_size > mostBytes) {
    error = EINVAL;
    ::close(descriptor);
    descriptor = -1;
  }
}

RegularFile::~RegularFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

std::string RegularFile::text() const {
  if (descriptor < 0)
    return "";
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::read(descriptor, &text[done], text.size() - done);
    if (count <= 0)
      return "";
    done += static_cast<size_t>(count);
  }
  return text;
}

bool RegularFile::isOwn() const {
  return descriptor >= 0 && status.st_uid == ::geteuid();
}

void RegularFile::touch() const {
  if (descriptor >= 0)
    (void)::futimens(descriptor, nullptr);
}

void RegularFile::lock() const {
  for (int tries = 0; descriptor >= 0 && tries < 1000 &&
                      ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
       ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

} // namespace te::support
