//===- Fuzz.h - what the fuzzers share ------------------------------------===//
//
// A fuzzer is a function that takes any bytes and must come back. It ends the
// process, and thereby its run, where what it calls breaks a promise.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TEST_FUZZ_FUZZ_H
#define TE_TEST_FUZZ_FUZZ_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <tuple>
#include <type_traits>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

namespace te::fuzz {

/// Ends the process unless `holds`.
inline void require(bool holds, const char *promise) {
  if (holds)
    return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

/// Makes choices of bytes; zeros where they are used up.
class Choices {
public:
  Choices(const uint8_t *bytes, size_t size) : at(bytes), end(bytes + size) {}
  bool empty() const { return at == end; }
  uint8_t byte() { return at == end ? 0 : *at++; }
  /// Below `count`.
  int below(int count) { return byte() % count; }
  /// Small, at a power of two, at a limit of its type, or any.
  template <typename Integer> Integer integer() {
    const uint8_t kind = byte();
    if (kind < 128)
      return static_cast<Integer>(kind % 32);
    const auto wide = static_cast<std::make_unsigned_t<Integer>>(1);
    constexpr int kBits = 8 * sizeof(Integer);
    if (kind < 192)
      return static_cast<Integer>(wide << (kind % kBits));
    if (kind < 224)
      return static_cast<Integer>((wide << (kind % kBits)) - 1);
    Integer any = 0;
    for (size_t i = 0; i < sizeof(any); ++i)
      any = static_cast<Integer>((std::make_unsigned_t<Integer>(any) << 8) |
                                 byte());
    return any;
  }
  float real() {
    const auto bits = integer<uint32_t>();
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

private:
  const uint8_t *at, *end;
};

} // namespace te::fuzz

#endif // TE_TEST_FUZZ_FUZZ_H
