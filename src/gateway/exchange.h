#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "driver/engine_driver.h"
#include "net/http_server.h"
#include "wire/openai_encode.h"
#include "wire/passed.h"

namespace fak::gateway {

// How an exchange ended, for the access log.
struct ExchangeEnd {
  int status = 200;
  std::optional<Error> error;
  wire::Usage usage{-1, -1};  // what was told until then, where none was reported; -1: nothing
  int64_t text_bytes = 0;     // of the answer, until then
  int64_t first_byte_ns = 0;  // of a stream; 0: none was sent
  std::string model;          // that it was for there, where the name meant another one
  std::string worker;         // that took it, where there could be several
  std::string route;          // why that one, where there was a choice
  int attempts = 1;           // at how many it was tried
  int resumed = 0;            // of these: went on with the stream of one that broke off
  std::string served_by;      // an endpoint behind that, where it says so
};

// One request between driver and client: events in, HTTP out, in the dialect of its surface.
// Streams hold their headers back until the first bytes, so that an early failure still has its own
// status. The sink side is called by the driver's thread, one event at a time.
class Exchange final : public driver::EventSink {
 public:
  // Called before the last bytes leave, so that a client that has its answer finds it in the log.
  using OnEnd = std::function<void(const ExchangeEnd&)>;

  // headers: of every answer, whatever it is. request_id: as the client knows it.
  Exchange(std::shared_ptr<const wire::Turn> turn, wire::AnswerHead head, net::HttpHeaders headers,
           std::string request_id, std::shared_ptr<net::ResponseWriter> response,
           const Clock& clock, OnEnd on_end);

  void OnEvent(wire::Event&& event) noexcept override;
  void BeginBatch() noexcept override { in_batch_ = true; }
  void EndBatch() noexcept override;
  void ListHot(HotLines& lines) const noexcept override;
  void OnPlaced(const driver::Placement& placement) override;
  void AwaitRoom(std::function<void()> on_room) override;
  // Before it is admitted: the answer says in x-fak-route where it went and why.
  void ShowRoute() { shows_route_ = true; }
  // The request never reached the driver, or was refused by it.
  void Refuse(const Error& error);

 private:
  void OnStreamEvent(const wire::Event& event);
  bool Encode(const wire::Event& event);
  void WriteBytes();
  void OnWholeEvent(const wire::Event& event);
  void End(int status, std::optional<Error> error);
  net::HttpHeaders Headers(std::string_view content_type) const;

  const std::shared_ptr<const wire::Turn> turn_;
  const net::HttpHeaders headers_;
  const std::string request_id_;
  const std::shared_ptr<net::ResponseWriter> response_;
  const Clock& clock_;
  OnEnd on_end_;
  std::optional<wire::OpenAiStream> stream_;
  std::optional<wire::PassedStream> passed_;  // instead, on the other surfaces
  std::optional<wire::OpenAiWhole> whole_;
  std::string bytes_;  // of one event, or of a batch so far
  bool in_batch_ = false;
  bool started_ = false;
  bool shows_route_ = false;
  net::HttpHeaders upstream_headers_;
  ExchangeEnd end_;
  bool broken_off_ = false;  // by the engine, under a finish reason
};

}  // namespace fak::gateway
