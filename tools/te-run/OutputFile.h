//===- OutputFile.h - an output of a tool, as a stream --------------------===//

#ifndef TE_TOOLS_TE_RUN_OUTPUTFILE_H
#define TE_TOOLS_TE_RUN_OUTPUTFILE_H

#include "Support/OutputFile.h"

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace te::run {

/// A support::OutputFile that LLVM can print to. A signal that ends the process
/// removes what is not in place.
class OutputFile : public support::OutputFile {
public:
  ~OutputFile();

  bool open(const std::string &path, std::string &error);

  /// For writing; `flush` reports its errors.
  llvm::raw_ostream &os() { return stream; }

private:
  class Stream : public llvm::raw_ostream {
  public:
    explicit Stream(support::OutputFile &file)
        : raw_ostream(/*unbuffered=*/true), file(file) {}

  private:
    void write_impl(const char *bytes, size_t size) override {
      position += size;
      file.write(bytes, size);
    }
    uint64_t current_pos() const override { return position; }

    support::OutputFile &file;
    uint64_t position = 0;
  };

  /// Known to the signal handler.
  std::string watched;
  Stream stream{*this};
};

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_OUTPUTFILE_H
