#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "driver/engine_driver.h"
#include "driver/prepared.h"
#include "wire/event.h"

namespace fak::fleet {

inline constexpr size_t kResumedTokensMax = 128 * 1024;  // kept of a stream, to go on with it

// Who can go on with an answer: engines of this kind that serve this artifact.
struct Artifact {
  std::string engine;
  std::string name;

  static Artifact Of(const driver::Capabilities& capabilities) {
    return {capabilities.engine, capabilities.artifact};
  }
  friend bool operator==(const Artifact&, const Artifact&) = default;
};

// Whether an answer to this could be gone on with, as far as the request goes: one streamed choice
// of one prompt, free to be any text, of which nothing is said before the answer.
bool MayBeResumed(const driver::Prepared& prepared);

// What was passed on of a streamed answer, so that another replica can go on with it: the ids of
// its tokens, up to kResumedTokensMax with those of its prompt. Not thread-safe: of the
// thread of its events.
class ResumableAnswer {
 public:
  // exactly: as driver::Capabilities::continues_exactly.
  ResumableAnswer(Artifact artifact, bool exactly);

  const Artifact& artifact() const { return artifact_; }
  // False from the first event on after which nobody could go on: text without ids, a tool call, a
  // finish, more than the bound.
  [[nodiscard]] bool Note(const wire::Event& event);
  // Whether anything was said.
  bool begun() const { return !answer_.tokens.empty(); }
  // Of what was noted so far. What an engine that doesn't go on exactly would say again is
  // forgotten.
  driver::Continuation Continue();

 private:
  void ReadHead(const std::string& chunk);
  bool Keep(const std::vector<int32_t>& tokens, std::vector<int32_t>& to);

  const Artifact artifact_;
  const bool exactly_;
  bool has_head_ = false;
  driver::Continuation answer_;
  size_t shown_ = 0;  // tokens up to the last text
};

}  // namespace fak::fleet
