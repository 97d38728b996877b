// Hot path: bench/micro/ring_bench.cc.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"

namespace fak {

// Bounded queues between threads. Neither blocks nor allocates after construction; a full one says
// so and the caller does what the place where the ring is declared states (reject, drop, retry).
// The capacity is rounded up to a power of two. T must be default-constructible and movable.

// One producer thread, one consumer thread.
template <class T>
class SpscRing {
 public:
  explicit SpscRing(size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1), slots_(std::make_unique<T[]>(mask_ + 1)) {
    CHECK(capacity >= 1) << "a ring holds at least one";
  }
  size_t capacity() const { return mask_ + 1; }

  // Producer. False when full; `value` is then unchanged.
  [[nodiscard]] bool TryPush(T&& value) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - seen_head_ > mask_) {
      seen_head_ = head_.load(std::memory_order_acquire);
      if (tail - seen_head_ > mask_) {
        return false;
      }
    }
    slots_[tail & mask_] = std::move(value);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Consumer. nullopt when empty.
  std::optional<T> TryPop() {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head == seen_tail_) {
      seen_tail_ = tail_.load(std::memory_order_acquire);
      if (head == seen_tail_) {
        return std::nullopt;
      }
    }
    std::optional<T> value(std::move(slots_[head & mask_]));
    slots_[head & mask_] = T();  // what it held is freed now, not a lap later
    head_.store(head + 1, std::memory_order_release);
    return value;
  }

  // Any thread; a moment's view.
  size_t size() const {
    const size_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_acquire) - head;
  }

 private:
  const size_t mask_;
  const std::unique_ptr<T[]> slots_;
  alignas(64) std::atomic<size_t> head_{0};
  size_t seen_tail_ = 0;  // consumer's
  alignas(64) std::atomic<size_t> tail_{0};
  size_t seen_head_ = 0;  // producer's
};

// Any number of producer threads, one consumer thread. First come first served among pushes that
// don't overlap. Algorithm: Dmitry Vyukov's bounded queue (a sequence number in each slot).
template <class T>
class MpscRing {
 public:
  explicit MpscRing(size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? 2 : capacity) - 1),
        slots_(std::make_unique<Slot[]>(mask_ + 1)) {
    for (size_t i = 0; i <= mask_; ++i) {
      slots_[i].sequence.store(i, std::memory_order_relaxed);
    }
  }
  size_t capacity() const { return mask_ + 1; }

  // Any thread. False when full; `value` is then unchanged.
  [[nodiscard]] bool TryPush(T&& value) {
    size_t tail = tail_.load(std::memory_order_relaxed);
    while (true) {
      Slot& slot = slots_[tail & mask_];
      const size_t sequence = slot.sequence.load(std::memory_order_acquire);
      if (sequence == tail) {
        if (tail_.compare_exchange_weak(tail, tail + 1, std::memory_order_relaxed)) {
          slot.value = std::move(value);
          slot.sequence.store(tail + 1, std::memory_order_release);
          return true;
        }
      } else if (sequence < tail) {
        return false;  // still holds the value of a lap ago
      } else {
        tail = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  // Consumer. nullopt when empty, or when the oldest push has not finished yet.
  std::optional<T> TryPop() {
    Slot& slot = slots_[head_ & mask_];
    if (slot.sequence.load(std::memory_order_acquire) != head_ + 1) {
      return std::nullopt;
    }
    std::optional<T> value(std::move(slot.value));
    slot.value = T();
    slot.sequence.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    return value;
  }

 private:
  struct Slot {
    std::atomic<size_t> sequence;
    T value{};
  };
  const size_t mask_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<size_t> tail_{0};
  alignas(64) size_t head_ = 0;  // consumer's
};

}  // namespace fak
