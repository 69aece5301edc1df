//===- OutputFile.cpp - an output of a tool, as a stream ------------------===//

#include "OutputFile.h"

#include "llvm/Support/Signals.h"

using namespace te::run;

OutputFile::~OutputFile() {
  if (!watched.empty())
    llvm::sys::DontRemoveFileOnSignal(watched);
}

bool OutputFile::open(const std::string &path, std::string &error) {
  if (!support::OutputFile::open(path, error))
    return false;
  watched = temporaryPath();
  if (!watched.empty())
    llvm::sys::RemoveFileOnSignal(watched);
  return true;
}
