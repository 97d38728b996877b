#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"
#include "base/json.h"
#include "base/random.h"
#include "driver/engine_driver.h"
#include "fleet/fleet_driver.h"
#include "fleet/membership.h"
#include "gateway/byte_budget.h"
#include "gateway/exchange.h"
#include "gateway/keys.h"
#include "gateway/prepare.h"
#include "gateway/rate_limits.h"
#include "gateway/work_queue.h"
#include "metrics/serving.h"
#include "net/http_server.h"
#include "text/chat_template.h"
#include "text/model_card.h"

// The front door: one HTTP handler for every route, over one driver. Start here, then routes.cc
// (what answers where), exchange.h (a generation), prepare.h (a turn made ready).
namespace fak::gateway {

struct GatewayOptions {
  // Ids that requests may name; the first is shown. Empty: any, as the upstream knows them.
  std::vector<std::string> served_names;
  std::shared_ptr<const text::ModelCard> maybe_card;
  KeyRing keys;
  bool trust_request_chat_template = false;
  // How the model writes tool calls; absent: as its chat template shows them.
  std::optional<text::ToolDialect> tool_dialect = {};
  // Exactly this origin, or "*", may call from a browser; empty: none. Without keys the pages of
  // other sites may not even POST what they can't read the answer of.
  std::string cors_origin;
  size_t prepare_threads = 1;
  size_t large_bodies_bytes_max = kLargeBodiesBytesMax;
  int64_t request_timeout_ms = 0;  // from when all of it is here to its end; 0: none
  std::string kv_event_sources;    // JSON that GET /kv_event_sources answers; empty: 404
  // The driver, where it is a fleet: for /v1/fak/fleet. Null: it is none.
  fleet::FleetDriver* maybe_fleet = nullptr;
  // Who is in it, to be changed by its admin. Null: it stays as it is.
  fleet::Membership* maybe_membership = nullptr;
};

// Thread: OnHead and OnRequest on the server's loop; the rest of the work on the prepare threads
// (small bodies without a card: on the loop) and the driver's. The references outlive the gateway.
class Gateway final : public net::HttpHandler {
 public:
  Gateway(GatewayOptions options, driver::EngineDriver& driver, metrics::Registry& metrics,
          std::shared_ptr<metrics::Emitter> emitter, const Clock& clock, RandomSource& random);
  ~Gateway() override;

  std::optional<net::HttpResponse> OnHead(const net::HttpRequest& head) override;
  void OnRequest(net::HttpRequest&& request,
                 std::shared_ptr<net::ResponseWriter> response) override;
  net::HttpResponse OnFault(const net::HttpFault& fault) override;

  // From now on /ready says no, so that nobody sends more. Any thread.
  void SetDraining() { draining_.store(true); }

 private:
  // One request on its way through.
  struct Call {
    net::HttpRequest request;
    std::shared_ptr<net::ResponseWriter> response;
    RequestContext context;
    std::string model;       // for the access log
    bool generates = false;  // it has tokens to tell of
    std::shared_ptr<const void> held =
        {};                // of the budget for large bodies, until its document has it
    bool limited = false;  // its tenant's limits are told with the answer
    std::shared_ptr<RateLimits::Share> share = {};  // of these; null: there are none, or it ended
  };

 public:
  using Handler = void (Gateway::*)(std::shared_ptr<Call>);
  struct Route {
    std::string_view method;
    std::string_view path;
    Handler handler;
    bool open = false;      // answers without a key
    bool off_loop = false;  // on a prepare thread, unless it is quick
  };
  // All that is served, each also in openapi.json; "/v1/models" has the models by name below it.
  // A path has one method.
  static std::span<const Route> Routes();

 private:
  RequestContext ContextOf(const net::HttpRequest& request) const;
  bool MaySeeRoutes(const Call& call) const;
  bool IsOfForeignPage(const net::HttpRequest& head) const;
  bool IsForeign(const net::HttpRequest& head) const;
  bool IsCrossSite(const net::HttpRequest& head) const;
  void RunLater(const std::shared_ptr<Call>& call, Handler handler);
  // The document, which takes with it what the call held of the budget.
  static std::shared_ptr<const Json> Keep(Call& call, Json document);
  // maybe_route: of that path and method; null where there is none.
  std::optional<Error> Authorize(const net::HttpRequest& head, std::string_view path,
                                 const Route* maybe_route) const;
  void Answer(Call& call, int status, std::string body,
              std::string_view content_type = "application/json");
  void Refuse(Call& call, const Error& error);
  void Refuse(Call& call, const Error& error, int status);
  // An error's answer, logged; for those who can't send it themselves.
  net::HttpResponse Refusal(const Call& call, const Error& error, int status) const;
  void LogAccess(const Call& call, const ExchangeEnd& end) const;
  // All that clients may ask for, as far as it is known.
  std::vector<std::string> ModelNames() const;
  Status CheckModel(const std::string& asked) const;
  Result<Json> DocumentOf(const Call& call) const;
  std::string ShownModel(const std::string& asked) const;
  Result<std::shared_ptr<const text::ModelCard>> CardFor(const wire::Turn& turn) const;
  bool FindsToolCalls(const wire::Turn& turn) const;
  // `next`, or a stage before it that finds the tool calls in what the engine writes.
  Result<std::shared_ptr<driver::EventSink>> SinkFor(const wire::Turn& turn,
                                                     const std::string& request_id,
                                                     std::shared_ptr<driver::EventSink> next) const;
  // Of every answer.
  net::HttpHeaders HeadersOf(const Call& call) const;

