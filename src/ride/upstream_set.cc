#include "ride/upstream_set.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <mutex>
#include <utility>

#include "base/strings.h"

namespace fak::ride {
namespace {

bool Serves(const driver::Capabilities& capabilities, const wire::Turn& turn) {
  switch (turn.surface) {
    case wire::Surface::kMessages:
    case wire::Surface::kCountTokens: return capabilities.anthropic_wire;
    case wire::Surface::kResponses: return capabilities.responses_wire;
    case wire::Surface::kEmbedding: return capabilities.embeddings;
    case wire::Surface::kGenerate: return capabilities.generate_wire;
    case wire::Surface::kTemplate: return capabilities.template_wire;
    case wire::Surface::kChat:
    case wire::Surface::kCompletion: return true;
  }
  return false;
}

bool Lists(const driver::Capabilities& capabilities, const std::string& model) {
  const std::vector<std::string>& models = capabilities.models;
  return model.empty() || std::find(models.begin(), models.end(), model) != models.end();
}

// Collects what several members answer, for a caller who wants it once.
template <class Outcome>
class Gathering {
 public:
  using Done = std::function<void(std::vector<Outcome>)>;
  // What each of `members` calls with its outcomes; `done` gets all of them.
  static Done Of(size_t members, Done done) {
    auto self = std::make_shared<Gathering>();
    self->missing_ = members;
    self->done_ = std::move(done);
    return [self](std::vector<Outcome> outcomes) { self->Take(std::move(outcomes)); };
  }

 private:
  void Take(std::vector<Outcome> outcomes) {
    {
      const std::lock_guard lock(mutex_);
      std::move(outcomes.begin(), outcomes.end(), std::back_inserter(outcomes_));
      if (--missing_ > 0) {
        return;
      }
    }
    done_(std::move(outcomes_));
  }

