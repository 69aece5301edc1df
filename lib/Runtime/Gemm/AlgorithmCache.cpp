//===- AlgorithmCache.cpp - tuned algorithms, stored on disk --------------===//
//
// The file has one record a line, with fields separated by tabs:
//   te-mlir-gemm-1 <tab> machine
//   problem <tab> order <tab> workspace bytes <tab> algorithm (hex) <tab> sum
// where `sum` is a hash of the line up to its last tab.
//
//===----------------------------------------------------------------------===//

#include "Gemm/AlgorithmCache.h"

#include "Support/CacheFolder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace te::rt::cuda {
namespace {

const char *const magic = "te-mlir-gemm-1";

/// FNV-1a, as 16 hex digits.
std::string hashOf(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3u;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(hash));
  return digits;
}

/// The file of `machine` in the cache folder; empty if no folder is known.
std::string cacheFile(const std::string &machine) {
  const std::string folder = support::cacheFolder();
  return folder.empty() ? "" : folder + "/gemm-" + hashOf(machine) + ".txt";
}

bool decode(const std::string &text, cublasLtMatmulAlgo_t *algo) {
  unsigned char bytes[sizeof(*algo)];
  if (text.size() != 2 * sizeof(bytes))
    return false;
  for (size_t i = 0; i < sizeof(bytes); ++i) {
    const char *const begin = text.data() + 2 * i;
    const auto result = std::from_chars(begin, begin + 2, bytes[i], 16);
    if (result.ec != std::errc() || result.ptr != begin + 2)
      return false;
  }
  std::memcpy(algo, bytes, sizeof(bytes));
  return true;
}

std::string formatLine(const std::string &problem,
                       const GemmAlgorithm &algorithm) {
  const std::string body = problem + '\t' + orderText(algorithm.order) + '\t' +
                           std::to_string(algorithm.workspaceBytes) + '\t' +
                           hexText(algorithm.algo);
  return body + '\t' + hashOf(body) + '\n';
}

bool parseLine(const std::string &line, std::string *problem,
               GemmAlgorithm *algorithm) {
  const size_t last = line.rfind('\t');
  if (last == std::string::npos ||
      line.substr(last + 1) != hashOf(line.substr(0, last)))
    return false;
  std::istringstream fields(line);
  std::string order, workspace, algo;
  std::getline(fields, *problem, '\t');
  std::getline(fields, order, '\t');
  std::getline(fields, workspace, '\t');
  std::getline(fields, algo, '\t');
  algorithm->order = order == "a-first" ? GemmOrder::aFirst : GemmOrder::bFirst;
  const auto result =
      std::from_chars(workspace.data(), workspace.data() + workspace.size(),
                      algorithm->workspaceBytes);
  return result.ec == std::errc() && decode(algo, &algorithm->algo);
}

/// No tuning cache is near this size: a record has about 300 bytes.
constexpr int64_t kMostBytes = 16 << 20;

} // namespace

AlgorithmCache::AlgorithmCache(std::string machineText)
    : machine(std::move(machineText)), path(cacheFile(machine)) {}

Status AlgorithmCache::open(const char *name, bool mustExist) {
  AlgorithmCache other(machine);
  if (name)
    other.path = name;
  other.isNamed = name != nullptr;
  if (mustExist && other.path.empty())
    return {TE_RT_INVALID_ARGUMENT,
            "expected 'file' to be named, because neither XDG_CACHE_HOME nor "
            "HOME says where the cache folder is"};
  if (name || mustExist)
    TE_RT_RETURN_IF_FAILED(other.read(mustExist, &other.table));
  other.loaded = name || mustExist;
  path = std::move(other.path);
  isNamed = other.isNamed;
  loaded = other.loaded;
  table = std::move(other.table);
  return Status::ok();
}

Status AlgorithmCache::read(bool mustExist, Table *into) const {
  const support::RegularFile file(path, O_RDONLY, kMostBytes);
  const bool isMissing = file.error == ENOENT;
  if (file.error && (!isMissing || mustExist))
    return {TE_RT_INVALID_ARGUMENT,
            "cannot read the tuning file '" + path + "': " +
                (file.error == EINVAL || file.error == ELOOP
                     ? "expected a regular file, and no link, of at most 16 MiB"
                     : std::strerror(file.error))};
  return file.error ? Status::ok() : parse(file.text(), into);
}

Status AlgorithmCache::parse(std::string text, Table *into) const {
  const auto wrong = [&](const std::string &what) -> Status {
    return {TE_RT_INVALID_ARGUMENT, "expected '" + path + "' to be " + what +
                                        "; tune again, into another file"};
  };
  std::istringstream stream(std::move(text));
  std::string line;
  const std::string start = std::string(magic) + '\t';
  if (!std::getline(stream, line) || line.compare(0, start.size(), start) != 0)
    return wrong("a tuning file, which starts with '" + std::string(magic) +
                 "'");
  if (line.substr(start.size()) != machine)
    return wrong("tuned on [" + machine + "], but it was on [" +
                 line.substr(start.size()) + "]");
  Table found;
  for (int number = 2; std::getline(stream, line); ++number) {
    std::string problem;
    GemmAlgorithm algorithm;
    if (!parseLine(line, &problem, &algorithm))
      return wrong("a complete tuning file, but its line " +
                   std::to_string(number) + " is damaged");
    found[problem] = algorithm;
  }
  *into = std::move(found);
  return Status::ok();
}

Status AlgorithmCache::write(const Table &table) const {
  std::error_code error;
  // Unique among the processes and threads that may write at the same time.
  const std::string temporary =
      path + "." + std::to_string(getpid()) + "-" +
      std::to_string(reinterpret_cast<uintptr_t>(this)) + ".tmp";
  errno = 0;
  {
    std::ofstream stream(temporary, std::ios::trunc);
    stream << magic << '\t' << machine << '\n';
    for (const auto &[problem, algorithm] : table)
      stream << formatLine(problem, algorithm);
    stream.close();
    if (!stream)
      error = {errno ? errno : EIO, std::generic_category()};
  }
  if (!error)
    std::filesystem::rename(temporary, path, error);
  if (!error)
    return Status::ok();
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  return {TE_RT_INVALID_ARGUMENT,
          "cannot write the tuning file '" + path + "': " + error.message()};
}

std::optional<GemmAlgorithm> AlgorithmCache::find(const GemmProblem &problem) {
  if (!loaded)
    (void)read(/*mustExist=*/false, &table);
  loaded = true;
  const auto entry = table.find(problem.text());
  if (entry == table.end())
    return std::nullopt;
  return entry->second;
}

Status AlgorithmCache::insert(const GemmProblem &problem, bool replaces,
                              GemmAlgorithm *algorithm) {
  const std::string key = problem.text();
  if (path.empty()) {
    table[key] = *algorithm;
    return Status::ok();
  }
  std::error_code error;
  if (!isNamed)
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path(), error);
  const support::RegularFile lock(path + ".lock", O_RDWR | O_CREAT, kMostBytes);
  // Without the lock a writer may undo what another one adds at that moment,
  // and no more.
  lock.lock();
  Table others;
  const Status wasRead = read(/*mustExist=*/false, &others);
  if (isNamed)
    TE_RT_RETURN_IF_FAILED(wasRead);
  if (const auto first = others.find(key); first != others.end() && !replaces)
    *algorithm = first->second;
  table[key] = *algorithm;
  table.merge(others);
  const Status written = write(table);
  return isNamed ? written : Status::ok();
}

} // namespace te::rt::cuda
