#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace fak {

// The memory of plain values as bytes.
template <class T>
  requires std::is_trivially_copyable_v<T>
std::string_view BytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// XXH3, for identities inside trusted data: fast, not against an adversary. The same on every
// machine (xxHash 0.8 fixes it). Pure functions, any thread; about 10 GB/s and more.
uint64_t Xxh3(std::string_view bytes, uint64_t seed = 0);

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  std::string ToHex() const;  // 32 digits, high first: xxHash's canonical form
};
Hash128 Xxh3Wide(std::string_view bytes, uint64_t seed = 0);

// SHA-256 over a stream of bytes, for files and everything an adversary may choose.
// Not thread-safe.
class Sha256 {
 public:
  using Digest = std::array<unsigned char, 32>;

  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);
  // Ends the stream; Update() starts a new one.
  Digest Finish();

  static Digest Of(std::string_view bytes);
  static std::string HexOf(std::string_view bytes);

 private:
  void* context_;  // EVP_MD_CTX
};

}  // namespace fak