  Done done_;
  std::mutex mutex_;  // guards the members below
  size_t missing_ = 0;
  std::vector<Outcome> outcomes_;
};

}  // namespace

UpstreamSet::UpstreamSet(std::vector<std::unique_ptr<driver::EngineDriver>> members)
    : members_(std::move(members)) {
  CHECK(!members_.empty());
}

std::shared_ptr<const driver::Capabilities> UpstreamSet::capabilities() const {
  auto all = std::make_shared<driver::Capabilities>(*members_.front()->capabilities());
  for (size_t i = 1; i < members_.size(); ++i) {
    const auto one = members_[i]->capabilities();
    if (one->engine != all->engine) {
      all->engine = "several";
      all->version.clear();
    }
    for (const std::string& model : one->models) {
      if (std::find(all->models.begin(), all->models.end(), model) == all->models.end()) {
        all->models.push_back(model);
      }
    }
    if (all->context_length == 0 ||
        (one->context_length > 0 && one->context_length < all->context_length)) {
      all->context_length = one->context_length;
    }
    all->tool_calls = all->tool_calls && one->tool_calls;
    all->reasoning = all->reasoning && one->reasoning;
    all->grammars = all->grammars && one->grammars;
    all->images = all->images || one->images;
    all->token_ids = all->token_ids && one->token_ids;
    all->cancel_stops_engine = all->cancel_stops_engine && one->cancel_stops_engine;
    all->honours_cache_salt = all->honours_cache_salt && one->honours_cache_salt;
    all->honours_priority = all->honours_priority && one->honours_priority;
    all->embeddings = all->embeddings || one->embeddings;
    all->anthropic_wire = all->anthropic_wire || one->anthropic_wire;
    all->responses_wire = all->responses_wire || one->responses_wire;
    all->generate_wire = all->generate_wire || one->generate_wire;
    all->template_wire = all->template_wire || one->template_wire;
  }
  return all;
}

driver::LoadReport UpstreamSet::Load() const {
  driver::LoadReport all;
  const auto add = [](auto& sum, const auto& one) {
    if (one) {
      sum = sum.value_or(0) + *one;
    }
  };
  for (const auto& member : members_) {
    const driver::LoadReport one = member->Load();
    add(all.in_flight, one.in_flight);
    add(all.running, one.running);
    add(all.waiting, one.waiting);
    add(all.backlog_tokens, one.backlog_tokens);
    add(all.kv_blocks_total, one.kv_blocks_total);
    add(all.kv_blocks_free, one.kv_blocks_free);
    add(all.prefill_tokens_per_s, one.prefill_tokens_per_s);
    add(all.decode_tokens_per_s, one.decode_tokens_per_s);
    all.ready = all.ready || one.ready;
    all.why_not += (all.why_not.empty() || one.why_not.empty() ? "" : "; ") + one.why_not;
  }
  if (all.ready) {
    all.why_not.clear();
  }
  return all;
}

std::vector<driver::WorkerLoad> UpstreamSet::WorkerLoads() const {
  std::vector<driver::WorkerLoad> all;
  for (const auto& member : members_) {
    std::vector<driver::WorkerLoad> rows = member->WorkerLoads();
    std::move(rows.begin(), rows.end(), std::back_inserter(all));
  }
  return all;
}

Status UpstreamSet::Admit(std::shared_ptr<const driver::Prepared> prepared,
                          std::shared_ptr<driver::EventSink> sink) {
  const wire::Turn& turn = *prepared->turn;
  driver::EngineDriver* best = nullptr;
  std::pair<bool, int32_t> least = {true, std::numeric_limits<int32_t>::max()};
  bool any_unknown = false;
  bool any_lists = false;
  for (const auto& member : members_) {
    const auto capabilities = member->capabilities();
    const bool lists = Lists(*capabilities, turn.model);
    any_unknown = any_unknown || capabilities->models.empty();
    any_lists = any_lists || lists;
    if (!lists || !Serves(*capabilities, turn)) {
      continue;
    }
    const driver::LoadReport load = member->Load();
    const std::pair<bool, int32_t> order = {!load.ready, load.in_flight.value_or(0)};
    if (best == nullptr || order < least) {
      best = member.get();
      least = order;
    }
  }
  if (best != nullptr) {
    return best->Admit(std::move(prepared), std::move(sink));
  }
  if (any_lists) {
    return Fail(Code::kUnsupported,
                "no upstream with the model \"" + turn.model + "\" serves this surface", "model");
  }
  if (any_unknown) {
    Error error{Code::kUnavailable, "no upstream that is up lists the model \"" + turn.model +
                                        "\", and not all are: " + Load().why_not};
    error.retry_after_s = 1;
    return Fail(std::move(error));
  }
  return Fail(Code::kNotFound,
              "the model \"" + turn.model +
                  "\" does not exist here; served: " + Join(capabilities()->models, ", "),
              "model");
}

void UpstreamSet::Cancel(std::string_view request_id) {
  for (const auto& member : members_) {
    member->Cancel(request_id);
  }
}

Status UpstreamSet::Start() {
  for (const auto& member : members_) {
    TRY(member->Start());
  }
  return {};
}

void UpstreamSet::Drain(std::function<void()> done) {
  const auto missing = std::make_shared<std::atomic<size_t>>(members_.size());
  for (const auto& member : members_) {
    member->Drain([missing, done] {
      if (missing->fetch_sub(1) == 1) {
        done();
      }
    });
  }
}

void UpstreamSet::Stop() {
  for (const auto& member : members_) {
    member->Stop();
  }
}

void UpstreamSet::Evict(driver::EvictRequest request,
                        std::function<void(std::vector<driver::EvictOutcome>)> done) {
  const auto take = Gathering<driver::EvictOutcome>::Of(members_.size(), std::move(done));
  for (const auto& member : members_) {
    if (driver::CacheControl* control = member->maybe_cache_control()) {
      control->Evict(request, take);
    } else if (!Lists(*member->capabilities(), request.model)) {
      take({});
    } else {
      take({{member->capabilities()->engine,
             Fail(Code::kUnsupported, "it has no cache that can be emptied"), false}});
    }
  }
}

void UpstreamSet::SetAsleep(driver::SleepRequest request,
                            std::function<void(std::vector<driver::SleepOutcome>)> done) {
  const auto take = Gathering<driver::SleepOutcome>::Of(members_.size(), std::move(done));
  for (const auto& member : members_) {
    if (driver::SleepControl* control = member->maybe_sleep_control()) {
      control->SetAsleep(request, take);
    } else {
      take({});
    }
  }
}

void UpstreamSet::ActOnSlot(driver::SlotRequest request,
                            std::function<void(std::vector<driver::SlotOutcome>)> done) {
  const auto take = Gathering<driver::SlotOutcome>::Of(members_.size(), std::move(done));
  for (const auto& member : members_) {
    if (driver::SlotControl* control = member->maybe_slot_control()) {
      control->ActOnSlot(request, take);
    } else {
      take({});
    }
  }
}

driver::RemoteTokenizer* UpstreamSet::maybe_tokenizer() {
  const bool any = std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    return member->maybe_tokenizer() != nullptr;
  });
  return any ? this : nullptr;
}

void UpstreamSet::Tokenize(std::string text,
                           std::function<void(Result<std::vector<int32_t>>)> done) {
  for (const auto& member : members_) {
    if (driver::RemoteTokenizer* tokenizer = member->maybe_tokenizer()) {
      tokenizer->Tokenize(std::move(text), std::move(done));
      return;
    }
  }
  done(Fail(Code::kUnsupported, "no upstream has a tokenizer to ask"));
}

}  // namespace fak::ride
