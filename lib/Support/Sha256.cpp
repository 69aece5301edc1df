//===- Sha256.cpp - a digest of bytes, and one with a key -----------------===//

#include "Support/Sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace te::support {

// FIPS 180-4, 4.2.2.
static constexpr uint32_t kConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// FIPS 180-4, 6.2.2.
void Sha256::addBlock(const uint8_t *block) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t)
    w[t] = uint32_t(block[4 * t]) << 24 | uint32_t(block[4 * t + 1]) << 16 |
           uint32_t(block[4 * t + 2]) << 8 | block[4 * t + 3];
  for (int t = 16; t < 64; ++t) {
    const uint32_t x = w[t - 15], y = w[t - 2];
    w[t] = w[t - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) +
           w[t - 7] + (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int t = 0; t < 64; ++t) {
    const uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
        ((e & f) ^ (~e & g)) + kConstants[t] + w[t];
    const uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
        ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t sums[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i)
    state[i] += sums[i];
}

void Sha256::update(const void *bytes, size_t size) {
  const auto *from = static_cast<const uint8_t *>(bytes);
  numBytes += size;
  while (size != 0) {
    if (numPending == 0 && size >= pending.size()) {
      addBlock(from);
      from += pending.size();
      size -= pending.size();
      continue;
    }
    const size_t part = std::min(size, pending.size() - numPending);
    std::memcpy(&pending[numPending], from, part);
    from += part;
    size -= part;
    numPending += part;
    if (numPending == pending.size()) {
      addBlock(pending.data());
      numPending = 0;
    }
  }
}

Digest Sha256::finish() {
  const uint64_t bits = numBytes * 8;
  const uint8_t one = 0x80, zero = 0;
  update(&one, 1);
  while (numPending != 56)
    update(&zero, 1);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(length, sizeof(length));
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest sha256(const void *bytes, size_t size) {
  Sha256 hash;
  hash.update(bytes, size);
  return hash.finish();
}

std::string hexOf(const Digest &digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Digest hmacSha256(const void *key, size_t keySize, const void *bytes,
                  size_t size) {
  std::array<uint8_t, 64> block = {};
  if (keySize > block.size()) {
    const Digest shorter = sha256(key, keySize);
    std::copy(shorter.begin(), shorter.end(), block.begin());
  } else if (keySize != 0) {
    std::memcpy(block.data(), key, keySize);
  }
  Sha256 inner, outer;
  for (uint8_t &byte : block)
    byte ^= 0x36;
  inner.update(block.data(), block.size());
  inner.update(bytes, size);
  const Digest middle = inner.finish();
  for (uint8_t &byte : block)
    byte ^= 0x36 ^ 0x5c;
  outer.update(block.data(), block.size());
  outer.update(middle.data(), middle.size());
  return outer.finish();
}

bool sameDigest(const Digest &a, const Digest &b) {
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i)
    different |= a[i] ^ b[i];
  return different == 0;
}

} // namespace te::support
