//===- FailingCalls.cpp - system calls that fail on request ---------------===//

#include "Step/FailingCalls.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <utility>

namespace {

bool isRecording = false;
te::calls::Plan plan;
std::vector<std::string> recorded;

std::string pathOf(int descriptor) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  char path[PATH_MAX];
  const ssize_t size = readlink(link.c_str(), path, sizeof(path));
  return size < 0 ? "closed" : std::string(path, static_cast<size_t>(size));
}

/// Counts a call; whether it fails, with errno.
bool fails(const char *name, const std::string &path) {
  if (!isRecording)
    return false;
  const int number = static_cast<int>(recorded.size());
  recorded.push_back(std::string(name) + ' ' + path);
  if (plan.failing < 0 || number < plan.failing ||
      (number > plan.failing && !plan.isLasting))
    return false;
  errno = plan.code;
  return true;
}

} // namespace

// --wrap makes these the functions of all objects of the program.
extern "C" {
int __real_stat(const char *path, struct stat *status);
int __wrap_stat(const char *path, struct stat *status) {
  return fails("stat", path) ? -1 : __real_stat(path, status);
}
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode) {
  return fails("access", path) ? -1 : __real_access(path, mode);
}
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    std::va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  return fails("open", path) ? -1 : __real_open(path, flags, mode);
}
int __real_flock(int descriptor, int operation);
int __wrap_flock(int descriptor, int operation) {
  return fails("flock", pathOf(descriptor))
             ? -1
             : __real_flock(descriptor, operation);
}
ssize_t __real_write(int descriptor, const void *bytes, size_t size);
ssize_t __wrap_write(int descriptor, const void *bytes, size_t size) {
  if (!isRecording)
    return __real_write(descriptor, bytes, size);
  return fails("write", pathOf(descriptor))
             ? -1
             : __real_write(descriptor, bytes, std::min(size, plan.mostBytes));
}
int __real_fchown(int descriptor, uid_t owner, gid_t group);
int __wrap_fchown(int descriptor, uid_t owner, gid_t group) {
  return fails("fchown", pathOf(descriptor))
             ? -1
             : __real_fchown(descriptor, owner, group);
}
int __real_fchmod(int descriptor, mode_t mode);
int __wrap_fchmod(int descriptor, mode_t mode) {
  return fails("fchmod", pathOf(descriptor)) ? -1
                                             : __real_fchmod(descriptor, mode);
}
int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor) {
  return fails("fsync", pathOf(descriptor)) ? -1 : __real_fsync(descriptor);
}
// The system closes a file also where this fails.
int __real_close(int descriptor);
int __wrap_close(int descriptor) {
  const bool failed = fails("close", isRecording ? pathOf(descriptor) : "");
  const int result = __real_close(descriptor);
  if (!failed)
    return result;
  errno = plan.code;
  return -1;
}
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
  return fails("rename", from) ? -1 : __real_rename(from, to);
}
}

namespace te::calls {

void record(const Plan &next) {
  recorded.clear();
  plan = next;
  isRecording = true;
}

std::vector<std::string> stop() {
  isRecording = false;
  return std::exchange(recorded, {});
}

} // namespace te::calls
