#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/prepared.h"
#include "ride/adapter.h"
#include "ride/answer_document.h"
#include "wire/document_edit.h"

namespace fak::ride {

// What the client sees of the chunks of a stream that another replica may have to go on with, or
// goes on with: the stream that it would see if nothing could break off. Plain value, of one
// request.
class ChunkEdits {
 public:
  // Changes nothing.
  ChunkEdits() = default;
  // Of a request that is sent to an engine of this kind.
  ChunkEdits(const Adapter& adapter, const driver::Prepared& prepared);

  // Whether usage counts what another replica said as a part of the prompt.
  bool counts_anew() const { return said_tokens_ > 0; }
  // The chunk with a usage of the whole answer; nullopt: it has none.
  std::optional<std::string> WithWholeUsage(std::string_view raw,
                                            const AnswerDocument& document) const;
  // The chunk as the client gets it.
  std::string Shown(std::string_view raw) const;

 private:
  std::vector<wire::MemberEdit> hidden_;  // where they are there
  std::vector<wire::MemberEdit> head_;
  int32_t said_tokens_ = 0;
};

}  // namespace fak::ride
