//===- AlgorithmCache.cpp - tuned algorithms, stored on disk --------------===//
//
// The file has one record a line, with fields separated by tabs:
//   te-mlir-gemm-1 <tab> machine
//   problem <tab> order <tab> workspace bytes <tab> algorithm (hex) <tab> sum
// where `sum` is a hash of the line up to its last tab.
//
//===----------------------------------------------------------------------===//

#include "Gemm/AlgorithmCache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

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

std::string cacheFolder() {
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache && cache[0] == '/')
    return std::string(cache) + "/te-mlir";
  const char *home = std::getenv("HOME");
  if (home && home[0] == '/')
    return std::string(home) + "/.cache/te-mlir";
  return "";
}

std::string encode(const cublasLtMatmulAlgo_t &algo) {
  unsigned char bytes[sizeof(algo)];
  std::memcpy(bytes, &algo, sizeof(algo));
  std::string text;
  for (unsigned char byte : bytes) {
    const char *const digits = "0123456789abcdef";
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
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
  const std::string body =
      problem + '\t' +
      (algorithm.order == GemmOrder::aFirst ? "a-first" : "b-first") + '\t' +
      std::to_string(algorithm.workspaceBytes) + '\t' + encode(algorithm.algo);
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
constexpr off_t kMostBytes = 16 << 20;

/// The open descriptor of a regular file, or -1. Opening never waits, as it
/// would for a writer of a FIFO.
class RegularFile {
public:
  RegularFile(const std::string &path, int flags)
      : descriptor(::open(path.c_str(),
                          flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0644)) {
    if (descriptor >= 0 &&
        (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))) {
      ::close(descriptor);
      descriptor = -1;
    }
  }
  ~RegularFile() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  RegularFile(const RegularFile &) = delete;
  RegularFile &operator=(const RegularFile &) = delete;

  /// What it holds; empty where that is too much or reading fails.
  std::string text() const {
    if (descriptor < 0 || status.st_size > kMostBytes)
      return "";
    std::string text(static_cast<size_t>(status.st_size), '\0');
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t count = ::read(descriptor, &text[done], text.size() - done);
      if (count <= 0)
        return "";
      done += static_cast<size_t>(count);
    }
    return text;
  }

  /// Waits up to a second for the lock, which closing releases. Without it a
  /// writer may undo what another one adds at that moment, and no more.
  void lock() const {
    for (int tries = 0; descriptor >= 0 && tries < 1000 &&
                        ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
         ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

private:
  struct stat status = {};
  int descriptor;
};

} // namespace

AlgorithmCache::AlgorithmCache(std::string machineText)
    : machine(std::move(machineText)) {
  const std::string folder = cacheFolder();
  if (!folder.empty())
    path = folder + "/gemm-" + hashOf(machine) + ".txt";
}

AlgorithmCache::Table AlgorithmCache::read() const {
  std::istringstream stream(RegularFile(path, O_RDONLY).text());
  std::string line;
  if (path.empty() || !std::getline(stream, line) ||
      line != magic + ('\t' + machine))
    return {};
  Table table;
  while (std::getline(stream, line)) {
    std::string problem;
    GemmAlgorithm algorithm;
    if (!parseLine(line, &problem, &algorithm))
      return {};
    table[problem] = algorithm;
  }
  return table;
}

void AlgorithmCache::write(const Table &table) const {
  std::error_code error;
  // Unique among the processes and threads that may write at the same time.
  const std::string temporary =
      path + "." + std::to_string(getpid()) + "-" +
      std::to_string(reinterpret_cast<uintptr_t>(this)) + ".tmp";
  {
    std::ofstream stream(temporary, std::ios::trunc);
    stream << magic << '\t' << machine << '\n';
    for (const auto &[problem, algorithm] : table)
      stream << formatLine(problem, algorithm);
    stream.close();
    if (!stream) {
      std::filesystem::remove(temporary, error);
      return;
    }
  }
  std::filesystem::rename(temporary, path, error);
  if (error)
    std::filesystem::remove(temporary, error);
}

std::optional<GemmAlgorithm> AlgorithmCache::find(const GemmProblem &problem) {
  if (!loaded)
    table.merge(read());
  loaded = true;
  const auto entry = table.find(problem.text());
  if (entry == table.end())
    return std::nullopt;
  return entry->second;
}

void AlgorithmCache::insert(const GemmProblem &problem,
                            const GemmAlgorithm &algorithm) {
  table[problem.text()] = algorithm;
  loaded = true;
  if (path.empty())
    return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(),
                                      error);
  const RegularFile lock(path + ".lock", O_RDWR | O_CREAT);
  lock.lock();
  // Other processes may have added lines after the file was read.
  table.merge(read());
  write(table);
}

} // namespace te::rt::cuda
