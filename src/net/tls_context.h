#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/asio.h"
#include "net/tls.h"

namespace fak::net {

[[nodiscard]] Result<std::unique_ptr<asio::ssl::context>> MakeServerContext(
    const TlsServerOptions& options);
[[nodiscard]] Result<std::unique_ptr<asio::ssl::context>> MakeClientContext(
    const TlsClientOptions& options);

// Prepares a client's stream for the handshake with `host`: the name it asks for, and the name
// that the certificate must have.
[[nodiscard]] Status SetTlsPeer(asio::ssl::stream<Socket>& stream, const std::string& host,
                                const TlsClientOptions& options);

// What an Asio error says, with OpenSSL's own words where it is one of its.
std::string ErrorText(const error_code& error);
// Whether a handshake failed because the peer speaks plain HTTP.
bool IsPlainHttp(const error_code& error);

}  // namespace fak::net
