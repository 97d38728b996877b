#include "gateway/gateway.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/strings.h"
#include "gateway/chat_tools.h"
#include "gateway/http_status.h"
#include "gateway/tool_stage.h"
#include "net/url.h"
#include "text/chat_template.h"
#include "text/tool_call_parser.h"
#include "wire/openai_decode.h"
#include "wire/passed.h"

namespace fak::gateway {
namespace {

// "/v1/v1/models" is what mixing up two clients' base URLs gives; it means "/v1/models".
std::string_view Canonical(std::string_view path) {
  constexpr std::string_view kVersion = "/v1";
  while (path.starts_with("/v1/v1/")) {
    path.remove_prefix(kVersion.size());
  }
  if (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  return path;
}

// A body from this size takes longer to prepare than others should wait.
constexpr size_t kLargeBodyBytes = 256 * 1024;
// One up to this size, whose text nobody here renders or tokenises, is read on the loop in less
// time than it takes to wake another thread and to be woken by it.
constexpr size_t kSmallBodyBytes = 16 * 1024;

// The surface in whose words an error on that path is told.
wire::Surface DialectOf(std::string_view path) {
  return path.starts_with("/v1/messages") ? wire::Surface::kMessages : wire::Surface::kChat;
}

// What of a client's headers another server may be shown at all.
net::HttpHeaders WithoutCredentials(net::HttpHeaders headers) {
  headers.RemoveHopByHop();
  for (const char* name : {"authorization", "x-api-key", "api-key", "cookie", "host",
                           "content-length", "content-type", "accept-encoding"}) {
    headers.Remove(name);
  }
  return headers;
}

// A client's own id, if it is one that can stand in a header and a log.
std::string ShownIdOf(const net::HttpRequest& request, const std::string& own) {
  const std::string_view given = request.headers.Get("x-request-id").value_or("");
  const bool usable = !given.empty() && given.size() <= limits::kRequestIdBytesMax &&
                      std::all_of(given.begin(), given.end(), [](char c) {
                        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                               (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.' ||
                               c == ':';
                      });
  return usable ? std::string(given) : own;
}

// More of a body than a clumsy client sends with a GET: nobody reads it, and some routes ask for no
// key before it would be taken in.
bool AnnouncesMuch(const net::HttpRequest& head) {
  const uint64_t length =
      ParseUint(head.headers.Get("content-length").value_or("0")).value_or(UINT64_MAX);
  return head.headers.Has("transfer-encoding") || length > limits::kNeedlessBodyBytesMax;
}

bool HasNeedlessBody(const net::HttpRequest& head) {
  return head.method != "POST" && AnnouncesMuch(head);
}

// The client's trace, as W3C's Trace Context has it (version 00, or what a later one must begin
// with); empty for anything else, which the standard tells to ignore.
std::string TraceparentOf(const net::HttpRequest& request) {
  constexpr std::string_view kShape = "vv-tttttttttttttttttttttttttttttttt-pppppppppppppppp-ff";
  const std::string given(request.headers.Get("traceparent").value_or(""));
  const bool longer = given.size() > kShape.size();
  if (given.size() < kShape.size() || given.size() > limits::kRequestIdBytesMax ||
      given.starts_with("ff") ||
      (longer && (given.starts_with("00") || given[kShape.size()] != '-'))) {
    return "";
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const bool dash = i < kShape.size() ? kShape[i] == '-' : given[i] == '-';
    const bool hex = (given[i] >= '0' && given[i] <= '9') || (given[i] >= 'a' && given[i] <= 'f');
    if (dash ? given[i] != '-' : !hex) {
      return "";
    }
  }
  const bool no_trace = given.find_first_not_of('0', 3) == 35;
  const bool no_parent = given.find_first_not_of('0', 36) == 52;
  return no_trace || no_parent ? "" : given;
}

}  // namespace

Gateway::Gateway(GatewayOptions options, driver::EngineDriver& driver, metrics::Registry& metrics,
                 std::shared_ptr<metrics::Emitter> emitter, const Clock& clock,
                 RandomSource& random)
    : options_(std::move(options)),
      driver_(driver),
      metrics_(metrics),
      emitter_(std::move(emitter)),
      clock_(clock),
      random_(random),
      started_s_(clock.WallNs() / kNsPerSecond),
      own_name_(RandomId(random, "fak-")),
      large_bodies_(options_.large_bodies_bytes_max),
      limits_(options_.keys.Tenants(), clock),
      work_(options_.prepare_threads, limits::kPrepareQueueMax),
      large_work_(options_.prepare_threads, limits::kPrepareQueueMax,
                  WorkQueue::Priority::kBehind) {}

Gateway::~Gateway() {
  work_.Stop();
  large_work_.Stop();
}

std::span<const Gateway::Route> Gateway::Routes() {
  static constexpr std::array kRoutes = {
      Route{"POST", "/v1/chat/completions", &Gateway::Chat, false, true},
      Route{"POST", "/v1/completions", &Gateway::Completions, false, true},
      Route{"POST", "/v1/messages", &Gateway::Messages, false, true},
      Route{"POST", "/v1/messages/count_tokens", &Gateway::CountTokens, false, true},
      Route{"POST", "/v1/responses", &Gateway::Responses, false, true},
      Route{"POST", "/v1/embeddings", &Gateway::Embeddings, false, true},
      Route{"GET", "/v1/models", &Gateway::Models},
      Route{"POST", "/generate", &Gateway::NativeGenerate, false, true},
      Route{"POST", "/apply-template", &Gateway::ApplyTemplate, false, true},
      Route{"POST", "/tokenize", &Gateway::Tokenize, false, true},
      Route{"POST", "/detokenize", &Gateway::Detokenize, false, true},
      Route{"POST", "/v1/tokenize", &Gateway::Tokenize, false, true},
      Route{"POST", "/v1/detokenize", &Gateway::Detokenize, false, true},
      Route{"GET", "/health", &Gateway::Health, true},
      Route{"GET", "/ready", &Gateway::Ready, true},
      Route{"GET", "/version", &Gateway::Version, true},
      Route{"GET", "/metrics", &Gateway::Metrics},
      Route{"GET", "/openapi.json", &Gateway::OpenApi},
      Route{"GET", "/v1/fak/load", &Gateway::Load},
      Route{"POST", "/v1/fak/cache/evict", &Gateway::Evict, false, true},
      Route{"POST", "/v1/fak/upstream/sleep", &Gateway::Sleep},
      Route{"POST", "/v1/fak/upstream/wake", &Gateway::Wake},
      Route{"POST", "/v1/fak/upstream/slot/save", &Gateway::SaveSlot},
      Route{"POST", "/v1/fak/upstream/slot/restore", &Gateway::RestoreSlot},
      Route{"POST", "/v1/fak/upstream/slot/erase", &Gateway::EraseSlot},
      Route{"GET", "/v1/fak/fleet", &Gateway::Fleet},
      Route{"POST", "/v1/fak/fleet/add", &Gateway::AddReplica},
      Route{"POST", "/v1/fak/fleet/drain", &Gateway::DrainReplica},
      Route{"POST", "/v1/fak/fleet/explain", &Gateway::ExplainRoute},
      Route{"POST", "/v1/fak/fleet/remove", &Gateway::RemoveReplica},
      Route{"POST", "/v1/fak/fleet/undrain", &Gateway::UndrainReplica},
      Route{"GET", "/kv_event_sources", &Gateway::KvEventSources},
  };
  return kRoutes;
}

namespace {

// Whatever its method.
template <class Routes>
const auto* FindPath(const Routes& routes, std::string_view path) {
  const auto found = std::find_if(routes.begin(), routes.end(), [path](const auto& route) {
    return route.path == path || (route.path == "/v1/models" && path.starts_with("/v1/models/"));
  });
  return found == routes.end() ? nullptr : &*found;
}

template <class Route>
bool Takes(const Route& route, std::string_view method) {
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

Error NoRoute(std::string_view path) {
  const std::string under_v1 = "/v1" + std::string(path);
  if (path == "/v1") {
    return {Code::kNotFound,
            "nothing answers at /v1 itself: it begins the API's paths, as /v1/models; "
            "/openapi.json describes them"};
  }
  const std::string where = FindPath(Gateway::Routes(), under_v1) != nullptr
                                ? "it is at " + under_v1 + "; a client's base URL needs the /v1"
                                : "the API is under /v1, and /openapi.json describes it";
  return {Code::kNotFound, "there is no " + std::string(path) + " here: " + where};
}

// What a request is told that no route takes, and the status; null: no route has that path.
std::pair<Error, int> NotTaken(const Gateway::Route* maybe_route, std::string_view path,
                               const std::string& method) {
  if (maybe_route == nullptr) {
    Error error = NoRoute(path);
    const int status = HttpStatusOf(error);
    return {std::move(error), status};
  }
  constexpr int kMethodNotAllowed = 405;
  return {{Code::kInvalidArgument,
           std::string(path) + " takes " + std::string(maybe_route->method) + ", not " + method},
          kMethodNotAllowed};
}

}  // namespace

RequestContext Gateway::ContextOf(const net::HttpRequest& request) const {
  RequestContext context;
  context.request_id = RandomId(random_, "req-");
  context.shown_id = ShownIdOf(request, context.request_id);
  context.traceparent = TraceparentOf(request);
  context.arrival_ns = clock_.NowNs();
  context.wall_ns = clock_.WallNs();
  if (options_.request_timeout_ms > 0) {
    context.deadline_ns = context.arrival_ns + options_.request_timeout_ms * kNsPerMs;
  }
  if (const std::optional<Tenant> tenant = options_.keys.Find(request.headers)) {
    context.tenant = *tenant;
  }
  return context;
}

std::optional<net::HttpResponse> Gateway::OnHead(const net::HttpRequest& head) {
  if (head.method == "OPTIONS" && !options_.cors_origin.empty() && !HasNeedlessBody(head)) {
    return std::nullopt;
  }
  if (HasNeedlessBody(head)) {
    const Error error{Code::kPayloadTooLarge, head.method + " takes no body here"};
    return Refusal({head, nullptr, ContextOf(head), ""}, error, HttpStatusOf(error));
  }
  if (head.headers.Get("via").value_or("").find(own_name_) != std::string_view::npos) {
    const Error error{Code::kUpstreamError,
                      "this request has been here before: an upstream of this server leads back to "
                      "it"};
    constexpr int kLoopDetected = 508;
    return Refusal({head, nullptr, ContextOf(head), ""}, error, kLoopDetected);
  }
  const std::string_view path = Canonical(head.path());
  const Route* route = FindPath(Routes(), path);
  const bool taken = route != nullptr && Takes(*route, head.method);
  if (const std::optional<Error> error = Authorize(head, path, taken ? route : nullptr)) {
    return Refusal({head, nullptr, ContextOf(head), ""}, *error, HttpStatusOf(*error));
  }
  if (const std::string_view coding = head.headers.Get("content-encoding").value_or("");
      !coding.empty() && !EqualsIgnoringCase(coding, "identity")) {
    const Error error{Code::kUnsupported,
                      "Content-Encoding: bodies are taken as they are (identity), not coded"};
    constexpr int kUnsupportedMediaType = 415;
    return Refusal({head, nullptr, ContextOf(head), ""}, error, kUnsupportedMediaType);
  }
  // A small body costs less to take in than the connection that would have to go without it.
  if (!taken && (head.headers.Has("expect") || AnnouncesMuch(head))) {
    const auto [error, status] = NotTaken(route, path, head.method);
    return Refusal({head, nullptr, ContextOf(head), ""}, error, status);
  }
  return std::nullopt;
}

net::HttpHeaders Gateway::HeadersOf(const Call& call) const {
  net::HttpHeaders headers = {{"x-request-id", call.context.shown_id}};
  if (!call.context.traceparent.empty()) {
    headers.Add("traceparent", call.context.traceparent);
  }
  if (call.limited) {
    for (const auto& [name, value] : limits_.HeadersFor(call.context.tenant)) {
      headers.Add(name, value);
    }
  }
  if (!options_.cors_origin.empty() && options_.cors_origin != "*") {
    headers.Add("vary", "Origin");  // what a cache keeps of one site isn't another's answer
  }
  if (!options_.cors_origin.empty() && call.request.headers.Has("origin")) {
    headers.Add("access-control-allow-origin", options_.cors_origin);
    // "*" stands for every header but Authorization (Fetch standard), and not everybody knows it:
    // those that carry keys go by name.
    headers.Add("access-control-allow-headers", "*, Authorization, x-api-key");
    headers.Add("access-control-allow-methods", "GET, POST, OPTIONS");
  }
  return headers;
}

void Gateway::OnRequest(net::HttpRequest&& request, std::shared_ptr<net::ResponseWriter> response) {
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->response = std::move(response);
  call->context = ContextOf(call->request);
  if (call->request.method == "OPTIONS" && !options_.cors_origin.empty()) {
    Answer(*call, 204, "");
    return;
  }
  const std::string_view path = Canonical(call->request.path());
  const Route* route = FindPath(Routes(), path);
  if (route == nullptr || !Takes(*route, call->request.method)) {
    const auto [error, status] = NotTaken(route, path, call->request.method);
    Refuse(*call, error, status);
    return;
  }
  const bool quick = options_.maybe_card == nullptr && call->request.body.size() <= kSmallBodyBytes;
  if (!route->off_loop || quick) {
    (this->*route->handler)(call);
    return;
  }
  RunLater(call, route->handler);
}

void Gateway::RunLater(const std::shared_ptr<Call>& call, Handler handler) {
  const bool large = call->request.body.size() >= kLargeBodyBytes;
  if (large) {
    call->held = large_bodies_.Take(call->request.body.size());
  }
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  call->response->OnClientGone([gone](const Error&) { gone->store(true); });
  const bool pushed = (!large || call->held != nullptr) &&
                      (large ? large_work_ : work_).Push([this, call, gone, handler] {
                        if (gone->load()) {  // it waited too long
                          constexpr int kClientGone = 499;
                          ExchangeEnd end;
                          end.status = kClientGone;
                          LogAccess(*call, end);
                          return;
                        }
                        (this->*handler)(call);
                      });
  if (!pushed) {
    Refuse(*call, {Code::kUnavailable, "too many requests are being prepared", "", 0, 1});
  }
}

std::shared_ptr<const Json> Gateway::Keep(Call& call, Json document) {
  struct Kept {
    Json document;
    std::shared_ptr<const void> held;
  };
  const auto kept =
      std::make_shared<const Kept>(Kept{std::move(document), std::exchange(call.held, nullptr)});
  return {kept, &kept->document};
}

net::HttpResponse Gateway::OnFault(const net::HttpFault& fault) {
  return Refusal({fault.request, nullptr, ContextOf(fault.request), ""}, fault.error, fault.status);
}

void Gateway::Answer(Call& call, int status, std::string body, std::string_view content_type) {
  net::HttpHeaders headers = HeadersOf(call);
  if (!body.empty()) {
    headers.Add("content-type", std::string(content_type));
  }
  ExchangeEnd end;
  end.status = status;
  LogAccess(call, end);
  call.response->Send({status, std::move(headers), std::move(body)});
}

void Gateway::Refuse(Call& call, const Error& error) {
  Refuse(call, error, HttpStatusOf(error));
}

void Gateway::Refuse(Call& call, const Error& error, int status) {
  call.response->Send(Refusal(call, error, status));
}

net::HttpResponse Gateway::Refusal(const Call& call, const Error& error, int status) const {
  net::HttpHeaders headers = HeadersOf(call);
  headers.Add("content-type", "application/json");
  if (status == 401) {
    headers.Add("www-authenticate", "Bearer");
  }
  if (const Route* route = FindPath(Routes(), Canonical(call.request.path()));
      status == 405 && route != nullptr) {
    headers.Add("allow", std::string(route->method));
  }
  if (error.retry_after_s > 0) {
    headers.Add("retry-after", std::to_string(error.retry_after_s));
  }
  ExchangeEnd end;
  end.status = status;
  end.error = error;
  LogAccess(call, end);
  const wire::Surface surface = DialectOf(Canonical(call.request.path()));
  return {status, std::move(headers),
          wire::ErrorBody(surface, error, status, call.context.shown_id)};
}

void Gateway::LogAccess(const Call& call, const ExchangeEnd& end) const {
  if (!LogEnabled(LogLevel::kInfo)) {
    return;
  }
  const int64_t ns = clock_.NowNs() - call.context.arrival_ns + call.request.age_ns;
  const double ms = static_cast<double>(ns) / static_cast<double>(kNsPerMs);
  std::vector<LogField> fields = {
      {"method", std::string_view(call.request.method)},
      {"path", call.request.path()},
      {"status", int64_t{end.status}},
      {"ms", ms},
      {"peer", std::string_view(call.request.peer)},
      {"request_id", std::string_view(call.context.shown_id)},
  };
  if (!call.context.traceparent.empty()) {
    fields.push_back({"traceparent", std::string_view(call.context.traceparent)});
  }
  if (!call.context.tenant.name.empty()) {
    fields.push_back({"tenant", std::string_view(call.context.tenant.name)});
  }
  if (!call.model.empty()) {
    fields.push_back({"model", std::string_view(call.model)});
  }
  if (!end.model.empty() && end.model != call.model) {
    fields.push_back({"served_model", std::string_view(end.model)});
  }
  if (!end.worker.empty()) {
    fields.push_back({"upstream", std::string_view(end.worker)});
  }
  if (!end.route.empty()) {
    fields.push_back({"route", std::string_view(end.route)});
  }
  if (end.attempts > 1) {
    fields.push_back({"attempts", int64_t{end.attempts}});
  }
  if (end.resumed > 0) {
    fields.push_back({"resumed", int64_t{end.resumed}});
  }
  if (!end.served_by.empty()) {
    fields.push_back({"served_by", std::string_view(end.served_by)});
  }
  if (call.generates) {
    if (end.usage.prompt_tokens >= 0) {
      fields.push_back({"prompt_tokens", int64_t{end.usage.prompt_tokens}});
    }
    if (end.usage.completion_tokens >= 0) {
      fields.push_back({"completion_tokens", int64_t{end.usage.completion_tokens}});
    }
    if (end.first_byte_ns != 0) {
      fields.push_back(
          {"ttft_ms", static_cast<double>(end.first_byte_ns - call.context.arrival_ns) /
                          static_cast<double>(kNsPerMs)});
    }
  }
  if (end.error) {
    fields.push_back({"error", CodeName(end.error->code)});
  }
  // Where the client is at fault the words may quote it, and stay out.
  const bool clients_fault = end.status >= 400 && end.status < 500;
  const bool mixed_up_tls = end.error && end.error->field == "scheme";  // quotes nobody
  if (mixed_up_tls || (end.error && !end.worker.empty() && !clients_fault)) {
    fields.push_back({"reason", std::string_view(end.error->detail)});
  }
  LogRecord(LogLevel::kInfo, "request", fields);
}

std::vector<std::string> Gateway::ModelNames() const {
  std::vector<std::string> names =
      options_.served_names.empty() ? driver_.capabilities()->models : options_.served_names;
  if (options_.maybe_fleet != nullptr) {
    for (const fleet::ModelTable::Entry& entry : options_.maybe_fleet->model_table()->entries()) {
      if (std::find(names.begin(), names.end(), entry.name) == names.end()) {
        names.push_back(entry.name);
      }
    }
  }
  return names;
}

Status Gateway::CheckModel(const std::string& asked) const {
  if (asked.empty() || options_.served_names.empty()) {
    return {};
  }
  const std::vector<std::string> names = ModelNames();
  if (std::find(names.begin(), names.end(), asked) != names.end()) {
    return {};
  }
  return Fail(Code::kNotFound,
              "the model \"" + asked + "\" does not exist here; served: " + Join(names, ", "),
              "model");
}

std::string Gateway::ShownModel(const std::string& asked) const {
  return asked.empty() && !options_.served_names.empty() ? options_.served_names.front() : asked;
}

// The card, with the request's own template where that is allowed.
Result<std::shared_ptr<const text::ModelCard>> Gateway::CardFor(const wire::Turn& turn) const {
  if (!turn.chat_template || options_.maybe_card == nullptr) {
    return options_.maybe_card;
  }
  if (!options_.trust_request_chat_template) {
    return Fail(Code::kPermissionDenied,
                "chat_template: not taken from requests; start the server with "
                "--trust-request-chat-template",
                "chat_template");
  }
  Result<text::ChatTemplate> parsed = text::ChatTemplate::Parse(*turn.chat_template);
  if (!parsed) {
    Error error = std::move(parsed).error();
    error.field = "chat_template";
    return Fail(std::move(error));
  }
  auto card = std::make_shared<text::ModelCard>(*options_.maybe_card);
  card->maybe_chat_template = std::make_shared<const text::ChatTemplate>(*std::move(parsed));
  return card;
}

// Whether the calls are to be found in the text that the engine writes.
bool Gateway::FindsToolCalls(const wire::Turn& turn) const {
  return HasTools(turn) && ChoosesTools(turn) && options_.maybe_card != nullptr &&
         !driver_.capabilities()->tool_calls && options_.tool_dialect != text::ToolDialect::kNone;
}

Result<std::shared_ptr<driver::EventSink>> Gateway::SinkFor(
    const wire::Turn& turn, const std::string& request_id,
    std::shared_ptr<driver::EventSink> next) const {
  if (!FindsToolCalls(turn)) {
    return next;
  }
  TRY_ASSIGN(const auto card, CardFor(turn));
  const text::ChatTemplateTraits& traits = card->maybe_chat_template->traits();
  if (!traits.tools) {
    return next;  // the engine refuses the turn
  }
  if (!options_.tool_dialect && traits.tool_dialect == text::ToolDialect::kNone) {
    return Fail(Code::kUnsupported,
                "tools: how this model writes a tool call can't be told from its chat template; "
                "start the server with --tool-call-parser",
                turn.tools_field);
  }
  TRY_ASSIGN(std::vector<std::string> names, ToolNames(turn));
  return std::make_shared<ToolStage>(std::move(names), "call_" + request_id,
                                     turn.parallel_tool_calls, std::move(next));
}

void Gateway::Chat(std::shared_ptr<Call> call) {
  Result<Json> document = ParseJson(call->request.body);
  if (!document) {
    Refuse(*call, document.error());
    return;
  }
  const auto shared = Keep(*call, *std::move(document));
  Generate(std::move(call), wire::DecodeChatRequest(*shared), shared);
}

void Gateway::Completions(std::shared_ptr<Call> call) {
  Result<Json> document = ParseJson(call->request.body);
  if (!document) {
    Refuse(*call, document.error());
    return;
  }
  const auto shared = Keep(*call, *std::move(document));
  Generate(std::move(call), wire::DecodeCompletionRequest(*shared), shared);
}

void Gateway::Pass(std::shared_ptr<Call> call, wire::Surface surface) {
  const auto capabilities = driver_.capabilities();
  const bool served = surface == wire::Surface::kResponses   ? capabilities->responses_wire
                      : surface == wire::Surface::kEmbedding ? capabilities->embeddings
                      : surface == wire::Surface::kGenerate  ? capabilities->generate_wire
                      : surface == wire::Surface::kTemplate  ? capabilities->template_wire
                                                             : capabilities->anthropic_wire;
  if (!served) {
    const std::string path(Canonical(call->request.path()));
    Refuse(*call, {Code::kNotFound, capabilities->native
                                        ? path + " isn't offered for a model that is served here; "
                                                 "use /v1/chat/completions or /v1/completions"
                                        : path + " isn't served by the engine behind this server"});
    return;
  }
  Result<Json> document = ParseJson(call->request.body);
  if (!document) {
    Refuse(*call, document.error());
    return;
  }
  const auto shared = Keep(*call, *std::move(document));
  Generate(std::move(call), wire::DecodePassedRequest(*shared, surface), shared);
}

void Gateway::Messages(std::shared_ptr<Call> call) {
  Pass(std::move(call), wire::Surface::kMessages);
}

void Gateway::CountTokens(std::shared_ptr<Call> call) {
  Pass(std::move(call), wire::Surface::kCountTokens);
}

void Gateway::Responses(std::shared_ptr<Call> call) {
  Pass(std::move(call), wire::Surface::kResponses);
}

void Gateway::Embeddings(std::shared_ptr<Call> call) {
  Pass(std::move(call), wire::Surface::kEmbedding);
}

void Gateway::NativeGenerate(std::shared_ptr<Call> call) {
  Pass(std::move(call), wire::Surface::kGenerate);
}

void Gateway::ApplyTemplate(std::shared_ptr<Call> call) {
  Pass(std::move(call), wire::Surface::kTemplate);
}

Result<std::shared_ptr<const driver::Prepared>> Gateway::MakeReady(
    Call& call, std::shared_ptr<const wire::Turn> turn, std::shared_ptr<const Json> document) {
  TRY(CheckModel(turn->model));
  TRY_ASSIGN(const auto card, CardFor(*turn));
  if (turn->answer_so_far && turn->answer_so_far->created_s > 0) {
    call.context.wall_ns = turn->answer_so_far->created_s * kNsPerSecond;  // its prompt's date
  }
  if (!driver_.capabilities()->native) {
    call.context.maybe_body =
        std::make_shared<const std::string>(std::exchange(call.request.body, {}));
    call.context.client_headers = WithoutCredentials(call.request.headers);
    const std::string_view via = call.request.headers.Get("via").value_or("");
    call.context.client_headers.Set(
        "via", (via.empty() ? "" : std::string(via) + ", ") + "1.1 " + own_name_);
  }
  return Prepare(std::move(turn), std::move(document), card.get(),
                 driver_.capabilities()->context_length, call.context);
}

void Gateway::Generate(std::shared_ptr<Call> call, Result<wire::Turn> decoded,
                       std::shared_ptr<const Json> document) {
  if (!decoded) {
    Refuse(*call, decoded.error());
    return;
  }
  if (const std::optional<Error> over = BeginShare(*call, decoded->stream)) {
    Refuse(*call, *over);
    return;
  }
  decoded->model = ShownModel(decoded->model);
  if (FindsToolCalls(*decoded) &&
      text::ToolCallParser::NeedsSpecialTokens(*options_.maybe_card->tokenizer)) {
    decoded->sampling.skip_special_tokens = false;
  }
  auto turn = std::make_shared<const wire::Turn>(*std::move(decoded));
  if (!turn->unknown_fields.empty()) {
    emitter_->Add(metrics::Counter::kUnknownFields,
                  static_cast<double>(turn->unknown_fields.size()));
  }
  call->model = turn->model;
  const auto prepared = MakeReady(*call, turn, std::move(document));
  if (!prepared) {
    Refuse(*call, prepared.error());
    return;
  }
  if (const std::optional<Error> over = ReserveTokens(*call, **prepared)) {
    Refuse(*call, *over);
    return;
  }
  call->generates = true;
  const bool chat = turn->surface == wire::Surface::kChat;
  wire::AnswerHead head{(chat ? "chatcmpl-" : "cmpl-") + call->context.shown_id, call->model,
                        call->context.wall_ns / kNsPerSecond};
  auto exchange =
      std::make_shared<Exchange>(turn, std::move(head), HeadersOf(*call), call->context.shown_id,
                                 call->response, clock_, [this, call](const ExchangeEnd& end) {
                                   EndShare(*call, end);
                                   if (end.resumed > 0) {
                                     emitter_->CountMigration(end.error ? "error" : "ok");
                                   }
                                   LogAccess(*call, end);
                                 });
  if (MaySeeRoutes(*call)) {
    exchange->ShowRoute();
  }
  call->request.body = {};  // the document has it
  call->context.maybe_body = nullptr;
  auto sink = SinkFor(*turn, call->context.request_id, exchange);
  const Status admitted = sink ? driver_.Admit(*prepared, *std::move(sink)) : Fail(sink.error());
  if (!admitted) {
    exchange->Refuse(admitted.error());
    return;
  }
  // After Admit: a cancel that came before it would name nobody and be lost. A client that has gone
  // already is reported at once.
  call->response->OnClientGone(
      [this, id = call->context.request_id](const Error&) { driver_.Cancel(id); });
}

}  // namespace fak::gateway
