#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/limits.h"
#include "net/zmq_loop.h"
#include "net/zmq_publisher.h"
#include "net/zmq_socket.h"

namespace fak::net {
namespace {

using Frames = std::vector<std::string>;

TEST(ZmqEndpoint, ReadsWhatItWrites) {
  for (const char* text : {"tcp://127.0.0.1:5557", "tcp://*:5557", "tcp://[::1]:80", "tcp://host:*",
                           "inproc://a/b", "ipc:///run/x.sock"}) {
    const auto endpoint = ParseZmqEndpoint(text);
    ASSERT_TRUE(endpoint.has_value()) << text;
    EXPECT_EQ(endpoint->ToString(), text);
  }
  for (const char* text :
       {"", "5557", "tcp://", "tcp://host", "tcp://:5557", "tcp://host:", "tcp://host:0",
        "tcp://host:65536", "tcp://host:55x", "tcp://::1:5557", "tcp://[]:5557", "udp://host:1",
        "inproc://", "tcp://a;b:1", "tcp://a@b:1"}) {
    const auto endpoint = ParseZmqEndpoint(text);
    ASSERT_FALSE(endpoint.has_value()) << text;
    EXPECT_EQ(endpoint.error().code, Code::kInvalidArgument);
  }
}

TEST(ZmqEndpoint, KnowsWhatOthersCanReach) {
  for (const char* text : {"tcp://127.0.0.1:1", "tcp://LOCALHOST:1", "tcp://[::1]:1", "inproc://a",
                           "tcp://[::ffff:127.0.0.1]:1", "ipc:///a"}) {
    EXPECT_TRUE(ParseZmqEndpoint(text)->local()) << text;
  }
  for (const char* text : {"tcp://*:1", "tcp://0.0.0.0:1", "tcp://[::]:1", "tcp://10.0.0.1:1",
                           "tcp://[::ffff:10.0.0.1]:1", "tcp://127.evil.com:1", "tcp://eth0:1"}) {
    EXPECT_FALSE(ParseZmqEndpoint(text)->local()) << text;
  }
  EXPECT_TRUE(ParseZmqEndpoint("tcp://*:1")->wildcard());
  EXPECT_TRUE(ParseZmqEndpoint("tcp://[::]:1")->wildcard());
  EXPECT_FALSE(ParseZmqEndpoint("tcp://10.0.0.1:1")->wildcard());
}

TEST(ZmqEndpoint, RanksFollowEachOther) {
  EXPECT_EQ(ParseZmqEndpoint("tcp://*:5557")->ForRank(3)->ToString(), "tcp://*:5560");
  EXPECT_EQ(ParseZmqEndpoint("tcp://*:5557")->ForRank(0)->ToString(), "tcp://*:5557");
  EXPECT_EQ(ParseZmqEndpoint("inproc://kv")->ForRank(2)->ToString(), "inproc://kv_dp2");
  EXPECT_FALSE(ParseZmqEndpoint("tcp://*:65535")->ForRank(1).has_value());
  EXPECT_FALSE(ParseZmqEndpoint("tcp://*:*")->ForRank(1).has_value());
}

TEST(BigEndian64, ReadsWhatItWrites) {
  EXPECT_EQ(BigEndian64(0x0102030405060708), "\1\2\3\4\5\6\7\10");
  EXPECT_EQ(ParseBigEndian64(BigEndian64(0xf1f2f3f4f5f6f7f8)), 0xf1f2f3f4f5f6f7f8);
  EXPECT_EQ(ParseBigEndian64("1234567"), std::nullopt);
  EXPECT_EQ(ParseBigEndian64(""), std::nullopt);
}

// Messages that a socket was given, for a test's thread to wait for.
class Inbox {
 public:
  ZmqCallbacks Callbacks() {
    return {.on_message = [this](Frames frames) { Push(std::move(frames)); },
            .on_connected = [this] { Push({"connected"}); },
            .on_disconnected = [this] { Push({"disconnected"}); }};
  }
  Frames Next() {
    std::unique_lock lock(mutex_);
    const bool came =
        wake_.wait_for(lock, std::chrono::seconds(60), [this] { return !got_.empty(); });
    EXPECT_TRUE(came) << "nothing came";
    if (!came) {
      return {};
    }
    Frames frames = std::move(got_.front());
    got_.pop_front();
    return frames;
  }

