//===- CodeCache.cpp - machine code of earlier compilations ---------------===//

#include "CodeCache.h"

#include "Support/Cache.h"
#include "Support/CacheFolder.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

#include <link.h>

/// All entries together have at most these bytes.
static constexpr int64_t kMostBytes = int64_t(128) << 20;

namespace {

/// An address in a loaded file, and the build ID that its linker gave the file.
struct LoadedFile {
  uintptr_t address;
  std::string buildId;
};

} // namespace

/// Of the file that `info` describes, if it has the address.
static int readBuildId(dl_phdr_info *info, size_t, void *data) {
  auto &file = *static_cast<LoadedFile *>(data);
  llvm::ArrayRef headers(info->dlpi_phdr, info->dlpi_phnum);
  auto contains = [&](const ElfW(Phdr) & header) {
    return header.p_type == PT_LOAD &&
           file.address - info->dlpi_addr - header.p_vaddr < header.p_memsz;
  };
  if (llvm::none_of(headers, contains))
    return 0;
  for (const ElfW(Phdr) &header : headers) {
    if (header.p_type != PT_NOTE)
      continue;
    const auto *begin =
        reinterpret_cast<const char *>(info->dlpi_addr + header.p_vaddr);
    llvm::StringRef notes(begin, header.p_memsz);
    while (notes.size() > sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, notes.data(), sizeof(note));
      const size_t name = sizeof(note),
                   value = name + llvm::alignTo(note.n_namesz, 4);
      if (note.n_type == NT_GNU_BUILD_ID &&
          notes.substr(name, note.n_namesz) == llvm::StringRef("GNU", 4))
        file.buildId = notes.substr(value, note.n_descsz).str();
      notes = notes.drop_front(
          std::min(notes.size(), value + llvm::alignTo(note.n_descsz, 4)));
    }
  }
  return 1;
}

/// Names the builds of this library and of LLVM; empty if the linker has not
/// given one of them a build ID. They are read from memory: files may have been
/// replaced since.
static std::string describeBuilds() {
  std::string builds;
  for (const auto address :
       {reinterpret_cast<uintptr_t>(&describeBuilds),
        reinterpret_cast<uintptr_t>(&llvm::getBitcodeFileContents)}) {
    LoadedFile file{address, {}};
    dl_iterate_phdr(readBuildId, &file);
    if (file.buildId.empty())
      return "";
    builds += file.buildId;
  }
  return builds;
}

llvm::SmallString<0> mlir::te::bitcodeOf(const llvm::Module &module) {
  llvm::SmallString<0> bitcode;
  llvm::raw_svector_ostream os(bitcode);
  llvm::WriteBitcodeToFile(module, os);
  return bitcode;
}

llvm::Expected<std::string>
mlir::te::findOrMake(bool isUsed, llvm::ArrayRef<llvm::StringRef> inputs,
                     llvm::function_ref<llvm::Expected<std::string>()> make) {
  static const std::string builds = describeBuilds();
  const std::string folder = ::te::support::cacheFolder();
  if (!isUsed || builds.empty() || folder.empty())
    return make();
  ::te::support::Sha256 hash;
  auto add = [&](llvm::StringRef bytes) {
    const uint64_t size = bytes.size();
    hash.update(&size, sizeof(size));
    hash.update(bytes.data(), bytes.size());
  };
  add(builds);
  llvm::for_each(inputs, add);
  const ::te::support::Digest key = hash.finish();
  const ::te::support::Cache cache(folder + "/code", kMostBytes);
  if (std::optional<std::string> found = cache.find(key))
    return std::move(*found);
  llvm::Expected<std::string> made = make();
  if (made)
    cache.insert(key, *made);
  return made;
}
