#include "net/tls_context.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/printable.h"
#include "base/strings.h"

namespace fak::net {
namespace {

tl::unexpected<Error> BadFile(const std::string& what, const std::string& path,
                              const error_code& error) {
  return Fail(Code::kInvalidArgument, what + " " + path + ": " + ErrorText(error));
}

// What a file has, by the first lines of its PEM blocks. OpenSSL says "no start line" of most.
struct PemFile {
  bool certificate = false;
  bool key = false;
  bool locked = false;  // a key with a passphrase
  std::string words;    // "a private key and no certificate"; empty: it can't be read
};

PemFile LookInto(const std::string& path) {
  constexpr size_t kBytesMax = 1024 * 1024;
  constexpr std::string_view kBegin = "-----BEGIN ";
  constexpr size_t kLabelShown = 40;
  PemFile file;
  const Result<std::string> text = ReadFile(path, kBytesMax);
  if (!text) {
    return file;
  }
  std::string other;
  for (size_t at = text->find(kBegin); at != std::string::npos; at = text->find(kBegin, at)) {
    at += kBegin.size();
    const std::string_view label = std::string_view(*text).substr(at, text->find("-----", at) - at);
    file.locked = file.locked || label == "ENCRYPTED PRIVATE KEY";
    if (label == "CERTIFICATE" || label == "TRUSTED CERTIFICATE" || label == "X509 CERTIFICATE") {
      file.certificate = true;
    } else if (label.ends_with("PRIVATE KEY")) {
      file.key = true;
    } else if (other.empty()) {
      other = Printable(label.substr(0, kLabelShown));
    }
  }
  file.locked = file.locked || text->find("Proc-Type: 4,ENCRYPTED") != std::string::npos;
  file.words = file.certificate && file.key ? "a certificate and a private key"
               : file.certificate           ? "a certificate and no private key"
               : file.key                   ? "a private key and no certificate"
               : !other.empty()             ? "\"" + other + "\" and neither certificate nor key"
                                            : "nothing in PEM";
  return file;
}

// Of the file for the certificate, or for the key, that OpenSSL couldn't use.
tl::unexpected<Error> BadPair(const TlsServerOptions& options, bool key, const error_code& error) {
  const std::string& path = key ? options.key_file : options.certificate_file;
  const std::string& other_path = key ? options.certificate_file : options.key_file;
  const std::string what = key ? "TLS key" : "TLS certificate";
  const PemFile file = LookInto(path);
  if (file.words.empty()) {
    return BadFile(what, path, error);
  }
  if (key && file.locked) {
    return Fail(Code::kInvalidArgument,
                what + " " + path + ": it has a passphrase, and nobody is there to ask for it");
  }
  if (key ? file.key : file.certificate) {
    return BadFile(what, path, error);  // the right thing, and broken
  }
  const PemFile other = LookInto(other_path);
  const bool swapped = key ? file.certificate && other.key : file.key && other.certificate;
  return Fail(Code::kInvalidArgument, what + " " + path + ": it holds " + file.words +
                                          (swapped ? ", and " + other_path + ", given for the " +
                                                         (key ? "certificate, holds a private key"
                                                              : "key, holds a certificate") +
                                                         ": the two are swapped"
                                                   : ""));
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
    return BadPair(options, /*key=*/false, error);
  }
  // A key with a passphrase would make OpenSSL ask for it on the terminal.
  context->set_password_callback(
      [](size_t, asio::ssl::context::password_purpose) { return std::string(); }, error);
  context->use_private_key_file(options.key_file, asio::ssl::context::pem, error);
  if (error) {
    return BadPair(options, /*key=*/true, error);
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
