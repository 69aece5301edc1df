//===- OutputFile.cpp - a file that is complete or absent -----------------===//
//
// The order matters: the bytes are on the disk before the name is, so that a
// machine that stops finds the old file or the new one; then the folder is
// synchronised, so that the new name stays.
//
//===----------------------------------------------------------------------===//

#include "Support/OutputFile.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string_view>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace te::support {

namespace {

/// Writes some bytes as write(2) does. Beyond a limit of the file size that
/// sends a signal, which ends the process by default; it is held back and taken
/// here, so that it is an error like a full disk.
ssize_t writeSome(int descriptor, const char *bytes, size_t size) {
  sigset_t limit, before;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &limit, &before);
  const ssize_t written = ::write(descriptor, bytes, size);
  const int code = errno;
  if (written < 0 && code == EFBIG && !sigismember(&before, SIGXFSZ)) {
    const timespec atOnce = {};
    sigtimedwait(&limit, nullptr, &atOnce);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = code;
  return written;
}

/// Whether a folder cannot be synchronised at all, as on some file systems.
bool isUnsupported(int code) {
  return code == EINVAL || code == ENOTSUP || code == EROFS;
}

constexpr std::string_view kTemporary = ".tmp-";
constexpr int kDigits = 8;

/// Whether a temporary file is one of a writer that was killed: nobody holds
/// its lock, and for ten minutes nobody has written, as a writer has no lock
/// for moments at its begin and end.
bool isLeftOver(const std::string &file) {
  const int opened =
      ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (opened < 0)
    return false;
  struct stat status = {};
  const bool old = fstat(opened, &status) == 0 && S_ISREG(status.st_mode) &&
                   status.st_uid == geteuid() &&
                   status.st_mtime + 600 < std::time(nullptr) &&
                   flock(opened, LOCK_EX | LOCK_NB) == 0;
  close(opened);
  return old;
}

/// Removes temporary files `base`.tmp-XXXXXXXX that were left over. The
/// iterator of the standard library ends the process if there is no memory for
/// it.
void removeLeftOvers(const std::filesystem::path &base) {
  const std::string prefix = base.filename().string().append(kTemporary);
  const std::unique_ptr<DIR, int (*)(DIR *)> folder(
      opendir(base.parent_path().c_str()), closedir);
  while (const dirent *entry = folder ? readdir(folder.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name.size() != prefix.size() + kDigits || !name.starts_with(prefix) ||
        name.find_first_not_of("0123456789abcdef", prefix.size()) !=
            std::string_view::npos)
      continue;
    const std::string file = base.parent_path() / name;
    if (isLeftOver(file))
      unlink(file.c_str());
  }
}

} // namespace

bool OutputFile::fail(int code, std::string &error) const {
  return support::fail(error, "cannot write " + inQuotes(path) + ": " +
                                  std::strerror(code));
}

bool OutputFile::open(const std::string &path, std::string &error) {
  return guarded(error, [&] { return openFile(path, error); });
}

bool OutputFile::openFile(const std::string &path, std::string &error) {
  this->path = path;
  struct stat status = {};
  const bool missing = stat(path.c_str(), &status) != 0;
  if (missing && errno != ENOENT)
    return fail(errno, error);
  // A missing file may be a link's; a circle of links failed above.
  std::error_code code, notALink;
  std::filesystem::path place = std::filesystem::absolute(path, code);
  for (;;) {
    auto next = std::filesystem::read_symlink(place, notALink);
    if (notALink)
      break;
    place = place.parent_path() / next;
  }
  // In one spelling, so that two outputs can be compared.
  target = std::filesystem::weakly_canonical(place, code).string();
  if (code)
    return fail(code.value(), error);

  if (!missing && !S_ISREG(status.st_mode)) {
    descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    return descriptor >= 0 || fail(errno, error);
  }
  // A rename would replace a file that may not be written.
  if (!missing && access(target.c_str(), W_OK) != 0)
    return fail(errno, error);
  replaces = !missing;
  mode = status.st_mode & 07777;
  owner = status.st_uid;
  group = status.st_gid;
  return createTemporary() || fail(errno, error);
}

