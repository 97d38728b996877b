// Hot path: bench/micro/http_bench.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace fak::net {

// Bytes that have come from a socket and weren't used yet. What Prepare() gave stays where it is
// until Commit(), whatever is consumed meanwhile: a read may be open on it. Not thread-safe.
class InputBuffer {
 public:
  std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  // All memory that it has, used or not.
  std::string_view room() const { return {data_.get(), capacity_}; }

  // Room for at least `bytes` more; moves or grows what is there when it must.
  std::span<char> Prepare(size_t bytes) {
    prepared_ = true;
    if (capacity_ - end_ < bytes) {
      MakeRoom(bytes);
    }
    return {data_.get() + end_, capacity_ - end_};
  }
  void Commit(size_t bytes) {
    prepared_ = false;
    end_ += bytes;
  }
  void Consume(size_t bytes) {
    begin_ += bytes;
    if (begin_ == end_ && !prepared_) {
      begin_ = end_ = 0;
    }
  }
  // Gives the memory back when nothing is held and there is more of it than `keep`.
  void Shrink(size_t keep) {
    if (size() == 0 && capacity_ > keep && !prepared_) {
      data_.reset();
      capacity_ = begin_ = end_ = 0;
    }
  }

 private:
  void MakeRoom(size_t bytes) {
    const size_t held = size();
    if (capacity_ - held >= bytes) {
      std::memmove(data_.get(), data_.get() + begin_, held);
    } else {
      const size_t capacity = std::max(2 * capacity_, held + bytes);
      std::unique_ptr<char[]> grown = std::make_unique_for_overwrite<char[]>(capacity);
      if (held > 0) {
        std::memcpy(grown.get(), data_.get() + begin_, held);
      }
      data_ = std::move(grown);
      capacity_ = capacity;
    }
    begin_ = 0;
    end_ = held;
  }

  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool prepared_ = false;
};

}  // namespace fak::net
