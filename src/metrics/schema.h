#pragma once

#include <array>
#include <cstdint>
#include <string_view>

// The rows of the one schema, whoever fills them. docs/metrics.md says what each one means.
namespace fak::metrics {

enum class Row : uint8_t {
  kTimeToFirstToken,
  kTimePerOutputToken,
  kInterToken,
  kEndToEnd,
  kQueue,
  kRequestPromptTokens,
  kRequestGenerationTokens,
  kRunning,
  kWaiting,
  kKvUsage,
  kEngineUp,
  kPromptTokens,
  kGenerationTokens,
  kPrefixQueries,
  kPrefixHits,
  kPreemptions,
  kUnknownFields,
  kSpecDraftTokens,
  kSpecAcceptedTokens,
  kKvEventBatches,
  kKvBlocksStored,
  kKvBlocksRemoved,
  kKvEventResets,
  kKvEventGaps,
  kKvEventReplays,
  kKvEventReplaysFailed,
  kKvEventsDropped,
  kGenerationProbes,
  kGenerationProbesFailed,
  kRequests,
  kErrors,
  kGoodput,
  kMigrations,
  kLimitRefusals,
};
inline constexpr size_t kRows = 34;

enum class RowType : uint8_t { kHistogram, kGauge, kCounter };

struct RowInfo {
  std::string_view name;
  std::string_view help;
  RowType type = RowType::kCounter;
  std::string_view label = {};  // the row's own one, beside those that all rows have; may be none
};

// Indexed by Row.
const std::array<RowInfo, kRows>& Schema();
inline const RowInfo& InfoOf(Row row) {
  return Schema()[static_cast<size_t>(row)];
}

}  // namespace fak::metrics