 private:
  void Push(Frames frames) {
    const std::lock_guard lock(mutex_);
    got_.push_back(std::move(frames));
    wake_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Frames> got_;
};

class ZmqTest : public ::testing::Test {
 protected:
  ZmqTest() { loop_.Start("zmq-test"); }
  ~ZmqTest() override {
    loop_.Invoke([this] { sockets_.clear(); });
  }

  ZmqSocket* Open(ZmqSocketOptions options, ZmqCallbacks callbacks) {
    ZmqSocket* opened = nullptr;
    loop_.Invoke([&] {
      auto socket = ZmqSocket::Open(loop_, std::move(options), std::move(callbacks));
      ASSERT_TRUE(socket.has_value()) << socket.error().detail;
      opened = socket->get();
      sockets_.push_back(*std::move(socket));
    });
    return opened;
  }
  void Send(ZmqSocket* socket, std::vector<std::string_view> frames) {
    loop_.Invoke([&] {
      const Status sent = socket->Send(frames);
      EXPECT_TRUE(sent.has_value());
    });
  }
  std::unique_ptr<ZmqPublisher> Publisher(ZmqPublisherOptions options) {
    options.endpoint = ParseZmqEndpoint("tcp://127.0.0.1:*").value();
    options.replay_endpoint = "tcp://127.0.0.1:*";
    auto publisher = ZmqPublisher::Open(loop_, std::move(options));
    EXPECT_TRUE(publisher.has_value()) << publisher.error().detail;
    return *std::move(publisher);
  }
  ZmqSocketOptions Connect(ZmqPattern pattern, const std::string& to, std::string topic = "") {
    return {
        .pattern = pattern, .endpoint = ParseZmqEndpoint(to).value(), .topic = std::move(topic)};
  }
  // The answers to a replay, without the empty frame before each.
  std::vector<Frames> Replay(const std::string& from, uint64_t first) {
    Inbox& inbox = inboxes_.emplace_back();
    ZmqSocket* const dealer =
        Open(Connect(ZmqPattern::kDealer, from), {.on_message = inbox.Callbacks().on_message});
    Send(dealer, {"", BigEndian64(first)});
    std::vector<Frames> answers;
    do {
      answers.push_back(inbox.Next());
      if (answers.back().size() != 4) {
        break;
      }
      EXPECT_EQ(answers.back()[0], "");
      answers.back().erase(answers.back().begin());
    } while (answers.back()[1] != BigEndian64(kReplayEnd));
    loop_.Invoke([&] { sockets_.pop_back(); });
    return answers;
  }

  std::deque<Inbox> inboxes_;  // the loop calls them until the sockets are closed
  ZmqLoop loop_;
  std::vector<std::unique_ptr<ZmqSocket>> sockets_;
};

TEST_F(ZmqTest, WhatIsPublishedArrivesWholeAndByTopic) {
  const auto publisher = Publisher({.topic = "kv@a"});
  Inbox& inbox = inboxes_.emplace_back();
  Open(Connect(ZmqPattern::kSubscribe, publisher->endpoint(), "kv@"), inbox.Callbacks());
  EXPECT_EQ(inbox.Next(), Frames{"connected"});
  // The subscription may arrive after a first message: later ones follow until one comes.
  uint64_t number = 0;
  Frames got;
  Timer again(loop_.timers(), [&] {
    EXPECT_TRUE(publisher->Publish(number, "payload " + std::to_string(number)));
    ++number;
    again.ArmMs(5);
  });
  loop_.Invoke([&] { again.ArmMs(0); });
  got = inbox.Next();
  loop_.Invoke([&] { again.Disarm(); });
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0], "kv@a");
  const auto first = ParseBigEndian64(got[1]);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(got[2], "payload " + std::to_string(*first));
}

TEST_F(ZmqTest, ReplayGivesWhatIsKeptFromANumberOn) {
  const auto publisher = Publisher({.topic = "kv", .buffer_steps = 3});
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(publisher->Publish(i, "p" + std::to_string(i)));
  }
  const Frames end = {"", BigEndian64(kReplayEnd), ""};
  EXPECT_EQ(Replay(publisher->replay_endpoint(), 3),
            (std::vector<Frames>{{"kv", BigEndian64(3), "p3"}, {"kv", BigEndian64(4), "p4"}, end}));
  EXPECT_EQ(Replay(publisher->replay_endpoint(), 0).front()[1], BigEndian64(2))
      << "the oldest kept";
  EXPECT_EQ(Replay(publisher->replay_endpoint(), 99), std::vector<Frames>{end});
}

