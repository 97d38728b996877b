// fuzz: links fak_ride fak_wire fak_base
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "ride/relay.h"

namespace {

class CountingSink final : public fak::driver::EventSink {
 public:
  void OnEvent(fak::wire::Event&& event) noexcept override {
    if (ends_ > 0) {
      std::abort();  // nothing may follow the end
    }
    ends_ += std::holds_alternative<fak::wire::Done>(event) ||
             std::holds_alternative<fak::wire::Failed>(event);
  }
  int ends_ = 0;
};

}  // namespace

// An upstream's answer of each wire, streamed and whole, cut in two: every answer ends exactly
// once.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = text.empty() ? 0 : data[0] % (text.size() + 1);
  using fak::wire::Surface;
  for (const Surface surface :
       {Surface::kChat, Surface::kCompletion, Surface::kMessages, Surface::kResponses,
        Surface::kEmbedding, Surface::kGenerate, Surface::kTemplate}) {
    for (const bool streamed : {true, false}) {
      const auto sink = std::make_shared<CountingSink>();
      fak::ride::Relay relay(sink, {.surface = surface,
                                    .streamed = streamed && surface != Surface::kEmbedding,
                                    .withhold_usage = (data[0] & 1) != 0,
                                    .choices = (data[0] & 2) != 0 ? size_t{1} : size_t{2}});
      relay.Feed(text.substr(0, cut));
      relay.Feed(text.substr(cut));
      relay.Finish();
      if (sink->ends_ != 1) {
        std::abort();
      }
    }
  }
  return 0;
}
