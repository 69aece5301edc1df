//===- Link.cpp - from an object to a shared object -----------------------===//
//
// The object calls libte_runtime and nothing else, so any linker does, without
// start files or a C library. The runtime that is linked with is the one this
// process has loaded: only its soname gets into the file.
//
//===----------------------------------------------------------------------===//

#include "Link.h"

#include "TEDialect/Runtime/te_runtime.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>

using namespace llvm;

std::string te::compile::findLinker(StringRef wanted, std::string &error) {
  const StringRef known[] = {"ld.lld", "ld.lld-22", "ld", "clang", "cc"};
  const ArrayRef<StringRef> names = wanted.empty() ? ArrayRef(known) : wanted;
  for (StringRef name : names)
    // Of a name with a folder it says nothing about the file.
    if (ErrorOr<std::string> path = sys::findProgramByName(name);
        path && sys::fs::can_execute(*path))
      return *path;
  error = "cannot find a linker: looked for '" + join(names, "', '") +
          "' on the PATH; '--linker' names another, and an object ('-o F.o') "
          "needs none";
  return "";
}

/// The file of the libte_runtime of this process.
static std::string runtimePath() {
  Dl_info info = {};
  dladdr(reinterpret_cast<void *>(&te_rt_version), &info);
  return info.dli_fname ? info.dli_fname : "";
}

std::unique_ptr<MemoryBuffer> te::compile::linkShared(StringRef linker,
                                                      StringRef object,
                                                      StringRef name,
                                                      std::string &error) {
  auto fail = [&](const Twine &why) {
    error = ("cannot link '" + name + "' with '" + linker + "': " + why).str();
    return nullptr;
  };
  SmallString<128> input, output, log;
  const scope_exit remove([&] {
    for (const auto &path : {input, output, log})
      if (!path.empty())
        sys::fs::remove(path);
  });
  int descriptor = -1;
  if (std::error_code code =
          sys::fs::createTemporaryFile("te-compile", "o", descriptor, input))
    return fail(code.message());
  {
    raw_fd_ostream os(descriptor, /*shouldClose=*/true);
    os << object;
    os.close();
    if (os.has_error()) {
      const std::string why = os.error().message();
      os.clear_error();
      return fail(why);
    }
  }
  for (auto *path : {&output, &log})
    if (std::error_code code =
            sys::fs::createTemporaryFile("te-compile", "tmp", *path))
      return fail(code.message());

  const std::string runtime = runtimePath();
  SmallVector<std::string> options = {"-shared", "-o", output.str().str(),
                                      input.str().str(), runtime};
  // A compiler as the driver of a linker.
  if (StringRef(sys::path::filename(linker)).starts_with("ld"))
    options.append({"-soname", name.str(), "-z", "defs"});
  else
    options.append({"-nostdlib", ("-Wl,-soname," + name).str(), "-Wl,-z,defs"});
  SmallVector<StringRef> arguments = {linker};
  arguments.append(options.begin(), options.end());
  std::string message;
  const int code = sys::ExecuteAndWait(
      linker, arguments, /*Env=*/std::nullopt,
      {/*stdin=*/StringRef(), /*stdout=*/log.str(), /*stderr=*/log.str()},
      /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  if (code != 0) {
    if (auto said = MemoryBuffer::getFile(log); said && message.empty())
      message = (*said)->getBuffer().trim().str();
    return fail(message.empty() ? "exit code " + std::to_string(code)
                                : message);
  }
  // Not mapped: the file goes.
  auto linked = MemoryBuffer::getFile(output, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false,
                                      /*IsVolatile=*/true);
  if (!linked)
    return fail(linked.getError().message());
  if (!(*linked)->getBuffer().starts_with("\x7f"
                                          "ELF"))
    return fail("it ended without an error, but wrote no shared object");
  return std::move(*linked);
}