TEST_F(ZmqTest, BytesKeptForReplayAreBounded) {
  const auto publisher = Publisher({.buffer_bytes = 2500});
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(publisher->Publish(i, std::string(1000, 'x')));
  }
  EXPECT_EQ(Replay(publisher->replay_endpoint(), 0).size(), 3u);  // two and the end
}

TEST_F(ZmqTest, RequestsOfAnotherShapeAreIgnored) {
  const auto publisher = Publisher({});
  EXPECT_TRUE(publisher->Publish(0, "p"));
  ZmqSocket* const dealer = Open(Connect(ZmqPattern::kDealer, publisher->replay_endpoint()), {});
  Send(dealer, {"no number"});
  Send(dealer, {"", "short"});
  Send(dealer, {"x", BigEndian64(0)});
  Send(dealer, {"", BigEndian64(0), "more"});
  EXPECT_EQ(Replay(publisher->replay_endpoint(), 0).size(), 2u) << "it goes on serving";
}

TEST_F(ZmqTest, AFullQueueDropsAndSaysSo) {
  const auto publisher = Publisher({.max_queue_size = 2});
  // The loop is kept busy, so nothing leaves the queue.
  std::mutex mutex;
  std::condition_variable wake;
  bool busy = false;
  bool release = false;
  loop_.Post([&] {
    std::unique_lock lock(mutex);
    busy = true;
    wake.notify_all();
    wake.wait(lock, [&] { return release; });
  });
  {
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return busy; });
  }
  EXPECT_TRUE(publisher->Publish(0, "a"));
  EXPECT_TRUE(publisher->Publish(1, "b"));
  EXPECT_FALSE(publisher->Publish(2, "c"));
  {
    const std::lock_guard lock(mutex);
    release = true;
    wake.notify_all();
  }
  EXPECT_EQ(Replay(publisher->replay_endpoint(), 0).size(), 3u);  // 0, 1, the end
}

TEST_F(ZmqTest, PublicAddressesMustBeAllowed) {
  for (const char* text : {"tcp://*:*", "tcp://0.0.0.0:*", "tcp://[::]:*"}) {
    const auto refused = ZmqPublisher::Open(loop_, {.endpoint = ParseZmqEndpoint(text).value()});
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code, Code::kPermissionDenied) << text;
  }
  // Connecting out sends as well.
  EXPECT_FALSE(ZmqPublisher::Open(
                   loop_, {.endpoint = ParseZmqEndpoint("tcp://10.0.0.1:9").value(), .bind = false})
                   .has_value());
  const auto replay = ZmqPublisher::Open(
      loop_,
      {.endpoint = ParseZmqEndpoint("tcp://127.0.0.1:*").value(), .replay_endpoint = "tcp://*:*"});
  ASSERT_FALSE(replay.has_value());
  EXPECT_EQ(replay.error().code, Code::kPermissionDenied);
}

TEST_F(ZmqTest, ATakenAddressIsAnError) {
  const auto publisher = Publisher({});
  const auto second =
      ZmqPublisher::Open(loop_, {.endpoint = ParseZmqEndpoint(publisher->endpoint()).value()});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kIoError);
  EXPECT_NE(second.error().detail.find("bind tcp://127.0.0.1"), std::string::npos)
      << second.error().detail;
}

