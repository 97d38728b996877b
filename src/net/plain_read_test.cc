// stream.h and plain_read.h: what comes with, before and behind a read that emptied the socket.
// Each of these would wait for ever if a read that must be tried weren't.
#include "net/plain_read.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "net/event_loop_impl.h"
#include "net/stream.h"
#include "net/test_support.h"

namespace fak::net {
namespace {

// A connection with a stream at one end, read as long as it gives anything.
class PlainReadTest : public testing::Test {
 protected:
  PlainReadTest() {
    loop_.Start("test");
    loop_.Invoke([this] {
      Socket socket(loop_.impl().context);
      socket.connect(tcp::endpoint(asio::ip::address_v4::loopback(), listener_.port()));
      peer_ = listener_.Accept();
      stream_.emplace(std::move(socket));
      stream_->OnConnected();
    });
  }
  ~PlainReadTest() override {
    loop_.Invoke([this] { stream_->Close(); });
    loop_.Stop();
  }

  // On the loop. `then` is called after each read that gave something, before the next.
  void Read() {
    stream_->AsyncRead(asio::buffer(buffer_.data(), read_bytes_),
                       [this](const error_code& error, size_t bytes) {
                         if (error) {
                           end_.set_value(error);
                           return;
                         }
                         reads_.emplace_back(buffer_.data(), bytes);
                         if (then_) {
                           then_();
                         }
                         Read();
                       });
  }
  // A read waits already, and what `act` does to the peer is told by one event.
  error_code ReadWhile(const std::function<void()>& act) {
    loop_.Invoke([&] {
      Read();
      act();
    });
    return WaitForEnd();
  }
  error_code WaitForEnd() {
    std::future<error_code> end = end_.get_future();
    const bool came =
        end.wait_for(std::chrono::seconds(test::kPatienceS)) == std::future_status::ready;
    EXPECT_TRUE(came) << "the end was never told";
    return came ? end.get() : error_code();
  }
  std::string all() const {
    std::string all;
    for (const std::string& read : reads_) {
      all += read;
    }
    return all;
  }

  EventLoop loop_;
  test::RawListener listener_;
  test::RawSocket peer_;
  std::optional<Stream> stream_;
  std::array<char, 64> buffer_{};
  size_t read_bytes_ = 64;
  std::vector<std::string> reads_;
  std::function<void()> then_;
  std::promise<error_code> end_;
};

TEST_F(PlainReadTest, SeesAnEndThatComesWithData) {
  const error_code end = ReadWhile([this] {
    peer_.Send("data");
    peer_.ShutdownSend();
  });
  EXPECT_EQ(end, asio::error::eof);
  EXPECT_EQ(all(), "data");
}

TEST_F(PlainReadTest, SeesAnEndThatFollows) {
  then_ = [this] { peer_.ShutdownSend(); };
  EXPECT_EQ(ReadWhile([this] { peer_.Send("data"); }), asio::error::eof);
  EXPECT_EQ(all(), "data");
}

TEST_F(PlainReadTest, SeesAnEndThatWasThereBeforeTheFirstRead) {
  peer_.Send("data");
  peer_.Close();
  EXPECT_EQ(ReadWhile([] {}), asio::error::eof);
  EXPECT_EQ(all(), "data");
}

TEST_F(PlainReadTest, SeesAResetThatComesWithData) {
  const error_code end = ReadWhile([this] {
    peer_.Send("data");
    peer_.Reset();
  });
  EXPECT_EQ(end, asio::error::connection_reset);
  EXPECT_EQ(all(), "data");
}

TEST_F(PlainReadTest, SeesAResetThatWasThereBeforeTheFirstRead) {
  peer_.Send("data");
  peer_.Reset();
  EXPECT_EQ(ReadWhile([] {}), asio::error::connection_reset);
}

TEST_F(PlainReadTest, SeesAResetThatFollows) {
  then_ = [this] { peer_.Reset(); };
  EXPECT_EQ(ReadWhile([this] { peer_.Send("data"); }), asio::error::connection_reset);
  EXPECT_EQ(all(), "data");
}

// What is left behind a full buffer, with an end or a reset behind that.
TEST_F(PlainReadTest, TakesMoreThanFitsInOneRead) {
  read_bytes_ = 4;
  const error_code end = ReadWhile([this] {
    peer_.Send("0123456789");
    peer_.ShutdownSend();
  });
  EXPECT_EQ(end, asio::error::eof);
  EXPECT_EQ(reads_, (std::vector<std::string>{"0123", "4567", "89"}));
}

TEST_F(PlainReadTest, TakesMoreThanFitsBeforeAReset) {
  read_bytes_ = 5;
  const error_code end = ReadWhile([this] {
    peer_.Send("0123456789");
    peer_.Reset();
  });
  EXPECT_EQ(end, asio::error::connection_reset);
  EXPECT_EQ(reads_, (std::vector<std::string>{"01234", "56789"}));
}

TEST_F(PlainReadTest, TakesWhatComesBetweenAReadAndTheNext) {
  int left = 5;
  then_ = [this, &left] {
    if (left-- > 0) {
      peer_.Send("more");
    } else {
      peer_.ShutdownSend();
    }
  };
  EXPECT_EQ(ReadWhile([this] { peer_.Send("data"); }), asio::error::eof);
  EXPECT_EQ(all(), "datamoremoremoremoremore");
}

// Each waits for the one before, so that every read empties the socket.
TEST_F(PlainReadTest, WakesUpForEachOfMany) {
  loop_.Invoke([this] { Read(); });
  std::string sent;
  for (int i = 0; i < 200; ++i) {
    const std::string each = std::to_string(i) + ",";
    sent += each;
    peer_.Send(each);
    ASSERT_TRUE(test::Eventually(loop_, [&] { return all() == sent; }));
  }
  peer_.ShutdownSend();
  EXPECT_EQ(WaitForEnd(), asio::error::eof);
}

TEST_F(PlainReadTest, GoesOnSendingToAPeerThatHasSaidAll) {
  EXPECT_EQ(ReadWhile([this] {
              peer_.Send("data");
              peer_.ShutdownSend();
            }),
            asio::error::eof);
  loop_.Invoke([this] { EXPECT_EQ(stream_->TryWrite("answer\n"), 7u); });
  EXPECT_EQ(peer_.ReadThrough("\n"), "answer\n");
}

TEST_F(PlainReadTest, ClosingEndsARead) {
  loop_.Invoke([this] { Read(); });
  loop_.Invoke([this] { stream_->Close(); });
  EXPECT_EQ(WaitForEnd(), asio::error::operation_aborted);
}

#ifdef FAK_NET_READS_KNOW_REST
TEST(PlainReadLinuxTest, ThisKernelCountsAnEnd) {
  EventLoop loop;
  const test::RawListener listener;
  Socket socket(loop.impl().context);
  socket.connect(tcp::endpoint(asio::ip::address_v4::loopback(), listener.port()));
  EXPECT_TRUE(AskForRest(socket));
}
#endif

}  // namespace
}  // namespace fak::net
