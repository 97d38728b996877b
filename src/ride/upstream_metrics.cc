#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "ride/upstream_driver.h"

// Where an upstream's metrics are read from.
namespace fak::ride {

Status UpstreamDriver::CheckMetricsUrls(const driver::ReplicaSpec& spec) {
  const std::vector<std::string>& urls = spec.metrics_urls;
  if (urls.size() > limits::kUpstreamsMax) {
    return Fail(Code::kInvalidArgument,
                "upstream " + spec.name + " has " + std::to_string(urls.size()) +
                    " metrics URLs, and may have " + std::to_string(limits::kUpstreamsMax),
                "metrics_urls");
  }
  for (size_t i = 0; i < urls.size(); ++i) {
    if (auto url = net::ParseUrl(urls[i]); !url) {
      url.error().field = "metrics_urls";
      return Fail(std::move(url).error());
    }
    if (std::find(urls.begin(), urls.begin() + static_cast<ptrdiff_t>(i), urls[i]) !=
        urls.begin() + static_cast<ptrdiff_t>(i)) {
      return Fail(Code::kInvalidArgument,
                  "upstream " + spec.name + " has the metrics URL " + urls[i] +
                      " twice: it would count twice",
                  "metrics_urls");
    }
  }
  return {};
}

void UpstreamDriver::StartScraping(const Adapter& engine) {
  if (!meter_) {
    return;
  }
  const net::HttpClientRequest own = target_.Request(engine, {"GET", "/metrics"});
  std::vector<net::HttpClientRequest> requests;
  for (const std::string& text : spec_.metrics_urls) {  // may be anybody's: they get no key
    net::Url url = *net::ParseUrl(text);                // Make() has read it
    net::HttpClientRequest& request = requests.emplace_back(own);
    request.headers = {};
    request.origin = std::move(url.origin);
    request.target = std::move(url.target);
  }
  if (requests.empty()) {
    requests.push_back(own);
  }
  meter_->StartScraping(loop_, *calls_client_, std::string(engine.engine), std::move(requests));
}

}  // namespace fak::ride
