#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fak::net {

// Where a ZeroMQ socket binds or connects: "tcp://127.0.0.1:5557", "tcp://*:5557", "inproc://name",
// "ipc:///path". Plain value.
struct ZmqEndpoint {
  std::string transport;
  std::string host;  // of tcp: lower case, IPv6 without brackets, "*": every address
  std::string port;  // of tcp: a number, or "*" for any free one
  std::string name;  // of inproc and ipc

  std::string ToString() const;
  // Nobody beyond this machine can reach it.
  bool local() const;
  // An address that can only be bound: every address of the machine.
  bool wildcard() const {
    return transport == "tcp" && (host == "*" || host == "::" || host == "0.0.0.0");
  }
  // As vLLM and SGLang number their data-parallel ranks: the port and the rank, or the name and
  // "_dp" and the rank. kInvalidArgument: no such port.
  [[nodiscard]] Result<ZmqEndpoint> ForRank(int32_t rank) const;
};

// kInvalidArgument says what is wrong.
[[nodiscard]] Result<ZmqEndpoint> ParseZmqEndpoint(std::string_view text);

}  // namespace fak::net