  // Routes.
  void Chat(std::shared_ptr<Call> call);
  void Completions(std::shared_ptr<Call> call);
  void Models(std::shared_ptr<Call> call);
  void Tokenize(std::shared_ptr<Call> call);
  void Detokenize(std::shared_ptr<Call> call);
  void Health(std::shared_ptr<Call> call);
  void Ready(std::shared_ptr<Call> call);
  void Version(std::shared_ptr<Call> call);
  void Metrics(std::shared_ptr<Call> call);
  void OpenApi(std::shared_ptr<Call> call);
  void Load(std::shared_ptr<Call> call);
  void Evict(std::shared_ptr<Call> call);
  void Sleep(std::shared_ptr<Call> call);
  void Wake(std::shared_ptr<Call> call);
  void SetAsleep(std::shared_ptr<Call> call, bool wake);
  void SaveSlot(std::shared_ptr<Call> call);
  void RestoreSlot(std::shared_ptr<Call> call);
  void EraseSlot(std::shared_ptr<Call> call);
  void Fleet(std::shared_ptr<Call> call);
  // Off the loop: drivers are made, and what shall last is written.
  void DrainReplica(std::shared_ptr<Call> call) { RunLater(call, &Gateway::DrainReplicaNow); }
  void DrainReplicaNow(std::shared_ptr<Call> call);
  void UndrainReplica(std::shared_ptr<Call> call) { RunLater(call, &Gateway::UndrainReplicaNow); }
  void UndrainReplicaNow(std::shared_ptr<Call> call);
  void SetDraining(Call& call, bool draining);
  void AddReplica(std::shared_ptr<Call> call) { RunLater(call, &Gateway::AddReplicaNow); }
  void ExplainRoute(std::shared_ptr<Call> call) { RunLater(call, &Gateway::ExplainRouteNow); }
  void ExplainRouteNow(std::shared_ptr<Call> call);
  void AddReplicaNow(std::shared_ptr<Call> call);
  void RemoveReplica(std::shared_ptr<Call> call) { RunLater(call, &Gateway::RemoveReplicaNow); }
  void RemoveReplicaNow(std::shared_ptr<Call> call);
  void ActOnSlot(std::shared_ptr<Call> call, driver::SlotRequest::Action action);
  // {"results": [a row of each]}, with the first error beside them and its status. `write` gives
  // the error of its row, or null.
  void AnswerRows(Call& call, size_t rows,
                  FunctionRef<const Error*(JsonWriter& json, size_t row)> write);
  // The same for a call that was made to each worker: `write` says what was done there. kNotFound
  // where nobody is called `worker`. In answer_outcomes.h.
  template <class Outcome, class Did>
  void AnswerOutcomes(Call& call, const std::string& worker, const std::vector<Outcome>& all,
                      Result<Did> Outcome::* did,
                      FunctionRef<void(JsonWriter& json, const Did& done)> write);
  void NativeGenerate(std::shared_ptr<Call> call);
  void ApplyTemplate(std::shared_ptr<Call> call);
  void Messages(std::shared_ptr<Call> call);
  void CountTokens(std::shared_ptr<Call> call);
  void Responses(std::shared_ptr<Call> call);
  void Embeddings(std::shared_ptr<Call> call);
  // A request whose engine speaks its wire.
  void Pass(std::shared_ptr<Call> call, wire::Surface surface);
  void TokenizeRemotely(std::shared_ptr<Call> call, const Json& document);
  void KvEventSources(std::shared_ptr<Call> call);
  // A turn that was decoded, made ready for the driver.
  Result<std::shared_ptr<const driver::Prepared>> MakeReady(Call& call,
                                                            std::shared_ptr<const wire::Turn> turn,
                                                            std::shared_ptr<const Json> document);
  // In limits.cc. It takes its share of what its tenant may use, and gives back what it didn't. The
  // errors are those of a request that is over a limit.
  std::optional<Error> BeginShare(Call& call, bool streams);
  std::optional<Error> ReserveTokens(Call& call, const driver::Prepared& prepared);
  static void EndShare(Call& call, const ExchangeEnd& end);
  void Generate(std::shared_ptr<Call> call, Result<wire::Turn> turn,
                std::shared_ptr<const Json> document);

  const GatewayOptions options_;
  driver::EngineDriver& driver_;
  metrics::Registry& metrics_;
  const std::shared_ptr<metrics::Emitter> emitter_;
  const Clock& clock_;
  RandomSource& random_;
  const int64_t started_s_;
  const std::string own_name_;  // in Via
  ByteBudget large_bodies_;
  RateLimits limits_;
  std::atomic<bool> draining_{false};
  // Last: their threads use the members above. Large bodies have their own, so that small ones wait
  // neither for them nor beside them.
  WorkQueue work_;
  WorkQueue large_work_;
};

}  // namespace fak::gateway
