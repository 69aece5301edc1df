//===- Sha256Test.cpp - digests of published examples ---------------------===//

#include "Support/Sha256.h"

#include <gtest/gtest.h>

#include <string>

using namespace te::support;

namespace {

std::string hex(const Digest &digest) {
  std::string text;
  for (uint8_t byte : digest)
    for (int nibble : {byte >> 4, byte & 15})
      text += "0123456789abcdef"[nibble];
  return text;
}
std::string hashOf(const std::string &text) {
  return hex(sha256(text.data(), text.size()));
}
std::string macOf(const std::string &key, const std::string &text) {
  return hex(hmacSha256(key.data(), key.size(), text.data(), text.size()));
}

// Examples of FIPS 180-4.
TEST(Sha256, PublishedDigests) {
  EXPECT_EQ(hashOf(""), "e3b0c44298fc1c149afbf4c8996fb924"
                        "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hashOf("abc"), "ba7816bf8f01cfea414140de5dae2223"
                           "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hashOf(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesAreOneText) {
  const std::string text(300, 'x');
  for (size_t cut = 0; cut <= text.size(); cut += 7) {
    Sha256 hash;
    hash.update(text.data(), cut);
    hash.update(text.data() + cut, text.size() - cut);
    EXPECT_EQ(hash.finish(), sha256(text.data(), text.size()));
  }
}

// RFC 4231.
TEST(Sha256, PublishedMacs) {
  EXPECT_EQ(macOf(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(macOf("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(macOf(std::string(131, '\xaa'),
                  "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Sha256, EqualityIsOfAllBytes) {
  const Digest digest = sha256("abc", 3);
  for (size_t i = 0; i < digest.size(); ++i) {
    Digest other = digest;
    other[i] ^= 1;
    EXPECT_FALSE(sameDigest(digest, other));
  }
  EXPECT_TRUE(sameDigest(digest, digest));
}

} // namespace
