#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fak::fleet {

// Collects what several replicas answer, for a caller who wants it once. Any thread.
template <class Outcome>
class Gathering {
 public:
  using Done = std::function<void(std::vector<Outcome>)>;
  // What each of `members` calls with its outcomes; `done` gets all of them.
  static Done Of(size_t members, Done done) {
    auto self = std::make_shared<Gathering>();
    self->missing_ = members;
    self->done_ = std::move(done);
    return [self](std::vector<Outcome> outcomes) { self->Take(std::move(outcomes)); };
  }

 private:
  void Take(std::vector<Outcome> outcomes) {
    {
      const std::lock_guard lock(mutex_);
      std::move(outcomes.begin(), outcomes.end(), std::back_inserter(outcomes_));
      if (--missing_ > 0) {
        return;
      }
    }
    done_(std::move(outcomes_));
  }

  Done done_;
  std::mutex mutex_;  // guards the members below
  size_t missing_ = 0;
  std::vector<Outcome> outcomes_;
};

}  // namespace fak::fleet
