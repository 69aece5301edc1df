//===- ProgramFuzzer.cpp - changed programs through the pipeline ----------===//
//
//   te-fuzz-program SEED RUNS OUT FILE...
//
// RUNS is a number, or a time such as 600s, or 0 to take each program as it is.
//
// Changes words and lines of the programs in the files, between lines with
// `// -----`. Bytes that are changed one by one rarely get past the parser. Or
// changes an extent or an element type everywhere, so that types still agree.
// Compiles each result in a child process with a bound of time and of memory.
// A text that ends a child is written to OUT-RUN.mlir. MLIR is not
// instrumented, so libFuzzer would have nothing to follow.
//
//===----------------------------------------------------------------------===//

#include "te-c/te_compiler.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/// Exit codes of te_compile are smaller.
constexpr int kBroken = 99;

/// The first function of a program, "" if there is none.
std::string firstFunction(std::string_view text) {
  const size_t at = text.find("func.func @");
  if (at == text.npos)
    return "";
  text.remove_prefix(at + 11);
  const auto *end = std::find_if(text.begin(), text.end(), [](char c) {
    return !std::isalnum(static_cast<unsigned char>(c)) && c != '_';
  });
  return {text.begin(), end};
}

int compile(const std::string &text) {
  const std::string entry = firstFunction(text);
  te_compile_request request = {};
  request.struct_size = sizeof(request);
  request.source = text.data();
  request.source_size = text.size();
  request.entry = entry.c_str();
  request.ir_only = 1;
  request.vjp = text.size() % 4 == 0;
  request.backend = "reference";
  te_program *program = nullptr;
  const te_compile_status status = te_compile(&request, &program);
  const bool isRight = (status == TE_COMPILE_OK) == (program != nullptr) &&
                       (program || *te_compiler_last_error()) &&
                       status != TE_COMPILE_INTERNAL;
  if (!isRight)
    std::fprintf(stderr, "status %d: %s\n", status, te_compiler_last_error());
  return isRight ? status : kBroken;
}

std::vector<std::string> wordsOf(std::string_view text) {
  std::vector<std::string> words;
  const auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' ||
           c == '.' || c == '%' || c == '@';
  };
  for (char c : text)
    if (!words.empty() && isWord(c) && isWord(words.back().back()))
      words.back() += c;
    else
      words.emplace_back(1, c);
  return words;
}

/// The parts of a word such as 8x16xf32, which begins with a digit.
std::vector<std::string> partsOf(const std::string &word) {
  std::vector<std::string> parts;
  if (word.empty() || !std::isdigit(static_cast<unsigned char>(word[0])))
    return parts;
  for (size_t at = 0; at != word.npos;) {
    // The element type may have an x, but an extent before it is a number.
    const bool isNumber =
        at < word.size() && std::isdigit(static_cast<unsigned char>(word[at]));
    const size_t end = isNumber ? word.find('x', at) : word.npos;
    parts.push_back(word.substr(at, end == word.npos ? end : end - at));
    at = end == word.npos ? end : end + 1;
  }
  return parts;
}

/// Replaces an extent or an element type by another one in all shapes.
void changeShapes(std::vector<std::string> &words, std::mt19937_64 &random) {
  static const char *const kExtents[] = {
      "0", "1", "2", "3", "5", "7", "17", "129", "256", "4294967296", "?"};
  static const char *const kTypes[] = {
      "f32", "bf16", "f16",      "f8E4M3FN", "f8E5M2", "f8E8M0FNU",
      "i32", "i1",   "f4E2M1FN", "f64",      "i64",    "index"};
  std::vector<std::string> all;
  for (const std::string &word : words)
    for (const std::string &part : partsOf(word))
      all.push_back(part);
  if (all.empty())
    return;
  const std::string from = all[random() % all.size()];
  const bool isExtent = std::isdigit(static_cast<unsigned char>(from[0]));
  const std::string to = isExtent ? kExtents[random() % std::size(kExtents)]
                                  : kTypes[random() % std::size(kTypes)];
  for (std::string &word : words) {
    const std::vector<std::string> parts = partsOf(word);
    if (std::find(parts.begin(), parts.end(), from) == parts.end())
      continue;
    word.clear();
    for (size_t i = 0; i < parts.size(); ++i)
      word += (i ? "x" : "") + (parts[i] == from ? to : parts[i]);
  }
}

