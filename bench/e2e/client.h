#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sockets.h"

namespace fak::e2e {

// What is asked of clients, in words:
//
//   port=N path=/v1/chat/completions key=TEXT    whom to ask
//   streams=N rounds=N events=N gap_us=N         the load: each stream has `rounds` answers
//   spread_us=N                                  over which the streams' beginnings are spread
//   big_every_ms=N big_bytes=N                   beside it, one prompt of that size after the
//   other,
//                                                each sent at a gigabit a second
//   hold=1                                       open all streams, and keep them until told
struct Load {
  explicit Load(const Arguments& arguments);

  uint16_t port;
  std::string path;
  std::string key;
  int64_t streams;
  int64_t rounds;
  int64_t events;
  int64_t gap_us;
  int64_t spread_us;
  int64_t big_every_ms;
  int64_t big_bytes;
  bool hold;
};

// Many clients of an OpenAI chat server: each has a connection, asks for a stream, reads it, asks
// again. Checks that every answer is whole, and measures how old each chunk is when it arrives,
// while all streams are open.
class Client {
 public:
  Client(Epoll& epoll, Load load);
  ~Client();

  // Starts what is due; call it between two waits.
  void Start();
  // When it has something to start next, or gives up.
  int64_t NextNs() const;
  // Whether all streams have ended; with hold, whether all are open and silent.
  bool done() const;
  // One line of JSON.
  std::string Report();

 private:
  struct Stream;

  std::string Script(int64_t events) const;
  void Connect(Stream& stream);
  void Ask(Stream& stream);
  void SendMore(Stream& stream);
  bool all_open() const;
  void Happened(Stream& stream, uint32_t events);
  void Read(Stream& stream);
  void TakeHead(Stream& stream);
  void TakeBody(Stream& stream, std::string_view bytes);
  void TakeEvent(Stream& stream, std::string_view data);
  void EndAnswer(Stream& stream);
  // Counts it, and ends the stream.
  void GiveUp(Stream& stream, const std::string& why);
  void Wrong(const std::string& what);

  Epoll& epoll_;
  const Load load_;
  const std::string small_;
  const std::string large_;
  std::vector<std::unique_ptr<Stream>> streams_;
  size_t next_ = 0;  // to be started
  int64_t open_ = 0;
  int64_t held_ = 0;
  int64_t big_due_ns_ =
      0;  // its next piece, or the next one's first; 0: waits for an answer or room
  int64_t bigs_ = 0;
  int64_t heard_ns_ = 0;
  int64_t now_ns_ = 0;
  int64_t errors_ = 0;
  size_t chunks_ = 0;
  std::vector<int64_t> ages_ns_;
  std::vector<int64_t> first_ns_;  // from the request to the first chunk
  int64_t begun_ns_ = 0;
  int64_t ended_ns_ = 0;
  std::string buffer_;
};

}  // namespace fak::e2e
