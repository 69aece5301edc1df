//===- Printable.h - text that a terminal shows as it is ------------------===//
//
// Names in programs and files may hold any bytes. A terminal obeys some of
// them, and a newline would make a line that nobody wrote. What is printed for
// people goes through here; JSON, IR and files have escapes of their own.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_SUPPORT_PRINTABLE_H
#define TEDIALECT_SUPPORT_PRINTABLE_H

#include <cstddef>
#include <string>
#include <string_view>

namespace mlir::te {

/// Whether `text` has a control character at `at`, also a second byte of one of
/// those that UTF-8 has beside ASCII.
inline bool isControl(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(i < text.size() ? text[i] : 0);
  };
  const unsigned char c = byte(at);
  const auto isSecond = [](unsigned char d) { return d >= 0x80 && d < 0xa0; };
  return c < 0x20 || c == 0x7f || (c == 0xc2 && isSecond(byte(at + 1))) ||
         (at > 0 && byte(at - 1) == 0xc2 && isSecond(c));
}

/// `text` with '?' for each byte of control characters, except for those in
/// `kept`.
inline std::string printable(std::string_view text,
                             std::string_view kept = "") {
  std::string result(text);
  for (size_t i = 0; i < text.size(); ++i)
    if (isControl(text, i) && kept.find(text[i]) == kept.npos)
      result[i] = '?';
  return result;
}

} // namespace mlir::te

#endif // TEDIALECT_SUPPORT_PRINTABLE_H
