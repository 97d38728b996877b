#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "driver/engine_driver.h"
#include "metrics/serving.h"
#include "net/event_loop.h"
#include "net/http_client.h"
#include "ride/engine_counts.h"
#include "ride/scrape.h"
#include "ride/upstream_kv_events.h"

namespace fak::ride {

struct UpstreamMeterOptions {
  std::string worker = {};  // label: which replica
  std::string engine = {};  // label, and whose metrics they are
  std::string model = {};   // label, where the upstream is asked for one model only; else empty
  std::string role = "aggregated";
  int scrape_every_ms = 5000;  // 0: the engine is not asked
};

// All that is measured of one upstream: its requests by us (source="gateway") and what it says of
// itself (source="engine"). The registry and the clock outlive the meter, the meter its requests.
class UpstreamMeter {
 public:
  UpstreamMeter(metrics::Registry& registry, UpstreamMeterOptions options,
                const Clock& clock = Clock::Real());

  // Any thread. The sink to give to whoever answers the request.
  std::shared_ptr<driver::EventSink> Measure(const driver::Prepared& prepared,
                                             std::shared_ptr<driver::EventSink> sink);
  // Any thread. What the engine has said of its load, as long as it is fresh; else nothing.
  void Fill(driver::LoadReport& report) const;

  // Any thread. What a probe has found.
  void SetUp(bool up);
  // Any thread. What the upstream serves: models that may stand in a label. Others are "other".
  void SetModels(std::vector<std::string> models);

  // Any thread. It was asked for a token, and whether one came.
  void CountGenerationProbe(bool answered);

  // Any thread. What was read of its KV events up to now; from the moment that the engine is known.
  void CountKvEvents(const KvEventCounts& counts);

  // Loop thread. Begins to ask the engine, which is known by now; begins anew when it is another
  // one than before. `requests` are the GETs for its metrics: of the upstream itself, whose load is
  // Fill()'s, then of workers behind it, whose rows have the label worker "NAME/1", "NAME/2" ...
  // Does nothing for an engine that has none.
  void StartScraping(net::EventLoop& loop, net::HttpClient& client, const std::string& engine,
                     std::vector<net::HttpClientRequest> requests);
  // Loop thread. Before the client goes.
  void StopScraping();

 private:
  struct Model {
    std::shared_ptr<metrics::Emitter> emitter;
    int32_t open = 0;  // requests
  };
  // One place that metrics are read from.
  struct Source {
    std::string worker;  // label
    EngineCounts counts;
    std::shared_ptr<metrics::Mirror> mirror;
    std::string said;  // last word in the log about it
    std::unique_ptr<Scraper> scraper;
  };

  std::string ModelOf(const driver::Prepared& prepared) const;
  Model& Find(const std::string& model);
  void Ended(const std::string& model);
  void Take(Source& source, Result<std::string> text);

  metrics::Registry& registry_;
  const UpstreamMeterOptions options_;
  const std::shared_ptr<metrics::Emitter> keeps_rows_;  // also those of an engine that has gone
  const Clock& clock_;

  // Loop thread.
  std::vector<std::unique_ptr<Source>> sources_;  // the upstream's own first

  mutable std::mutex mutex_;  // guards the members below
  std::string engine_;
  std::vector<std::string> served_;
  std::map<std::string, Model> models_;
  KvEventCounts kv_events_;  // of which the emitters have been told
  EngineLoad load_;
  int64_t load_until_ns_ = 0;
};

}  // namespace fak::ride