void change(std::vector<std::string> &words, std::mt19937_64 &random) {
  static const char *const kWords[] = {
      "0",    "-1",   "1",        "3",           "4294967296",
      "?",    "f32",  "f8E4M3FN", "i32",         "9223372036854775807",
      "nan",  "true", "\"\"",     "{}",          "index",
      "<>",   "*",    "[]",       "tensor<f32>", "1.0",
      "unit", "bf16", "1e400",    "none"};
  const auto any = [&] {
    return words.begin() + static_cast<ptrdiff_t>(random() % words.size());
  };
  const auto at = any();
  switch (random() % 9) {
  case 0:
    *at = kWords[random() % std::size(kWords)];
    break;
  case 1:
    *at = *any();
    break;
  case 2:
    std::swap(*at, *any());
    break;
  case 3:
    at->clear();
    break;
  case 4:
    // The rest of the line.
    words.erase(at, std::find(at, words.end(), "\n"));
    break;
  case 5:
  case 6:
  case 7:
    changeShapes(words, random);
    break;
  default: {
    const std::vector<std::string> line(at, std::find(at, words.end(), "\n"));
    words.insert(any(), line.begin(), line.end());
  }
  }
  if (words.empty())
    words.emplace_back(" ");
}

std::string changed(const std::string &text, std::mt19937_64 &random) {
  std::vector<std::string> words = wordsOf(text);
  for (uint64_t changes = 1 + random() % 3; changes > 0; --changes)
    change(words, random);
  std::string result;
  for (const std::string &word : words)
    result += word;
  return result;
}

/// Adds the programs of a file, without lines that are comments. Longer ones
/// take long, and say little that shorter ones do not.
void read(const char *path, std::vector<std::string> &programs) {
  constexpr size_t kMostBytes = 8192;
  std::ifstream file(path);
  std::string program;
  const auto end = [&] {
    if (program.size() <= kMostBytes && !firstFunction(program).empty())
      programs.push_back(program);
    program.clear();
  };
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find_first_not_of(' ');
    if (line.starts_with("// -----"))
      end();
    else if (begin != line.npos && line.compare(begin, 2, "//") != 0)
      program += line + "\n";
  }
  end();
}

/// What became of texts.
struct Outcomes {
  long compiled = 0, refused = 0;
};

/// Whether the compiler survives the text.
bool survives(const std::string &text, Outcomes &outcomes) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit seconds = {10, 10}, memory = {2ul << 30, 2ul << 30};
    setrlimit(RLIMIT_CPU, &seconds);
    setrlimit(RLIMIT_AS, &memory);
    // For one that waits for something.
    alarm(60);
    _exit(compile(text));
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    std::perror("te-fuzz-program");
    std::exit(2);
  }
  if (WIFSIGNALED(status)) {
    std::fprintf(stderr, "signal %d\n", WTERMSIG(status));
    return false;
  }
  ++(WEXITSTATUS(status) == 0 ? outcomes.compiled : outcomes.refused);
  return WEXITSTATUS(status) != kBroken;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 5) {
    std::fprintf(stderr, "expected te-fuzz-program SEED RUNS OUT FILE...\n");
    return 2;
  }
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  std::mt19937_64 random(seed);
  char *unit = nullptr;
  const long amount = std::strtol(argv[2], &unit, 10);
  const bool isTimed = *unit == 's';
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(isTimed ? amount : 0);
  Outcomes outcomes;
  std::vector<std::string> programs;
  for (int i = 4; i < argc; ++i)
    read(argv[i], programs);
  if (programs.empty())
    return std::fprintf(stderr, "expected files with programs\n"), 2;
  const bool isPlain = amount == 0;
  const long runs = isPlain ? static_cast<long>(programs.size()) : amount;
  long run = 0, wrong = 0;
  for (; isTimed ? std::chrono::steady_clock::now() < end : run < runs; ++run) {
    const std::string text =
        isPlain ? programs[static_cast<size_t>(run)]
                : changed(programs[random() % programs.size()], random);
    if (survives(text, outcomes))
      continue;
    ++wrong;
    const std::string name =
        std::string(argv[3]) + "-" + std::to_string(run) + ".mlir";
    std::ofstream(name) << text;
    std::fprintf(stderr, "run %ld is not survived: see %s\n", run,
                 name.c_str());
  }
  std::printf("%ld runs with seed %llu, %ld of them wrong; %ld programs "
              "compiled, %ld refused\n",
              run, static_cast<unsigned long long>(seed), wrong,
              outcomes.compiled, outcomes.refused);
  return wrong != 0;
}
