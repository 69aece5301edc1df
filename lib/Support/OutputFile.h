//===- OutputFile.h - a file that is complete or absent -------------------===//

#ifndef TE_SUPPORT_OUTPUTFILE_H
#define TE_SUPPORT_OUTPUTFILE_H

#include "Support/Files.h"

#include <sys/types.h>

namespace te::support {

/// A file that is opened before a long run and put in place after it. It is
/// written beside its place, under a new name, and `commit` renames it when all
/// bytes are on the disk; without that nothing changes and nothing is left. It
/// has the mode, and if possible the owner, of the file that it replaces. What
/// is neither a regular file nor missing (a pipe, a device) is written
/// directly. Symbolic links are followed: they stay, and what they name is
/// replaced.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  ~OutputFile() { discard(); }

  // These return false, and say why in `error`, where they fail.

  /// Finds out all that can be known before there is something to write.
  bool open(const std::string &path, std::string &error);
  /// Whether everything written so far reached the file.
  bool flush(std::string &error);
  /// Unless `durable`, the file may be damaged if the machine stops soon.
  bool commit(std::string &error, bool durable = true);

  /// Appends; false where that fails, or failed before: `flush` says why.
  bool write(const void *bytes, size_t size);

  /// Whether `open` succeeded.
  bool isOpen() const { return descriptor >= 0; }
  /// Whether both would replace the same file.
  bool replacesSame(const OutputFile &other) const {
    return !temporary.empty() && !other.temporary.empty() &&
           target == other.target;
  }
  /// What a signal that ends the process should remove; may be empty.
  const std::string &temporaryPath() const { return temporary; }

private:
  bool openFile(const std::string &path, std::string &error);
  bool createTemporary();
  bool writeAll(const char *bytes, size_t size);
  bool place(bool durable);
  void discard();
  bool fail(int code, std::string &error) const;

  /// As the user wrote it, after its links, and what is written meanwhile.
  std::string path, target, temporary;
  std::string buffer;
  int descriptor = -1;
  /// The errno of the first write that failed.
  int failure = 0;
  /// Of the file that is replaced.
  bool replaces = false;
  mode_t mode = 0;
  uid_t owner = 0;
  gid_t group = 0;
};

} // namespace te::support

#endif // TE_SUPPORT_OUTPUTFILE_H
