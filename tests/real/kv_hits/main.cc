// Predicts what an engine's prefix cache will find, from the engine's KV events alone: what
// tests/real compares with the engine's own counter.
//
//   kv_hits HOST SOURCES
//
// SOURCES is what the engine answers to GET /kv_event_sources. Reads requests, one a line of JSON,
// and answers each with a line:
//
//   {"tokens": [1, 2], "cache_salt": "a"}   what of this prompt is cached
//   {"forget": true}                        the caller has emptied the engine's cache

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "net/zmq_loop.h"
#include "ride/kv_event_subscriber.h"
#include "wire/kv_event.h"

namespace fak {
namespace {

using std::chrono::steady_clock;

// An engine publishes what a step did before the step's answer is read here, or a moment later.
constexpr std::chrono::milliseconds kQuiet{250};

// What the engine's events say is cached. Every method from any thread.
class Residency {
 public:
  void Apply(const wire::KvEventBatch& batch) {
    const std::lock_guard lock(mutex_);
    ++batches_;
    last_ = steady_clock::now();
    came_.notify_all();
    for (const wire::KvEvent& event : batch.events) {
      switch (event.kind) {
        case wire::KvEvent::Kind::kStored: Store(event); break;
        case wire::KvEvent::Kind::kRemoved: Remove(event); break;
        case wire::KvEvent::Kind::kCleared:
          ++cleared_;
          Forget();
          break;
      }
    }
  }

  void ForgetAll() {
    const std::lock_guard lock(mutex_);
    Forget();
  }

  // Once nothing has come for a while.
  Json Predict(const std::vector<int32_t>& tokens, const std::string& salt) {
    std::unique_lock lock(mutex_);
    while (steady_clock::now() < last_ + kQuiet) {
      came_.wait_until(lock, last_ + kQuiet);
    }
    return Json(Json::Object{{"cached", Json(Cached(tokens, salt))},
                             {"blocks", Json(static_cast<uint64_t>(copies_.size()))},
                             {"batches", Json(batches_)},
                             {"stored", Json(stored_)},
                             {"removed", Json(removed_)},
                             {"cleared", Json(cleared_)}});
  }

 private:
  // What names a block apart from its hash: the hash before it or nothing, the salt of a first
  // block, its tokens.
  using Place = std::tuple<std::optional<uint64_t>, std::string, std::vector<int32_t>>;

  void Store(const wire::KvEvent& event) {
    std::optional<uint64_t> parent = event.parent_hash;
    auto begin = event.tokens.begin();
    for (const uint64_t hash : event.block_hashes) {
      if (begin != event.tokens.end()) {  // else it was named before
        block_size_ = event.block_size;
        Place place{parent, parent ? "" : event.cache_salt, {begin, begin + block_size_}};
        hashes_[std::move(place)] = hash;
        begin += block_size_;
      }
      parent = hash;
      ++copies_[hash];
      ++stored_;
    }
  }
  void Remove(const wire::KvEvent& event) {
    for (const uint64_t hash : event.block_hashes) {
      ++removed_;
      if (const auto found = copies_.find(hash); found != copies_.end() && --found->second == 0) {
        copies_.erase(found);
      }
    }
  }
  void Forget() { copies_.clear(); }

  // The last token of a prompt is always computed.
  int64_t Cached(const std::vector<int32_t>& tokens, const std::string& salt) const {
    std::optional<uint64_t> parent;
    int64_t cached = 0;
    while (block_size_ > 0 && cached + block_size_ < std::ssize(tokens)) {
      const auto begin = tokens.begin() + cached;
      const auto found = hashes_.find({parent, parent ? "" : salt, {begin, begin + block_size_}});
      if (found == hashes_.end() || !copies_.contains(found->second)) {
        break;
      }
      parent = found->second;
      cached += block_size_;
    }
    return cached;
  }

  std::mutex mutex_;  // guards the members below
  std::condition_variable came_;
  std::map<Place, uint64_t> hashes_;    // of all blocks that ever were
  std::map<uint64_t, int64_t> copies_;  // of those that are
  int32_t block_size_ = 0;
  steady_clock::time_point last_ = steady_clock::now();
  uint64_t batches_ = 0;
  uint64_t stored_ = 0;
  uint64_t removed_ = 0;
  uint64_t cleared_ = 0;
};

Result<Json> Answer(Residency& residency, const std::string& line) {
  TRY_ASSIGN(const Json request, ParseJson(line));
  if (request.Find("forget") != nullptr) {
    residency.ForgetAll();
    return Json(Json::Object{{"forgotten", Json(true)}});
  }
  const Json* const tokens = request.Find("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    return Fail(Code::kInvalidArgument, "no tokens: " + line);
  }
  std::vector<int32_t> ids;
  for (const Json& token : tokens->array()) {
    ids.push_back(static_cast<int32_t>(token.AsInt().value_or(-1)));
  }
  const Json* const salt = request.Find("cache_salt");
  return residency.Predict(ids, salt != nullptr && salt->is_string() ? salt->string() : "");
}

Status Run(const std::string& host, const std::string& sources) {
  TRY_ASSIGN(const Json answer, ParseJson(sources));
  TRY_ASSIGN(std::vector<ride::KvEventEndpoint> endpoints, ride::ParseKvEventSources(answer, host));
  Residency residency;
  net::ZmqLoop loop;
  loop.Start("kv-hits");
  TRY_ASSIGN(const auto subscriber,
             ride::KvEventSubscriber::Make(loop, std::move(endpoints), Clock::Real()));
  subscriber->Subscribe([&](const wire::KvEventBatch& batch) { residency.Apply(batch); });
  for (std::string line; std::getline(std::cin, line);) {
    TRY_ASSIGN(const Json said, Answer(residency, line));
    std::puts(said.Dump().c_str());
    std::fflush(stdout);
  }
  const ride::KvEventFeedStats stats = subscriber->Stats();
  std::fprintf(stderr, "%llu batches, %llu gaps, %llu restarts, %llu corrupt, %llu malformed\n",
               static_cast<unsigned long long>(stats.batches),
               static_cast<unsigned long long>(stats.gaps),
               static_cast<unsigned long long>(stats.restarts),
               static_cast<unsigned long long>(stats.corrupt),
               static_cast<unsigned long long>(stats.malformed));
  return {};
}

}  // namespace
}  // namespace fak

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: kv_hits HOST SOURCES\n", stderr);
    return 2;
  }
  const fak::Status status = fak::Run(argv[1], argv[2]);
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().detail.c_str());
    return 1;
  }
  return 0;
}
