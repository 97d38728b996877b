#pragma once

#include <cstddef>
#include <cstdint>

// Every bound of the program that input can reach. docs/limits.md lists them with the error each
// one gives; tools/tidy.py holds the two together.
namespace fak::limits {

// JSON
inline constexpr size_t kJsonValuesMax = 4'000'000;  // of one document, each about 100 bytes here
inline constexpr int kJsonDepthMax = 128;
// HTTP server
inline constexpr size_t kHttpHeadBytesMax = 64 * 1024;
inline constexpr size_t kHttpBodyBytesMax = 64 * 1024 * 1024;
inline constexpr int kHttpHeadTimeoutMs = 10'000;
inline constexpr int kHttpBodyTimeoutMs = 60'000;
inline constexpr int kHttpIdleTimeoutMs = 75'000;
inline constexpr int kHttpWriteStallTimeoutMs = 60'000;
inline constexpr size_t kHttpConnectionsMax = 10'000;
inline constexpr size_t kHttpReadAheadBytesMax = 64 * 1024;  // while a request is answered
inline constexpr size_t kNeedlessBodyBytesMax = 4096;        // of a GET
inline constexpr size_t kHttpFieldsMax = 256;                // header fields of a message
inline constexpr int kHttpLingerMs = 2'000;
// HTTP client, for each upstream
inline constexpr size_t kUpstreamConnectionsMax = 4096;
inline constexpr size_t kUpstreamIdleConnectionsMax = 1024;
inline constexpr size_t kUpstreamWaitingMax = 4096;
inline constexpr int kUpstreamConnectTimeoutMs = 5'000;
inline constexpr int kUpstreamFirstByteTimeoutMs = 600'000;
inline constexpr int kUpstreamIdleTimeoutMs = 300'000;
inline constexpr int kUpstreamKeepIdleMs = 4'000;
// Streaming
inline constexpr size_t kSseEventBytesMax = 32 * 1024 * 1024;
inline constexpr size_t kStreamWindowBytes = 64 * 1024;           // of an upstream, read ahead
inline constexpr size_t kStreamBufferBytesMax = 4 * 1024 * 1024;  // unread by a slow client
// Requests
inline constexpr size_t kTokenizeBytesMax = 1024 * 1024;  // of the body: a second at worst
inline constexpr size_t kMessagesMax = 4096;
inline constexpr size_t kStopStringsMax = 16;
inline constexpr size_t kStopStringBytesMax = 1024;
inline constexpr size_t kStopTokensMax = 1024;
inline constexpr int kTopLogprobsMax = 20;
inline constexpr size_t kPromptsMax = 256;
inline constexpr int kChoicesMax = 128;
inline constexpr int kToolCallsMax = 128;  // of one answer
inline constexpr size_t kCacheSaltBytesMax = 256;
inline constexpr size_t kTenantNameBytesMax = 128;
inline constexpr size_t kLogitBiasMax = 1024;
inline constexpr size_t kAdmitQueueMax = 4096;  // requests waiting for a native engine
// Ridden engines
inline constexpr size_t kUpstreamBodyBytesMax = 64 * 1024 * 1024;  // of a whole answer
inline constexpr size_t kUpstreamErrorBytesMax = 64 * 1024;        // of an error's body
inline constexpr int kUpstreamTailMs = 5'000;  // what follows a whole answer or an error's head
inline constexpr size_t kProbeBytesMax = 4 * 1024 * 1024;  // of an answer to a call of our own
inline constexpr int kProbeTimeoutMs = 10'000;             // of such a call, all of it
inline constexpr size_t kProbeConnectionsMax = 16;         // for such calls, to one upstream
inline constexpr size_t kUpstreamsMax = 256;               // behind one gateway
// Metrics
inline constexpr size_t kExpositionBytesMax = 4 * 1024 * 1024;  // of an engine's /metrics
inline constexpr size_t kExpositionLabelsMax = 32;              // of one sample
inline constexpr size_t kScrapeSeriesMax = 16'384;              // remembered of one engine
inline constexpr size_t kScrapeBucketsMax = 128;                // of one histogram
inline constexpr int kScrapeTimeoutMs = 3'000;
inline constexpr size_t kMetricLabelBytesMax = 128;
inline constexpr size_t kMetricModelsMax = 64;  // of one worker
inline constexpr size_t kMetricValuesMax = 32;  // of a row's own label, in what an engine says
inline constexpr size_t kMetricWorkersMax = 1024;
inline constexpr size_t kSlosMax = 16;
// Pulling models
inline constexpr size_t kHubRecordBytesMax = 1024 * 1024;        // what is kept beside a model
inline constexpr size_t kHubListingBytesMax = 16 * 1024 * 1024;  // a page of a repository's files
inline constexpr int kHubListingPagesMax = 64;
inline constexpr int kHubRedirectsMax = 8;
inline constexpr int kHubSilenceMs = 60'000;
// KV events of engines
inline constexpr size_t kZmqFramesMax = 8;  // of a message
inline constexpr size_t kZmqFrameBytesMax = 16 * 1024 * 1024;
inline constexpr size_t kKvEventPendingMax = 4096;  // batches that wait for a replay
inline constexpr size_t kKvEventPendingBytesMax = 32 * 1024 * 1024;
inline constexpr int kKvReplayTimeoutMs = 5'000;    // silence within a replay
inline constexpr int kKvReplayCooldownMs = 30'000;  // after one that failed
inline constexpr size_t kKvEventRanksMax = 64;      // data-parallel ranks of an engine
// Fleet
inline constexpr size_t kResidencyReplicasMax = 4096;       // in the residency index
inline constexpr size_t kResidencyBlocksMax = 1024 * 1024;  // of one replica, in pieces of a unit
inline constexpr size_t kFleetQueueMax = 1024;  // requests that wait until a replica has room
inline constexpr size_t kHeldAnswerBytesMax = 64 * 1024;  // before an answer's first content
// Gateway
inline constexpr size_t kPrepareQueueMax = 1024;   // requests that wait to be tokenised
inline constexpr size_t kRequestIdBytesMax = 128;  // of a client's own x-request-id
// Model files
inline constexpr uint64_t kGgufHeadBytesMax = 512ull * 1024 * 1024;  // metadata and tensor infos
inline constexpr uint64_t kGgufTensorsMax = 65'536;
inline constexpr uint64_t kGgufKeysMax = 65'536;
inline constexpr uint64_t kGgufStringBytesMax = 64ull * 1024 * 1024;
inline constexpr uint64_t kGgufArrayLengthMax = 16ull * 1024 * 1024;
inline constexpr uint32_t kGgufSplitsMax = 1024;
inline constexpr uint32_t kLayersMax = 512;
inline constexpr uint32_t kExpertsMax = 1024;
inline constexpr uint32_t kEmbeddingMax = 65'536;
inline constexpr uint32_t kFeedForwardMax = 1'048'576;
inline constexpr uint32_t kHeadsMax = 1024;
inline constexpr uint32_t kHeadDimMax = 512;
inline constexpr uint32_t kContextMax = 16'777'216;
inline constexpr uint32_t kVocabularyMax = 2'097'152;
inline constexpr size_t kTokenizerJsonBytesMax = 128 * 1024 * 1024;
// Templates
inline constexpr size_t kTemplateBytesMax = 1024 * 1024;
inline constexpr size_t kTemplateOutputBytesMax = 64 * 1024 * 1024;
inline constexpr int kTemplateStepsMax = 10'000'000;
inline constexpr int kTemplateDepthMax = 128;       // of statements and expressions in the source
inline constexpr int kTemplateValueDepthMax = 256;  // containers inside containers
inline constexpr int kTemplateEvalDepthMax = 500;   // nesting at run time, through macros
// Log
inline constexpr size_t kLogRecordBytesMax = 16 * 1024;
inline constexpr size_t kLogQueueMax = 8192;  // records waiting for the thread of an async log
// Configuration and child processes
inline constexpr size_t kConfigBytesMax = 4 * 1024 * 1024;
inline constexpr size_t kTraceBlocksMax = 16'777'216;           // of a trace to route
inline constexpr size_t kTextInputBytesMax = 64 * 1024 * 1024;  // of a file or standard input
inline constexpr uint32_t kThreadsMax = 1024;                   // of a native engine
inline constexpr size_t kChildLineBytesMax = 64 * 1024;
inline constexpr size_t kChildOutputBytesMax = 16 * 1024 * 1024;

}  // namespace fak::limits
