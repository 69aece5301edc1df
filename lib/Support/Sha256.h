//===- Sha256.h - a digest of bytes, and one with a key -------------------===//
//
// SHA-256 of FIPS 180-4 and HMAC of RFC 2104 with it, small and without
// dependencies: the libraries below the compiler link no library of
// cryptography.
//
//===----------------------------------------------------------------------===//

#ifndef TE_SUPPORT_SHA256_H
#define TE_SUPPORT_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace te::support {

using Digest = std::array<uint8_t, 32>;

/// The digest of bytes that come in pieces.
class Sha256 {
public:
  void update(const void *bytes, size_t size);
  /// Ends it; called once.
  Digest finish();

private:
  void addBlock(const uint8_t *block);

  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                   0xa54ff53a, 0x510e527f, 0x9b05688c,
                                   0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending = {};
  size_t numPending = 0;
  uint64_t numBytes = 0;
};

Digest sha256(const void *bytes, size_t size);

/// 64 hexadecimal digits.
std::string hexOf(const Digest &digest);

/// HMAC-SHA256.
Digest hmacSha256(const void *key, size_t keySize, const void *bytes,
                  size_t size);

/// Whether they are equal, in a time that does not depend on where they differ.
bool sameDigest(const Digest &a, const Digest &b);

} // namespace te::support

#endif // TE_SUPPORT_SHA256_H
