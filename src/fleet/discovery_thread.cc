#include "fleet/discovery_thread.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace fak::fleet {
namespace {

constexpr int64_t kAgainMs = 1'000;
constexpr int64_t kAgainMsMax = 10'000;

}  // namespace

DiscoveryThread::DiscoveryThread(const DiscoverySpec& spec, Membership& membership, Round round) {
  auto client = DiscoveryClient::Make(spec.ca_file);
  if (!client) {
    membership.NoteFailure(spec.source, client.error());
    return;
  }
  client_ = *std::move(client);
  thread_ = std::thread([this, source = spec.source, &membership, round = std::move(round)] {
    Run(source, membership, round);
  });
}

DiscoveryThread::~DiscoveryThread() {
  if (client_ != nullptr) {
    client_->Stop();
    thread_.join();
  }
}

void DiscoveryThread::Run(const std::string& source, Membership& membership, const Round& round) {
  int64_t again_ms = kAgainMs;
  while (!client_->stopped()) {
    const Status followed = round(*client_);
    if (followed || client_->stopped()) {
      again_ms = kAgainMs;
      continue;
    }
    membership.NoteFailure(source, followed.error());
    client_->Pause(again_ms);
    again_ms = std::min(2 * again_ms, kAgainMsMax);
  }
}

}  // namespace fak::fleet
