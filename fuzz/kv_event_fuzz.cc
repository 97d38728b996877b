// fuzz: links fak_kv
// Whatever a peer sends is a batch or an error; what was read is written so that it reads back the
// same, and takes no more memory than it may.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kv/event_codec.h"

namespace {

// What the writer leaves out.
void Forget(fak::wire::KvEvent& event) {
  event.extra_keys.clear();
  if (event.parent_hash || event.cache_salt == event.adapter) {
    event.cache_salt.clear();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto decoded = fak::kv::DecodeKvEvents({reinterpret_cast<const char*>(data), size});
  if (!decoded) {
    CHECK(decoded.error().code == fak::Code::kDataCorrupt);
    return 0;
  }
  size_t held = 0;
  for (fak::wire::KvEvent& event : decoded->batch.events) {
    held += sizeof event + event.block_hashes.capacity() * 8 + event.tokens.capacity() * 4 +
            event.extra_keys.capacity() * sizeof(std::string);
    Forget(event);
  }
  CHECK(held <= 40 * size) << held << " bytes of " << size;
  const auto again = fak::kv::DecodeKvEvents(fak::kv::EncodeKvEvents(decoded->batch));
  CHECK(again.has_value());
  CHECK(again->skipped.malformed == 0 && again->skipped.elsewhere == 0);
  const bool same_time = again->batch.time_s == decoded->batch.time_s ||
                         decoded->batch.time_s != decoded->batch.time_s;
  CHECK(same_time && again->batch.events == decoded->batch.events);
  return 0;
}
