#include "fleet/resumable_answer.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace fak::fleet {

bool MayBeResumed(const driver::Prepared& prepared) {
  const wire::Turn& turn = *prepared.turn;
  return turn.stream && turn.n == 1 && prepared.prompts.size() == 1 && !turn.grammar &&
         !turn.echo && turn.sampling.prompt_logprobs < 0 &&
         (turn.surface == wire::Surface::kChat || turn.surface == wire::Surface::kCompletion);
}

ResumableAnswer::ResumableAnswer(Artifact artifact, bool exactly)
    : artifact_(std::move(artifact)), exactly_(exactly) {
  answer_.artifact = artifact_.name;
}

bool ResumableAnswer::Note(const wire::Event& event) {
  if (const auto* text = std::get_if<wire::TextDelta>(&event)) {
    if (text->choice != 0 || (text->tokens.empty() && !text->text.empty()) ||
        !Keep(text->tokens, answer_.tokens)) {
      return false;
    }
    shown_ = text->text.empty() ? shown_ : answer_.tokens.size();
    return true;
  }
  if (const auto* chunk = std::get_if<wire::RawChunk>(&event)) {
    if (!std::exchange(has_head_, true)) {
      ReadHead(chunk->json);
    }
    return true;
  }
  if (const auto* echo = std::get_if<wire::PromptEcho>(&event)) {
    // Of who goes on, the answer so far is in it.
    return !answer_.prompt_tokens.empty() || Keep(echo->tokens, answer_.prompt_tokens);
  }
  return !std::holds_alternative<wire::ReasoningDelta>(event) &&
         !std::holds_alternative<wire::ToolCallDelta>(event) &&
         !std::holds_alternative<wire::Finish>(event);
}

bool ResumableAnswer::Keep(const std::vector<int32_t>& tokens, std::vector<int32_t>& to) {
  const size_t kept = answer_.tokens.size() + answer_.prompt_tokens.size();
  const bool are_tokens =
      std::all_of(tokens.begin(), tokens.end(), [](int32_t token) { return token >= 0; });
  if (!are_tokens || kept + tokens.size() > kResumedTokensMax) {
    return false;
  }
  to.insert(to.end(), tokens.begin(), tokens.end());
  return true;
}

void ResumableAnswer::ReadHead(const std::string& chunk) {
  const Result<Json> document = ParseJson(chunk);
  if (!document) {
    return;
  }
  for (const char* name : {"id", "created", "model", "system_fingerprint"}) {
    if (const Json* value = document->Find(name)) {
      answer_.head.push_back({name, value->Dump()});
    }
  }
  const auto number = [&document](const char* name) {
    const Json* value = document->Find(name);
    return value != nullptr && value->is_number() ? value->AsInt() : std::nullopt;
  };
  answer_.created_s = std::max<int64_t>(0, number("created").value_or(0));
  if (const auto seed = number("seed")) {
    answer_.seed = static_cast<uint64_t>(*seed);
  }
}

driver::Continuation ResumableAnswer::Continue() {
  if (!exactly_) {
    answer_.tokens.resize(shown_);
  }
  return answer_;
}

}  // namespace fak::fleet
