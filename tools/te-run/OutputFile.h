//===- OutputFile.h - a file that is complete or absent -------------------===//

#ifndef TE_TOOLS_TE_RUN_OUTPUTFILE_H
#define TE_TOOLS_TE_RUN_OUTPUTFILE_H

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <optional>
#include <string>

namespace te::run {

/// A file that is opened before a long run and put in place after it. It is
/// written beside its place and renamed by `commit`; without that nothing
/// changes, also where a signal ends the process. What is neither a regular
/// file nor missing (a pipe, a device) is written directly. Symbolic links are
/// followed: they stay, and what they name is replaced.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  ~OutputFile();

  // These return false, and say why in `error`, where they fail.

  /// Finds out all that can be known before there is something to write.
  bool open(const std::string &path, std::string &error);
  /// Makes everything written so far reach the file.
  bool flush(std::string &error);
  bool commit(std::string &error);

  /// Whether `open` succeeded.
  bool isOpen() const { return stream != nullptr; }
  /// For writing; `flush` reports its errors.
  llvm::raw_fd_ostream &os() { return *stream; }
  /// Whether both would replace the same file.
  bool replacesSame(const OutputFile &other) const {
    return temporary && other.temporary && target == other.target;
  }

private:
  bool fail(std::error_code code, std::string &error) const;

  /// As the user wrote it, and after its links.
  std::string path, target;
  std::optional<llvm::sys::fs::TempFile> temporary;
  std::unique_ptr<llvm::raw_fd_ostream> stream;
};

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_OUTPUTFILE_H
