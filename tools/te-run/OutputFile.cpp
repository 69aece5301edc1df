//===- OutputFile.cpp - a file that is complete or absent -----------------===//

#include "OutputFile.h"

#include "llvm/Support/Error.h"

#include <filesystem>

using namespace te::run;
namespace fs = llvm::sys::fs;

OutputFile::~OutputFile() {
  if (stream)
    stream->clear_error();
  stream.reset();
  if (temporary)
    llvm::consumeError(temporary->discard());
}

bool OutputFile::fail(std::error_code code, std::string &error) const {
  error = "cannot write '" + path + "': " + code.message();
  return false;
}

bool OutputFile::open(const std::string &path, std::string &error) {
  this->path = path;
  fs::file_status status;
  std::error_code code = fs::status(path, status);
  const bool missing = code == std::errc::no_such_file_or_directory;
  if (code && !missing)
    return fail(code, error);
  // A missing file may be a link's; a circle of links failed above.
  std::filesystem::path place = std::filesystem::absolute(path, code);
  std::error_code notALink;
  for (;;) {
    auto next = std::filesystem::read_symlink(place, notALink);
    if (notALink)
      break;
    place = place.parent_path() / next;
  }
  // In one spelling, so that two outputs can be compared.
  target = std::filesystem::weakly_canonical(place, code).string();
  if (code)
    return fail(code, error);

  if (!missing && status.type() != fs::file_type::regular_file) {
    stream = std::make_unique<llvm::raw_fd_ostream>(target, code,
                                                    fs::CD_OpenExisting);
    if (!code)
      return true;
    stream.reset();
    return fail(code, error);
  }
  // A rename would replace a file that may not be written.
  if (!missing && (code = fs::access(target, fs::AccessMode::Write)))
    return fail(code, error);
  auto created = fs::TempFile::create(target + ".tmp-%%%%%%");
  if (!created)
    return fail(llvm::errorToErrorCode(created.takeError()), error);
  temporary.emplace(std::move(*created));
  stream = std::make_unique<llvm::raw_fd_ostream>(temporary->FD,
                                                  /*shouldClose=*/false);
  return true;
}

bool OutputFile::flush(std::string &error) {
  stream->flush();
  const std::error_code code = stream->error();
  stream->clear_error();
  return !code || fail(code, error);
}

bool OutputFile::commit(std::string &error) {
  if (!flush(error))
    return false;
  stream.reset();
  if (!temporary)
    return true;
  llvm::Error renamed = temporary->keep(target);
  temporary.reset();
  return !renamed || fail(llvm::errorToErrorCode(std::move(renamed)), error);
}
