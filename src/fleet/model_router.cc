#include "fleet/model_router.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "fleet/failure.h"

namespace fak::fleet {
namespace {

constexpr size_t kPromptBytes = 512;  // that tell one prompt from another

// What a later turn of the same conversation begins with.
void AppendBeginning(const Json& messages, std::string& out) {
  if (!messages.is_array()) {
    messages.DumpTo(out);
    return;
  }
  for (const Json& message : messages.array()) {
    message.DumpTo(out);
    const Json* role = message.is_object() ? message.Find("role") : nullptr;
    if (role != nullptr && role->is_string() && role->string() == "user") {
      return;
    }
  }
}

// Whether another model may do better.
bool MayOtherCure(const Error& error) {
  // The fleet's own words for a surface that nobody with the model serves.
  return (error.code == Code::kUnsupported && error.field == "model") ||
         ReadFailure(error, {.reached = true, .lists_model = true}).curable;
}

}  // namespace

uint64_t ConversationOf(const driver::Prepared& prepared) {
  std::string text = SessionOf(prepared);
  if (!text.empty()) {
    return Xxh3(text);
  }
  text = prepared.tenant + "\n";
  const size_t empty = text.size();
  for (const char* member : {"system", "instructions", "messages", "input"}) {
    const Json* value = prepared.document != nullptr && prepared.document->is_object()
                            ? prepared.document->Find(member)
                            : nullptr;
    if (value != nullptr) {
      AppendBeginning(*value, text);
    }
  }
  if (text.size() == empty && !prepared.prompts.empty()) {
    text += prepared.prompts.front().text.substr(0, kPromptBytes);
  }
  return Xxh3(text.size() == empty ? prepared.request_id : text);
}

// One request for a name of the table, and the sink of whoever has it. Events come as of EventSink;
// between two models it is with whoever moves it on.
class ModelRouter::Routed final : public driver::EventSink,
                                  public std::enable_shared_from_this<Routed> {
 public:
  Routed(ModelRouter& router, std::string name, std::vector<std::string> plan,
         std::shared_ptr<const driver::Prepared> prepared, std::shared_ptr<driver::EventSink> sink)
      : router_(router),
        name_(std::move(name)),
        id_(prepared->request_id),
        plan_(std::move(plan)),
        tried_(plan_.size()),
        prepared_(std::move(prepared)),
        sink_(std::move(sink)) {}

  // To the next model, and to those behind it where nobody takes it. maybe_before: what it failed
  // with so far, which is the error where nobody is left.
  Status Go(std::optional<Error> maybe_before) {
    while (std::optional<Leg> leg = NextLeg()) {
      at_ = leg->index;
      attempts_before_ = attempts_;
      const size_t tried_before = Tried();
      Status admitted =
          router_.dispatcher_.Admit(For(plan_[at_], leg->only_well), shared_from_this());
      if (admitted) {
        if (cancelled_.load()) {
          router_.dispatcher_.Cancel(id_);
        }
        return {};
      }
      if (!MayMoveOn(admitted.error())) {
        return admitted;
      }
      if (!maybe_before || Tried() > tried_before || Tried() == 0) {
        maybe_before = std::move(admitted).error();
      }
    }
    return Fail(*std::move(maybe_before));
  }

  void OnEvent(wire::Event&& event) noexcept override {
    if (passed_) {
      sink_->OnEvent(std::move(event));
      return;
    }
    if (auto* headers = std::get_if<wire::UpstreamHeaders>(&event)) {
      held_ = std::move(*headers);
      return;
    }
    if (auto* failed = std::get_if<wire::Failed>(&event)) {
      // Of this one nothing comes any more; the next one has headers of its own.
      std::optional<wire::UpstreamHeaders> its_headers = std::exchange(held_, std::nullopt);
      if (MayMoveOn(failed->error)) {
        const Status went = Go(std::move(failed->error));
        if (went) {
          return;
        }
        failed->error = went.error();
      }
      held_ = std::move(its_headers);
    } else {
      router_.Count(name_, plan_[at_], at_ > 0);
    }
    Pass();
    sink_->OnEvent(std::move(event));
  }
  void BeginBatch() noexcept override { sink_->BeginBatch(); }
  void EndBatch() noexcept override { sink_->EndBatch(); }
  void ListHot(HotLines& lines) const noexcept override {
    lines.AddObject(*this);
    sink_->ListHot(lines);
  }
  void OnPlaced(const driver::Placement& placement) override {
    tried_[at_] = true;
    attempts_ = attempts_before_ + placement.attempt;
    driver::Placement placed = placement;
    placed.attempt = attempts_;
    placed.model = plan_[at_];
    sink_->OnPlaced(placed);
  }
  void AwaitRoom(std::function<void()> on_room) override { sink_->AwaitRoom(std::move(on_room)); }

  // Any thread. Whoever moves it on looks before and after the next one knows of it.
  void Cancel() { cancelled_.store(true); }

 private:
  struct Leg {
    size_t index;
    bool only_well;
  };

  std::optional<Leg> NextLeg() {
    if (next_ < plan_.size()) {
      return Leg{next_++, plan_.size() > 1};
    }
    if (std::exchange(asked_anyway_, true) || plan_.size() == 1) {
      return std::nullopt;
    }
    for (size_t i = 0; i < plan_.size(); ++i) {
      if (!tried_[i]) {
        return Leg{i, false};
      }
    }
    return std::nullopt;
  }
  size_t Tried() const {
    return static_cast<size_t>(std::count(tried_.begin(), tried_.end(), true));
  }
  bool MayMoveOn(const Error& error) const {
    const std::optional<int64_t>& deadline_ns = prepared_->deadline_ns;
    return !cancelled_.load() && !(deadline_ns && router_.clock_.NowNs() >= *deadline_ns) &&
           MayOtherCure(error);
  }
  std::shared_ptr<const driver::Prepared> For(const std::string& model, bool only_well) const {
    auto prepared = std::make_shared<driver::Prepared>(*prepared_);
    prepared->model = model;
    prepared->only_well = only_well;
    return prepared;
  }
  // It stays where it is.
  void Pass() {
    passed_ = true;
    prepared_.reset();  // which is most of its memory
    router_.Forget(id_, this);
    if (held_) {
      sink_->OnEvent(*std::exchange(held_, std::nullopt));
    }
  }

  ModelRouter& router_;
  const std::string name_;
  const std::string id_;
  const std::vector<std::string> plan_;
  std::vector<bool> tried_;  // by the plan: somebody was asked
  std::shared_ptr<const driver::Prepared> prepared_;
  const std::shared_ptr<driver::EventSink> sink_;
  std::atomic<bool> cancelled_{false};
  size_t next_ = 0;
  size_t at_ = 0;
  bool asked_anyway_ = false;
  bool passed_ = false;
  int attempts_ = 0;
  int attempts_before_ = 0;  // of the model at_
  std::optional<wire::UpstreamHeaders> held_;
};

void ModelRouter::SetTable(ModelTable table) {
  const std::lock_guard lock(mutex_);
  std::erase_if(counts_, [&](const auto& each) {
    const ModelTable::Entry* before = table_->Find(each.first);
    const ModelTable::Entry* after = table.Find(each.first);
    return before == nullptr || after == nullptr || *before != *after;
  });
  table_ = std::make_shared<const ModelTable>(std::move(table));
}

std::shared_ptr<const ModelTable> ModelRouter::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

std::vector<ModelStatus> ModelRouter::Describe() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelStatus> all;
  for (const ModelTable::Entry& entry : table_->entries()) {
    const auto found = counts_.find(entry.name);
    all.push_back({entry, {}, 0});
    if (found != counts_.end()) {
      all.back().requests = found->second.requests;
      all.back().fallbacks = found->second.fallbacks;
    }
  }
  return all;
}

