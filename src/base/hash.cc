#include "base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include "base/hex.h"
#include "base/result.h"

namespace fak {
namespace {

EVP_MD_CTX* Context(void* context) {
  return static_cast<EVP_MD_CTX*>(context);
}

}  // namespace

uint64_t Xxh3(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 Xxh3Wide(std::string_view bytes, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.high64, hash.low64};
}

std::string Hash128::ToHex() const {
  return fak::ToHex(high) + fak::ToHex(low);
}

// EVP fails only for want of memory or when SHA-256 is missing from the library, and neither is
// something to go on after.
Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr && EVP_DigestInit_ex(Context(context_), EVP_sha256(), nullptr) == 1)
      << "OpenSSL has no SHA-256";
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(Context(context_));
}

void Sha256::Update(std::string_view bytes) {
  CHECK(EVP_DigestUpdate(Context(context_), bytes.data(), bytes.size()) == 1);
}

Sha256::Digest Sha256::Finish() {
  Digest digest{};
  CHECK(EVP_DigestFinal_ex(Context(context_), digest.data(), nullptr) == 1);
  CHECK(EVP_DigestInit_ex(Context(context_), EVP_sha256(), nullptr) == 1);
  return digest;
}

Sha256::Digest Sha256::Of(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

std::string Sha256::HexOf(std::string_view bytes) {
  return ToHex(Of(bytes));
}

}  // namespace fak
