#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "net/http_server.h"

// For tests only: blocking sockets that say exactly what a test wants to be said, a server's
// handler that does what a test gives it, and certificates. Whatever waits gives up after
// kPatienceS.
namespace fak::net::test {

inline constexpr int kPatienceS = 20;

// Whether clang's address sanitizer is in.
#ifdef __has_feature
inline constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

class RawSocket {
 public:
  RawSocket() = default;
  explicit RawSocket(int fd) : handle_(fd) {
    const timeval patience = {kPatienceS, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  static RawSocket Connect(uint16_t port, int receive_buffer = 0) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0) {
      setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      ::close(fd);
      return RawSocket();
    }
    return RawSocket(fd);
  }

  bool is_open() const { return handle_.is_open(); }
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(handle_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // What came up to the first `end`, that included; what came before the connection's end when
  // there is none.
  std::string ReadThrough(std::string_view end) {
    size_t at = 0;
    while ((at = held_.find(end)) == std::string::npos) {
      if (!ReadMore()) {
        return std::exchange(held_, {});
      }
    }
    std::string out = held_.substr(0, at + end.size());
    held_.erase(0, out.size());
    return out;
  }
  std::string ReadBytes(size_t bytes) {
    while (held_.size() < bytes && ReadMore()) {
    }
    std::string out = held_.substr(0, bytes);
    held_.erase(0, out.size());
    return out;
  }
  std::string ReadAll() {
    while (ReadMore()) {
    }
    return std::exchange(held_, {});
  }
  // What has come, at least a byte; nothing at the connection's end.
  std::string ReadSome() {
    if (held_.empty()) {
      ReadMore();
    }
    return std::exchange(held_, {});
  }
  // One response with a Content-Length: head and body.
  std::string ReadResponse() {
    std::string response = ReadThrough("\r\n\r\n");
    const size_t at = response.find("Content-Length: ");
    if (at != std::string::npos) {
      response += ReadBytes(std::stoul(response.substr(at + 16)));
    }
    return response;
  }
  // Whether the peer has closed; waits for that.
  bool AtEnd() { return held_.empty() && !ReadMore() && !timed_out_; }
  void Close() { handle_.Reset(); }
  void Reset() {
    const linger hard = {1, 0};
    setsockopt(handle_.fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    handle_.Reset();
  }
  void ShutdownSend() { shutdown(handle_.fd(), SHUT_WR); }

 private:
  bool ReadMore() {
    std::array<char, 64 * 1024> buffer;
    const ssize_t got = recv(handle_.fd(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      held_.append(buffer.data(), static_cast<size_t>(got));
    }
    timed_out_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    return got > 0;
  }

  FileHandle handle_;
  std::string held_;
  bool timed_out_ = false;
};

// Listens on a free port of 127.0.0.1.
class RawListener {
 public:
  RawListener() : handle_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(handle_.fd(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(handle_.fd(), 64), 0);
    EXPECT_EQ(getsockname(handle_.fd(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    const timeval patience = {kPatienceS, 0};
    setsockopt(handle_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  uint16_t port() const { return port_; }
  RawSocket Accept() { return RawSocket(accept(handle_.fd(), nullptr, nullptr)); }
  void Close() { handle_.Reset(); }

 private:
  FileHandle handle_;
  uint16_t port_ = 0;
};

using Writer = std::shared_ptr<ResponseWriter>;

// Echoes requests, or does what a test gives it. On the server's loop.
class TestHandler : public HttpHandler {
 public:
  std::optional<HttpResponse> OnHead(const HttpRequest& head) override {
    return on_head ? on_head(head) : std::nullopt;
  }
  void OnRequest(HttpRequest&& request, Writer response) override {
    ++requests;
    on_request(std::move(request), std::move(response));
  }
  HttpResponse OnFault(const HttpFault& fault) override {
    return {fault.status,
            {{"Content-Type", "application/json"}},
            "fault:" + fault.request.method + fault.request.target + ":" + fault.error.detail};
  }

  std::function<std::optional<HttpResponse>(const HttpRequest&)> on_head;
  std::function<void(HttpRequest&&, Writer)> on_request = [](HttpRequest&& request,
                                                             Writer response) {
    response->Send({200, {}, request.method + " " + request.target + " " + request.body});
  };
  std::atomic<int> requests{0};
};

// Asks on the loop until the condition holds.
template <class Condition>
bool Eventually(EventLoop& loop, Condition condition) {
  const int64_t end = loop.NowNs() + kPatienceS * kNsPerSecond;
  while (loop.NowNs() < end) {
    bool holds = false;
    loop.Invoke([&] { holds = condition(); });
    if (holds) {
      return true;
    }
    std::this_thread::yield();
  }
  return false;
}

// A self-signed certificate for "localhost", "engine.test" and 127.0.0.1, with its key, in files.
struct TestCertificate {
  TestCertificate() {
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    X509* const certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* const name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION* const names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name,
                                                      "DNS:localhost,DNS:engine.test,IP:127.0.0.1");
    X509_add_ext(certificate, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(certificate, key, EVP_sha256());
    WritePem(certificate_file, [certificate](BIO* out) { PEM_write_bio_X509(out, certificate); });
    WritePem(key_file, [key](BIO* out) {
      PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
    });
    X509_free(certificate);
    EVP_PKEY_free(key);
  }

  const TestFolder folder;
  const std::string certificate_file = folder.Path("certificate.pem");
  const std::string key_file = folder.Path("key.pem");

 private:
  template <class Write>
  static void WritePem(const std::string& path, Write write) {
    BIO* const out = BIO_new_file(path.c_str(), "w");
    ASSERT_NE(out, nullptr);
    write(out);
    BIO_free(out);
  }
};

}  // namespace fak::net::test
