//===- CheckSource.cpp - text that MLIR's parser would not survive --------===//
//
// Counts brackets as the lexer sees them: not in strings and comments, and not
// in arrows. Where it cannot tell, as for `<` of a comparison, it counts one
// more, until the bracket around it closes. An alias counts as what it is
// defined to be.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Pipelines/CheckSource.h"

#include "TEDialect/Support/Printable.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace mlir::te;

namespace {

/// What the lexer takes for a name behind `#` and `!`, and in general.
bool isOfAlias(char c) {
  return isAlnum(c) || c == '_' || c == '$' || c == '.' || c == '-';
}
bool isOfWord(char c) { return isOfAlias(c) && c != '-'; }

/// The text behind spaces and comments.
StringRef skipSpace(StringRef text) {
  for (text = text.ltrim(); text.starts_with("//"); text = text.ltrim())
    text = text.drop_front(std::min(text.find('\n'), text.size()));
  return text;
}

/// Takes `[`, integers of 64 bits and `]` from the front.
bool takeIntegers(StringRef text) {
  const auto take = [&](StringRef token) {
    text = skipSpace(text);
    return text.consume_front(token);
  };
  if (!take("["))
    return false;
  if (take("]"))
    return true;
  do {
    take("-");
    text = skipSpace(text);
    uint64_t magnitude = 0;
    const bool isHex = text.starts_with("0x");
    if (isHex)
      text = text.drop_front(2);
    if (text.consumeInteger(isHex ? 16 : 10, magnitude) ||
        magnitude > static_cast<uint64_t>(INT64_MAX))
      return false;
  } while (take(","));
  return take("]");
}

/// The control character in `text` that neither ends a line nor is a tab, or
/// null. Diagnostics print lines of the text.
const char *findControl(StringRef text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool endsLine =
        text[i] == '\n' ||
        (text[i] == '\r' && text.substr(i + 1).starts_with("\n"));
    if (!endsLine && text[i] != '\t' && isControl(text, i))
      return text.data() + i;
  }
  return nullptr;
}

/// An alias with the aliases that it names in their place.
struct Expansion {
  uint64_t bytes = 0;
  /// The deepest nesting of brackets.
  size_t depth = 0;
};

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
    if (isAlnum(c) || c == '_')
      return word();
    switch (c) {
    case '#':
    case '!':
      return alias();
    case '%':
      endDefinition();
      return true;
    case '"':
      if (!expectsValue())
        endDefinition();
      return skipString();
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
      deepen(0);
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

  /// False if it is a symbol that has control characters.
  bool skipString() {
    const bool isSymbol = text.take_front(at - 1).ends_with("@");
    std::string name;
    while (at < text.size() && text[at] != '"' && text[at] != '\n') {
      char c = text[at++];
      if (c == '\\' && at < text.size()) {
        const char escape = text[at++];
        uint8_t value = 0;
        if (!text.substr(at - 1, 2).getAsInteger(16, value)) {
          c = static_cast<char>(value);
          ++at;
        } else {
          c = escape == 'n' || escape == 't' ? '\n' : escape;
        }
      }
      name += c;
    }
    at = std::min(at + 1, text.size());
    if (!isSymbol || printable(name) == name)
      return true;
    message = "expected a symbol without control characters";
    return false;
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

  /// At its first character.
  bool word() {
    const size_t begin = at - 1;
    if (!expectsValue())
      endDefinition();
    at = std::min(text.find_if_not(isOfWord, at), text.size());
    const StringRef name = text.slice(begin, at);
    if (name != "dimensions" && name != "permutation")
      return true;
    // An attribute of a dictionary or in angle brackets may be anything; what
    // is elsewhere is the list of linalg.broadcast, reduce or transpose.
    StringRef value = skipSpace(text.substr(at));
    if (StringRef("{,<").contains(last) || !value.consume_front("=") ||
        takeIntegers(value))
      return true;
    message =
        ("expected '" + name + "' to be a list of integers as '[0, 1]'").str();
    return false;
  }

  /// Whether an attribute or a type goes on here.
  bool expectsValue() const { return StringRef("=:-@").contains(last); }

  /// Behind `#` or `!`.
  bool alias() {
    const size_t begin = at - 1;
    at = std::min(text.find_if_not(isOfAlias, at), text.size());
    const StringRef name = text.slice(begin, at);
    const StringRef rest = skipSpace(text.substr(at));
    if (rest.starts_with("=") && !rest.starts_with("==")) {
      endDefinition();
      defined = name;
      base = open.size();
      definition = {};
      begins = at;
      return true;
    }
    const auto found = aliases.find(name);
    if (found == aliases.end())
      return true;
    deepen(found->second.depth);
    definition.bytes = SaturatingAdd(definition.bytes, found->second.bytes);
    if (open.size() + found->second.depth > kMaxNesting)
      return refuse("nested brackets behind aliases");
    if (defined.empty() || definition.bytes <= kMaxAliasBytes)
      return true;
    return refuse("bytes behind an alias", kMaxAliasBytes);
  }

  /// Something `depth` deep is here.
  void deepen(size_t depth) {
    if (open.size() >= base)
      definition.depth = std::max(definition.depth, open.size() - base + depth);
  }

  /// Where something begins that is no part of an attribute, outside of the
  /// brackets of one.
  void endDefinition() {
    if (defined.empty() || open.size() > base)
      return;
    definition.bytes = SaturatingAdd<uint64_t>(definition.bytes, at - begins);
    aliases[defined] = definition;
    defined = {};
  }

  /// The verifier of tensor.expand_shape reads the first dimension of each
  /// list of dimensions. Outside of all brackets, a list gets a name.
  bool isEmptyListOk() {
    if (!open.empty() && open.back() != '[')
      return true;
    message = "expected a list in a list not to be empty";
    return false;
  }

  bool refuse(StringRef what, unsigned limit = kMaxNesting) {
    message =
        ("expected at most " + Twine(limit) + " " + what + ", but got more")
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
  StringMap<Expansion> aliases;
  /// The alias whose definition this is, or nothing.
  StringRef defined;
  Expansion definition;
  /// Where its value begins, and how many brackets are open around it.
  size_t begins = 0, base = 0;
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
  if (const char *place = findControl(text))
    return SourceProblem{place, "expected text without control characters, but "
                                "got byte 0x" +
                                    utohexstr(static_cast<uint8_t>(*place),
                                              /*LowerCase=*/true, 2)};
  return Scanner(text).run();
}

bool mlir::te::isBytecode(StringRef source) {
  return source.starts_with("ML\xefR");
}
