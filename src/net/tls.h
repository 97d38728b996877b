#pragma once

#include <string>

namespace fak::net {

// TLS 1.2 and 1.3, OpenSSL's default ciphers. Files are PEM and read once, when the object that
// takes these options is made.
struct TlsServerOptions {
  std::string certificate_file;  // the chain, leaf first
  std::string key_file;          // of the leaf; not encrypted
};

struct TlsClientOptions {
  std::string ca_file = {};  // trusted instead of the system's store, when set
  bool verify = true;        // chain and host name. False only for what the operator has named so
};

}  // namespace fak::net
