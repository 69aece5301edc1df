//===- Secret.h - a secret that the processes of one user agree on --------===//
//
// For a job on a loopback address whose processes were given no secret: process
// 0 puts random bytes into a file that only its user can read, the others read
// it, and process 0 removes it when all are connected. Its name has the user,
// the port and the job.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TCP_SECRET_H
#define TE_TCP_SECRET_H

#include "TEDialect/Runtime/te_runtime_tcp.h"

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace te::jobs {

/// A number for the text.
uint64_t hashOf(const char *text);

/// Fills it with random numbers of the system; throws if there are none.
void fillRandom(void *bytes, size_t size);

class SharedSecret {
public:
  explicit SharedSecret(const te_tcp_options &options);
  SharedSecret(const SharedSecret &) = delete;
  SharedSecret &operator=(const SharedSecret &) = delete;
  /// Removes what `make` made.
  ~SharedSecret();

  /// In process 0: makes the file, in place of one that an earlier job left.
  /// False, and why, if there is no folder for it.
  bool make(std::string &secret, std::string &error);

  /// In the others: reads a file of this user. False if there is none. If
  /// several folders have one, the next call reads another: process 0 may not
  /// see all folders, and an earlier job may have left one.
  bool read(std::string &secret);

  /// "'/a/file' or '/another/file'".
  std::string places() const;

private:
  bool makeAt(const std::string &path, const std::string &secret);
  void remove();

  /// In the order in which folders are tried.
  std::vector<std::string> paths;
  size_t next = 0;
  /// What `make` made: nobody else's file of that name is removed.
  std::string made;
  dev_t device = 0;
  ino_t number = 0;
};

} // namespace te::jobs

#endif // TE_TCP_SECRET_H
