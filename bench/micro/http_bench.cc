// bench: links fak_net
// What a small request and a streamed event cost over loopback, our server and our client at the
// two ends, a loop each. Mostly system calls: compare with the same machine's own figures only.
#include <benchmark/benchmark.h>

#include <future>
#include <memory>
#include <string>

#include "net/http_client.h"
#include "net/http_server.h"

namespace fak::net {
namespace {

constexpr size_t kEventsMax = 1000;
const std::string kEvent = "data: " + std::string(190, 'x') + "\n\n";

class Handler : public HttpHandler {
 public:
  void OnRequest(HttpRequest&& request, std::shared_ptr<ResponseWriter> response) override {
    if (request.target == "/echo") {
      response->Send({200, {{"Content-Type", "application/json"}}, std::move(request.body)});
      return;
    }
    response->StartStream(200, {{"Content-Type", "text/event-stream"}});
    WriteNext(std::move(response), kEventsMax);
  }
  HttpResponse OnFault(const HttpFault& fault) override { return {fault.status, {}, ""}; }

 private:
  // A turn of the loop an event, as an upstream's events come.
  static void WriteNext(std::shared_ptr<ResponseWriter> response, size_t left) {
    if (left == 0) {
      response->End();
      return;
    }
    response->Write(kEvent);
    EventLoop& loop = response->loop();
    loop.Post([response = std::move(response), left]() mutable {
      WriteNext(std::move(response), left - 1);
    });
  }
};

struct Pair {
  Pair() {
    server_loop.Start("server");
    client_loop.Start("client");
    server = *HttpServer::Start(server_loop, {}, handler);
    client = *HttpClient::Make(client_loop);
  }
  Result<HttpResponse> Fetch(const char* target) {
    HttpClientRequest request;
    request.method = "POST";
    request.origin = {false, "127.0.0.1", server->port()};
    request.target = target;
    request.body = std::string(187, 'b');
    return FetchAndWait(client_loop, *client, std::move(request), 1 << 30);
  }

  EventLoop server_loop;
  EventLoop client_loop;
  Handler handler;
  std::unique_ptr<HttpServer> server;
  std::unique_ptr<HttpClient> client;
};

void Request(benchmark::State& state) {
  Pair pair;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pair.Fetch("/echo"));
  }
}
BENCHMARK(Request)->UseRealTime()->MeasureProcessCPUTime();

// An item is an event.
void StreamedEvent(benchmark::State& state) {
  Pair pair;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pair.Fetch("/stream"));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kEventsMax));
}
BENCHMARK(StreamedEvent)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace fak::net