bool OutputFile::createTemporary() {
  const std::filesystem::path place = target;
  // With a name that fits beside a long one.
  const std::string base =
      (place.parent_path() / place.filename().string().substr(0, 200)).string();
  removeLeftOvers(base);
  uint32_t number = 0;
  (void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
  // Whole before it is `temporary`, which is removed if anything fails.
  std::string name;
  name.reserve(base.size() + kTemporary.size() + kDigits);
  errno = EEXIST;
  for (int attempt = 0; descriptor < 0 && errno == EEXIST && attempt < 100;
       ++attempt, ++number) {
    char digits[kDigits + 1];
    std::snprintf(digits, sizeof(digits), "%0*x", kDigits, number);
    name.assign(base).append(kTemporary).append(digits);
    // A new file, whatever is there: no link of that name is followed. A file
    // that will have another's mode is nobody else's until then.
    descriptor = ::open(name.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        replaces ? 0600 : 0666);
  }
  if (descriptor < 0)
    return false;
  temporary = std::move(name);
  (void)flock(descriptor, LOCK_EX | LOCK_NB);
  return true;
}

bool OutputFile::write(const void *bytes, size_t size) {
  constexpr size_t kBuffer = 1 << 16;
  const auto *from = static_cast<const char *>(bytes);
  std::string ignored;
  if (failure != 0)
    return false;
  if (size < kBuffer && buffer.size() + size < kBuffer &&
      guarded(
          ignored,
          [&] {
            buffer.append(from, size);
            return true;
          }))
    return true;
  return writeAll(buffer.data(), buffer.size()) &&
         (buffer.clear(), writeAll(from, size));
}

bool OutputFile::writeAll(const char *bytes, size_t size) {
  while (failure == 0 && size != 0) {
    const ssize_t written = writeSome(descriptor, bytes, size);
    if (written > 0) {
      bytes += written;
      size -= static_cast<size_t>(written);
    } else if (written == 0 || errno != EINTR) {
      failure = written == 0 ? EIO : errno;
    }
  }
  return failure == 0;
}

bool OutputFile::flush(std::string &error) {
  return guarded(error, [&] {
    const bool written = writeAll(buffer.data(), buffer.size());
    buffer.clear();
    return written || fail(failure, error);
  });
}

/// Makes the temporary file the target; false with errno.
bool OutputFile::place(bool durable) {
  // Nothing after the new name may lack memory.
  const std::string folder =
      std::filesystem::path(target).parent_path().string();
  if (replaces) {
    // Only root may give a file away.
    (void)!fchown(descriptor, owner, group);
    if (fchmod(descriptor, mode) != 0)
      return false;
  }
  if (durable && fsync(descriptor) != 0)
    return false;
  // Some file systems report a full disk here.
  if (close(std::exchange(descriptor, -1)) != 0)
    return false;
  if (std::rename(temporary.c_str(), target.c_str()) != 0)
    return false;
  temporary.clear();
  if (!durable)
    return true;
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A folder that may be written but not read cannot be synchronised.
  if (opened < 0)
    return errno == EACCES;
  const bool synchronised = fsync(opened) == 0 || isUnsupported(errno);
  const int code = errno;
  close(opened);
  errno = code;
  return synchronised;
}

bool OutputFile::commit(std::string &error, bool durable) {
  return guarded(error, [&] {
    if (!flush(error))
      return false;
    const bool done = temporary.empty()
                          ? close(std::exchange(descriptor, -1)) == 0
                          : place(durable);
    if (!done)
      fail(errno, error);
    discard();
    return done;
  });
}

void OutputFile::discard() {
  if (descriptor >= 0)
    close(std::exchange(descriptor, -1));
  if (!temporary.empty())
    unlink(temporary.c_str());
  temporary.clear();
}

} // namespace te::support
