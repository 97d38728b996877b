#include "base/ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace fak {
namespace {

TEST(SpscRing, SaysWhenFullAndKeepsTheValue) {
  SpscRing<std::unique_ptr<int>> ring(3);
  EXPECT_EQ(ring.capacity(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(ring.TryPush(std::make_unique<int>(i)));
  }
  auto refused = std::make_unique<int>(9);
  EXPECT_FALSE(ring.TryPush(std::move(refused)));
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(ring.size(), 4u);
  EXPECT_EQ(**ring.TryPop(), 0);
  EXPECT_TRUE(ring.TryPush(std::move(refused)));
  for (const int expected : {1, 2, 3, 9}) {
    EXPECT_EQ(**ring.TryPop(), expected);
  }
  EXPECT_FALSE(ring.TryPop());
}

TEST(SpscRing, FreesWhatItHandedOut) {
  auto value = std::make_shared<int>(1);
  SpscRing<std::shared_ptr<int>> ring(4);
  ASSERT_TRUE(ring.TryPush(std::shared_ptr<int>(value)));
  EXPECT_TRUE(ring.TryPop());
  EXPECT_EQ(value.use_count(), 1);
}

TEST(SpscRing, KeepsOrderBetweenThreads) {
  constexpr int kCount = 10'000;
  SpscRing<int> ring(64);
  std::thread producer([&ring] {
    for (int i = 0; i < kCount;) {
      if (ring.TryPush(int{i})) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (int expected = 0; expected < kCount;) {
    if (const auto value = ring.TryPop()) {
      ASSERT_EQ(*value, expected++);
    } else {
      std::this_thread::yield();
    }
  }
  producer.join();
}

TEST(MpscRing, SaysWhenFullAndKeepsTheValue) {
  MpscRing<std::unique_ptr<int>> ring(2);
  EXPECT_TRUE(ring.TryPush(std::make_unique<int>(1)));
  EXPECT_TRUE(ring.TryPush(std::make_unique<int>(2)));
  auto refused = std::make_unique<int>(3);
  EXPECT_FALSE(ring.TryPush(std::move(refused)));
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(**ring.TryPop(), 1);
  EXPECT_TRUE(ring.TryPush(std::move(refused)));
  EXPECT_EQ(**ring.TryPop(), 2);
  EXPECT_EQ(**ring.TryPop(), 3);
  EXPECT_FALSE(ring.TryPop());
}

TEST(MpscRing, LosesNothingAndKeepsEachProducersOrder) {
  constexpr size_t kProducers = 3;
  constexpr size_t kCount = 3'000;
  MpscRing<std::pair<size_t, size_t>> ring(32);
  std::vector<std::thread> producers;
  for (size_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&ring, p] {
      for (size_t i = 0; i < kCount;) {
        if (ring.TryPush({p, i})) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::vector<size_t> next(kProducers, 0);
  for (size_t got = 0; got < kProducers * kCount;) {
    if (const auto value = ring.TryPop()) {
      ASSERT_EQ(value->second, next[value->first]++);
      ++got;
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& producer : producers) {
    producer.join();
  }
}

}  // namespace
}  // namespace fak
