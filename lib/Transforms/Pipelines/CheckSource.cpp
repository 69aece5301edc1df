//===- CheckSource.cpp - text that MLIR's parser would not survive --------===//
//
// Counts brackets as the lexer sees them: not in strings and comments, and not
// in arrows. Where it cannot tell, as for `<` of a comparison, it counts one
// more, until the bracket around it closes.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Pipelines/CheckSource.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;
using namespace mlir::te;

namespace {

class Scanner {
public:
  explicit Scanner(StringRef text) : text(text) {}

  std::optional<SourceProblem> run() {
    while (at < text.size()) {
      const size_t place = at;
      const char c = text[at++];
      const bool ok = step(c);
      if (!ok)
        return SourceProblem{text.data() + place, message};
      if (!isSpace(c) && c != '-')
        signs = 0;
      if (!isSpace(c) && c != '/')
        last = c;
    }
    return std::nullopt;
  }

private:
  /// Takes the token that begins with `c`. False where it is refused.
  bool step(char c) {
    switch (c) {
    case '"':
      skipString();
      return true;
    case '/':
      if (text.substr(at).starts_with("/"))
        at = std::min(text.find('\n', at), text.size());
      return true;
    case '-':
      if (text.substr(at).starts_with(">")) {
        ++at;
        signs = 0;
        return true;
      }
      return ++signs <= kMaxNesting || refuse("signs");
    case '(':
    case '[':
    case '{':
    case '<':
      open.push_back(c);
      if (open.size() > kMaxNesting)
        return refuse("nested brackets");
      return c != '<' || isArrayOk();
    case ')':
      close('(');
      return true;
    case ']':
      close('[');
      return last != '[' || isEmptyListOk();
    case '}':
      close('{');
      return true;
    case '>':
      if (!text.substr(at).starts_with("=") && !open.empty() &&
          open.back() == '<')
        open.pop_back();
      return true;
    default:
      return true;
    }
  }

  void skipString() {
    while (at < text.size() && text[at] != '"' && text[at] != '\n')
      at += text[at] == '\\' ? 2 : 1;
    at = std::min(at + 1, text.size());
  }

  void close(char bracket) {
    const auto found = llvm::find(llvm::reverse(open), bracket);
    if (found != open.rend())
      open.truncate(open.rend() - found - 1);
  }

  /// Behind the `<` of `array<`: elements are integers or floats, by name. An
  /// alias may name any type.
  bool isArrayOk() {
    if (!text.take_front(at - 1).rtrim().ends_with("array"))
      return true;
    const StringRef element = text.substr(at).ltrim();
    if (!element.starts_with("index") && !element.starts_with("!"))
      return true;
    message =
        "expected elements of 'array' to be integers or floats, but got '" +
        element.take_while([](char c) { return c == '!' || isAlnum(c); })
            .str() +
        "'";
    return false;
  }

  /// The verifier of tensor.expand_shape reads the first dimension of each
  /// list of dimensions. Outside of all brackets, a list gets a name.
  bool isEmptyListOk() {
    if (!open.empty() && open.back() != '[')
      return true;
    message = "expected a list in a list not to be empty";
    return false;
  }

  bool refuse(StringRef what) {
    message = ("expected at most " + Twine(kMaxNesting) + " " + what +
               ", but got more")
                  .str();
    return false;
  }

  StringRef text;
  size_t at = 0;
  /// What was before this character, without spaces and comments.
  char last = 0;
  /// Minus signs that follow each other.
  unsigned signs = 0;
  SmallVector<char> open;
  std::string message;
};

} // namespace

std::unique_ptr<MemoryBuffer> mlir::te::readSource(StringRef path,
                                                   std::string &error) {
  sys::fs::file_status status;
  const bool isDevice = path != "-" && !sys::fs::status(path, status) &&
                        (status.type() == sys::fs::file_type::character_file ||
                         status.type() == sys::fs::file_type::block_file);
  if (isDevice) {
    error =
        ("cannot read '" + path + "': expected a file, but got a device").str();
    return nullptr;
  }
  auto buffer = MemoryBuffer::getFileOrSTDIN(path);
  if (buffer)
    return std::move(*buffer);
  error = ("cannot read '" + path + "': " + buffer.getError().message()).str();
  return nullptr;
}

std::optional<SourceProblem> mlir::te::findSourceProblem(StringRef text) {
  return Scanner(text).run();
}

bool mlir::te::isBytecode(StringRef source) {
  return source.starts_with("ML\xefR");
}
