#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace fak::gateway {

// Bytes of large bodies in hand at once: what waits to be prepared, and documents whose answers
// haven't begun. A document of small values takes some 36 times its text. Any thread.
inline constexpr size_t kLargeBodiesBytesMax = size_t{256} * 1024 * 1024;

// A number of bytes, or of anything else, that many share. Any thread.
class ByteBudget {
 public:
  explicit ByteBudget(size_t bytes_max) : state_(std::make_shared<State>()) {
    state_->left = bytes_max;
  }

  // Takes so many until the last copy of what it gives is gone; null when they aren't left.
  std::shared_ptr<const void> Take(size_t bytes) {
    size_t left = state_->left.load();
    do {
      if (left < bytes) {
        return nullptr;
      }
    } while (!state_->left.compare_exchange_weak(left, left - bytes));
    // Its address means nothing; its end gives the bytes back.
    return std::shared_ptr<const void>(
        state_.get(), [state = state_, bytes](const void*) { state->left.fetch_add(bytes); });
  }

 private:
  struct State {
    std::atomic<size_t> left{0};
  };
  const std::shared_ptr<State> state_;
};

}  // namespace fak::gateway
