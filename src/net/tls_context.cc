#include "net/tls_context.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace fak::net {
namespace {

tl::unexpected<Error> BadFile(const std::string& what, const std::string& path,
                              const error_code& error) {
  return Fail(Code::kInvalidArgument, what + " " + path + ": " + ErrorText(error));
}

Status SetVersions(asio::ssl::context& context) {
  if (SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION) != 1) {
    return Fail(Code::kInternal, "OpenSSL has no TLS 1.2");
  }
  return {};
}

}  // namespace

std::string ErrorText(const error_code& error) {
  // OpenSSL's messages carry no more than the reason; the place in its sources helps nobody.
  return error.message();
}

bool IsPlainHttp(const error_code& error) {
  if (error.category() != asio::error::get_ssl_category()) {
    return false;
  }
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  // Of a request, and of an answer, whose letters no record of TLS begins with.
  return reason == SSL_R_HTTP_REQUEST || reason == SSL_R_WRONG_VERSION_NUMBER;
}

Result<std::unique_ptr<asio::ssl::context>> MakeServerContext(const TlsServerOptions& options) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  TRY(SetVersions(*context));
  error_code error;
  context->use_certificate_chain_file(options.certificate_file, error);
  if (error) {
    return BadFile("TLS certificate", options.certificate_file, error);
  }
  // A key with a passphrase would make OpenSSL ask for it on the terminal.
  context->set_password_callback(
      [](size_t, asio::ssl::context::password_purpose) { return std::string(); }, error);
  context->use_private_key_file(options.key_file, asio::ssl::context::pem, error);
  if (error) {
    return BadFile("TLS key", options.key_file, error);
  }
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return Fail(Code::kInvalidArgument,
                "TLS key " + options.key_file + ": does not belong to " + options.certificate_file);
  }
  return context;
}

Result<std::unique_ptr<asio::ssl::context>> MakeClientContext(const TlsClientOptions& options) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  TRY(SetVersions(*context));
  error_code error;
  if (options.ca_file.empty()) {
    context->set_default_verify_paths(error);
  } else {
    context->load_verify_file(options.ca_file, error);
  }
  if (error) {
    return BadFile("CA file", options.ca_file.empty() ? "of the system" : options.ca_file, error);
  }
  context->set_verify_mode(options.verify ? asio::ssl::verify_peer : asio::ssl::verify_none, error);
  if (error) {
    return Fail(Code::kInternal, "TLS: " + ErrorText(error));
  }
  return context;
}

Status SetTlsPeer(asio::ssl::stream<Socket>& stream, const std::string& host,
                  const TlsClientOptions& options) {
  SSL* const ssl = stream.native_handle();
  error_code not_numeric;
  asio::ip::make_address(host, not_numeric);
  const bool numeric = !not_numeric;
  // Names only: SNI has no addresses (RFC 6066).
  // What SSL_set_tlsext_host_name() is, without its C cast.
  bool ok = numeric || SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                                const_cast<char*>(host.c_str())) == 1;
  if (options.verify) {
    X509_VERIFY_PARAM* const parameters = SSL_get0_param(ssl);
    ok = ok && (numeric ? X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str()) == 1
                        : SSL_set1_host(ssl, host.c_str()) == 1);
  }
  if (!ok) {
    return Fail(Code::kInvalidArgument, "TLS: \"" + host + "\" is no host name");
  }
  return {};
}

}  // namespace fak::net