TEST_F(ZmqTest, InprocJoinsSocketsOfOneLoop) {
  Inbox& inbox = inboxes_.emplace_back();
  Open({.pattern = ZmqPattern::kRouter,
        .endpoint = ParseZmqEndpoint("inproc://here").value(),
        .bind = true},
       {.on_message = inbox.Callbacks().on_message});
  ZmqSocket* const dealer = Open(Connect(ZmqPattern::kDealer, "inproc://here"), {});
  Send(dealer, {"a", "", "b"});
  const Frames got = inbox.Next();
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[1] + "," + got[2] + "," + got[3], "a,,b");
}

TEST_F(ZmqTest, MessagesOfTooManyFramesAreDropped) {
  Inbox& inbox = inboxes_.emplace_back();
  Open({.pattern = ZmqPattern::kRouter,
        .endpoint = ParseZmqEndpoint("inproc://many").value(),
        .bind = true},
       {.on_message = inbox.Callbacks().on_message});
  ZmqSocket* const dealer = Open(Connect(ZmqPattern::kDealer, "inproc://many"), {});
  Send(dealer,
       std::vector<std::string_view>(limits::kZmqFramesMax, "x"));  // and its name: one over
  Send(dealer, {"good"});
  EXPECT_EQ(inbox.Next().back(), "good");
}

TEST_F(ZmqTest, TellsWhenAPeerGoesAndComesBack) {
  auto publisher = Publisher({});
  const std::string endpoint = publisher->endpoint();
  Inbox& inbox = inboxes_.emplace_back();
  Open(Connect(ZmqPattern::kSubscribe, endpoint), inbox.Callbacks());
  EXPECT_EQ(inbox.Next(), Frames{"connected"});
  publisher.reset();
  EXPECT_EQ(inbox.Next(), Frames{"disconnected"});
  auto again = ZmqPublisher::Open(loop_, {.endpoint = ParseZmqEndpoint(endpoint).value()});
  for (int i = 0; i < 1'000'000 && !again; ++i) {  // the address comes free by and by
    again = ZmqPublisher::Open(loop_, {.endpoint = ParseZmqEndpoint(endpoint).value()});
  }
  ASSERT_TRUE(again.has_value()) << again.error().detail;
  EXPECT_EQ(inbox.Next(), Frames{"connected"});
}

TEST_F(ZmqTest, ACallbackMayDestroyItsSocket) {
  Inbox& inbox = inboxes_.emplace_back();
  ZmqSocket* const sender = Open({.pattern = ZmqPattern::kDealer,
                                  .endpoint = ParseZmqEndpoint("inproc://gone").value(),
                                  .bind = true},
                                 {});
  std::unique_ptr<ZmqSocket> receiver;
  loop_.Invoke([&] {
    auto push = inbox.Callbacks().on_message;
    auto opened =
        ZmqSocket::Open(loop_, Connect(ZmqPattern::kDealer, "inproc://gone"),
                        {.on_message = [&receiver, push = std::move(push)](Frames frames) mutable {
                          receiver.reset();
                          push(std::move(frames));  // what it captured is still there
                        }});
    ASSERT_TRUE(opened.has_value());
    receiver = *std::move(opened);
    for (const std::string_view text : {"one", "two"}) {
      EXPECT_TRUE(sender->Send(std::array{text}));
    }
  });
  EXPECT_EQ(inbox.Next(), Frames{"one"});
  loop_.Invoke([&] { EXPECT_EQ(receiver, nullptr); });
}

TEST_F(ZmqTest, PostedTasksRunInOrderAndTimersFire) {
  std::vector<int> ran;
  Inbox& inbox = inboxes_.emplace_back();
  auto callbacks = inbox.Callbacks();
  Timer timer(loop_.timers(), [&] { callbacks.on_connected(); });
  loop_.Invoke([&] { timer.ArmMs(1); });
  EXPECT_EQ(inbox.Next(), Frames{"connected"});
  for (int i = 0; i < 100; ++i) {
    loop_.Post([&ran, i] { ran.push_back(i); });
  }
  loop_.Invoke([&ran] { EXPECT_EQ(ran.size(), 100u); });
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
  EXPECT_FALSE(loop_.InLoop());
}

}  // namespace
}  // namespace fak::net
