//===- Secret.cpp - a secret that the processes of one user agree on ------===//
//
// See Secret.h.
//
//===----------------------------------------------------------------------===//

#include "Secret.h"

#include "Support/Files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace te::jobs {

namespace {

constexpr size_t kSecretBytes = 32;

/// Closes a descriptor at the end of a scope.
struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
  const int number;
};

} // namespace

uint64_t hashOf(const char *text) {
  uint64_t hash = 14695981039346656037u;
  for (; *text; ++text)
    hash = (hash ^ static_cast<unsigned char>(*text)) * 1099511628211u;
  return hash;
}

void fillRandom(void *bytes, size_t size) {
  auto *to = static_cast<char *>(bytes);
  while (size > 0) {
    const ssize_t got = getrandom(to, size, 0);
    if (got < 0 && errno != EINTR)
      throw std::runtime_error("the system gives no random numbers");
    to += std::max<ssize_t>(got, 0);
    size -= static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
}

SharedSecret::SharedSecret(const te_tcp_options &options) {
  char job[17];
  std::snprintf(job, sizeof(job), "%016llx",
                static_cast<unsigned long long>(hashOf(options.job)));
  const std::string name = "/te-tcp-" + std::to_string(geteuid()) + "-" +
                           std::to_string(options.port) + "-" + job;
  const char *own = std::getenv("XDG_RUNTIME_DIR");
  if (own && own[0] == '/')
    paths.push_back(own + name);
  std::error_code none;
  const std::filesystem::path shared =
      std::filesystem::temp_directory_path(none);
  if (!none)
    paths.push_back(shared.string() + name);
}

SharedSecret::~SharedSecret() { remove(); }

void SharedSecret::remove() {
  struct stat status = {};
  if (!made.empty() && lstat(made.c_str(), &status) == 0 &&
      status.st_dev == device && status.st_ino == number)
    unlink(made.c_str());
  made.clear();
}

bool SharedSecret::makeAt(const std::string &path, const std::string &secret) {
  std::string name = path;
  // In a folder that others may write, it fails for a file of theirs.
  unlink(path.c_str());
  const Descriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
           0600));
  struct stat status = {};
  if (file.number < 0 || fstat(file.number, &status) != 0)
    return false;
  made.swap(name);
  device = status.st_dev;
  number = status.st_ino;
  // Whatever the mask of modes is.
  const bool isWritten = fchmod(file.number, 0600) == 0 &&
                         write(file.number, secret.data(), secret.size()) ==
                             static_cast<ssize_t>(secret.size());
  if (!isWritten)
    remove();
  return isWritten;
}

bool SharedSecret::make(std::string &secret, std::string &error) {
  std::string bytes(kSecretBytes, '\0');
  fillRandom(bytes.data(), bytes.size());
  for (const std::string &path : paths)
    if (makeAt(path, bytes)) {
      secret = std::move(bytes);
      return true;
    }
  error = "cannot write a secret for the processes of this user to " +
          places() + "; give all of them one";
  return false;
}

bool SharedSecret::read(std::string &secret) {
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string &path = paths[next++ % paths.size()];
    const Descriptor file(
        open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status = {};
    // Who can write it could have chosen the secret, and who can read it has
    // it.
    if (file.number < 0 || fstat(file.number, &status) != 0 ||
        !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 077) != 0)
      continue;
    std::string bytes(kSecretBytes, '\0');
    // Process 0 may be writing it.
    if (::read(file.number, bytes.data(), bytes.size()) !=
        static_cast<ssize_t>(bytes.size()))
      continue;
    secret = std::move(bytes);
    return true;
  }
  return false;
}

std::string SharedSecret::places() const {
  std::string text;
  for (const std::string &path : paths)
    text += (text.empty() ? "" : " or ") + support::inQuotes(path);
  return text.empty() ? "no folder" : text;
}

} // namespace te::jobs
