// event_loop.h, timer_wheel.h, url.h.
#include "net/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "net/timer_wheel.h"
#include "net/url.h"

namespace fak::net {
namespace {

using testing::ElementsAre;

class TimerWheelTest : public testing::Test {
 protected:
  // Lets time pass in steps of a tick.
  void Pass(int64_t ms) {
    for (const int64_t end = now_ns_ + ms * 1'000'000; now_ns_ < end;) {
      now_ns_ += TimerWheel::kTickNs;
      wheel_.Advance();
    }
  }
  std::unique_ptr<Timer> Add(int id, int64_t ms) {
    auto timer = std::make_unique<Timer>(wheel_, [this, id] { fired_.push_back(id); });
    timer->ArmMs(ms);
    return timer;
  }

  int64_t now_ns_ = 12'345'678'901;
  int sooner_ = 0;
  std::vector<int> fired_;
  TimerWheel wheel_{[this] { return now_ns_; }, [this] { ++sooner_; }};
};

TEST_F(TimerWheelTest, FiresInOrderNeverEarlyAndATickLateAtMost) {
  const auto a = Add(1, 100);
  const auto b = Add(2, 20'000);  // several turns away
  const auto c = Add(3, 50);
  Pass(45);
  EXPECT_THAT(fired_, ElementsAre());
  Pass(10);
  EXPECT_THAT(fired_, ElementsAre(3));
  Pass(50);
  EXPECT_THAT(fired_, ElementsAre(3, 1));
  Pass(19'885);
  EXPECT_THAT(fired_, ElementsAre(3, 1));
  Pass(15);
  EXPECT_THAT(fired_, ElementsAre(3, 1, 2));
  EXPECT_EQ(wheel_.armed(), 0u);
}

TEST_F(TimerWheelTest, MovesAndDisarms) {
  auto moved = Add(1, 50);
  const auto disarmed = Add(2, 50);
  auto destroyed = Add(3, 50);
  moved->ArmMs(200);
  disarmed->Disarm();
  EXPECT_FALSE(disarmed->armed());
  destroyed.reset();
  Pass(190);
  EXPECT_THAT(fired_, ElementsAre());
  Pass(20);
  EXPECT_THAT(fired_, ElementsAre(1));
}

TEST_F(TimerWheelTest, CallbacksMayArmDisarmAndDestroy) {
  auto victim = Add(9, 50);
  std::unique_ptr<Timer> again;
  int rounds = 0;
  Timer killer(wheel_, [&] { victim.reset(); });
  killer.ArmMs(45);
  again = std::make_unique<Timer>(wheel_, [&] {
    if (++rounds < 3) {
      again->ArmMs(0);
    }
  });
  again->ArmMs(50);
  now_ns_ += 60'000'000;  // all of them are due in one Advance()
  wheel_.Advance();
  EXPECT_EQ(victim, nullptr);
  EXPECT_THAT(fired_, ElementsAre());
  EXPECT_EQ(rounds, 1) << "arming for now waits for the next tick";
  Pass(20);
  EXPECT_EQ(rounds, 3);
}

TEST_F(TimerWheelTest, SurvivesAClockThatStoodStill) {
  const auto a = Add(1, 100);
  const auto b = Add(2, 60'000);
  now_ns_ += 3600 * int64_t{1'000'000'000};
  wheel_.Advance();
  EXPECT_THAT(fired_, testing::UnorderedElementsAre(1, 2));
}

TEST_F(TimerWheelTest, SaysWhenItWantsToBeCalled) {
  EXPECT_EQ(wheel_.NextDueNs(), INT64_MAX);
  const auto late = Add(1, 3000);
  EXPECT_EQ(sooner_, 1);
  const int64_t due = wheel_.NextDueNs();
  EXPECT_GE(due, now_ns_ + 3'000'000'000);
  EXPECT_LE(due, now_ns_ + 3'000'000'000 + TimerWheel::kTickNs);
  const auto later = Add(2, 4000);
  EXPECT_EQ(sooner_, 1) << "nothing changes for a later one";
  const auto sooner = Add(3, 5);
  EXPECT_EQ(sooner_, 2);
  EXPECT_LE(wheel_.NextDueNs(), now_ns_ + 5'000'000 + TimerWheel::kTickNs);
}

TEST(EventLoop, RunsWhatItIsGivenInOrderWhicheverThreadGaveIt) {
  std::vector<int> ran;
  EventLoop loop;
  loop.Start("order");
  std::promise<void> done;
  loop.Post([&] {
    loop.Post([&ran] { ran.push_back(1); });
    std::thread([&] { loop.Post([&ran] { ran.push_back(2); }); }).join();
    loop.Post([&] {
      ran.push_back(3);
      done.set_value();
    });
  });
  done.get_future().wait();
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

TEST(EventLoop, RunsTasksInOrderOnItsThread) {
  EventLoop loop;
  EXPECT_TRUE(loop.InLoop()) << "nobody runs it yet";
  std::vector<int> order;
  loop.Post([&order] { order.push_back(0); });
  loop.Start("test");
  EXPECT_FALSE(loop.InLoop());
  for (int i = 1; i < 100; ++i) {
    loop.Post([&order, p = std::make_unique<int>(i)] { order.push_back(*p); });
  }
  bool in_loop = false;
  loop.Invoke([&] {
    in_loop = loop.InLoop();
    loop.Invoke([&] { order.push_back(100); });
  });
  EXPECT_TRUE(in_loop);
  ASSERT_EQ(order.size(), 101u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  loop.Stop();
  loop.Stop();
}

TEST(EventLoop, FiresTimersAndTakesSoonerOnes) {
  EventLoop loop;
  loop.Start("test");
  std::promise<int> first;
  std::unique_ptr<Timer> late;
  std::unique_ptr<Timer> soon;
  const int64_t start = loop.NowNs();
  loop.Invoke([&] {
    late = std::make_unique<Timer>(loop.timers(), [&] { first.set_value(1); });
    late->ArmMs(60'000);
    soon = std::make_unique<Timer>(loop.timers(), [&] { first.set_value(2); });
    soon->ArmMs(20);
  });
  EXPECT_EQ(first.get_future().get(), 2);
  EXPECT_GE(loop.NowNs() - start, 20'000'000);
  loop.Invoke([&] {
    late.reset();
    soon.reset();
  });
}

TEST(EventLoop, DropsWhatWasPostedWhenStopped) {
  auto held = std::make_shared<int>(1);
  {
    EventLoop loop;
    loop.Start("test");
    loop.Stop();
    loop.Post([held] {});
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Url, TakesHttpUrlsApart) {
  struct Case {
    const char* text;
    const char* origin;
    const char* host;
    const char* target;
  };
  const Case cases[] = {
      {"http://Host", "http://host", "host", "/"},
      {"HTTPS://h:443/a?b#c", "https://h", "h", "/a?b"},
      {"http://h:8000?x", "http://h:8000", "h:8000", "/?x"},
      {"http://127.0.0.1:80/v1", "http://127.0.0.1", "127.0.0.1", "/v1"},
      {"https://[::1]:8443/", "https://[::1]:8443", "[::1]:8443", "/"},
      {"http://h:/", "http://h", "h", "/"},
  };
  for (const Case& c : cases) {
    const auto url = ParseUrl(c.text);
    ASSERT_TRUE(url) << c.text;
    EXPECT_EQ(url->origin.ToString(), c.origin);
    EXPECT_EQ(url->origin.HostHeader(), c.host);
    EXPECT_EQ(url->target, c.target);
  }
}

TEST(Url, RefusesWhatItDoesNotUnderstand) {
  for (const char* bad :
       {"", "h", "h/a", "ftp://h", "http://", "http:///a", "http://h:0", "http://h:65536",
        "http://h:x", "http://h :1", "http://h/a b", "http://a\r\nX: y/", "http://[::1",
        "http://[h]", "http://::1/", "http://h\\x/", "http://\xC3\xA9/"}) {
    EXPECT_FALSE(ParseUrl(bad)) << bad;
  }
  const auto secret = ParseUrl("http://user:secret@h/");
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().detail.find("secret"), std::string::npos);
}

TEST(Url, KnowsLoopback) {
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.255.0.9", "::1"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host :
       {"128.0.0.1", "127.0.0", "127.0.0.1.example", "127.0.0.256", "::2", "h"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

}  // namespace
}  // namespace fak::net