// By the models of the table, which are few.
void ModelRouter::Count(const std::string& name, const std::string& model, bool fell_back) {
  const std::lock_guard lock(mutex_);
  if (table_->Find(name) != nullptr) {  // it may have left meanwhile
    Counts& counts = counts_[name];
    ++counts.requests[model];
    counts.fallbacks += fell_back ? 1 : 0;
  }
}

void ModelRouter::Forget(const std::string& request_id, const Routed* routed) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(request_id);
  if (found != open_.end() && found->second.lock().get() == routed) {
    open_.erase(found);
  }
}

std::shared_ptr<const driver::Prepared> ModelRouter::First(
    std::shared_ptr<const driver::Prepared> prepared) const {
  const std::shared_ptr<const ModelTable> now = table();
  if (now->Find(prepared->turn->model) == nullptr) {
    return prepared;
  }
  auto first = std::make_shared<driver::Prepared>(*prepared);
  first->model = now->PlanFor(prepared->turn->model, ConversationOf(*prepared)).front();
  return first;
}

Status ModelRouter::Admit(std::shared_ptr<const driver::Prepared> prepared,
                          std::shared_ptr<driver::EventSink> sink) {
  const std::shared_ptr<const ModelTable> now = table();
  const std::string& name = prepared->turn->model;
  if (now->Find(name) == nullptr) {
    return dispatcher_.Admit(std::move(prepared), std::move(sink));
  }
  const std::string id = prepared->request_id;
  auto routed = std::make_shared<Routed>(*this, name, now->PlanFor(name, ConversationOf(*prepared)),
                                         std::move(prepared), std::move(sink));
  {
    const std::lock_guard lock(mutex_);
    if (!open_.emplace(id, routed).second) {
      return Fail(Code::kAlreadyExists, "request id " + id + " is in use already");
    }
  }
  Status went = routed->Go(std::nullopt);
  if (!went) {
    Forget(id, routed.get());
  }
  return went;
}

void ModelRouter::Cancel(std::string_view request_id) {
  std::shared_ptr<Routed> routed;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(std::string(request_id));
    routed = found == open_.end() ? nullptr : found->second.lock();
  }
  if (routed != nullptr) {
    routed->Cancel();
  }
  dispatcher_.Cancel(request_id);
}

}  // namespace fak::fleet
